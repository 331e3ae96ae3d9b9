package tuning_test

import (
	"slices"
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
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// crowded returns a Deployment of two pods that need 6 CPU each, on a node of 4; another node has 8.
func crowded(t *testing.T) tuning.View {
	t.Helper()
	has := sizeOf(500, 0, 512, 0)
	w := heading(seen(t, has, running("web-1", has), running("web-2", has)), sizeOf(6000, 0, 512, 0))
	w.Policy.Settings.Resize.Method = v1alpha1.ResizeInPlaceOrRecreate
	w.Policy.Settings.Recommender.Of[recommender.CPU].MaxChangePercent = 2000
	small := node("node-1", "4", "64Gi")
	w.Nodes = map[string]tuning.Node{"node-1": {Node: small}}
	w.Looked.Cluster = []*corev1.Node{small, node("node-2", "8", "64Gi")}
	w.Operator.MayEvict = true
	six := resource.MustParse("6")
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)), RaiseOnly: true,
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &six}}}
	return w
}

// If the node can never hold the new size, the pod is evicted without trying the resize, after the decision is
// stored.
func TestAPodIsEvictedFromANodeThatIsTooSmall(t *testing.T) {
	w := crowded(t)
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 1, "%+v", tuning.Refused(w).Of())
	assert.Empty(t, d.Writes)
	assert.Empty(t, d.Evictions, "what is decided is stored first")
	record := d.Status.Records[0]
	assert.Equal(t, v1alpha1.RecordWithdrawing, record.Phase)
	assert.Equal(t, resize.ReasonInfeasible, record.Reason)

	w.Rec.Status = d.Status
	d = tuning.Decide(w)
	require.Len(t, d.Evictions, 1)
	assert.Equal(t, record.PodName, d.Evictions[0].Name)
	assert.Equal(t, v1alpha1.RecordEvicting, d.Status.Records[0].Phase)
	assert.Equal(t, d.Evictions[0].UID, d.Unknowns.Live[0], "it is asked for past the cache first")
	assert.Len(t, d.Status.Records, 1, "the other one stays where it is")

	// The pod is terminating, so the eviction is reported and counted.
	w.Rec.Status = d.Status
	w.Pod(record.PodUID).DeletionTimestamp = &metav1.Time{Time: now}
	d = tuning.Decide(w)
	assert.Empty(t, d.Evictions)
	require.NotEmpty(t, d.Status.History)
	assert.Equal(t, "Evicted", d.Status.History[0].Result)
	assert.Equal(t, lifecycle.MethodEviction, d.Status.History[0].Method)
	assert.Equal(t, []lifecycle.EvictionOutcome{lifecycle.EvictionGranted}, d.EvictionOutcomes)
	assert.Contains(t, told(d)[0], "Normal Evicted Evicted pod "+record.PodName+" from node node-1, which refused container app 6 of cpu (it had 500m)")
	assert.Empty(t, d.Status.Records, "nothing is begun before the successor is ready")
}

// The refusal has both reasons: why the pod is not resized, and why it is not evicted.
func TestTheReasonWhyAPodIsNotEvictedReachesTheUser(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*tuning.View)
		says string
	}{
		"no right": {func(w *tuning.View) { w.Operator.MayEvict = false }, "the pod is not evicted either (resizeMethod InPlaceOrRecreate): the operator may not evict pods. Set the chart's value node.eviction.enabled: true to allow it"},
		"not labelled": {func(w *tuning.View) {
			w.Namespace.NotSized = "the namespace does not have the label attune.io/inject=enabled"
		}, "the new pod would get its template's resources: the namespace does not have the label attune.io/inject=enabled"},
		"admission: Disabled": {func(w *tuning.View) { w.Policy.Settings.Admission = v1alpha1.Disabled },
			"the new pod would get its template's resources: the setting admission is Disabled"},
		"no node": {func(w *tuning.View) { w.Looked.Cluster = w.Looked.Cluster[:1] }, "no other node on which the pod may run has 6 of CPU"},
		"do not disrupt": {func(w *tuning.View) {
			w.Workload.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}, "the annotation karpenter.sh/do-not-disrupt=true prevents an eviction"},
		"InPlaceOnly stays": {func(w *tuning.View) { w.Policy.Settings.Resize.Method = v1alpha1.ResizeInPlaceOnly }, "the pod would request 6 of cpu, but node node-1 has 4 in total"},
	} {
		t.Run(name, func(t *testing.T) {
			w := crowded(t)
			c.edit(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Status.Records)
			assert.Equal(t, resize.ReasonNodeCapacity, condition(t, d).Reason)
			assert.Contains(t, condition(t, d).Message, c.says)
		})
	}
}

