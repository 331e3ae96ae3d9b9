package field

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
)

// imported is a VerticalPodAutoscaler, and what kubectl attune import vpa must say about it.
type imported struct {
	Metadata map[string]any `json:"metadata,omitempty"`
	Spec     map[string]any `json:"spec"`
	Says     []string       `json:"says,omitempty"`
	// Nothing is said about it.
	Silent bool `json:"silent,omitempty"`
}

// over replaces the settings that the VPA's policy has.
func (i *imported) over(t *testing.T, settings *v1alpha1.PolicySettings) {
	if i == nil {
		return
	}
	made, notes := vpaimport.Import(&unstructured.Unstructured{Object: map[string]any{"metadata": i.Metadata, "spec": i.Spec}})
	require.NotNil(t, made, notes)
	for _, says := range i.Says {
		assert.Contains(t, strings.Join(notes, "\n"), says)
	}
	assert.False(t, i.Silent && len(notes) > 0, notes)
	of := made.Spec.PolicySettings
	settings.UpdateStrategy, settings.ContainerPolicies = of.UpdateStrategy, of.ContainerPolicies
	if of.CPU != nil {
		settings.CPU = of.CPU
	}
}
