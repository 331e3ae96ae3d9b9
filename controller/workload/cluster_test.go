package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
)

// underClusterPolicy is a lab whose workload is sized by a cluster policy in mode Auto.
func underClusterPolicy(t *testing.T, change func(*v1alpha1.AttuneClusterPolicy)) *lab {
	t.Helper()
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", UID: "base"}}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
	change(p)
	require.NoError(t, l.api.Create(t.Context(), p))
	rec := &v1alpha1.AttuneRecommendation{}
	require.NoError(t, l.api.Get(t.Context(), l.key, rec))
	rec.Spec.Policy = v1alpha1.PolicyRef{Kind: v1alpha1.PolicyKindCluster, Name: "base", UID: "base"}
	require.NoError(t, l.api.Update(t.Context(), rec))
	l.c.Settings = lookup.Reader{Client: l.c.Client, Clusterwide: true, Operator: policy.Operator{Namespace: "attune-system"}}
	return l
}

func (l *lab) clusterPolicy() *v1alpha1.AttuneClusterPolicy {
	l.t.Helper()
	p := &v1alpha1.AttuneClusterPolicy{}
	require.NoError(l.t, l.api.Get(l.t.Context(), client.ObjectKey{Name: "base"}, p))
	return p
}

// A cluster policy resizes as a policy does, and has its finalizer while a record is open.
func TestAClusterPolicyResizes(t *testing.T) {
	l := underClusterPolicy(t, func(*v1alpha1.AttuneClusterPolicy) {})
	l.pass()
	assert.Equal(t, 1, l.patches)
	assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, l.clusterPolicy().Finalizers)
}

// Nothing starts in a namespace that it does not select, for pods that it must not lower, or without cluster
// policies.
func TestAClusterPolicyThatDoesNotAct(t *testing.T) {
	for name, l := range map[string]*lab{
		"not selected": underClusterPolicy(t, func(p *v1alpha1.AttuneClusterPolicy) { p.Spec.Namespaces = []v1alpha1.NamespaceName{"bank"} }),
		"not used":     underClusterPolicy(t, func(*v1alpha1.AttuneClusterPolicy) {}),
		"critical":     underClusterPolicy(t, func(*v1alpha1.AttuneClusterPolicy) {}),
		"another one":  underClusterPolicy(t, func(p *v1alpha1.AttuneClusterPolicy) { p.UID = "another" }),
	} {
		switch name {
		case "not used":
			l.c.Settings.Clusterwide = false
		case "critical":
			pod := &corev1.Pod{}
			require.NoError(t, l.api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-1"}, pod))
			pod.Spec.Priority = ptr.To[int32](2_000_000_000)
			require.NoError(t, l.api.Update(t.Context(), pod))
		}
		l.pass()
		assert.Zero(t, l.patches, name)
		assert.Empty(t, l.clusterPolicy().Finalizers, name)
	}
}