// If a node has no room now, the resize is still sent to its kubelet, for one pod of the workload at a time.
func TestAFullNodeIsAskedWhereThePodMayGo(t *testing.T) {
	w := crowded(t)
	big := node("node-1", "8", "64Gi")
	w.Nodes = map[string]tuning.Node{"node-1": {Node: big}}
	w.Policy.Settings.Resize.MaxConcurrent, w.Policy.Settings.Resize.MaxConcurrentPercent = 2, 0
	neighbour := running("other", sizeOf(7000, 0, 100, 0))
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(append([]*corev1.Pod{neighbour}, w.Pods...), nil, now)}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%+v", tuning.Refused(w).Of())
	assert.Equal(t, v1alpha1.RecordWritten, d.Status.Records[0].Phase)

	w.Policy.Settings.Resize.Method = v1alpha1.ResizeInPlaceOnly
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Equal(t, resize.ReasonNoRoom, condition(t, d).Reason)
}

// withdrawn returns the view after a kubelet has refused, with the pod at its old size again.
func withdrawn(t *testing.T) tuning.View {
	t.Helper()
	w := crowded(t)
	w.Rec.Status = tuning.Decide(w).Status
	return w
}

func TestAnEvictionThatCannotBeMadeNowIsWaitedFor(t *testing.T) {
	w := withdrawn(t)
	victim := w.Rec.Status.Records[0].PodUID
	for _, pod := range w.Pods {
		if pod.UID != victim {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	d := tuning.Decide(w)
	assert.Empty(t, d.Evictions)
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, v1alpha1.RecordWithdrawing, d.Status.Records[0].Phase)
	assert.Contains(t, condition(t, d).Message, "ReplicasNotReady: pod web-")
	assert.LessOrEqual(t, d.After, time.Minute)

	// Half an hour later the eviction is given up. The pod stays as it is.
	w.Now = now.Add(31 * time.Minute)
	d = tuning.Decide(w)
	require.NotEmpty(t, d.Status.History)
	assert.Equal(t, "Withdrawn", d.Status.History[0].Result)
}

func TestAnEvictionThatWillNeverBeMadeIsGivenUpAtOnce(t *testing.T) {
	w := withdrawn(t)
	w.Operator.MayEvict = false
	d := tuning.Decide(w)
	assert.Empty(t, d.Evictions)
	assert.Equal(t, "Withdrawn", d.Status.History[0].Result)
	assert.Contains(t, told(d)[0], "Warning ResizeSkipped Pod web-")
	assert.Contains(t, told(d)[0], "is not evicted from the node that refuses its resize: EvictionNotAllowed")
}

// The times of conditions are those of the reconcile.
func TestConditionsHaveTheTimeOfTheReconcile(t *testing.T) {
	w := withdrawn(t)
	require.NotEmpty(t, w.Rec.Status.Conditions)
	for _, c := range w.Rec.Status.Conditions {
		assert.True(t, c.LastTransitionTime.Time.Equal(w.Now), "%s: %s", c.Type, c.LastTransitionTime)
	}

	denied := v1alpha1.AttuneRecommendationStatus{Records: w.Rec.Status.Records}
	tuning.NotEvicted(w.Rec, &denied, denied.Records[0].PodUID, w.Now)
	require.Len(t, denied.Conditions, 1)
	assert.True(t, denied.Conditions[0].LastTransitionTime.Time.Equal(w.Now))
}

// A pause, an undo and a skip take precedence over an eviction in progress.
func TestAPauseStopsAnEviction(t *testing.T) {
	for _, annotation := range []string{v1alpha1.PausedAnnotation, v1alpha1.UndoAnnotation, v1alpha1.SkipAnnotation} {
		w := withdrawn(t)
		w.Workload.Annotations[annotation] = "true"
		assert.Empty(t, tuning.Decide(w).Evictions, annotation)
	}
}

// A pod whose workload is deleted is not evicted, because no controller would replace it.
func TestNoPodIsEvictedWhoseWorkloadIsGone(t *testing.T) {
	for name, gone := range map[string]func(w *tuning.View){
		"gone":          func(w *tuning.View) { w.Workload = nil },
		"being deleted": func(w *tuning.View) { w.Workload.Deleting = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := crowded(t)
			w.Rec.Status = tuning.Decide(w).Status
			require.Len(t, w.Rec.Status.Records, 1)
			gone(&w)
			d := tuning.Decide(w)
			assert.Empty(t, d.Evictions)
			assert.Empty(t, d.Writes)
			assert.Empty(t, d.Status.Records, "the record ends")
			assert.Contains(t, strings.Join(told(d), "\n"), "NoController: the workload is deleted")
		})
	}
}

