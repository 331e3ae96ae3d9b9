package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// crowded is a Deployment of two whose pods want 6 CPU each, on a node of 4; there is another of 8.
func crowded(t *testing.T) world {
	t.Helper()
	has := sizeOf(500, 0, 512, 0)
	w := seen(t, has, running("web-1", has), running("web-2", has)).heading(sizeOf(6000, 0, 512, 0))
	w.settings.Resize.Method = v1alpha1.ResizeInPlaceOrRecreate
	w.settings.Recommender.Of[recommender.CPU].MaxChangePercent = 2000
	small := node("node-1", "4", "64Gi")
	w.nodes = map[string]nodeView{"node-1": {Node: small}}
	w.cluster = []*corev1.Node{small, node("node-2", "8", "64Gi")}
	w.mayEvict, w.seeded = true, true
	six := resource.MustParse("6")
	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)), RaiseOnly: true,
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &six}}}
	return w
}

// What its node can never hold is not even asked for: the pod is evicted, after that was written down.
func TestAPodIsEvictedFromANodeThatIsTooSmall(t *testing.T) {
	w := crowded(t)
	d := decide(w)
	require.Len(t, d.status.Records, 1, "%+v", d.refused.of)
	assert.Empty(t, d.writes)
	assert.Empty(t, d.evictions, "what is decided is stored first")
	record := d.status.Records[0]
	assert.Equal(t, v1alpha1.RecordWithdrawing, record.Phase)
	assert.Equal(t, resize.ReasonInfeasible, record.Reason)

	w.rec.Status = d.status
	d = decide(w)
	require.Len(t, d.evictions, 1)
	assert.Equal(t, record.PodName, d.evictions[0].Name)
	assert.Equal(t, v1alpha1.RecordEvicting, d.status.Records[0].Phase)
	assert.Equal(t, d.evictions[0].UID, d.asks.live[0], "it is asked for past the cache first")
	assert.Len(t, d.status.Records, 1, "the other one stays where it is")

	// It is on its way out: that is told, and counted.
	w.rec.Status = d.status
	w.pod(record.PodUID).DeletionTimestamp = &metav1.Time{Time: now}
	d = decide(w)
	assert.Empty(t, d.evictions)
	require.NotEmpty(t, d.status.History)
	assert.Equal(t, "Evicted", d.status.History[0].Result)
	assert.Equal(t, resize.MethodEviction, d.status.History[0].Method)
	assert.Equal(t, []resize.EvictionOutcome{resize.EvictionGranted}, d.evictionCounts)
	assert.Contains(t, d.told()[0], "Normal Evicted Evicted pod "+record.PodName+" from node node-1, which does not give container app 6 of cpu (it had 500m)")
	assert.Empty(t, d.status.Records, "nothing is begun before the successor is ready")
}

// Why the pod is not evicted is said beside why it is not resized.
func TestTheReasonWhyAPodIsNotEvictedReachesTheUser(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*world)
		says string
	}{
		"no right":     {func(w *world) { w.mayEvict = false }, "resizeMethod InPlaceOrRecreate does not evict the pod: the operator may not evict pods; the chart's value node.eviction.enabled grants it"},
		"not labelled": {func(w *world) { w.seeded = false }, "only namespaces with the label attune.io/inject=enabled have new pods sized"},
		"no node":      {func(w *world) { w.cluster = w.cluster[:1] }, "no other node that the pod may run on has 6 of CPU"},
		"do not disrupt": {func(w *world) {
			w.workload.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}, "the annotation karpenter.sh/do-not-disrupt=true keeps the pod where it is"},
		"InPlaceOnly stays": {func(w *world) { w.settings.Resize.Method = v1alpha1.ResizeInPlaceOnly }, "the pod would request 6 of cpu, and node node-1 has 4 in all"},
	} {
		t.Run(name, func(t *testing.T) {
			w := crowded(t)
			c.edit(&w)
			d := decide(w)
			assert.Empty(t, d.status.Records)
			assert.Equal(t, resize.ReasonNodeCapacity, d.blocked(t).Reason)
			assert.Contains(t, d.blocked(t).Message, c.says)
		})
	}
}

