package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// wanting is a workload of n pods that must all be resized at once.
func wanting(t *testing.T, n int) *lab {
	t.Helper()
	pods := podsAt(n, small)
	l := newLab(t, heading(seen(t, small), big).Rec, objects(deploymentOf(small, n), pods)...)
	change(l, "all", &v1alpha1.AttunePolicy{}, func(p *v1alpha1.AttunePolicy) {
		p.Spec.UpdateStrategy.MaxConcurrentResizes = ptr.To(intstr.FromString("100%"))
		p.Spec.UpdateStrategy.Canary = &v1alpha1.CanarySettings{Percentage: ptr.To(int32(100))}
	})
	return l
}

// However many passes send nothing, a pass that sends something finds as many tokens as without the others.
func TestOnlyWhatIsSentCountsAgainstTheLimit(t *testing.T) {
	t.Run("too soon after the last write", func(t *testing.T) {
		l := wanting(t, 3)
		l.c.memory.limit.take(1, l.clock.Now())
		l.c.memory.pace.wrote(l.key, v1alpha1.PhaseIdle, l.clock.Now())
		for range 100 {
			assert.Positive(t, l.pass().RequeueAfter)
		}
		require.Zero(t, l.patches)
		assert.InDelta(t, mostAtOnce-1, l.c.memory.limit.leftNow(), 0)
		assert.Zero(t, l.c.memory.limit.owed)
		assert.Empty(t, l.c.memory.reservations.read(), "nor is room held for them")
	})
	t.Run("another writer was first", func(t *testing.T) {
		l := wanting(t, 3)
		l.refuse = 10
		for range 10 {
			l.pass()
		}
		require.Zero(t, l.patches)
		assert.InDelta(t, mostAtOnce, l.c.memory.limit.leftNow(), 0)
		l.pass()
		require.Equal(t, 3, l.patches)
		assert.InDelta(t, mostAtOnce-3, l.c.memory.limit.leftNow(), 0)
	})
	t.Run("the namespace is closed by the first answer", func(t *testing.T) {
		l := wanting(t, 5)
		l.c.Rights = granted(l)
		l.resize = func(client.Object) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/resize"}, "x", errors.New(`User "attune" cannot patch resource "pods/resize"`))
		}
		l.pass()
		require.Equal(t, 1, l.patches)
		assert.InDelta(t, mostAtOnce-1, l.c.memory.limit.leftNow(), 0)
	})
	t.Run("others of the pass were refused the same", func(t *testing.T) {
		l := wanting(t, 20)
		l.resize = func(client.Object) error {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "x", nil)
		}
		l.pass()
		require.Less(t, l.patches, 20)
		assert.InDelta(t, float64(mostAtOnce-l.patches), l.c.memory.limit.leftNow(), 0)
	})
}

// Only tokens that were taken are returned: the bucket is never fuller than full.
func TestTheLimitIsNeverMoreThanFull(t *testing.T) {
	var x limit
	require.Zero(t, x.take(5, now))
	x.returnTokens(5)
	require.Zero(t, x.take(1, now.Add(time.Hour)))
	x.returnTokens(5)
	assert.InDelta(t, mostAtOnce, x.leftNow(), 0)
}

// leftNow is the number of tokens in the bucket now.
func (x *limit) leftNow() float64 {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.left
}
