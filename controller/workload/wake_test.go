package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// A resize whose answer is lost, and which never arrived, is decided again although no event follows.
func TestLostAnswerIsReconciledWithoutEvent(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	l.resize = func(client.Object) error { return errors.New("EOF") }
	after := l.pass().RequeueAfter
	require.Len(t, l.rec().Status.Records, 1)
	l.resize = nil
	for began := l.clock.Now(); l.rec().Status.Records[0].Phase == v1alpha1.RecordWritten; after = l.pass().RequeueAfter {
		require.NotZero(t, after, "nothing else wakes the workload")
		require.Less(t, l.clock.Now().Sub(began), 5*time.Minute, "it is decided anew")
		l.clock.Step(after)
		if len(l.rec().Status.Records) == 0 {
			return
		}
	}
}

// A pod of a kind that is not sized any more wakes its workload's recommendation: it may have an open resize, whose
// regression is reverted at once. Pods of all other kinds wake nothing.
func TestPodsOfKindsThatAreNotSizedAnyMore(t *testing.T) {
	from := sizeOf(500, 0, 512, 0)
	for _, of := range []struct {
		kind  v1alpha1.WorkloadKind
		owner metav1.OwnerReference
	}{
		{"CloneSet.apps.kruise.io", metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web", Controller: ptr.To(true)}},
		{v1alpha1.KindRollout, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9", Controller: ptr.To(true)}},
	} {
		pod := running("web-1", from)
		pod.OwnerReferences = []metav1.OwnerReference{of.owner}
		pod.Labels = map[string]string{workload.ArgoHashLabel: "7c9"}
		rec := heading(seen(t, from), from).Rec.DeepCopy()
		rec.Spec.Workload.Kind = of.kind
		rec.Name = workload.Identity{Kind: of.kind, Namespace: "shop", Name: "web"}.RecommendationName()
		l := newLab(t, rec, pod)
		require.False(t, l.c.Access.Sized.Has(of.kind))
		assert.Equal(t, []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(rec)}}, l.c.wakers().recommendationOf(t.Context(), pod), of.kind)
		require.NoError(t, l.api.Delete(t.Context(), rec))
		assert.Empty(t, l.c.wakers().recommendationOf(t.Context(), pod), of.kind)
	}
}

// A pod to be evicted, because its node can never hold the size, does not wait for an event.
func TestPodToEvictIsReconciledWithoutEvent(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(1000, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 2), running("web-1", from), running("web-2", from))
	change(l, "all", &v1alpha1.AttunePolicy{}, func(p *v1alpha1.AttunePolicy) {
		p.Spec.UpdateStrategy.ResizeMethod = ptr.To(v1alpha1.ResizeInPlaceOrRecreate)
	})
	l.c.Evictions = true
	l.resize = func(client.Object) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "web-1", errors.New("node didn't have enough allocatable resources: cpu"))
	}
	after := l.pass().RequeueAfter
	records := l.rec().Status.Records
	require.NotEmpty(t, records)
	assert.Equal(t, v1alpha1.RecordWithdrawing, records[0].Phase)
	assert.NotZero(t, after)
	assert.LessOrEqual(t, after, time.Second)
}

// Writes with a conflict do not count: they do not lengthen the time between passes that write.
func TestConflictsPutNothingOff(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	l.refuse = 20
	began := l.clock.Now()
	for l.patches == 0 {
		require.Less(t, l.clock.Now().Sub(began), 10*time.Second, "the resize is sent once its record is stored")
		l.clock.Step(max(20*time.Millisecond, l.pass().RequeueAfter))
	}
	assert.Zero(t, l.refuse)
}

// A watch that lags for minutes shows another writer's change late: until then each write is a conflict, and at most
// one is sent per minute.
func TestConflictsThatStayAreRare(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	l.refuse, l.stuck = 1<<20, true
	for began := l.clock.Now(); l.clock.Now().Sub(began) < 5*time.Minute; {
		l.clock.Step(max(20*time.Millisecond, l.pass().RequeueAfter))
	}
	assert.LessOrEqual(t, l.status, 5)
	assert.GreaterOrEqual(t, l.status, 4)
	l.refuse, l.stuck = 0, false
	l.live(2 * time.Minute)
	assert.Positive(t, l.patches)
}

// The loop waits for a cache that does not show its last write, with a growing backoff and not for long, whatever the
// clock does.
func TestACacheThatIsBehindIsWaitedFor(t *testing.T) {
	var x stored
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web", ResourceVersion: "8"}}
	x.reached(rec, echoFor, now)
	older := rec.DeepCopy()
	older.ResourceVersion = "7"
	for after, wait := range map[time.Duration]time.Duration{
		0: echoEvery, time.Second: time.Second / 4, 4 * time.Second: time.Second, echoFor: 0, -time.Hour: 0, -time.Millisecond: 0,
	} {
		assert.Equal(t, wait, x.behind(older, now.Add(after)), after)
		assert.Zero(t, x.behind(rec, now.Add(after)), "it shows it")
	}
	looks := 0
	for at := time.Duration(0); at < echoFor; at += x.behind(older, now.Add(at)) {
		looks++
	}
	assert.Less(t, looks, 30)
}
