package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/tuning"
)

// killedAt returns the floor learned from an OOM kill of container app at a memory limit in MiB.
func killedAt(limit recommender.Amount) []v1alpha1.Floor {
	return []v1alpha1.Floor{{Container: "app", Reason: "oomkill", Resource: "memory", LearnedAt: metav1.NewTime(now),
		Amount: podview.Quantity(recommender.Memory, recommender.OOMFloor(limit*mi))}}
}

// onMemory returns a workload with an OOM-killed pod and a sibling. hpa: an HPA scales on its memory.
func onMemory(t *testing.T, has recommender.Size, hpa bool) (w tuning.View, killed, sibling *corev1.Pod) {
	t.Helper()
	killed, sibling = endedBefore(running("web-1", has), "OOMKilled", 1, time.Minute), running("web-2", has)
	w = eager(heading(seen(t, has, killed, sibling), has))
	c := &w.Rec.Spec.Containers[0]
	if hpa {
		c.Holds = []v1alpha1.Hold{{Resource: "memory", Reason: "HPA"}}
	}
	c.MemoryLimitFloor = ptr.To(killedAt(has[recommender.Memory].Limit >> 20)[0].Amount)
	w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: podview.TemplateHash(killed),
		Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(has)}}}}
	return w, killed, sibling
}

// An OOM kill under a memory HPA raises only limits: the HPA divides by the request.
func TestAKillUnderAMemoryHPAMovesNoRequest(t *testing.T) {
	const floor = 1332 * mi
	for name, tc := range map[string]struct {
		has             recommender.Size
		hpa             bool
		killed, sibling recommender.Allocation
	}{
		"Burstable":                          {sizeOf(200, 0, 256, 1024), true, recommender.Allocation{Request: 256 * mi, Limit: floor}, recommender.Allocation{Request: 256 * mi, Limit: floor}},
		"without an HPA":                     {sizeOf(200, 0, 256, 1024), false, recommender.Allocation{Request: 256 * mi, Limit: floor}, recommender.Allocation{Request: 256 * mi, Limit: floor}},
		"Guaranteed":                         {sizeOf(200, 200, 1024, 1024), true, recommender.Allocation{Request: floor, Limit: floor}, recommender.Allocation{Request: 1024 * mi, Limit: 1024 * mi}},
		"request = limit in a Burstable pod": {sizeOf(200, 0, 1024, 1024), true, recommender.Allocation{Request: 1024 * mi, Limit: floor}, recommender.Allocation{Request: 1024 * mi, Limit: floor}},
		"Guaranteed, without an HPA":         {sizeOf(200, 200, 1024, 1024), false, recommender.Allocation{Request: floor, Limit: floor}, recommender.Allocation{Request: floor, Limit: floor}},
	} {
		t.Run(name, func(t *testing.T) {
			w, killed, sibling := onMemory(t, tc.has, tc.hpa)
			if podview.Guaranteed(killed) {
				killed.Status.QOSClass, sibling.Status.QOSClass = corev1.PodQOSGuaranteed, corev1.PodQOSGuaranteed
			}
			for pod, want := range map[*corev1.Pod]recommender.Allocation{killed: tc.killed, sibling: tc.sibling} {
				wishes := tuning.NewPass(w, v1alpha1.AttuneRecommendationStatus{Floors: killedAt(1024), Originals: w.Rec.Status.Originals}).Wishes(pod)
				require.Len(t, wishes, 1)
				assert.Equal(t, want, wishes[0].Size[recommender.Memory], pod.Name)
			}
			d := tuning.Decide(w)
			require.NotEmpty(t, d.Writes)
			assert.True(t, d.Writes[0].Plan.Urgent, "the killed pod is raised at once")
			assert.Equal(t, killed.UID, d.Writes[0].Plan.PodUID)
			assert.Equal(t, tc.killed, d.Writes[0].Plan.Moves[0].To[recommender.Memory])
		})
	}
}

// An HPA on CPU does not block memory: the answer to an OOM kill is the same as without it.
func TestAKillUnderACPUHPARaisesTheLimit(t *testing.T) {
	w, killed, _ := onMemory(t, sizeOf(200, 0, 256, 1024), false)
	w.Rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: "HPA"}}
	d := tuning.Decide(w)
	require.NotEmpty(t, d.Writes)
	assert.Equal(t, killed.UID, d.Writes[0].Plan.PodUID)
	assert.Equal(t, sizeOf(200, 0, 256, 1332), d.Writes[0].Plan.Moves[0].To)
}

