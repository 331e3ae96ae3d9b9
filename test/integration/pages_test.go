package integration

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/policy"
)

// foreign are kinds and files of other programs that the API server of these tests does not serve: their blocks are
// parsed only. A kind is KIND.GROUP, a file the first of its keys.
var foreign = map[string]string{
	"AdmissionConfiguration.apiserver.config.k8s.io": "a file of the API server",
	"Config.":                 "a kubeconfig",
	"Application.argoproj.io": "Argo CD",
	"Kustomization.kustomize.toolkit.fluxcd.io":  "Flux",
	"HelmRelease.helm.toolkit.fluxcd.io":         "Flux",
	"HelmRepository.source.toolkit.fluxcd.io":    "Flux",
	"OCIRepository.source.toolkit.fluxcd.io":     "Flux",
	"VerticalPodAutoscaler.autoscaling.k8s.io":   "VPA",
	"Cluster.kind.x-k8s.io":                      "a file of kind",
	"KubeletConfiguration.kubelet.config.k8s.io": "a file of the kubelet",
	"ServiceMonitor.monitoring.coreos.com":       "Prometheus Operator",
	"Rollout.argoproj.io":                        "Argo Rollouts",
	"scrape_configs":                             "a file of Prometheus",
}

var (
	yamlBlocks = regexp.MustCompile("(?ms)^( *)```yaml([^\n]*)\n(.*?)^ *```$")
	// patches are arguments of `kubectl patch` for attune's kinds: the kind and the patch.
	patches = regexp.MustCompile(`kubectl patch (attune[a-z]+|ap|acp|ad|andf)[ /][^\n]*?-p '([^']+)'`)
)

// pageTest checks the YAML of pages before the API server.
type pageTest struct {
	t         *testing.T
	c         client.Client
	namespace string
	values    map[string]any
	// applied counts objects that the API server has accepted, checked all blocks and patches.
	applied, checked int
}

