package tuning_test

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
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

const noRoom = "CPU does not fit: with this pod, the remaining pods need 5, and 4990m is available; ranking Low, own spike 2"

// unfit returns a Deployment of two under strategy Node whose node has no room for web-1.
func unfit(t *testing.T) tuning.View {
	t.Helper()
	has := sizeOf(2000, 0, 512, 0)
	w := heading(seen(t, has, running("web-1", has), running("web-2", has)), sizeOf(3000, 0, 512, 0))
	w.Rec.Spec.Strategy, w.Policy.Settings.Strategy = v1alpha1.StrategyNode, v1alpha1.StrategyNode
	w.Policy.Settings.NodeEviction, w.Policy.Settings.Resize.NodeEviction = true, true
	w.Looked.Cluster = []*corev1.Node{w.Nodes["node-1"].Node, node("node-2", "8", "64Gi")}
	w.Operator.MayEvict = true
	three := resource.MustParse("3")
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)),
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &three}}}
	w.Grants = map[types.UID]board.Pod{"web-1": {Evict: noRoom}, "web-2": {}}
	return w
}

// The decision to evict is stored first. Then the pod is evicted, and the other pods of the workload stay.
func TestAPodThatDoesNotFitIsEvicted(t *testing.T) {
	w := unfit(t)
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 1, "%+v", tuning.Refused(w).Of())
	assert.Empty(t, d.Writes, "nothing of it is changed")
	assert.Empty(t, d.Evictions, "what is decided is stored first")
	assert.Equal(t, resize.ReasonDoesNotFit, d.Status.Records[0].Reason)
	assert.Contains(t, told(d)[0], "Normal Evicting Evicting pod web-1 from node node-1: "+noRoom)
	assert.Empty(t, d.ByNode.Held, "its node goes on counting it among those that share")

	w.Rec.Status = d.Status
	d = tuning.Decide(w)
	require.Len(t, d.Evictions, 1)
	assert.Equal(t, "web-1", d.Evictions[0].Name)
	assert.Equal(t, v1alpha1.RecordEvicting, d.Status.Records[0].Phase)
	assert.Equal(t, []types.UID{"web-1"}, d.Unknowns.Live, "it is asked for past the cache first")
	assert.Empty(t, d.ByNode.Held)

	w.Rec.Status = d.Status
	w.Pod("web-1").DeletionTimestamp = &metav1.Time{Time: now}
	w.Grants = map[types.UID]board.Pod{"web-2": {Evict: noRoom}}
	d = tuning.Decide(w)
	assert.Empty(t, d.Evictions)
	assert.Empty(t, d.Status.Records, "one of the workload at a time")
	assert.Equal(t, []lifecycle.EvictionOutcome{lifecycle.EvictionGranted}, d.EvictionOutcomes)
	assert.Contains(t, told(d)[0], "Normal Evicted Evicted pod web-1 from node node-1, where it did not fit with the other pods")
	require.NotEmpty(t, d.Status.History)
	assert.Equal(t, []string{"Evicted", resize.ReasonDoesNotFit, lifecycle.MethodEviction}, []string{d.Status.History[0].Result, d.Status.History[0].Reason, d.Status.History[0].Method})
	assert.Equal(t, resize.ReasonReplicasNotReady, condition(t, d).Reason)
	assert.Contains(t, condition(t, d).Message, "the pod has to leave its node (CPU does not fit")
}

// A pod that can never be evicted is reported to the node loop, which then chooses another pod.
func TestWhoIsNeverEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*tuning.View)
		reason string
	}{
		"the operator may not": {func(w *tuning.View) { w.Operator.MayEvict = false }, resize.ReasonEvictionOff},
		"not labelled":         {func(w *tuning.View) { w.Namespace.NotSized = "excluded" }, resize.ReasonSuccessorNotSized},
		"do not disrupt": {func(w *tuning.View) {
			w.Pods[0].Annotations["karpenter.sh/do-not-disrupt"] = "true"
		}, resize.ReasonDoNotDisrupt},
		"a DaemonSet's":    {func(w *tuning.View) { w.Pods[0].OwnerReferences[0].Kind = "DaemonSet" }, resize.ReasonDaemonPod},
		"the last replica": {func(w *tuning.View) { w.Pods, w.Workload.Replicas = w.Pods[:1], 1 }, resize.ReasonLastReplica},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			c.edit(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Status.Records)
			assert.Equal(t, c.reason, d.ByNode.NotEvictable["web-1"])
			assert.Equal(t, c.reason, condition(t, d).Reason)
		})
	}
	t.Run("evictions are off", func(t *testing.T) {
		w := unfit(t)
		w.Policy.Settings.NodeEviction, w.Policy.Settings.Resize.NodeEviction = false, false
		d := tuning.Decide(w)
		assert.Empty(t, d.Status.Records)
		assert.Equal(t, resize.ReasonNotWanted, condition(t, d).Reason)
	})
}

// The eviction waits for a transient reason, and the pod stays a candidate.
func TestWhoIsNotEvictedNow(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*tuning.View)
		reason string
	}{
		"a sibling is not ready": {func(w *tuning.View) { w.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse }, resize.ReasonReplicasNotReady},
		"there is no seed now":   {func(w *tuning.View) { w.Rec.Spec.Seed = nil }, resize.ReasonSuccessorNotSized},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			c.edit(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Status.Records)
			assert.Empty(t, d.ByNode.NotEvictable)
			assert.Equal(t, c.reason, condition(t, d).Reason)
		})
	}
}

// An eviction is not carried out if its reason is gone.
func TestAnEvictionThatIsNotWantedAnyMoreIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*tuning.View)
		left int
	}{
		"it fits again":         {func(w *tuning.View) { w.Grants["web-1"] = board.Pod{} }, 0},
		"evictions are off":     {func(w *tuning.View) { w.Policy.Settings.Resize.NodeEviction = false }, 0},
		"the mode is Observe":   {func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateObserve }, 0},
		"it is paused":          {func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"cluster"} }, 0},
		"nobody has said so":    {func(w *tuning.View) { w.Grants = nil }, 1},
		"a sibling is unwell":   {func(w *tuning.View) { w.Pods[1].Status.Conditions[0].Status = corev1.ConditionFalse }, 1},
		"a person wants it not": {func(w *tuning.View) { w.Workload.Annotations[v1alpha1.SkipAnnotation] = "true" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := unfit(t)
			w.Rec.Status = tuning.Decide(w).Status
			require.Len(t, w.Rec.Status.Records, 1)
			c.edit(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Evictions)
			assert.Len(t, d.Status.Records, c.left)
			assert.Empty(t, d.Status.History, "nothing has happened")
		})
	}
}
