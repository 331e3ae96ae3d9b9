package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// The gates get their inputs.
func TestGatesAreFed(t *testing.T) {
	static := resize.NodeFacts{Policies: resize.Policies{StaticCPU: true}}
	refusing := resize.NodeFacts{Blocks: map[string]resize.NodeBlock{"shop": {Growth: now.Add(time.Minute)}}}
	for _, tc := range []struct {
		name   string
		size   recommender.Size
		edit   func(*tuning.View)
		begins int
		reason string
	}{
		{"all is well", small, func(*tuning.View) {}, 2, ""},
		{"the node is full", small, func(w *tuning.View) { w.Looked.Rooms["node-1"] = roomWith(15_500, w.Pods...) }, 0, resize.ReasonNoRoom},
		{"room for one: no two plans of a pass are given it", small, func(w *tuning.View) { w.Looked.Rooms["node-1"] = roomWith(14_500, w.Pods...) }, 1, resize.ReasonNoRoom},
		{"room for one: it was promised to another workload", small, func(w *tuning.View) {
			w.Looked.Rooms["node-1"] = resize.RoomOf(append([]*corev1.Pod{taking(14_000)}, w.Pods...), map[types.UID][2]recommender.Amount{"others": {14_500, 0}}, now)
		}, 1, resize.ReasonNoRoom},
		{"quota for one: no two plans of a pass are given it", small, func(w *tuning.View) { w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("q", "2", "1.5")} }, 1, resize.ReasonQuota},
		{"quota for one: it was promised to another workload", small, func(w *tuning.View) {
			w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("q", "2", "1.5")}
			w.Begin.Reserved = tuning.Reservations{All: []tuning.Reservation{{UID: "other", Namespace: "shop", Growth: sizeOf(1, 0, 0, 0)}}}
		}, 0, resize.ReasonQuota},
		{"a tuning.Reservation in another namespace is not this one's", small, func(w *tuning.View) {
			w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("q", "3", "1")}
			w.Begin.Reserved = tuning.Reservations{All: []tuning.Reservation{{UID: "other", Namespace: "bank", Growth: sizeOf(3000, 0, 0, 0)}}}
		}, 2, ""},
		{"the node refused growth lately", small, func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: w.Nodes["node-1"].Node, Facts: refusing} }, 0, resize.ReasonNodeBlocked},
		{"the node assigns CPUs, and the pods are Guaranteed", sizeOf(500, 500, 512, 512),
			func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: w.Nodes["node-1"].Node, Facts: static} }, 0, resize.ReasonStaticCPU},
		{"the node assigns CPUs, and the pods are Burstable", small,
			func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: w.Nodes["node-1"].Node, Facts: static} }, 2, ""},
		{"the operator has no rights", small, func(w *tuning.View) { w.Operator.NoRights = "cannot patch" }, 0, resize.ReasonNoRights},
		{"the namespace is being deleted", small, func(w *tuning.View) { w.Namespace.Terminating = true }, 0, resize.ReasonNamespaceTerminating},
		{"an admission policy said no", small, func(w *tuning.View) {
			w.Rec.Status.Tries = []v1alpha1.Try{{What: v1alpha1.TryResize, Reason: "AdmissionPolicy", Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(time.Minute)), Times: 1}}
		}, 0, resize.ReasonRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := big
			if tc.size[recommender.CPU].Limit > 0 {
				to = sizeOf(1000, 1000, 512, 512)
			}
			w := eager(heading(seen(t, tc.size, running("web-1", tc.size), running("web-2", tc.size)), to))
			tc.edit(&w)
			d := tuning.Decide(w)
			assert.Len(t, d.Writes, tc.begins)
			assert.Len(t, d.Status.Records, tc.begins)
			assert.Equal(t, tc.reason, blocked(d))
		})
	}
}

// A node limitation that a record shows applies to the rest of the reconcile.
func TestANodesRefusalHoldsAtOnce(t *testing.T) {
	guaranteed := sizeOf(500, 500, 512, 512)
	first, second := running("web-1", guaranteed), running("web-2", guaranteed)
	w := eager(heading(seen(t, guaranteed, first, second), sizeOf(1000, 1000, 512, 512)))
	record := recordOf(first, sizeOf(1000, 1000, 512, 512))
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	first.Generation, first.Status.ObservedGeneration = 2, 2
	first.Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(1000, 1000, 512, 512))
	first.Status.Conditions = append(first.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: 2,
		Message: `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`,
	})
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d := tuning.Decide(w)
	require.Len(t, d.Lessons, 1)
	assert.Equal(t, []string{"web-1"}, begun(d), "put back, and nothing else is asked of the node")
	assert.Equal(t, resize.ReasonStaticCPU, blocked(d))
	assert.Equal(t, []types.UID{"web-1"}, d.Unknowns.Live, "before it is put back it is looked at")

	w.Rec.Status = d.Status
	assert.Empty(t, tuning.Decide(w).Lessons, "it says so once")
}

// A record whose node is not its pod's node shows no node limitation: otherwise users who can write records could
// block other nodes.
func TestAForgedRecordTeachesNothing(t *testing.T) {
	first := running("web-1", small)
	w := eager(heading(seen(t, small, first), big))
	record := recordOf(first, big)
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	first.Generation, first.Status.ObservedGeneration = 2, 2
	first.Spec.Containers[0].Resources = podview.ToRequirements(big)
	first.Status.Conditions = append(first.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: 2,
		Message: "Node didn't have enough capacity: cpu, requested: 1000, capacity: 500",
	})
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	require.Len(t, tuning.Decide(w).Lessons, 1, "of the pod's own node")
	w.Nodes["node-2"] = tuning.Node{Node: node("node-2", "16", "64Gi")}
	w.Rec.Status.Records[0].Node = "node-2"
	assert.Empty(t, tuning.Decide(w).Lessons)
	w.Rec.Status.Records[0].Node, w.Rec.Status.Records[0].PodUID = "node-1", "no pod"
	assert.Empty(t, tuning.Decide(w).Lessons)
}

func TestGrowthIsPromisedUntilItShows(t *testing.T) {
	pod := running("web-1", small)
	record := recordOf(pod, big)
	find := func(types.UID) *corev1.Pod { return pod }
	want := []tuning.Reservation{{UID: "web-1", Namespace: "shop", Node: "node-1", Needs: [2]recommender.Amount{1000, 512 * mi}, Growth: sizeOf(500, 0, 0, 0)}}
	assert.Equal(t, want, tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, find), "written")
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	assert.Equal(t, want, tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, find), "accepted, and the cache is behind")
	record.Phase = v1alpha1.RecordReverting
	assert.Empty(t, tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, find), "given back")
	record.Phase, pod.Generation = v1alpha1.RecordApplied, 2
	assert.Empty(t, tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, find), "it shows")
	record.Then = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(2000, 0, 512, 0))}}
	got := tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, find)
	require.Len(t, got, 1)
	assert.Equal(t, recommender.Amount(2000), got[0].Needs[recommender.CPU], "its second patch is to come")
	assert.Empty(t, tuning.ReservationsOf([]v1alpha1.ResizeRecord{record}, func(types.UID) *corev1.Pod { return nil }), "the pod is gone")
}

func taking(cpu recommender.Amount) *corev1.Pod {
	other := running("others", sizeOf(cpu, 0, 1, 0))
	other.Namespace = "bank"
	return other
}

// roomWith returns the room of a node with 16 CPUs. Other pods use some of them.
func roomWith(others recommender.Amount, pods ...*corev1.Pod) *resize.Room {
	return resize.RoomOf(append([]*corev1.Pod{taking(others)}, pods...), nil, now)
}
