package tuning_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// feeds compares each field of an input with the wanted one, also nested fields: each is set and has the wanted
// value.
func feeds(t *testing.T, want, got any) {
	t.Helper()
	wants, gets := reflect.ValueOf(want), reflect.ValueOf(got)
	require.Equal(t, wants.Type(), gets.Type())
	for i := range wants.NumField() {
		name := wants.Type().Field(i).Name
		if strings.HasSuffix(wants.Field(i).Type().Name(), "Input") {
			feeds(t, wants.Field(i).Interface(), gets.Field(i).Interface())
			continue
		}
		assert.False(t, wants.Field(i).IsZero(), "%s: this test does not say what it is fed; it has to", name)
		assert.Equal(t, wants.Field(i).Interface(), gets.Field(i).Interface(), name)
	}
}

// TestEveryInputReachesTheGates checks that each field of resize.GateInput is filled from the view. A new field fails
// here until it is filled.
func TestEveryInputReachesTheGates(t *testing.T) {
	w, d := full(t)
	got := d.Input(w.Pods[0])
	feeds(t, resize.GateInput{
		Now:    now,
		Rules:  w.Policy.Settings.Resize,
		Status: d.Status(),
		Workload: resize.WorkloadInput{
			Annotations:         map[string]string{"of": "the workload"},
			TemplateAnnotations: map[string]string{"of": "the template"},
			Replicas:            3,
			ReadyReplicas:       2,
			Rollout:             "1 of 2 replicas are updated",
			DataUntil:           now.Add(time.Minute),
			StaleAfter:          w.Policy.Settings.Recommender.StaleAfter(),
			HPA:                 map[string]resize.Held{"app": {Of: [2]bool{true, false}, By: "scaler"}},
			ScaledOn:            resize.ScaledRequests{"": {true, false}},
			VPA:                 "sizer",
			TargetSoon:          true,
		},
		OtherBytes: tuning.MetadataBytes + len(clip.JSON(w.Rec.Spec)) + len(clip.JSON(v1alpha1.AttuneRecommendationStatus{Phase: "Watching"})) + tuning.StepsOfOne,
		Namespace: resize.NamespaceInput{
			LimitRanges: w.Namespace.Limits,
			Quotas:      w.Namespace.Quotas,
			Budgets:     w.Namespace.Budgets,
			Reserved:    sizeOf(3, 0, 0, 0),
			Terminating: true,
			NotSized:    "excluded",
		},
		Node: resize.NodeInput{
			Karpenter: true,
			Reserved:  sizeOf(3, 0, 0, 0),
			Room:      w.Looked.Rooms["node-1"],
			Block:     resize.NodeBlock{Growth: now.Add(time.Hour)},
			Capabilities: resize.Capabilities{
				Resizable: true, ServerMinor: 36, KubeletMinor: 36, NodeReady: true, Policies: resize.Policies{StaticCPU: true},
				Allocatable: [2]recommender.Amount{16_000, 64 << 30},
			},
		},
		Due:            resize.Due{"app": {true, false}},
		MemorySoon:     true,
		Unreachable:    map[string]bool{"node-3": true},
		NoRights:       "cannot patch pods/resize",
		NoRightsUrgent: "may not patch pods/resize",
		Evictable:      true,
	}, got)
	assert.False(t, d.Input(w.Pods[1]).Evictable, "another pod than the one that moves")
}

// TestEveryInputReachesEvictions checks the same for evictions.
func TestEveryInputReachesEvictions(t *testing.T) {
	w, d := full(t)
	d.SetTries(v1alpha1.Try{What: v1alpha1.TryEviction})
	plan := resize.Plan{PodName: "web-1"}
	feeds(t, lifecycle.Eviction{
		Now: now, Allowed: true, Paused: []string{"cluster"},
		Annotations: []map[string]string{{"of": "the workload"}, {"of": "the template"}},
		Siblings:    w.Pods, Replicas: 3, Records: d.Status().Records, Rollout: "1 of 2 replicas are updated",
		NamespaceTerminating: true, Wanted: &plan, NotSized: "excluded", Seed: w.Rec.Spec.Seed, Tries: d.Status().Tries, Nodes: w.Looked.Cluster,
	}, d.Eviction(plan))
}

