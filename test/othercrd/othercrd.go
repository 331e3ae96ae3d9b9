// Package othercrd has CustomResourceDefinitions of other projects, whose objects attune reads or writes.
package othercrd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/test/cluster"
)

// Open is a definition of a namespaced kind that lets every object through, without subresources.
func Open(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind.Kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        singular + "s." + kind.Group,
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test's own"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind.Kind, ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// VPA is the definition of VerticalPodAutoscalers in VPA's own module.
func VPA(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/autoscaler/vertical-pod-autoscaler")
	cmd.Dir = filepath.Join(project, "test", "peers")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading VPA's module: %w\n%s", err, out)
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "deploy", "vpa-v1-crd-gen.yaml"))
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(document, crd); err != nil {
			return nil, err
		}
		if crd.Spec.Names.Kind == autoscale.VPAKind.Kind {
			return crd, nil
		}
	}
	return nil, errors.New("VPA's module has no CustomResourceDefinition of its kind")
}
