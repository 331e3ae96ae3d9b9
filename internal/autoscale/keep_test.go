package autoscale_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
)

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const cpu, memory = recommender.CPU, recommender.Memory

// running returns pods whose containers request CPU, such as "app=1000m".
func running(pods ...map[string]string) (list []*corev1.Pod) {
	for _, containers := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
		for _, name := range []string{"app", "side", "proxy"} {
			if request, there := containers[name]; there {
				c := corev1.Container{Name: name}
				if request != "" {
					c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
		}
		list = append(list, pod)
	}
	return list
}

// quiet is a history in which n pods use at most so many millicores.
func quiet(n int32, greatest float64) autoscale.Past {
	busy := at.Add(-50 * time.Hour).Unix()
	return autoscale.Past{
		Spans: []replicas.Span{{Ready: n, Least: 1, Greatest: greatest, LeastAt: busy, GreatestAt: busy}},
		Since: at.Add(-7 * 24 * time.Hour), Until: at, Window: 7 * 24 * time.Hour,
	}
}

// fleet is one whose settings are Keep, with app and side as sized containers of 1000m and 200m.
func fleet(pods []*corev1.Pod, past autoscale.Past) autoscale.Fleet {
	return autoscale.Fleet{
		Keeps: func(string, recommender.Resource) bool { return true }, Pods: pods, Read: true, Now: at,
		Original: func(container string, _ recommender.Resource) recommender.Amount {
			return map[string]recommender.Amount{"app": 1000, "side": 200}[container]
		},
		Past: func(string, recommender.Resource) autoscale.Past { return past },
	}
}

var one = running(map[string]string{"app": "1"}, map[string]string{"app": "1"})

func scaled(hpas ...autoscalingv2.HorizontalPodAutoscaler) autoscale.Holds {
	return autoscale.Autoscalers{HPAs: hpas}.Of(web())
}

// TestKeepProvesTheLeastRequest: 2 replicas use at most 300m. With a target of 70 %, 78 % of the request are the first
// utilization above the tolerance: a request of 300m / 0.78 is the first that leads to 3 replicas. The margin is 20 %.
func TestKeepProvesTheLeastRequest(t *testing.T) {
	holds := scaled(hpa("web", ofPods("cpu", utilization(70)))).Keep([]string{"app"}, nil, fleet(one, quiet(2, 300)))
	assert.Nil(t, holds.On("app", cpu))
	proof := holds.Kept("app", cpu)
	require.NotNil(t, proof)
	assert.Equal(t, recommender.Kept{
		Least: 462, By: "HorizontalPodAutoscaler web", Reason: resize.ReasonHPA,
		Below: "with less than 385m, HorizontalPodAutoscaler web would have asked for 3 replicas instead of 2 at 2026-11-26 10:00 UTC; the margin is 20 %",
	}, proof.Kept)
	assert.Equal(t, "cpu", proof.Stored.Resource)
	assert.Equal(t, "462m", proof.Stored.Least.String())
	assert.Nil(t, proof.Stored.Most)
	assert.Equal(t, []string{"web"}, proof.Stored.HPAs)
	assert.Equal(t, at.Add(24*time.Hour), proof.Stored.ValidUntil.Time)
	assert.Nil(t, holds.Kept("app", memory))
	assert.Nil(t, holds.On("app", memory), "no HPA scales on it")

	held := holds.Gate([]v1alpha1.ContainerTarget{{Name: "app"}}, nil, at)["app"]
	assert.True(t, held.Of[cpu])
	assert.EqualValues(t, 462, held.Kept[cpu].Least)
}

// TestKeepOfMemoryIsWhole: ranges of memory are whole MiB, rounded to the inside; the example's bound is one that is true.
func TestKeepOfMemoryIsWhole(t *testing.T) {
	pods := []*corev1.Pod{one[0].DeepCopy(), one[1].DeepCopy()}
	for _, p := range pods {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("160Mi")
	}
	holds := scaled(hpa("web", ofPods("memory", utilization(45)))).Keep([]string{"app"}, nil, fleet(pods, quiet(2, 51<<20)))
	proof := holds.Kept("app", memory)
	require.NotNil(t, proof, holds.On("app", memory))
	assert.Equal(t, "123Mi", proof.Stored.Least.String(), "1.2 times 51 MiB / 0.5 are 122.4 MiB")
	assert.Contains(t, proof.Below, "with less than 102Mi, HorizontalPodAutoscaler web would have asked for 3 replicas instead of 2")
}

// TestKeepBlocksWhatIsNotKnown: the block stays, and says why.
func TestKeepBlocksWhatIsNotKnown(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	dynamic := quiet(2, 2000)
	dynamic.Spans[0].GreatestAt = at.Add(-time.Hour).Unix()
	narrow := quiet(2, 760)
	narrow.Spans = append(narrow.Spans, replicas.Span{Ready: 9, Least: 650, Greatest: 700, LeastAt: narrow.Spans[0].LeastAt, GreatestAt: narrow.Spans[0].GreatestAt})
	short, old, failed := quiet(2, 300), quiet(2, 300), autoscale.Past{Why: errors.New("the server answered 503")}
	short.Since = at.Add(-24 * time.Hour)
	old.Until = at.Add(-25 * time.Hour)
	hour := quiet(2, 300)
	hour.Since, hour.Window = at.Add(-time.Hour), time.Hour
	for _, c := range []struct {
		what  string
		hpas  []autoscalingv2.HorizontalPodAutoscaler
		pods  []*corev1.Pod
		past  autoscale.Past
		block bool
		why   string
	}{
		{"the setting is Block", nil, one, quiet(2, 300), true, "another request would change the number of replicas"},
		{"usage that leads to two numbers", nil, one, dynamic, false,
			"no other request is proven to keep the number of replicas, because it follows the usage: HorizontalPodAutoscaler web asks for 6 replicas at 2026-11-28 11:00 UTC, and for 2 at 2026-11-26 10:00 UTC"},
		{"a range that is narrower than the margin", nil, one, narrow, false,
			"no other request than 1 is proven to keep the number of replicas: with less than 975m, HorizontalPodAutoscaler web would have asked for 3 replicas instead of 2 at 2026-11-26 10:00 UTC; the margin is 20 %, " +
				"and with more than 1031m, HorizontalPodAutoscaler web would have asked for 8 replicas instead of 9 at 2026-11-26 10:00 UTC; the margin is 20 %"},
		{"no history", nil, one, autoscale.Past{}, false, "the mean usage and the number of pods are not known yet"},
		{"a history that cannot be read", nil, one, failed, false, "the mean usage and the number of pods are not known: the server answered 503"},
		{"a short history", nil, one, short, false, "the mean usage and the number of pods are known since 2026-11-27 12:00 UTC; enough at 2026-12-03 19:12 UTC if no sample is missing"},
		{"a history window of an hour", nil, one, hour, false, "historyWindow is shorter than a day, which shows no daily peak"},
		{"an old history", nil, one, old, false, "the mean usage and the number of pods are known only until 2026-11-27 11:00 UTC"},
		{"no pods", nil, nil, quiet(2, 300), false, "no pod runs"},
		{"a container without a request", nil, running(map[string]string{"app": "1", "side": ""}), quiet(2, 300), false,
			"container side of pod web-1 has no cpu request, so the HorizontalPodAutoscaler does not scale"},
		{"a container of some pods", nil, running(map[string]string{"app": "1"}, map[string]string{"app": "1", "side": "1"}), quiet(2, 300), false, "only 1 of 2 pods have container side"},
		{"a target that is not known", []autoscalingv2.HorizontalPodAutoscaler{hpa("web", ofPods("cpu", autoscalingv2.MetricTarget{}))}, one, quiet(2, 300), false,
			"the target of HorizontalPodAutoscaler web is not known"},
	} {
		t.Run(c.what, func(t *testing.T) {
			hpas := c.hpas
			if hpas == nil {
				hpas = []autoscalingv2.HorizontalPodAutoscaler{usual}
			}
			f := fleet(c.pods, c.past)
			f.Keeps = func(string, recommender.Resource) bool { return !c.block }
			holds := scaled(hpas...).Keep([]string{"app"}, nil, f)
			assert.Nil(t, holds.Kept("app", cpu))
			hold := holds.On("app", cpu)
			require.NotNil(t, hold)
			assert.EqualValues(t, resize.ReasonHPA, hold.Reason)
			assert.Contains(t, hold.Message, ": "+c.why+". Use averageValue in the HPA")
			assert.Equal(t, c.block, strings.HasSuffix(hold.Message, "or cpu.hpa: Keep in the policy (not with strategy Node)"))
			assert.Nil(t, holds.Gate([]v1alpha1.ContainerTarget{{Name: "app"}}, nil, at)["app"].Kept[cpu])
		})
	}
}

// TestKeepNeedsAllPodsThatTheHPACounts: one of another owner has the labels of the workload's pods.
func TestKeepNeedsAllPodsThatTheHPACounts(t *testing.T) {
	for setting, f := range map[string]autoscale.Fleet{"Keep": fleet(one, quiet(2, 300)), "Retarget": retargets(map[string]string{"app": "1"})} {
		f.Stranger = "migrate-1"
		holds := mayWrite(hpa("web", ofPods("cpu", utilization(70)))).Keep([]string{"app"}, nil, f)
		require.NotNil(t, holds.On("app", cpu), setting)
		assert.Contains(t, holds.On("app", cpu).Message, "the selector of the workload matches pod migrate-1 too, so the HorizontalPodAutoscaler counts it", setting)
		assert.Nil(t, holds.Follower(), setting)
	}
}

// TestKeepNeedsTheHPAItself: a ScaledObject without its HPA, and an HPA that is gone, prove nothing.
func TestKeepNeedsTheHPAItself(t *testing.T) {
	for what, holds := range map[string]autoscale.Holds{
		"paused by KEDA": autoscale.Autoscalers{ScaledObjects: []unstructured.Unstructured{{Object: map[string]any{
			"kind": "ScaledObject", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{
				"scaleTargetRef": map[string]any{"name": "web"},
				"triggers":       []any{map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": "70"}}},
			}}}}}.Of(web()),
		"gone": autoscale.Holds{}.WithStored([]v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70}}, at),
	} {
		holds = holds.Keep([]string{"app"}, nil, fleet(one, quiet(2, 300)))
		require.NotNil(t, holds.On("app", cpu), what)
		assert.Contains(t, holds.On("app", cpu).Message, "does not exist or is fixed, so it is not known how it will scale", what)
	}
}