// TestYAMLOfPages: the API server accepts each object of the pages as a dry run, with strict field validation, and the
// operator accepts each policy. A block that is a part of an object is completed: keys of a policy's spec become a
// policy, and other keys must be values of the chart. `kubectl patch` of attune's kinds is checked like a block.
func TestYAMLOfPages(t *testing.T) {
	p := &pageTest{t: t, c: newClient(t), values: map[string]any{}}
	p.namespace = newNamespace(t, p.c)
	body, err := os.ReadFile("../../charts/attune/values.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(body, &p.values))
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.md", "docs/*.yaml", "config/samples/*.yaml")
	cmd.Dir = filepath.Join("..", "..")
	names, err := cmd.Output()
	require.NoError(t, err)
	for _, name := range strings.Fields(string(names)) {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if errors.Is(err, os.ErrNotExist) || strings.HasPrefix(name, "docs/k9s/") {
			continue // removed, and not yet committed; k9s reads the other one
		}
		require.NoError(t, err)
		if strings.HasSuffix(name, ".yaml") {
			p.block(name, string(text))
			continue
		}
		for _, block := range yamlBlocks.FindAllStringSubmatch(string(text), -1) {
			p.block(name, strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n"))
		}
		for _, patch := range patches.FindAllStringSubmatch(string(text), -1) {
			p.patch(name, patch[1], patch[2])
		}
	}
	assert.Greater(t, p.applied, 20)
	assert.Greater(t, p.checked, 30)
}

// block checks one block, which may have several documents.
func (p *pageTest) block(name, text string) {
	p.t.Helper()
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(p.t, err, name)
		fields := map[string]any{}
		if !assert.NoError(p.t, yaml.UnmarshalStrict(document, &fields), "%s:\n%s", name, document) || len(fields) == 0 {
			continue
		}
		p.checked++
		switch of := (&unstructured.Unstructured{Object: fields}); {
		case of.GetKind() != "":
			p.apply(name, of)
		case fields["allocatable"] != nil:
			_, err := input.ParseDemands(document)
			assert.NoError(p.t, err, "%s:\n%s", name, document)
		case p.isSpec(fields):
			spec, whole := fields["spec"].(map[string]any)
			if !whole {
				spec = fields
			}
			p.apply(name, p.complete("AttunePolicy", spec))
		default:
			for key, value := range fields {
				assert.True(p.t, foreign[key] != "" || p.hasValue(p.values, map[string]any{key: value}), "%s: the chart has no such value, and a policy no such field:\n%s", name, document)
			}
		}
	}
}

// isSpec reports whether fields are those of a policy's spec, or a spec alone.
func (p *pageTest) isSpec(fields map[string]any) bool {
	known := crds(p.t)["AttunePolicy"].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	for key := range fields {
		if _, has := known[key]; !has && (key != "spec" || len(fields) != 1) {
			return false
		}
	}
	return true
}

// complete makes an object of attune's kinds from a spec that may lack its target.
func (p *pageTest) complete(kind string, spec map[string]any) *unstructured.Unstructured {
	p.t.Helper()
	of := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	of.SetAPIVersion(v1alpha1.GroupVersion.String())
	of.SetKind(kind)
	of.SetName(v1alpha1.DefaultsName)
	if _, set := spec["targetRef"]; !set && kind == "AttunePolicy" {
		spec["targetRef"] = map[string]any{"kind": "Deployment"}
	}
	return of
}

// apply an object as a dry run, and resolve a policy as the operator does.
func (p *pageTest) apply(name string, of *unstructured.Unstructured) {
	p.t.Helper()
	text, err := yaml.Marshal(of.Object)
	require.NoError(p.t, err)
	if foreign[of.GetKind()+"."+of.GroupVersionKind().Group] != "" {
		return
	}
	namespaced, err := p.c.IsObjectNamespaced(of)
	if !assert.NoError(p.t, err, "%s: the API server does not serve this kind:\n%s", name, text) {
		return
	}
	if of.SetNamespace(""); namespaced {
		of.SetNamespace(p.namespace)
	}
	err = p.c.Create(p.t.Context(), of, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if apierrors.IsAlreadyExists(err) {
		err = nil // such as the namespace default; another test may have it
	}
	assert.NoError(p.t, err, "%s:\n%s", name, text)
	p.applied++
	if kind := of.GetKind(); kind == "AttunePolicy" || kind == "AttuneClusterPolicy" {
		documents, err := input.ParsePolicy(text)
		if assert.NoError(p.t, err, name) {
			_, err = policy.Resolve(documents.Cluster, documents.Namespace, documents.Policy)
			assert.NoError(p.t, err, "%s:\n%s", name, text)
		}
	}
}

// patch checks a merge patch of one of attune's kinds, named as in a command.
func (p *pageTest) patch(name, resource, patch string) {
	p.t.Helper()
	var kind string
	for _, crd := range crds(p.t) {
		if names := crd.Spec.Names; resource == names.Plural || resource == names.Singular || slices.Contains(names.ShortNames, resource) {
			kind = names.Kind
		}
	}
	fields := map[string]any{}
	if !assert.NotEmpty(p.t, kind, "%s: kubectl patch %s", name, resource) || !assert.NoError(p.t, yaml.UnmarshalStrict([]byte(patch), &fields), "%s: %s", name, patch) {
		return
	}
	p.checked++
	spec, _ := fields["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	of := p.complete(kind, spec)
	for key, value := range fields {
		of.Object[key] = value
	}
	if of.GetName() == "" {
		of.SetName(v1alpha1.DefaultsName)
	}
	p.apply(name, of)
}

// hasValue reports whether values of the chart have each key of others. A map that is empty in values.yaml takes any, and so
// do requests and limits: their keys are the names of resources.
func (p *pageTest) hasValue(values, others any) bool {
	of, is := values.(map[string]any)
	keys, maps := others.(map[string]any)
	if !is || !maps || len(of) == 0 {
		return true
	}
	for key, value := range keys {
		if next, has := of[key]; !has || key != "requests" && key != "limits" && !p.hasValue(next, value) {
			return false
		}
	}
	return true
}
