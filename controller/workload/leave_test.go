package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/resize"
)

const noRoom = "CPU does not fit: the pods that stay need 5 with it, and 4990m is available; ranking Low, own spike 2"

// unfit is a Deployment of two under the strategy Node whose node has no room for web-1.
func unfit(t *testing.T) world {
	t.Helper()
	has := sizeOf(2000, 0, 512, 0)
	w := seen(t, has, running("web-1", has), running("web-2", has)).heading(sizeOf(3000, 0, 512, 0))
	w.rec.Spec.Strategy, w.settings.Strategy = v1alpha1.StrategyNode, v1alpha1.StrategyNode
	w.settings.NodeEviction, w.settings.Resize.NodeEviction = true, true
	w.cluster = []*corev1.Node{w.nodes["node-1"].Node, node("node-2", "8", "64Gi")}
	w.mayEvict, w.seeded = true, true
	three := resource.MustParse("3")
	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)),
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &three}}}
	w.granted = map[types.UID]board.Pod{"web-1": {Evict: noRoom}, "web-2": {}}
	return w
}

// What its node wants is stored first; then the pod is evicted, and its workload's others stay.
func TestAPodThatDoesNotFitIsEvicted(t *testing.T) {
	w := unfit(t)
	d := decide(w)
	require.Len(t, d.status.Records, 1, "%+v", d.refused.of)
	assert.Empty(t, d.writes, "nothing of it is changed")
	assert.Empty(t, d.evictions, "what is decided is stored first")
	assert.Equal(t, resize.ReasonDoesNotFit, d.status.Records[0].Reason)
	assert.Contains(t, d.told()[0], "Normal Evicting Pod web-1 is to go from node node-1: "+noRoom)
	assert.Empty(t, d.held, "its node goes on counting it among those that share")

	w.rec.Status = d.status
	d = decide(w)
	require.Len(t, d.evictions, 1)
	assert.Equal(t, "web-1", d.evictions[0].Name)
	assert.Equal(t, v1alpha1.RecordEvicting, d.status.Records[0].Phase)
	assert.Equal(t, []types.UID{"web-1"}, d.asks.live, "it is asked for past the cache first")
	assert.Empty(t, d.held)

	w.rec.Status = d.status
	w.pod("web-1").DeletionTimestamp = &metav1.Time{Time: now}
	w.granted = map[types.UID]board.Pod{"web-2": {Evict: noRoom}}
	d = decide(w)
	assert.Empty(t, d.evictions)
	assert.Empty(t, d.status.Records, "one of the workload at a time")
	assert.Equal(t, []resize.EvictionOutcome{resize.EvictionGranted}, d.evictionCounts)
	assert.Contains(t, d.told()[0], "Normal Evicted Evicted pod web-1 from node node-1, where it did not fit beside the others")
	require.NotEmpty(t, d.status.History)
	assert.Equal(t, []string{"Evicted", resize.ReasonDoesNotFit, resize.MethodEviction}, []string{d.status.History[0].Result, d.status.History[0].Reason, d.status.History[0].Method})
	assert.Equal(t, resize.ReasonReplicasNotReady, d.blocked(t).Reason)
	assert.Contains(t, d.blocked(t).Message, "its node wants it to go (CPU does not fit")
}

// Whoever stays whatever happens is not chosen by the node: it is told so, and somebody else may go.
func TestWhoIsNeverEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*world)
		reason string
	}{
		"the operator may not": {func(w *world) { w.mayEvict = false }, resize.ReasonEvictionOff},
		"not labelled":         {func(w *world) { w.seeded = false }, resize.ReasonSuccessorNotSized},
		"do not disrupt": {func(w *world) {
			w.pods[0].Annotations["karpenter.sh/do-not-disrupt"] = "true"
		}, resize.ReasonDoNotDisrupt},
		"a DaemonSet's":    {func(w *world) { w.pods[0].OwnerReferences[0].Kind = "DaemonSet" }, resize.ReasonDaemonPod},
		"the last replica": {func(w *world) { w.pods, w.workload.Replicas = w.pods[:1], 1 }, resize.ReasonLastReplica},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			c.edit(&w)
			d := decide(w)
			assert.Empty(t, d.status.Records)
			assert.Equal(t, c.reason, d.stays["web-1"])
			assert.Equal(t, c.reason, d.blocked(t).Reason)
		})
	}
	t.Run("evictions are off", func(t *testing.T) {
		w := unfit(t)
		w.settings.NodeEviction, w.settings.Resize.NodeEviction = false, false
		d := decide(w)
		assert.Empty(t, d.status.Records)
		assert.Equal(t, resize.ReasonNotWanted, d.blocked(t).Reason)
	})
}

// What passes is waited for, and the pod goes on being a candidate.
func TestWhoIsNotEvictedNow(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*world)
		reason string
	}{
		"a sibling is not ready": {func(w *world) { w.pods[1].Status.Conditions[0].Status = corev1.ConditionFalse }, resize.ReasonReplicasNotReady},
		"there is no seed now":   {func(w *world) { w.rec.Spec.Seed = nil }, resize.ReasonSuccessorNotSized},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			c.edit(&w)
			d := decide(w)
			assert.Empty(t, d.status.Records)
			assert.Empty(t, d.stays)
			assert.Equal(t, c.reason, d.blocked(t).Reason)
		})
	}
}

// An eviction that was decided is not carried out once nobody wants it any more.
func TestAnEvictionThatIsNotWantedAnyMoreIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*world)
		left int
	}{
		"it fits again":         {func(w *world) { w.granted["web-1"] = board.Pod{} }, 0},
		"evictions are off":     {func(w *world) { w.settings.Resize.NodeEviction = false }, 0},
		"the mode is Observe":   {func(w *world) { w.settings.Resize.Mode = v1alpha1.UpdateObserve }, 0},
		"it is paused":          {func(w *world) { w.settings.Resize.Paused = []string{"cluster"} }, 0},
		"nobody has said so":    {func(w *world) { w.granted = nil }, 1},
		"a sibling is unwell":   {func(w *world) { w.pods[1].Status.Conditions[0].Status = corev1.ConditionFalse }, 1},
		"a person wants it not": {func(w *world) { w.workload.Annotations[v1alpha1.SkipAnnotation] = "true" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			w.rec.Status = decide(w).status
			require.Len(t, w.rec.Status.Records, 1)
			c.edit(&w)
			d := decide(w)
			assert.Empty(t, d.evictions)
			assert.Len(t, d.status.Records, c.left)
			assert.Empty(t, d.status.History, "nothing has happened")
		})
	}
}