// TestKeepWithSeveralMetrics: each HPA and each metric has to keep its number.
func TestKeepWithSeveralMetrics(t *testing.T) {
	f := fleet(one, quiet(2, 300))
	two := scaled(hpa("a", ofPods("cpu", utilization(70))), hpa("b", ofContainer("app", "cpu", utilization(50)))).Keep([]string{"app"}, nil, f)
	require.NotNil(t, two.Kept("app", cpu))
	assert.EqualValues(t, 360*100/56+1, two.Kept("app", cpu).Least, "the target of 50 %% is the stricter one: 55 %% are within the tolerance")
	assert.Equal(t, "each of the HorizontalPodAutoscalers a, b", two.Kept("app", cpu).By)
	assert.Contains(t, two.Kept("app", cpu).Below, "HorizontalPodAutoscaler b")

	own := hpa("web", ofPods("cpu", utilization(70)))
	own.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.5"))}}
	tolerant := scaled(own).Keep([]string{"app"}, nil, f)
	assert.EqualValues(t, 360*100/106+1, tolerant.Kept("app", cpu).Least, "105 %% are within its own tolerance")

	operator := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("web", ofPods("cpu", utilization(70)))}, Tolerance: 0.5}
	assert.EqualValues(t, 360*100/106+1, operator.Of(web()).Keep([]string{"app"}, nil, f).Kept("app", cpu).Least, "the operator's")
}