// A pod at its floor was already answered: it waits for cooldowns like any other.
func TestAKillThatWasAnsweredIsNotUrgent(t *testing.T) {
	w, killed, _ := onMemory(t, sizeOf(200, 0, 256, 1024), false)
	killed.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1332Mi")
	killed.Generation, killed.Status.ObservedGeneration = 2, 2
	killed.Status.ContainerStatuses[0].Resources = &killed.Spec.Containers[0].Resources
	killed.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry(podview.FieldManager, now.Add(-30*time.Second))}
	for range 5 {
		d := tuning.Decide(w)
		for _, write := range d.Writes {
			assert.NotEqual(t, killed.UID, write.Plan.PodUID)
		}
		w.Rec.Status = d.Status
		w.Rec.Status.Records = nil
		assert.Len(t, w.Rec.Status.Floors, 1)
	}
	w.Rec.Status.Floors = nil
	d := tuning.Decide(w)
	assert.Equal(t, "1395864372", d.Status.Floors[0].Amount.AsDec().String(), "learned again at the original limit, once the status was lost")
}

// Where the memory request may change within a range (memory.hpa: Keep), an answer to an OOM kill does not leave it either,
// unless the killed pod is Guaranteed.
func TestAKillUnderAMemoryHPAMovesNoRequestOutOfItsRange(t *testing.T) {
	const floor = 1332 * mi
	for name, tc := range map[string]struct {
		has             recommender.Size
		killed, sibling recommender.Allocation
	}{
		"Burstable":                          {sizeOf(200, 0, 256, 1024), recommender.Allocation{Request: 256 * mi, Limit: floor}, recommender.Allocation{Request: 256 * mi, Limit: floor}},
		"Guaranteed":                         {sizeOf(200, 200, 1024, 1024), recommender.Allocation{Request: floor, Limit: floor}, recommender.Allocation{Request: 1024 * mi, Limit: 1024 * mi}},
		"request = limit in a Burstable pod": {sizeOf(200, 0, 1024, 1024), recommender.Allocation{Request: 1024 * mi, Limit: floor}, recommender.Allocation{Request: 1024 * mi, Limit: floor}},
	} {
		t.Run(name, func(t *testing.T) {
			w, killed, sibling := onMemory(t, tc.has, false)
			w.Autoscalers = keptMemory(t, w, float64(tc.has[recommender.Memory].Request))
			if podview.Guaranteed(killed) {
				killed.Status.QOSClass, sibling.Status.QOSClass = corev1.PodQOSGuaranteed, corev1.PodQOSGuaranteed
			}
			for pod, want := range map[*corev1.Pod]recommender.Allocation{killed: tc.killed, sibling: tc.sibling} {
				wishes := tuning.NewPass(w, v1alpha1.AttuneRecommendationStatus{Floors: killedAt(1024), Originals: w.Rec.Status.Originals}).Wishes(pod)
				require.Len(t, wishes, 1)
				assert.Equal(t, want, wishes[0].Size[recommender.Memory], pod.Name)
			}
		})
	}
}

// keptMemory is an HPA on memory that keeps the number of replicas with up to about a fiftieth more than the request.
func keptMemory(t *testing.T, w tuning.View, request float64) autoscale.Holds {
	hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 20,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)}}}},
	}}
	holds := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}}.Of(*w.Workload).Keep([]string{"app"}, nil, autoscale.Fleet{
		Keeps: func(string, recommender.Resource) bool { return true }, Pods: w.Pods, Read: true, Now: now,
		Past: func(string, recommender.Resource) autoscale.Past {
			return autoscale.Past{Spans: []replicas.Span{{Ready: 10, Least: request * 0.555, Greatest: request * 0.555}}, Since: now.Add(-7 * 24 * time.Hour), Until: now, Window: 7 * 24 * time.Hour}
		},
	})
	require.NotNil(t, holds.Kept("app", recommender.Memory))
	require.NotZero(t, holds.Kept("app", recommender.Memory).Most)
	return holds
}
