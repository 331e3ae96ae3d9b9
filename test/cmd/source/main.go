// Command source makes the folder OUT with the source of one version of a project, which asks for no newer Go than the
// tests have: its releases may ask for the newest patch of Go, of which the code has no need. Of KEDA, it leaves out what
// only other triggers than CPU and memory need, above all the clients of clouds. The files below REPLACED stand in for it.
//
//	source karpenter VERSION OUT
//	source keda VERSION OUT REPLACED
package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project is a Go module whose source is made.
type project struct {
	module string
	// keeps says which files are needed.
	keeps *regexp.Regexp
}

var projects = map[string]project{
	"karpenter": {"sigs.k8s.io/karpenter", regexp.MustCompile(`^(pkg/|go\.sum$|LICENSE$)`)},
	"keda": {"github.com/kedacore/keda/v2", regexp.MustCompile(`^(apis/|controllers/keda/|version/|go\.sum$|LICENSE$|config/crd/bases/keda\.sh_scaledobjects\.yaml$|` +
		`pkg/(common|eventreason|fallback|k8s|metricscollector|metricsservice|status|util)/|pkg/scalers/((scaler|cpu_memory_scaler)\.go$|authentication/|scalersconfig/)|` +
		`pkg/scaling/([^/]+$|cache/|executor/|modifiers/|scaledjob/|resolver/(k8s_validator|outbound_policy|scale_resolvers|service_account_token)\.go$))`)},
}

func main() {
	p, known := project{}, false
	if len(os.Args) >= 4 {
		p, known = projects[os.Args[1]]
	}
	if !known || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: source karpenter|keda VERSION OUT [REPLACED]")
		os.Exit(2)
	}
	if err := p.run(os.Args[2], os.Args[3], os.Args[4:]...); err != nil {
		fmt.Fprintln(os.Stderr, "source:", err)
		os.Exit(1)
	}
}

// asks is what a go.mod says about Go.
var asks = regexp.MustCompile(`(?m)^(go|toolchain) .*$`)

func (p project) run(version, out string, replaced ...string) error {
	// The go command downloads and verifies the module, and fails then for the version of Go.
	answer, failed := exec.Command("go", "mod", "download", "-json", p.module+"@"+version).Output()
	var found struct{ Zip, Error string }
	if err := json.Unmarshal(answer, &found); err != nil || found.Zip == "" {
		return fmt.Errorf("downloading %s %s: %s", p.module, version, errors.Join(failed, err, errors.New(found.Error)))
	}
	archive, err := zip.OpenReader(found.Zip)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, file := range archive.File {
		name, ok := strings.CutPrefix(file.Name, p.module+"@"+version+"/")
		if !ok || !filepath.IsLocal(name) || !p.keeps.MatchString(name) || strings.HasSuffix(name, "_test.go") && len(replaced) > 0 {
			continue
		}
		if err := unpack(file, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	for _, dir := range replaced {
		if err := errors.Join(os.CopyFS(out, os.DirFS(dir)), leaveScalersOut(filepath.Join(out, "pkg/scaling/scalers_builder.go"))); err != nil {
			return err
		}
	}
	return p.writeModule(&archive.Reader, version, out)
}

// leaveScalersOut leaves the cases of all triggers out of KEDA's list of them but those whose source is there.
func leaveScalersOut(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	start, end := bytes.Index(text, []byte("\t// TRIGGERS-START\n")), bytes.Index(text, []byte("\t// TRIGGERS-END\n"))
	if start < 0 || end < start {
		return fmt.Errorf("%s has no list of triggers", path)
	}
	list := text[start:end]
	var out []byte
	for i := 0; i < len(list); {
		next := len(list)
		if at := branch.FindIndex(list[i+1:]); at != nil {
			next = i + 1 + at[0]
		}
		if one := list[i:next]; i == 0 || built.Match(one) {
			out = append(out, one...)
		}
		i = next
	}
	return os.WriteFile(path, slices.Concat(text[:start], out, text[end:]), 0o600)
}

var (
	// branch is the start of a case of the list, and built of those that stay.
	branch = regexp.MustCompile(`(?m)^\t(case|default)\b`)
	built  = regexp.MustCompile(`^\t(default|case "(cpu|memory)"):`)
)

// writeModule writes go.mod last: where it is, the rest is.
func (p project) writeModule(archive *zip.Reader, version, out string) error {
	file, err := archive.Open(p.module + "@" + version + "/go.mod")
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	text = asks.ReplaceAllFunc(text, func(line []byte) []byte {
		if line[0] == 't' {
			return nil
		}
		return []byte("go 1.26.0")
	})
	return os.WriteFile(filepath.Join(out, "go.mod"), text, 0o600)
}

func unpack(file *zip.File, to string) error {
	from, err := file.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