// TestKeepDividesTheRangeOfAPod: the sum of the containers' least requests is above the least request of the pod, with
// any mix of sizes. A container that attune does not size keeps its request.
func TestKeepDividesTheRangeOfAPod(t *testing.T) {
	web := scaled(hpa("web", ofPods("cpu", utilization(70))))
	present := map[string]string{"app": "1", "side": "200m", "proxy": "300m"}
	holds := web.Keep([]string{"app", "side"}, nil, fleet(running(present), quiet(2, 702)))
	app, side := holds.Kept("app", cpu).Least, holds.Kept("side", cpu).Least
	assert.EqualValues(t, (702*120/78-300)*1000/1200+1, app, "1080m of the pod, without the 300m of proxy, like 1000m to 200m")
	assert.EqualValues(t, (702*120/78-300)*200/1200+1, side)

	present["app"], present["side"] = "700m", "200m"
	half := web.Keep([]string{"app", "side"}, nil, fleet(running(present), quiet(2, 702)))
	assert.Equal(t, [2]recommender.Amount{app, side}, [2]recommender.Amount{half.Kept("app", cpu).Least, half.Kept("side", cpu).Least},
		"the division does not change while pods are resized")

	ofApp := scaled(hpa("web", ofContainer("app", "cpu", utilization(70)))).Keep([]string{"app", "side"}, nil, fleet(running(present), quiet(2, 300)))
	assert.EqualValues(t, 462, ofApp.Kept("app", cpu).Least)
	assert.Nil(t, ofApp.Kept("side", cpu))
	assert.Nil(t, ofApp.On("side", cpu), "the HPA does not count it")
}

