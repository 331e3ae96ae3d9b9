package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of charts in registries, as Helm reads them.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

func (r Release) chartFile() string { return filepath.Join(r.Out, "attune-"+r.number()+".tgz") }

// packChart packs the chart with the image's digest, as a file and for registries.
func (r Release) packChart(ctx context.Context, source string, image v1.Hash) (v1.Image, error) {
	chart := filepath.Join(source, "charts/attune")
	err := rewrite(filepath.Join(chart, "values.yaml"), func(text []byte) ([]byte, error) { return setImage(text, r.image()) })
	if err != nil {
		return nil, err
	}
	err = rewrite(filepath.Join(chart, "Chart.yaml"), func(text []byte) ([]byte, error) { return r.annotated(text, image.String()), nil })
	if err != nil {
		return nil, err
	}
	// Helm checks the chart and applies .helmignore.
	if _, err := output(ctx, source, nil, r.Helm, "package", chart, "--version", r.number(), "--app-version", r.Version, "--destination", r.Out); err != nil {
		return nil, err
	}
	archive, err := os.ReadFile(r.chartFile())
	if err != nil {
		return nil, err
	}
	entries, err := unpacked(archive)
	if err != nil {
		return nil, err
	}
	if archive, err = packed(r.Time, entries); err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.chartFile(), archive, 0o644); err != nil {
		return nil, err
	}
	return chartImage(archive, entries, r.labels())
}

// rewrite replaces the content of a file.
func rewrite(path string, change func([]byte) ([]byte, error)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if content, err = change(content); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// imageDigest is the annotation of Chart.yaml with the digest of the release's image. It is not among the values: helm
// upgrade --reuse-values keeps the values of the chart before, and would keep its image.
const imageDigest = "attune.io/image-digest"

// annotated adds the digest to Chart.yaml, and what Artifact Hub cannot know: it scans the images that a chart names.
func (r Release) annotated(chart []byte, digest string) []byte {
	const block = "\nannotations:\n"
	if !bytes.Contains(chart, []byte(block)) {
		chart = append(bytes.TrimRight(chart, "\n"), block...)
	}
	added := "  " + imageDigest + ": " + digest + "\n  artifacthub.io/images: |\n    - {name: attune, image: \"" + r.image() + "@" + digest + "\"}\n"
	if strings.Contains(r.Version, "-") {
		added += "  artifacthub.io/prerelease: \"true\"\n"
	}
	return bytes.Replace(chart, []byte(block), []byte(block+added), 1)
}

// setImage sets registry and repository in values.yaml, with its comments. Charts before image.registry have both in one
// value.
func setImage(values []byte, name string) ([]byte, error) {
	block := regexp.MustCompile(`(?m)^image:\n(?:[ \t]+.*\n|\n)+`)
	at := block.FindIndex(values)
	if at == nil {
		return nil, fmt.Errorf("values.yaml has no block image")
	}
	text := string(values[at[0]:at[1]])
	set := func(key, value string) bool {
		line := regexp.MustCompile(`(?m)^  ` + key + `:.*$`)
		found := line.MatchString(text)
		text = line.ReplaceAllLiteralString(text, "  "+key+": "+value)
		return found
	}
	registry, repository, _ := strings.Cut(name, "/")
	if !set("registry", registry) {
		repository = name
	}
	if !set("repository", repository) {
		return nil, fmt.Errorf("values.yaml has no image.repository")
	}
	return append(append(bytes.Clone(values[:at[0]]), text...), values[at[1]:]...), nil
}

// chartImage is the chart as helm push writes it, with the time of the commit.
func chartImage(archive []byte, entries []entry, labels map[string]string) (v1.Image, error) {
	var metadata map[string]any
	for _, e := range entries {
		if e.name == "attune/Chart.yaml" {
			if err := yaml.Unmarshal(e.content, &metadata); err != nil {
				return nil, err
			}
		}
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(labels)
	annotations["org.opencontainers.image.version"] = fmt.Sprint(metadata["version"])
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(archive, chartContent)
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: v1.Descriptor{MediaType: chartConfig, Digest: digest, Size: size}, Layers: []v1.Descriptor{*content},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artifact{manifest, config, layer})
}

// artifact is an image whose configuration is not one of containers.
type artifact struct {
	manifest, config []byte
	layer            v1.Layer
}

func (a artifact) RawManifest() ([]byte, error)                           { return a.manifest, nil }
func (a artifact) RawConfigFile() ([]byte, error)                         { return a.config, nil }
func (a artifact) MediaType() (types.MediaType, error)                    { return types.OCIManifestSchema1, nil }
func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }

// writeManifests writes install.yaml, for clusters without Helm, once for each issuer of the webhooks' certificate.
func (r Release) writeManifests(ctx context.Context) error {
	for name, provider := range map[string]string{"install.yaml": "self-signed", "install-cert-manager.yaml": "cert-manager"} {
		objects, err := output(ctx, r.Out, nil, r.Helm, "template", "attune", r.chartFile(), "--namespace", namespace, "--no-hooks", "--set", "certs.provider="+provider)
		if err != nil {
			return err
		}
		// Helm does not manage them, and its release has no record of them.
		objects = strings.ReplaceAll(objects, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
		head := fmt.Sprintf(manifestHead, r.Version, name, namespace)
		if err := os.WriteFile(filepath.Join(r.Out, name), []byte(head+objects+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const namespace = "attune-system"

const manifestHead = `# attune %[1]s without Helm. Arguments and admission policies have the names and the namespace: use the chart for others.
# To install or upgrade:
#   kubectl apply --server-side -f %[2]s
# To uninstall, restore all pods, delete all policies while the operator runs, and then its objects and the CRDs:
#   kubectl attune undo -A
#   kubectl delete attunepolicies,attuneclusterpolicies -A --all
#   kubectl delete -f %[2]s
apiVersion: v1
kind: Namespace
metadata:
  name: %[3]s
  labels: {pod-security.kubernetes.io/enforce: restricted}
`