// TestEveryInputReachesTheJudge checks the same for measurements and for other explanations of a regression.
func TestEveryInputReachesTheJudge(t *testing.T) {
	w, d := full(t)
	measured := harm.Signals{
		OOMEvents: map[string]float64{"app": 1}, Throttle: map[string]float64{"app": 0.5}, CPUUsage: map[string]recommender.Amount{"app": 1},
		NodeBusy: 0.9, CPUPressure: map[string]float64{"app": 0.1}, Answers: map[harm.Question]harm.Answer{{Name: "latency"}: {Value: 1}},
		Unanswered: "no route to host",
	}
	w.Usage.Signals = map[string]harm.Signals{"web-2": measured}
	want := measured
	want.NodeBooted, want.Rollout, want.NodeNotReady, want.SiblingsUnready = now.Add(-time.Hour), true, true, true
	w.Nodes["node-3"] = tuning.Node{Node: w.Nodes["node-3"].Node, Booted: now.Add(-time.Hour)}
	d.Status().Records[0].WrittenAt = metav1.NewTime(now.Add(-time.Minute))
	for _, pod := range w.Pods {
		unreadySince(pod, 30*time.Second)
	}
	want.Evicted = true
	evicted := w.Pods[0].DeepCopy()
	evicted.UID, evicted.DeletionTimestamp = "evicted", &metav1.Time{Time: now}
	evicted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	w.Pods = append(w.Pods, evicted)
	feeds(t, want, w.SignalsOf(d.Status().Records[0]))
}

// full returns a view in which each input of the gates and of evictions is known and not zero. The first of its two
// pods has another size than the second.
func full(t *testing.T) (tuning.View, tuning.Pass) {
	t.Helper()
	w := eager(heading(seen(t, small, running("web-1", small), running("web-2", small)), big))
	w.Workload.Annotations = map[string]string{"of": "the workload"}
	w.Workload.Template.Annotations = map[string]string{"of": "the template"}
	w.Workload.Rollout = workload.Rollout{InProgress: true, Reason: "1 of 2 replicas are updated"}
	w.Workload.Replicas = 3
	w.Policy.Settings.Resize.Paused = []string{"cluster"}
	w.Autoscalers, w.Begin.TargetSoon = scaledAndSized(w), true
	w.Namespace.Limits = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "limits"}}}
	w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("quota", "2", "1")}
	w.Namespace.Budgets = []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "budget"}}}
	w.Usage.Confirmed = now.Add(time.Minute)
	pooled := w.Nodes["node-1"].Node.DeepCopy()
	pooled.Labels = map[string]string{"karpenter.sh/nodepool": "default"}
	w.Nodes["node-1"] = tuning.Node{Node: pooled, Booted: now.Add(-time.Hour), Facts: resize.NodeFacts{
		Policies: resize.Policies{StaticCPU: true}, Blocks: map[string]resize.NodeBlock{"shop": {Growth: now.Add(time.Hour)}},
	}}
	w.Looked.Rooms["node-1"] = roomWith(1, w.Pods...)
	w.Usage.MemorySoon = map[types.UID]bool{w.Pods[0].UID: true}
	w.Usage.Lately = map[types.UID]map[string]resize.Lately{w.Pods[0].UID: {"app": {P95: [2]recommender.Usage{9_999, 0}, Samples: [2]int{20, 0}}}}
	w.Begin.Reserved = tuning.Reservations{All: []tuning.Reservation{{UID: "other", Namespace: "shop", Node: "node-1", Growth: sizeOf(1, 0, 0, 0)}}}
	w.Operator.NoRights, w.Operator.NoRightsUrgent = "cannot patch pods/resize", "may not patch pods/resize"
	w.Namespace.Terminating, w.Namespace.NotSized, w.Operator.MayEvict = true, "excluded", true
	w.Looked.Cluster = []*corev1.Node{node("node-2", "16", "64Gi")}
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "one"}
	w.Nodes["node-3"] = tuning.Node{Node: down(node("node-3", "16", "64Gi"))}
	record := recordOf(w.Pods[1], big)
	record.Node = "node-3"
	d := tuning.NewPass(w, v1alpha1.AttuneRecommendationStatus{Phase: "Watching", Records: []v1alpha1.ResizeRecord{record}})
	d.Reserve(sizeOf(2, 0, 0, 0), map[string]recommender.Size{"node-1": sizeOf(3, 0, 0, 0)}, w.Pods[0].UID)
	return w, d
}

// scaledAndSized returns an HPA on the CPU of Deployment web and a VPA for it.
func scaledAndSized(w tuning.View) autoscale.Holds {
	hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "scaler", Namespace: "shop"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MaxReplicas = 9
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
	}}}
	vpa := unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "sizer"}, "spec": map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "web"}},
	}}
	return autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}, VPAs: []unstructured.Unstructured{vpa}}.Of(*w.Workload)
}