// TestKeepCountsTheOtherContainersOfEachPod: an injected container has another size in new pods. An HPA does not count all
// pods, so each one has to be within the range.
func TestKeepCountsTheOtherContainersOfEachPod(t *testing.T) {
	web, names := scaled(hpa("web", ofPods("cpu", utilization(70)))), []string{"app", "side"}
	small, large := map[string]string{"app": "1", "side": "200m", "proxy": "100m"}, map[string]string{"app": "1", "side": "200m", "proxy": "500m"}
	least := func(pods ...map[string]string) recommender.Amount {
		holds := web.Keep(names, nil, fleet(running(pods...), quiet(2, 702)))
		require.NotNil(t, holds.Kept("app", cpu), holds.On("app", cpu))
		return holds.Kept("app", cpu).Least
	}
	assert.Equal(t, least(small, small), least(small, large))
	assert.Greater(t, least(small, large), least(large, large))
}

// TestStoredProofs: a proof of another HPA, an old one, and one that does not include the present requests are void.
func TestStoredProofs(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := fleet(one, quiet(2, 300))
	stored := []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{scaled(usual).Keep([]string{"app"}, nil, f).Kept("app", cpu).Stored}}}
	f.Past = nil // the workload loop has no history
	stands := func(h autoscale.Holds, f autoscale.Fleet) string {
		h = h.WithKept(stored, f)
		if hold := h.On("app", cpu); hold != nil {
			assert.Nil(t, h.Kept("app", cpu))
			return hold.Message
		}
		assert.EqualValues(t, 462, h.Kept("app", cpu).Least)
		return ""
	}
	assert.Empty(t, stands(scaled(usual), f))
	for what, change := range map[string]func(*autoscalingv2.HorizontalPodAutoscalerSpec){
		"min":    func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MinReplicas = ptr.To[int32](3) },
		"max":    func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MaxReplicas = 11 },
		"target": func(s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.Metrics[0].Resource.Target = utilization(69) },
		"tolerance": func(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
			s.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.2"))}}
		},
	} {
		changed := hpa("web", ofPods("cpu", utilization(70)))
		change(&changed.Spec)
		assert.Contains(t, stands(scaled(changed), f), "the HorizontalPodAutoscalers have changed since", what)
	}
	assert.Contains(t, stands(scaled(usual, hpa("web2", ofPods("cpu", utilization(70)))), f), "have changed since")
	later := f
	later.Now = at.Add(24 * time.Hour)
	assert.Contains(t, stands(scaled(usual), later), "more than a day ago")
	moved := f
	moved.Pods = running(map[string]string{"app": "300m"}, map[string]string{"app": "400m"})
	assert.Contains(t, stands(scaled(usual), moved), "the mean request of the running pods, 350m, is not within the range")
	block := f
	block.Keeps = func(string, recommender.Resource) bool { return false }
	assert.Contains(t, stands(scaled(usual), block), "another request would change the number of replicas")

	f.Read = false
	assert.NotNil(t, scaled(usual).Keep([]string{"app"}, stored, f).Kept("app", cpu), "until the history is read again after a restart")
	f.Read = true
	assert.Nil(t, scaled(usual).Keep([]string{"app"}, stored, f).Kept("app", cpu), "then it decides")
}

