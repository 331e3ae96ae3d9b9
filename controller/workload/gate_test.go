package workload

import (
	"reflect"
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
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// full is a world in which everything that a gate or an eviction asks about is known, and is not what a zero value
// says; the first of its two pods is another size than the second.
func full(t *testing.T) (world, *decision) {
	t.Helper()
	w := eager(seen(t, small, running("web-1", small), running("web-2", small)).heading(big))
	w.workload.Annotations = map[string]string{"of": "the workload"}
	w.workload.Template.Annotations = map[string]string{"of": "the template"}
	w.workload.Rollout = workload.Rollout{InProgress: true, Reason: "1 of 2 replicas are updated"}
	w.workload.Replicas = 3
	w.settings.Resize.Paused = []string{"cluster"}
	w.autoscalers = scaledAndSized(w)
	w.limits = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "limits"}}}
	w.quotas = []corev1.ResourceQuota{quotaOf("quota", "2", "1")}
	w.budgets = []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "budget"}}}
	w.confirmed = now.Add(time.Minute)
	w.nodes["node-1"] = nodeView{Node: w.nodes["node-1"].Node, booted: now.Add(-time.Hour), facts: resize.NodeFacts{
		Policies: resize.Policies{StaticCPU: true}, Blocks: map[string]resize.NodeBlock{"shop": {Growth: now.Add(time.Hour)}},
	}}
	w.rooms["node-1"] = roomWith(1, w.pods...)
	w.unweighed = map[types.UID]bool{w.pods[0].UID: true}
	w.promised = ledger{all: []promise{{uid: "other", namespace: "shop", node: "node-1", growth: sizeOf(1, 0, 0, 0)}}}
	w.noRights, w.noRightsUrgent = "cannot patch pods/resize", "may not patch pods/resize"
	w.terminating, w.seeded, w.mayEvict = true, true, true
	w.cluster = []*corev1.Node{node("node-2", "16", "64Gi")}
	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "one"}
	d := &decision{status: v1alpha1.AttuneRecommendationStatus{Phase: "Watching", Records: []v1alpha1.ResizeRecord{recordOf(w.pods[1], big)}}}
	w.nodes["node-3"] = nodeView{Node: down(node("node-3", "16", "64Gi"))}
	d.status.Records[0].Node = "node-3"
	d.promised, d.promisedOn = sizeOf(2, 0, 0, 0), map[string]recommender.Size{"node-1": sizeOf(3, 0, 0, 0)}
	d.moving = w.pods[0].UID
	return w, d
}

// scaledAndSized are an HPA on the CPU of Deployment web and a VPA of it.
func scaledAndSized(w world) autoscale.Holds {
	hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "scaler", Namespace: "shop"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MaxReplicas = 9
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
	}}}
	vpa := unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "sizer"}, "spec": map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "web"}},
	}}
	return autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}, VPAs: []unstructured.Unstructured{vpa}}.Of(*w.workload)
}

// feeds compares what a rule is fed with what it ought to be, input by input: each is known and is what is wanted.
func feeds(t *testing.T, want, got any) {
	t.Helper()
	wants, gets := reflect.ValueOf(want), reflect.ValueOf(got)
	require.Equal(t, wants.Type(), gets.Type())
	for i := range wants.NumField() {
		name := wants.Type().Field(i).Name
		assert.False(t, wants.Field(i).IsZero(), "%s: this test does not say what it is fed; it has to", name)
		assert.Equal(t, wants.Field(i).Interface(), gets.Field(i).Interface(), name)
	}
}