// Where a node has no room now, its kubelet is asked all the same, for one pod of the workload at a time.
func TestAFullNodeIsAskedWhereThePodMayGo(t *testing.T) {
	w := crowded(t)
	big := node("node-1", "8", "64Gi")
	w.nodes = map[string]nodeView{"node-1": {Node: big}}
	w.settings.Resize.MaxConcurrent, w.settings.Resize.MaxConcurrentPercent = 2, 0
	neighbour := running("other", sizeOf(7000, 0, 100, 0))
	w.rooms = map[string]*resize.Room{"node-1": resize.RoomOf(append([]*corev1.Pod{neighbour}, w.pods...), nil, now)}
	d := decide(w)
	require.Len(t, d.writes, 1, "%+v", d.refused.of)
	assert.Equal(t, v1alpha1.RecordWritten, d.status.Records[0].Phase)

	w.settings.Resize.Method = v1alpha1.ResizeInPlaceOnly
	d = decide(w)
	assert.Empty(t, d.writes)
	assert.Equal(t, resize.ReasonNoRoom, d.blocked(t).Reason)
}

// withdrawn is the world after a kubelet has refused, and the pod is back at its old size.
func withdrawn(t *testing.T) world {
	t.Helper()
	w := crowded(t)
	w.rec.Status = decide(w).status
	return w
}

func TestAnEvictionThatCannotBeMadeNowIsWaitedFor(t *testing.T) {
	w := withdrawn(t)
	victim := w.rec.Status.Records[0].PodUID
	for _, pod := range w.pods {
		if pod.UID != victim {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	d := decide(w)
	assert.Empty(t, d.evictions)
	require.Len(t, d.status.Records, 1)
	assert.Equal(t, v1alpha1.RecordWithdrawing, d.status.Records[0].Phase)
	assert.Contains(t, d.blocked(t).Message, "ReplicasNotReady: pod web-")
	assert.LessOrEqual(t, d.after, time.Minute)

	// Half an hour later it is given up; the pod stays as it is.
	w.now = now.Add(31 * time.Minute)
	d = decide(w)
	require.NotEmpty(t, d.status.History)
	assert.Equal(t, "Withdrawn", d.status.History[0].Result)
}

func TestAnEvictionThatWillNeverBeMadeIsGivenUpAtOnce(t *testing.T) {
	w := withdrawn(t)
	w.mayEvict = false
	d := decide(w)
	assert.Empty(t, d.evictions)
	assert.Equal(t, "Withdrawn", d.status.History[0].Result)
	assert.Contains(t, d.told()[0], "Warning ResizeSkipped Pod web-")
	assert.Contains(t, d.told()[0], "stays on a node that refuses its resize: EvictionNotAllowed")
}

// A person who pauses or undoes the workload comes before an eviction that is under way.
func TestAPauseStopsAnEviction(t *testing.T) {
	for _, annotation := range []string{v1alpha1.PausedAnnotation, v1alpha1.UndoAnnotation, v1alpha1.SkipAnnotation} {
		w := withdrawn(t)
		w.workload.Annotations[annotation] = "true"
		assert.Empty(t, decide(w).evictions, annotation)
	}
}

// A workload that is deleted while a pod of it waits to be evicted: nothing would take the pod's place.
func TestNoPodIsEvictedWhoseWorkloadIsGone(t *testing.T) {
	for name, gone := range map[string]func(w *world){
		"gone":          func(w *world) { w.workload = nil },
		"being deleted": func(w *world) { w.workload.Deleting = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := crowded(t)
			w.rec.Status = decide(w).status
			require.Len(t, w.rec.Status.Records, 1)
			gone(&w)
			d := decide(w)
			assert.Empty(t, d.evictions)
			assert.Empty(t, d.writes)
			assert.Empty(t, d.status.Records, "the record ends")
			assert.Contains(t, strings.Join(d.told(), "\n"), "NoController: the workload is gone")
		})
	}
}

// Every phase of a record, in each mode, is taken a step further without the workload.
func TestRecordsAreFinishedWithoutTheirWorkload(t *testing.T) {
	for _, phase := range []v1alpha1.RecordPhase{
		v1alpha1.RecordWritten, v1alpha1.RecordApplied, v1alpha1.RecordWatching, v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordEvicting,
	} {
		for _, reason := range []string{resize.ReasonInfeasible, resize.ReasonDoesNotFit, string(resize.HarmOOM)} {
			for _, strategy := range []v1alpha1.Strategy{v1alpha1.StrategyWorkload, v1alpha1.StrategyNode} {
				w := resized(t, phase, sizeOf(500, 0, 512, 0))
				w.rec.Status.Records[0].Reason, w.settings.Strategy = reason, strategy
				w.settings.Resize.Method, w.mayEvict = v1alpha1.ResizeInPlaceOrRecreate, true
				w.workload = nil
				require.NotPanics(t, func() { decide(w) }, "%s %s %s", phase, reason, strategy)
			}
		}
	}
}