// TestKeepNeedsEachPodWithinTheRange: the range holds for the mean only if each pod is within it. If it is not, lowering
// the other pods to the range would bring the mean below it.
func TestKeepNeedsEachPodWithinTheRange(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := fleet(running(map[string]string{"app": "1"}, map[string]string{"app": "1"}), quiet(2, 300))
	stored := []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{scaled(usual).Keep([]string{"app"}, nil, f).Kept("app", cpu).Stored}}}
	f.Pods = running(map[string]string{"app": "300m"}, map[string]string{"app": "1"})
	const why = "container app of pod web-1 requests 300m, which is not within the range"
	for what, holds := range map[string]autoscale.Holds{
		"proven": scaled(usual).Keep([]string{"app"}, nil, f),
		"stored": scaled(usual).WithKept(stored, f),
	} {
		assert.Nil(t, holds.Kept("app", cpu), what)
		require.NotNil(t, holds.On("app", cpu), what)
		assert.Contains(t, holds.On("app", cpu).Message, why, what)
	}
}

// TestKeepNeedsEachContainerWithinItsPart: a container that is far below its part of the pod's range, and stays there,
// takes the room of the others.
func TestKeepNeedsEachContainerWithinItsPart(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := fleet(running(map[string]string{"app": "1", "side": "20m"}, map[string]string{"app": "1", "side": "20m"}), quiet(2, 702))
	f.Keeps = func(container string, _ recommender.Resource) bool { return container == "app" }
	holds := scaled(usual).Keep([]string{"app", "side"}, nil, f)
	assert.Nil(t, holds.Kept("app", cpu), "app may have 750m of the 900m, and side has 20m instead of 150m")
	require.NotNil(t, holds.On("app", cpu))
	assert.Contains(t, holds.On("app", cpu).Message, "container side of pod web-1 requests 20m, which is not within the range")
}

// TestStoredProofsCountTheOtherContainers: a part of a pod's range is void once the rest of the pod requests something
// else, as after a rollout of another template.
func TestStoredProofsCountTheOtherContainers(t *testing.T) {
	usual, names := hpa("web", ofPods("cpu", utilization(70))), []string{"app", "side"}
	pod := map[string]string{"app": "1", "side": "200m", "proxy": "300m"}
	f := fleet(running(pod, pod), quiet(2, 702))
	proven := scaled(usual).Keep(names, nil, f)
	var stored []v1alpha1.ContainerTarget
	for _, name := range names {
		stored = append(stored, v1alpha1.ContainerTarget{Name: name, Kept: []v1alpha1.KeptRequest{proven.Kept(name, cpu).Stored}})
	}
	f.Past = nil
	assert.NotNil(t, scaled(usual).WithKept(stored, f).Kept("app", cpu))
	for what, other := range map[string]map[string]string{
		"a container that is not sized requests less": {"app": "1", "side": "200m", "proxy": "50m"},
		"a container is removed":                      {"app": "1", "side": "200m"},
	} {
		changed := f
		changed.Pods = running(other, other)
		assert.Nil(t, scaled(usual).WithKept(stored, changed).Kept("app", cpu), what)
	}
}

// TestAProofFromAheadIsVoid: its time is of a clock that was ahead, or a user wrote it.
func TestAProofFromAheadIsVoid(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := fleet(one, quiet(2, 300))
	f.Now = at.Add(48 * time.Hour)
	f.Past = func(string, recommender.Resource) autoscale.Past {
		past := quiet(2, 300)
		past.Until = f.Now
		return past
	}
	stored := []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{scaled(usual).Keep([]string{"app"}, nil, f).Kept("app", cpu).Stored}}}
	f.Now = at
	assert.Nil(t, scaled(usual).WithKept(stored, f).Kept("app", cpu))
}

// TestTheGateKeepsTheRangeOfMemoryAfterOOMKills: an OOM kill may raise the limit, and no request out of its range.
func TestTheGateKeepsTheRangeOfMemoryAfterOOMKills(t *testing.T) {
	pods := running(map[string]string{"app": "1"})
	pods[0].Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(1000, resource.BinarySI)
	holds := scaled(hpa("web", ofPods("memory", utilization(70)))).Keep([]string{"app"}, nil, fleet(pods, quiet(2, 300)))
	target := v1alpha1.ContainerTarget{Name: "app", Holds: []v1alpha1.Hold{{Resource: "memory", Reason: string(recommender.StaleData)}}}
	floors := []v1alpha1.Floor{{Container: "app", Reason: "oomkill", Resource: "memory", LearnedAt: metav1.NewTime(at), Amount: resource.MustParse("1Gi")}}
	require.NotZero(t, resize.OOMFloor(target, floors, at))
	assert.NotNil(t, holds.Gate([]v1alpha1.ContainerTarget{target}, floors, at)["app"].Kept[memory])
}