// TestEveryInputReachesTheGates: whatever resize.World has is filled from what a pass sees. A new input fails here until
// it is fed.
func TestEveryInputReachesTheGates(t *testing.T) {
	w, d := full(t)
	got := d.gateWorld(w, w.pods[0])
	feeds(t, resize.World{
		Now: now, Rules: w.settings.Resize, Status: d.status,
		WorkloadAnnotations: map[string]string{"of": "the workload"}, TemplateAnnotations: map[string]string{"of": "the template"},
		OtherBytes: metadataBytes + jsonBytes(w.rec.Spec) + jsonBytes(v1alpha1.AttuneRecommendationStatus{Phase: "Watching"}) + stepsOfOne,
		Replicas:   3, ReadyReplicas: 2,
		Rollout:   "1 of 2 replicas are updated",
		DataUntil: now.Add(time.Minute), StaleAfter: w.settings.Recommender.StaleAfter(),
		HPA: map[string]resize.Held{"app": {Of: [2]bool{true, false}, By: "scaler"}}, VPA: "sizer",
		LimitRanges: w.limits, Quotas: w.quotas, Budgets: w.budgets,
		Promised: sizeOf(3, 0, 0, 0), PromisedOnNode: sizeOf(3, 0, 0, 0),
		Room: w.rooms["node-1"], MemorySoon: true,
		NodeBlock: resize.NodeBlock{Growth: now.Add(time.Hour)}, Unreachable: map[string]bool{"node-3": true},
		Capabilities: resize.Capabilities{
			Resizable: true, ServerMinor: 36, KubeletMinor: 36, NodeReady: true, Policies: resize.Policies{StaticCPU: true},
			Allocatable: [2]recommender.Amount{16_000, 64 << 30},
		},
		NoRights: "cannot patch pods/resize", NoRightsUrgent: "may not patch pods/resize", Evictable: true, NamespaceTerminating: true,
	}, got)
	assert.False(t, d.gateWorld(w, w.pods[1]).Evictable, "another pod than the one that moves")
}

// TestEveryInputReachesEvictions: the same of the one rule for evictions.
func TestEveryInputReachesEvictions(t *testing.T) {
	w, d := full(t)
	plan := resize.Plan{PodName: "web-1"}
	feeds(t, resize.Eviction{
		Now: now, Allowed: true, Paused: []string{"cluster"},
		Annotations: []map[string]string{{"of": "the workload"}, {"of": "the template"}},
		Siblings:    w.pods, Replicas: 3, Records: d.status.Records, Rollout: "1 of 2 replicas are updated",
		NamespaceTerminating: true, Wanted: &plan, Seeded: true, Seed: w.rec.Spec.Seed, Nodes: w.cluster,
	}, d.eviction(w, plan))
}

// TestEveryInputReachesTheJudge: what was measured, and what excuses harm.
func TestEveryInputReachesTheJudge(t *testing.T) {
	w, d := full(t)
	measured := resize.Signals{
		OOMEvents: map[string]float64{"app": 1}, Throttle: map[string]float64{"app": 0.5}, CPUUsage: map[string]recommender.Amount{"app": 1},
		NodeBusy: 0.9, CPUPressure: map[string]float64{"app": 0.1}, SLO: []resize.SLOResult{{Name: "latency", Held: true}},
		Unanswered: "no route to host",
	}
	w.measured = map[string]resize.Signals{"web-2": measured}
	want := measured
	want.NodeBooted, want.Rollout, want.NodeNotReady, want.SiblingsUnready = now.Add(-time.Hour), true, true, true
	w.nodes["node-3"] = nodeView{Node: w.nodes["node-3"].Node, booted: now.Add(-time.Hour)}
	d.status.Records[0].WrittenAt = metav1.NewTime(now.Add(-time.Minute))
	for _, pod := range w.pods {
		unreadySince(pod, 30*time.Second)
	}
	feeds(t, want, w.signals(d.status.Records[0]))
}

// TestAnEvictionNamesTheVeryPod: another pod of the name, or the same one once it has changed, is not evicted.
func TestAnEvictionNamesTheVeryPod(t *testing.T) {
	pod := running("web-1", small)
	pod.UID, pod.ResourceVersion = types.UID("this one"), "17"
	eviction := evictionOf(pod)
	assert.Equal(t, "shop", eviction.Namespace)
	assert.Equal(t, "web-1", eviction.Name)
	require.NotNil(t, eviction.DeleteOptions)
	require.NotNil(t, eviction.DeleteOptions.Preconditions)
	assert.Equal(t, metav1.Preconditions{UID: ptr.To(types.UID("this one")), ResourceVersion: ptr.To("17")}, *eviction.DeleteOptions.Preconditions)
}
