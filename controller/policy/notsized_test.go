package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
)

// Case B26: a policy that resizes pods in a namespace whose new pods are not sized says so in Ready.
func TestReadyNamesANamespaceWhoseNewPodsAreNotSized(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		mode   v1alpha1.UpdateType
		want   string
	}{
		"not labelled":           {nil, v1alpha1.UpdateAuto, "the namespace does not have the label attune.io/inject=enabled"},
		"labelled":               {map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}, v1alpha1.UpdateAuto, ""},
		"a mode that only shows": {nil, v1alpha1.UpdateRecommend, ""},
	} {
		namespace := lookup.Namespace()
		namespace.Name, namespace.Labels = "shop", c.labels
		settings := lookup.Reader{Client: fake.NewClientBuilder().WithObjects(namespace).Build(), Admission: &workload.Admission{}}
		assert.Equal(t, c.want, settings.NotSized(t.Context(), "shop", c.mode), name)
	}
	assert.Equal(t, "; new pods are not sized at admission: why", remarks{report{notSized: "why"}}.notSized())
	assert.Empty(t, remarks{report{}}.notSized())
}
