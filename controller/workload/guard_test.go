package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// The policy, whose settings an observation needs, gets its finalizer before the first record is stored.
func TestAPolicyIsGuardedBeforeTheFirstRecord(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	policy := func() *v1alpha1.AttunePolicy {
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, l.api.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "all"}, p))
		return p
	}
	require.Empty(t, policy().Finalizers)
	guarded := 0
	l.c.Client = interceptor.NewClient(l.c.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if rec, ok := o.(*v1alpha1.AttuneRecommendation); ok && len(rec.Status.Records) > 0 {
				assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, policy().Finalizers)
				guarded++
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	l.pass()
	assert.Positive(t, guarded, "a record was stored")
}
