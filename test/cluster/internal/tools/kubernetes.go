package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// release is a version of Kubernetes that the module of its programs can be built with: a file beside its main.go says
// what it requires. That of the default one is go.mod.
type release struct {
	module
	version string
}

var requiredKubernetes = regexp.MustCompile(`\sk8s\.io/kubernetes (v[0-9.]+)`)

// release of that version, "v1.36.3" or "v1.36"; "" is the default one.
func (b *builder) release(version string) (release, error) {
	dir := b.moduleDir("kubernetes")
	files, err := filepath.Glob(filepath.Join(dir, "*.mod"))
	if err != nil {
		return release{}, err
	}
	var known []string
	for _, file := range files { // go.mod is the first
		pinned, err := pinnedKubernetes(file)
		if err != nil {
			return release{}, err
		}
		if version == "" || pinned == version || strings.HasPrefix(pinned, version+".") {
			return release{module{dir, filepath.Base(file)}, pinned}, nil
		}
		known = append(known, pinned)
	}
	return release{}, fmt.Errorf("Kubernetes %s is not among the test cluster's versions, choose one of %s", version, strings.Join(known, ", "))
}

func pinnedKubernetes(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	match := requiredKubernetes.FindSubmatch(data)
	if match == nil {
		return "", fmt.Errorf("%s requires no version of k8s.io/kubernetes", file)
	}
	return string(match[1]), nil
}

// kubernetesPrograms are the names by which Kubernetes' one program is called.
var kubernetesPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"}

// kubernetes returns what builds the program of that release, and gives it its names.
func (b *builder) kubernetes(r release) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		sum, err := r.digest()
		if err != nil {
			return "", err
		}
		return cached(filepath.Join(b.cache, "bin", "kubernetes-"+r.version+"-"+sum), func(out string) error {
			if err := b.build(ctx, r.module, r.linkerFlags(), filepath.Join(out, "kubernetes"), "."); err != nil {
				return err
			}
			for _, name := range kubernetesPrograms {
				if err := os.Symlink("kubernetes", filepath.Join(out, name)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// digest of what the program is made from: the files of other releases do not matter.
func (r release) digest() (string, error) {
	parts := []string{r.linkerFlags()}
	for _, name := range []string{"main.go", r.file, strings.TrimSuffix(r.file, ".mod") + ".sum"} {
		data, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	return digest(nil, parts...)
}

// linkerFlags make Kubernetes say its version, as a release does: clients and kubelets decide by it.
func (r release) linkerFlags() string {
	parts := strings.Split(strings.TrimPrefix(r.version, "v"), ".")
	values := [][2]string{{"gitVersion", r.version}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]}, {"gitCommit", "unknown"}, {"gitTreeState", "clean"}}
	flags := linkerFlags
	for _, v := range values {
		flags += fmt.Sprintf(" -X k8s.io/component-base/version.%s=%s", v[0], v[1])
	}
	return flags
}
