package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/tuning"
)

// unreadySince makes a pod not ready for a duration.
func unreadySince(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-ago))
	return pod
}

// watchEnds returns a view whose only pod was resized to 300m of CPU and is not ready at the end of its observation.
// The same size is verified and seeded.
func watchEnds(t *testing.T) tuning.View {
	t.Helper()
	size := sizeOf(300, 0, 512, 0)
	w := resized(t, v1alpha1.RecordWatching, size)
	record := &w.Rec.Status.Records[0]
	record.VerifiedOnce, record.WatchUntil = &metav1.Time{Time: now.Add(-6 * time.Minute)}, &metav1.Time{Time: now}
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(now.Add(time.Hour)),
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr.To(resource.MustParse("300m"))}}}
	w.Rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(size), TemplateHash: "abc"}}
	unreadySince(w.Pods[0], 2*time.Minute)
	return w
}

// A node that becomes NotReady during the observation, or a cause that also affects the siblings, is not a
// regression. No floor is learned, and the observation goes on.
func TestWhatElseMakesAPodUnreadyIsNoHarm(t *testing.T) {
	sibling := running("web-2", sizeOf(500, 0, 512, 0))
	for name, tc := range map[string]struct {
		edit func(w *tuning.View)
		harm bool
	}{
		"nothing else":             {func(*tuning.View) {}, true},
		"its node is down":         {func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: down(node("node-1", "16", "64Gi"))} }, false},
		"its sibling is well":      {func(w *tuning.View) { w.Pods = append(w.Pods, sibling) }, true},
		"its sibling fell as well": {func(w *tuning.View) { w.Pods = append(w.Pods, unreadySince(sibling.DeepCopy(), time.Minute)) }, false},
		"its sibling is not ready for a day": {func(w *tuning.View) {
			w.Pods = append(w.Pods, unreadySince(sibling.DeepCopy(), 24*time.Hour))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := watchEnds(t)
			tc.edit(&w)
			d := tuning.Decide(w)
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, tc.harm, d.Status.Records[0].Phase == v1alpha1.RecordReverting)
			assert.Equal(t, tc.harm, len(d.Status.BadSeeds) > 0)
			assert.Equal(t, tc.harm, len(d.Status.Verified) == 0)
			assert.Equal(t, tc.harm, d.Status.Backoff != nil)
			assert.Equal(t, tc.harm, len(d.Status.Floors) > 0)
			assert.Equal(t, !tc.harm, d.Status.Records[0].Extended, "it is watched for longer")
		})
	}
}

// A revert on a NotReady node waits for its kubelet. Other pods of the workload do not wait, and the obstacle is
// reported.
func TestADeadNodeHoldsNoOtherPod(t *testing.T) {
	size := sizeOf(500, 0, 512, 0)
	w := eager(resized(t, v1alpha1.RecordReverting, size))
	w.Rec.Status.Records[0].Node, w.Rec.Status.Records[0].Reason = "node-3", "throttle"
	w.Pods[0].Spec.NodeName, w.Pods[0].Generation = "node-3", 2
	w.Pods = append(w.Pods, running("web-2", size), running("web-3", size))
	w.Workload.Replicas = 3
	assert.Empty(t, begun(tuning.Decide(w)), "while its node is well, it is put back before anything new")

	w.Nodes["node-3"] = tuning.Node{Node: down(node("node-3", "16", "64Gi"))}
	d := tuning.Decide(w)
	assert.ElementsMatch(t, []string{"web-2", "web-3"}, begun(d))
	require.NotEmpty(t, d.Pending)
	assert.Contains(t, d.Pending[0], "pod web-1 does not have its previous resources yet: node node-3 is not ready")
}