// Decide handles every record phase without the workload.
func TestRecordsAreFinishedWithoutTheirWorkload(t *testing.T) {
	for _, phase := range []v1alpha1.RecordPhase{
		v1alpha1.RecordWritten, v1alpha1.RecordApplied, v1alpha1.RecordWatching, v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordEvicting,
	} {
		for _, reason := range []string{resize.ReasonInfeasible, resize.ReasonDoesNotFit, string(resize.HarmOOM)} {
			for _, strategy := range []v1alpha1.Strategy{v1alpha1.StrategyWorkload, v1alpha1.StrategyNode} {
				w := resized(t, phase, sizeOf(500, 0, 512, 0))
				w.Rec.Status.Records[0].Reason, w.Policy.Settings.Strategy = reason, strategy
				w.Policy.Settings.Resize.Method, w.Operator.MayEvict = v1alpha1.ResizeInPlaceOrRecreate, true
				w.Workload = nil
				require.NotPanics(t, func() { tuning.Decide(w) }, "%s %s %s", phase, reason, strategy)
			}
		}
	}
}

// If the successor of an evicted pod was not sized at admission, the workload's other pods are not evicted, also after
// a restart of the operator.
func TestEvictionsStopIfTheSuccessorWasNotSized(t *testing.T) {
	for name, annotation := range map[string]string{
		"not sized": "", "sized": `{"recommendation":"deployment-web"}`, "the annotation cannot be read": `{"recommendation":`, "of another workload": `{"recommendation":"deployment-api"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := crowded(t)
			w.Rec.Status.History = []v1alpha1.HistoryEntry{{Result: lifecycle.ResultEvicted, Timestamp: metav1.NewTime(now.Add(-time.Minute))}}
			successor := w.Pods[1]
			successor.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
			w.Pods[0].CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Hour))
			if annotation != "" {
				metav1.SetMetaDataAnnotation(&successor.ObjectMeta, v1alpha1.SeededAnnotation, annotation)
			}
			d := tuning.Decide(w)
			if name == "sized" {
				assert.Len(t, d.Status.Records, 1)
				assert.False(t, slices.ContainsFunc(d.Status.Tries, func(row v1alpha1.Try) bool { return row.What == v1alpha1.TryEviction }))
				return
			}
			assert.Empty(t, d.Status.Records)
			assert.Contains(t, condition(t, d).Message, "pod web-2, created after the last eviction, was not sized at admission")
			require.Len(t, d.Status.Tries, 1)

			w.Rec.Status = d.Status
			w.Rec.Status.History = nil
			w.Now = now.Add(time.Minute)
			assert.Contains(t, condition(t, tuning.Decide(w)).Message, "was not sized at admission", "the next process reads it in the status")
		})
	}
}

// The operator does not run for half an hour after an eviction. Its next process finds the open record and the successor.
func TestEvictionsStopAlsoIfTheOperatorRestarted(t *testing.T) {
	w := crowded(t)
	w.Rec.Status = tuning.Decide(w).Status
	d := tuning.Decide(w)
	require.Len(t, d.Evictions, 1)
	w.Rec.Status = d.Status
	successor := d.Evictions[0]
	successor.Name, successor.UID, successor.CreationTimestamp = "web-3", "web-3", metav1.NewTime(now.Add(time.Second))

	w.Now = now.Add(30 * time.Minute)
	d = tuning.Decide(w)
	assert.Equal(t, lifecycle.ResultEvicted, d.Status.History[0].Result)
	require.NotEmpty(t, d.Status.Tries)
	assert.Equal(t, v1alpha1.TryEviction, d.Status.Tries[0].What)
	assert.Equal(t, "web-3", d.Status.Tries[0].Pod)
	assert.Contains(t, condition(t, d).Message, "pod web-3, created after the last eviction, was not sized at admission")
}
