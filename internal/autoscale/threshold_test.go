package autoscale_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
)

// steady is a history in which 9 pods use almost so many millicores. While a target keeps this threshold, the number of
// replicas is the same. Without one, any other request leads to another number.
func steady(threshold float64) autoscale.Past {
	past := quiet(9, threshold)
	past.Spans[0].Least = 0.98 * threshold
	return past
}

// retargets is fleet with the setting Retarget for CPU, and a steady history at 70 % of a request of 1.
func retargets(pods ...map[string]string) autoscale.Fleet {
	f := fleet(running(pods...), steady(700))
	f.Retargets = func(_ string, r recommender.Resource) bool { return r == cpu }
	return f
}

// mayWrite are the holds of HPAs that the operator may change.
func mayWrite(hpas ...autoscalingv2.HorizontalPodAutoscaler) autoscale.Holds {
	return autoscale.Autoscalers{HPAs: hpas, MayRetarget: true}.Of(web())
}

// changed is an HPA whose target attune changed.
func changed(original, written, live string) autoscalingv2.HorizontalPodAutoscaler {
	h := hpa("web", ofPods("cpu", utilization(70)))
	h.Annotations = map[string]string{autoscale.OriginalTargetAnnotation: `{"metric":"cpu","original":` + original + `,"written":` + written + `}`}
	_ = json.Unmarshal([]byte(live), h.Spec.Metrics[0].Resource.Target.AverageUtilization)
	return h
}

// TestRetargetKeepsTheNumber: the HPA scales at 70 % of 1000m. The target may be 30 % to 90 %, so the request 778m to 2333m, in
// which the history proves the number of replicas.
func TestRetargetKeepsTheNumber(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := retargets(map[string]string{"app": "1"})
	holds := mayWrite(usual).Keep([]string{"app"}, nil, f)
	assert.Nil(t, holds.On("app", cpu))
	proof := holds.Kept("app", cpu)
	require.NotNil(t, proof)
	assert.Equal(t, [2]recommender.Amount{778, 2333}, [2]recommender.Amount{proof.Least, proof.Most})
	assert.Equal(t, v1alpha1.KeptRequest{
		Resource: "cpu", Least: proof.Stored.Least, Most: proof.Stored.Most, HPAs: []string{"web"}, By: v1alpha1.HPARetarget, OriginalPercent: 70,
		Digest: proof.Stored.Digest, Since: metav1.NewTime(at.Add(-7 * 24 * time.Hour)), ValidUntil: metav1.NewTime(at.Add(24 * time.Hour)),
	}, proof.Stored)
	assert.Equal(t, "778m", proof.Stored.Least.String())
	assert.EqualValues(t, 778, holds.Gate([]v1alpha1.ContainerTarget{{Name: "app"}}, nil, at)["app"].Kept[cpu].Least)
	assert.Nil(t, holds.Proposed("app", cpu), "it is granted")

	follower := holds.Follower()
	require.NotNil(t, follower)
	assert.Equal(t, "web", follower.HPA)
	assert.EqualValues(t, 1000, follower.Present)
	for request, target := range map[float64]int32{1000: 70, 800: 88, 778: 90, 500: 90, 2000: 35, 9000: 30, 0: 70} {
		assert.Equal(t, target, follower.At(request), request)
	}
}

// TestRetargetIsBlockedWithoutProof: no range without enough history, nor if usage was at a threshold that moves. The
// message has the numbers. The target follows nevertheless, as pods may have other requests.
func TestRetargetIsBlockedWithoutProof(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	crossed := steady(700)
	crossed.Spans = append(crossed.Spans, replicas.Span{Ready: 4, Least: 765, Greatest: 775, LeastAt: at.Add(-30 * time.Hour).Unix(), GreatestAt: at.Add(-20 * time.Hour).Unix()})
	short := steady(700)
	short.Since = at.Add(-time.Hour)
	early := retargets(map[string]string{"app": "1"})
	early.Past, early.Read = nil, false
	of := func(past autoscale.Past) autoscale.Fleet {
		f := retargets(map[string]string{"app": "800m"})
		f.Past = func(string, recommender.Resource) autoscale.Past { return past }
		return f
	}
	for why, f := range map[string]autoscale.Fleet{
		"are not known yet":                           early,
		"known since 2026-11-28 11:00 UTC; enough at": of(short),
		"no other request of a pod than 1 is proven to keep the number of replicas while the target follows: with less, HorizontalPodAutoscaler web would have asked for 5 replicas instead of 4": of(crossed),
	} {
		holds := mayWrite(usual).Keep([]string{"app"}, nil, f)
		require.NotNil(t, holds.On("app", cpu), why)
		assert.Contains(t, holds.On("app", cpu).Message, why)
		assert.Nil(t, holds.Kept("app", cpu))
		assert.NotNil(t, holds.Follower(), why)
		assert.Nil(t, scaled(usual).Keep([]string{"app"}, nil, f).Proposed("app", cpu), "%s: nor is it proposed", why)
	}
}

// TestRetargetLeavesTheTargetBelowAProofOfKeep: where only a target that does not change is proven to keep the number of
// replicas, it does not follow. A target that was changed has to follow, so that no such range applies.
func TestRetargetLeavesTheTargetBelowAProofOfKeep(t *testing.T) {
	f := retargets(map[string]string{"app": "1"})
	past := steady(500)
	past.Spans[0] = replicas.Span{Ready: 3, Least: 471, Greatest: 476, LeastAt: at.Unix(), GreatestAt: at.Unix()} // 2 replicas below 467m
	f.Past = func(string, recommender.Resource) autoscale.Past { return past }
	holds := mayWrite(hpa("web", ofPods("cpu", utilization(70)))).Keep([]string{"app"}, nil, f)
	require.NotNil(t, holds.Kept("app", cpu), "%v", holds.On("app", cpu))
	assert.Empty(t, holds.Kept("app", cpu).Stored.By)
	assert.Nil(t, holds.Follower())
	row := []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{holds.Kept("app", cpu).Stored}}}
	assert.Nil(t, mayWrite(hpa("web", ofPods("cpu", utilization(70)))).WithKept(row, f).Follower())

	f.Pods = running(map[string]string{"app": "800m"})
	holds = mayWrite(changed("70", "88", "88")).Keep([]string{"app"}, nil, f)
	assert.Nil(t, holds.Kept("app", cpu))
	assert.NotNil(t, holds.Follower())
	assert.Contains(t, holds.On("app", cpu).Message, "no other request of a pod than 1 is proven")
}

// TestRetargetKeepsTheThreshold: for each request of the range, the target of the request is less than 0.5 percentage points
// away from what the HPA of the user scales at, and between 30 % and 90 %.
func TestRetargetKeepsTheThreshold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		percent, original := int32(1+random.IntN(150)), recommender.Amount(10+random.IntN(8000))
		f := retargets(map[string]string{"app": recommender.Format(cpu, original)})
		f.Original = func(string, recommender.Resource) recommender.Amount { return original }
		past := steady(float64(percent) * float64(original) / 100)
		f.Past = func(string, recommender.Resource) autoscale.Past { return past }
		holds := mayWrite(hpa("web", ofPods("cpu", utilization(percent)))).Keep([]string{"app"}, nil, f)
		proof := holds.Kept("app", cpu)
		if proof == nil {
			assert.Less(t, percent, int32(25), "%d: only few percent are too coarse", original)
			continue
		}
		assert.True(t, proof.Contains(original), "%d %% of %d: from %d to %d", percent, original, proof.Least, proof.Most)
		for _, request := range []recommender.Amount{proof.Least, original, proof.Most, proof.Least + recommender.Amount(random.Int64N(int64(proof.Most-proof.Least)+1))} {
			target := holds.Follower().At(float64(request))
			assert.InDelta(t, 100*float64(percent)*float64(original)/100/float64(request), target, 0.5+1e-6, "%d %% of %d with %d", percent, original, request)
			assert.True(t, target >= min(30, percent) && target <= max(90, percent), "%d %% of %d with %d: %d", percent, original, request, target)
		}
	}
}

// TestRetargetGoesBeyondItsBounds: with the target at 90 %, 300m of usage keep the number of replicas down to a request of 301m,
// where the utilization is 99 %. The margin is 20 %. So a workload whose replicas do not change is lowered further than
// with Keep. The workload loop has no history, and uses the stored range.
func TestRetargetGoesBeyondItsBounds(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := retargets(map[string]string{"app": "1"}, map[string]string{"app": "1"})
	f.Past = fleet(nil, quiet(2, 300)).Past
	proof := mayWrite(usual).Keep([]string{"app"}, nil, f).Kept("app", cpu)
	require.NotNil(t, proof)
	assert.EqualValues(t, 361, proof.Least)
	assert.Zero(t, proof.Most, "2 is the least number")
	assert.Equal(t, "with less, HorizontalPodAutoscaler web would have asked for 3 replicas instead of 2 at 2026-11-26 10:00 UTC; the margin is 20 %", proof.Below)
	assert.Equal(t, at.Add(-7*24*time.Hour), proof.Stored.Since.Time)
	f.Past = nil
	stored := mayWrite(usual).WithKept([]v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{proof.Stored}}}, f)
	require.NotNil(t, stored.Kept("app", cpu))
	assert.EqualValues(t, 361, stored.Kept("app", cpu).Least)
	assert.EqualValues(t, 90, stored.Follower().At(361))
}

// TestRetargetDividesTheRangeOfAPod: any mix of requests within the parts has a sum within the range.
func TestRetargetDividesTheRangeOfAPod(t *testing.T) {
	pod := map[string]string{"app": "1", "side": "200m", "proxy": "300m"}
	past := steady(900)
	of := func(pods ...map[string]string) autoscale.Fleet {
		f := retargets(pods...)
		f.Past = func(string, recommender.Resource) autoscale.Past { return past }
		return f
	}
	holds := mayWrite(hpa("web", ofPods("cpu", utilization(60)))).Keep([]string{"app", "side"}, nil, of(pod, pod))
	app, side := holds.Kept("app", cpu), holds.Kept("side", cpu)
	require.NotNil(t, app)
	require.NotNil(t, side)
	// 60 % of 1500m: the request of a pod is 1000m to 3000m, of which proxy has 300m.
	assert.EqualValues(t, 700*1000/1200+1, app.Least)
	assert.EqualValues(t, 700*200/1200+1, side.Least)
	assert.EqualValues(t, 2700*1000/1200-1, app.Most)
	assert.EqualValues(t, 90, holds.Follower().At(float64(app.Least+side.Least+300)))
	assert.EqualValues(t, 30, holds.Follower().At(float64(app.Most+side.Most+300)))
	assert.EqualValues(t, 500, app.Retarget.Others)

	resized := map[string]string{"app": "700m", "side": "150m", "proxy": "300m"}
	again := mayWrite(changed("60", "78", "78")).Keep([]string{"app", "side"}, nil, of(resized, pod))
	assert.Equal(t, app.Stored.Digest, again.Kept("app", cpu).Stored.Digest, "neither resizes nor its own target change it")
	assert.Equal(t, app.Least, again.Kept("app", cpu).Least)
}

// TestRetargetRefusals: the request is blocked, and the message says why. A range that the history proves takes its place.
// Where only the right to write is missing, the range is proposed.
func TestRetargetRefusals(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	argo := hpa("web", ofPods("cpu", utilization(70)))
	argo.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:apps/web"}
	memoryToo := hpa("web", ofPods("cpu", utilization(70)), ofPods("memory", utilization(70)))
	zero := hpa("web", ofPods("cpu", utilization(70)))
	zero.Spec.MinReplicas = ptr.To[int32](0)
	plain := map[string]string{"app": "1"}
	for what, c := range map[string]struct {
		hpas     []autoscalingv2.HorizontalPodAutoscaler
		denied   bool
		pod      map[string]string
		why      string
		proposed bool
	}{
		"no right":                       {hpas: []autoscalingv2.HorizontalPodAutoscaler{usual}, denied: true, why: "attune may not change its target. Set the chart value hpa.retarget: true", proposed: true},
		"Argo CD":                        {hpas: []autoscalingv2.HorizontalPodAutoscaler{argo}, why: "HorizontalPodAutoscaler web belongs to Argo CD", proposed: true},
		"two HPAs":                       {hpas: []autoscalingv2.HorizontalPodAutoscaler{usual, hpa("web2", ofPods("cpu", utilization(70)))}, why: "2 targets of CPU utilization scale the workload"},
		"two metrics":                    {hpas: []autoscalingv2.HorizontalPodAutoscaler{hpa("web", ofPods("cpu", utilization(70)), ofContainer("side", "cpu", utilization(50)))}, why: "2 targets of CPU utilization scale the workload"},
		"no target":                      {hpas: []autoscalingv2.HorizontalPodAutoscaler{hpa("web", ofPods("cpu", autoscalingv2.MetricTarget{}))}, why: "the target of HorizontalPodAutoscaler web is not known"},
		"minReplicas 0":                  {hpas: []autoscalingv2.HorizontalPodAutoscaler{zero}, why: "HorizontalPodAutoscaler web has minReplicas 0"},
		"changed target":                 {hpas: []autoscalingv2.HorizontalPodAutoscaler{changed("60", "75", "70")}, pod: map[string]string{"app": "999m"}, why: "the target of HorizontalPodAutoscaler web is 70 %: it was changed after", proposed: true},
		"no request of a neighbour":      {hpas: []autoscalingv2.HorizontalPodAutoscaler{usual}, pod: map[string]string{"app": "1", "proxy": ""}, why: "container proxy of pod web-1 has no cpu request"},
		"no request in the template":     {hpas: []autoscalingv2.HorizontalPodAutoscaler{usual}, pod: map[string]string{"proxy": "1"}, why: "the template of container proxy has no cpu request, to which the target belongs"},
		"a target of memory is no other": {hpas: []autoscalingv2.HorizontalPodAutoscaler{memoryToo}},
	} {
		t.Run(what, func(t *testing.T) {
			pod, name := c.pod, "app"
			if pod == nil {
				pod = plain
			} else if pod["app"] == "" {
				name = "proxy"
			}
			of := autoscale.Autoscalers{HPAs: c.hpas, MayRetarget: !c.denied}.Of(web())
			holds := of.Keep([]string{name}, nil, retargets(pod, pod))
			assert.Equal(t, c.proposed, holds.Proposed(name, cpu) != nil)
			if c.why == "" {
				assert.Nil(t, holds.On(name, cpu))
				return
			}
			assert.Nil(t, holds.Kept(name, cpu))
			assert.Nil(t, holds.Follower())
			hold := holds.On(name, cpu)
			require.NotNil(t, hold)
			assert.EqualValues(t, resize.ReasonHPA, hold.Reason)
			assert.Contains(t, hold.Message, c.why)
			assert.NotContains(t, hold.Message, "Use averageValue")
			if !c.proposed {
				return
			}
			proven := retargets(pod, pod)
			proven.Past = fleet(nil, quiet(2, 300)).Past
			holds = of.Keep([]string{name}, nil, proven)
			require.NotNil(t, holds.Kept(name, cpu), "the history proves a range")
			assert.Empty(t, holds.Kept(name, cpu).Stored.By)
			assert.Nil(t, holds.Follower())
			assert.Nil(t, holds.Proposed(name, cpu))
		})
	}
}

// TestStoredRetarget: a stored range stands while the original target, the template and the settings are the same. Neither a
// resize nor attune's own target makes it void. The follower does not need it.
func TestStoredRetarget(t *testing.T) {
	usual := hpa("web", ofPods("cpu", utilization(70)))
	f := retargets(map[string]string{"app": "1"})
	row := mayWrite(usual).Keep([]string{"app"}, nil, f).Kept("app", cpu).Stored
	text, err := json.Marshal(row)
	require.NoError(t, err)
	var read v1alpha1.KeptRequest
	require.NoError(t, json.Unmarshal(text, &read))
	stored := []v1alpha1.ContainerTarget{{Name: "app", Kept: []v1alpha1.KeptRequest{read}}}
	f.Past = nil // the workload loop has no history
	stands := func(h autoscale.Holds, f autoscale.Fleet) string {
		h = h.WithKept(stored, f)
		if hold := h.On("app", cpu); hold != nil {
			assert.Nil(t, h.Kept("app", cpu))
			return hold.Message
		}
		assert.EqualValues(t, 778, h.Kept("app", cpu).Least)
		assert.NotNil(t, h.Follower())
		return ""
	}
	assert.Empty(t, stands(mayWrite(usual), f))
	lowered := f
	lowered.Pods = running(map[string]string{"app": "800m"}, map[string]string{"app": "1"})
	assert.Empty(t, stands(mayWrite(changed("70", "78", "78")), lowered))
	strayed := f
	strayed.Pods = running(map[string]string{"app": "300m"}, map[string]string{"app": "1"})
	assert.Empty(t, stands(mayWrite(usual), strayed), "the target follows the mean")

	assert.Contains(t, stands(mayWrite(hpa("web", ofPods("cpu", utilization(69)))), f), "have changed since")
	assert.Contains(t, stands(mayWrite(changed("69", "70", "70")), f), "have changed since")
	template := f
	template.Original = func(string, recommender.Resource) recommender.Amount { return 1100 }
	assert.Contains(t, stands(mayWrite(usual), template), "have changed since")
	assert.Contains(t, stands(scaled(usual), f), "Set the chart value hpa.retarget: true", "the right is withdrawn")
	later := f
	later.Now = at.Add(24 * time.Hour)
	assert.Contains(t, stands(mayWrite(usual), later), "more than a day ago")
	assert.NotNil(t, mayWrite(usual).WithKept(stored, later).Follower())
	early := f
	early.Now = at.Add(-time.Hour)
	assert.Contains(t, stands(mayWrite(usual), early), "a clock that was ahead")
	keep := f
	keep.Retargets = nil
	assert.Contains(t, stands(mayWrite(usual), keep), "no range of requests is proven")
	assert.Nil(t, mayWrite(usual).WithKept(stored, keep).Follower())
	assert.Contains(t, mayWrite(usual).WithKept(nil, f).WithKept([]v1alpha1.ContainerTarget{{Name: "app"}}, f).On("app", cpu).Message, "has not been computed yet")
}

// TestStoredBindingsHaveTheOriginalTarget: spec.hpaBindings shows both targets, and keeps them while the HPA is gone.
func TestStoredBindingsHaveTheOriginalTarget(t *testing.T) {
	stored := mayWrite(changed("70", "85", "85")).Stored()
	assert.Equal(t, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 85, OriginalPercent: 70}}, stored)
	gone := autoscale.Holds{}.WithStored(stored, at)
	assert.Equal(t, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 85, OriginalPercent: 70, Gone: &metav1.Time{Time: at}}}, gone.Stored())
	assert.Contains(t, gone.On("app", cpu).Message, "(target 85 % of the request, originally 70 %)")
	assert.Zero(t, mayWrite(hpa("web", ofPods("cpu", utilization(70)))).Stored()[0].OriginalPercent)
}

// TestFollowerDoesNotFollowOtherWriters: a pod that attune did not change has its original requests, whatever the newest template
// says.
func TestFollowerDoesNotFollowOtherWriters(t *testing.T) {
	f := retargets(map[string]string{"app": "500m"}, map[string]string{"app": "500m"})
	f.Before = func(*corev1.Pod, string, recommender.Resource) recommender.Amount { return 500 }
	follower := mayWrite(hpa("web", ofPods("cpu", utilization(70)))).Keep([]string{"app"}, nil, f).Follower()
	require.NotNil(t, follower)
	assert.EqualValues(t, 70, follower.At(follower.Present))
	assert.EqualValues(t, 88, follower.At(400), "70 % of 500m")
	assert.Equal(t, 1000.0, follower.Threshold.Request, "the range is for new pods")
}

// TestFollowerCountsReadyPods: HPA does not count the usage of pods that start.
func TestFollowerCountsReadyPods(t *testing.T) {
	f := retargets(map[string]string{"app": "2"}, map[string]string{"app": "1"}, map[string]string{"app": "1"})
	ready := func(i int, ago time.Duration) {
		f.Pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Add(-ago))}}
	}
	target := func() int32 {
		follower := mayWrite(changed("70", "35", "35")).Keep([]string{"app"}, nil, f).Follower()
		require.NotNil(t, follower)
		assert.Equal(t, follower.Present, follower.Request(f.Pods))
		return follower.At(follower.Present)
	}
	assert.EqualValues(t, 53, target(), "none is ready")
	ready(0, time.Hour)
	ready(1, 30*time.Second)
	assert.EqualValues(t, 35, target(), "one is ready for less than a minute")
	ready(1, time.Minute)
	assert.EqualValues(t, 47, target())

	next := func(ago time.Duration) time.Duration {
		ready(1, ago)
		return mayWrite(changed("70", "35", "35")).Keep([]string{"app"}, nil, f).Follower().NextCounted(f.Pods)
	}
	assert.Equal(t, 20*time.Second, next(40*time.Second))
	assert.Equal(t, time.Minute, next(-time.Hour), "a clock that is behind may jump")
	assert.Zero(t, next(time.Minute))
}

// TestFollowerReturnsToTheOriginalTarget: if attune must not change a target any more, and for pods of which not all is known,
// the target that it changed still moves towards the original one, and no farther away.
func TestFollowerReturnsToTheOriginalTarget(t *testing.T) {
	raised := changed("70", "88", "88")
	window, flux, second, zero, fixed, other := raised, raised, raised, raised, raised, changed("70", "88", "60")
	window.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)}}
	flux.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"}
	second.Spec.Metrics = append(slices.Clone(raised.Spec.Metrics), ofContainer("app", "cpu", utilization(80)))
	zero.Spec.MinReplicas = ptr.To[int32](0)
	fixed.Spec.MinReplicas = ptr.To(fixed.Spec.MaxReplicas)
	plain := []map[string]string{{"app": "1"}}
	for what, c := range map[string]struct {
		hpa  autoscalingv2.HorizontalPodAutoscaler
		pods []map[string]string
	}{
		"window": {window, plain}, "Flux": {flux, plain}, "second metric": {second, plain}, "minReplicas 0": {zero, plain}, "no pods": {raised, nil}, "fixed": {fixed, plain},
		"a new sidecar": {raised, []map[string]string{{"app": "1"}, {"app": "1", "proxy": "100m"}}},
		"no request":    {raised, []map[string]string{{"app": "1", "proxy": ""}}},
	} {
		t.Run(what, func(t *testing.T) {
			holds := mayWrite(c.hpa).Keep([]string{"app"}, nil, retargets(c.pods...))
			assert.Nil(t, holds.Kept("app", cpu))
			require.NotNil(t, holds.Follower())
			assert.EqualValues(t, 70, holds.Follower().At(holds.Follower().Present))
			if c.pods != nil {
				assert.EqualValues(t, 88, holds.Follower().At(600), "no farther away")
			}
		})
	}
	assert.Nil(t, mayWrite(other).Keep([]string{"app"}, nil, retargets(map[string]string{"app": "800m"})).Follower(), "the target of the user stays")
	assert.Contains(t, mayWrite(fixed).On("app", cpu).Message, "HorizontalPodAutoscaler web (with equal minReplicas and maxReplicas; the block stays until it has its original target) scales")
	fixed.Annotations = nil
	assert.Nil(t, mayWrite(fixed).On("app", cpu), "attune did not change it")

	f := retargets(map[string]string{"app": "900m"})
	follower := mayWrite(flux).Keep([]string{"app"}, nil, f).Follower()
	change, err := follower.Rewrite(object(t, flux), 78)
	require.NoError(t, err)
	require.NotNil(t, change)
	_, err = follower.Rewrite(object(t, flux), 90)
	assert.ErrorContains(t, err, "belongs to Flux")
}

// TestRetargetRefusesNumbersThatAttuneNeverWrites: users can write the annotation.
func TestRetargetRefusesNumbersThatAttuneNeverWrites(t *testing.T) {
	for _, numbers := range [][3]string{{"2000000000", "70", "70"}, {"70", "95", "95"}, {"70", "29", "29"}, {"0", "70", "70"}} {
		holds := mayWrite(changed(numbers[0], numbers[1], numbers[2])).Keep([]string{"app"}, nil, retargets(map[string]string{"app": "800m"}))
		assert.Nil(t, holds.Follower(), numbers)
	}
}

// TestOriginalTargetWithoutTheAnnotation: only the annotation was removed, such as by a tool that cleans up. The target is
// still the one that attune wrote.
func TestOriginalTargetWithoutTheAnnotation(t *testing.T) {
	stored := mayWrite(changed("70", "88", "88")).Stored()
	live := hpa("web", ofPods("cpu", utilization(88)))
	f := retargets(map[string]string{"app": "800m"})
	follower := mayWrite(live).WithStored(stored, at).Keep([]string{"app"}, nil, f).Follower()
	require.NotNil(t, follower)
	assert.EqualValues(t, 70, follower.Threshold.Target)
	assert.EqualValues(t, 88, follower.At(follower.Present))
	change, err := follower.Rewrite(object(t, live), 70)
	require.NoError(t, err)
	require.NotNil(t, change)
	assert.EqualValues(t, 70, change.To)
	own := hpa("web", ofPods("cpu", utilization(60)))
	f.Past = func(string, recommender.Resource) autoscale.Past { return steady(600) }
	assert.EqualValues(t, 60, mayWrite(own).WithStored(stored, at).Keep([]string{"app"}, nil, f).Follower().Threshold.Target, "a user wrote it")
}

// TestRetargetRefusesRollouts: pods of a preview are ready for days, and the HPA does not count them.
func TestRetargetRefusesRollouts(t *testing.T) {
	of := hpa("web", ofPods("cpu", utilization(70)))
	of.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web"}
	w := web()
	w.Kind = v1alpha1.KindRollout
	holds := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{of}, MayRetarget: true}.Of(w).
		Keep([]string{"app"}, nil, retargets(map[string]string{"app": "1"}))
	assert.Nil(t, holds.Follower())
	assert.Contains(t, holds.On("app", cpu).Message, "HorizontalPodAutoscaler web scales Rollout web, which may have pods of a preview")
}

// TestAnHPAOfSeveralWorkloadsProvesNothing: it counts the pods of all workloads of a custom object. Each of them would also
// write the target.
func TestAnHPAOfSeveralWorkloadsProvesNothing(t *testing.T) {
	w := web()
	w.OwnedBy = workload.Owner{GroupKind: schema.GroupKind{Group: "x.io", Kind: "App"}, Name: "shop"}
	for r, of := range map[recommender.Resource]autoscalingv2.HorizontalPodAutoscaler{
		cpu: hpa("web", ofPods("cpu", utilization(70))), memory: hpa("web", ofPods("memory", utilization(70))),
	} {
		of.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "x.io/v1", Kind: "App", Name: "shop"}
		for setting, f := range map[string]autoscale.Fleet{"Keep": fleet(one, quiet(2, 300)), "Retarget": retargets(map[string]string{"app": "1"})} {
			holds := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{of}, MayRetarget: true}.Of(w).Keep([]string{"app"}, nil, f)
			assert.Nil(t, holds.Follower(), setting)
			require.NotNil(t, holds.On("app", r), setting)
			assert.Contains(t, holds.On("app", r).Message, "HorizontalPodAutoscaler web scales App shop, which may have other workloads too", setting)
		}
	}
}

// TestUserAdoptsTheRequestAndTheTarget: a user applies the request and the target of kubectl attune diff. Both are the new
// original ones, and the annotation is removed after the rollout.
func TestUserAdoptsTheRequestAndTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		note     string
		template recommender.Amount
		adopted  bool
	}{
		"attune had written the target": {`{"metric":"cpu","original":70,"written":88,"request":1000}`, 800, true},
		"attune was on the way":         {`{"metric":"cpu","original":70,"written":74,"request":1000}`, 800, true},
		"another request":               {`{"metric":"cpu","original":70,"written":88,"request":1000}`, 900, false},
		"the same request":              {`{"metric":"cpu","original":70,"written":88,"request":1000}`, 1000, false},
		"an annotation without request": {`{"metric":"cpu","original":70,"written":88}`, 800, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := hpaAt(88, c.note)
			f := retargets(map[string]string{"app": "800m"}, map[string]string{"app": "800m"})
			f.Original = func(string, recommender.Resource) recommender.Amount { return c.template }
			f.Template = func(string, recommender.Resource) (recommender.Amount, bool) { return c.template, true }
			created := map[*corev1.Pod]recommender.Amount{f.Pods[0]: 1000, f.Pods[1]: c.template}
			f.Before = func(pod *corev1.Pod, _ string, _ recommender.Resource) recommender.Amount { return created[pod] }
			follower := mayWrite(live).Keep([]string{"app"}, nil, f).Follower()
			require.NotNil(t, follower)
			if !c.adopted {
				assert.EqualValues(t, 70, follower.Threshold.Target)
				return
			}
			assert.EqualValues(t, 88, follower.Threshold.Target)
			assert.EqualValues(t, 88, follower.At(follower.Present))
			assert.False(t, follower.Settled(88), "the rollout is not complete")
			created[f.Pods[0]] = c.template
			follower = mayWrite(live).Keep([]string{"app"}, nil, f).Follower()
			assert.EqualValues(t, 88, follower.At(follower.Present))
			assert.True(t, follower.Settled(88))
			excluded := f
			excluded.Original = nil // attune sizes it no more
			excluded.Template = func(string, recommender.Resource) (recommender.Amount, bool) { return 1000, true }
			excluded.Before = func(*corev1.Pod, string, recommender.Resource) recommender.Amount { return 1000 }
			if of := mayWrite(live).Keep([]string{"app"}, nil, excluded).Follower(); of != nil {
				assert.EqualValues(t, 70, of.Threshold.Target)
			}
			change, err := follower.Rewrite(object(t, live), 88)
			require.NoError(t, err)
			require.NotNil(t, change)
			target, note := targets(patched(t, object(t, live), change.Patch))
			assert.Equal(t, [2]string{"88", ""}, [2]string{target, note})
		})
	}
}

// TestUserAdoptsTheTargetAndRemovesTheAnnotation: a tool that replaces objects writes the HPA of the new manifest, without the
// annotation. The stored request says that the target belongs to the new template.
func TestUserAdoptsTheTargetAndRemovesTheAnnotation(t *testing.T) {
	for name, c := range map[string]struct {
		target   int32
		template recommender.Amount
		want     int32
	}{
		"lowered request": {88, 800, 88}, "raised request": {35, 2000, 35}, "only the annotation was removed": {88, 1000, 70},
	} {
		t.Run(name, func(t *testing.T) {
			note := fmt.Sprintf(`{"metric":"cpu","original":70,"written":%d,"request":1000}`, c.target)
			stored := mayWrite(hpaAt(c.target, note)).Stored()
			request := recommender.Amount(70000) / recommender.Amount(c.target)
			f := retargets(map[string]string{"app": recommender.Format(cpu, request)})
			f.Original = func(string, recommender.Resource) recommender.Amount { return c.template }
			f.Template = func(string, recommender.Resource) (recommender.Amount, bool) { return c.template, true }
			f.Before = func(*corev1.Pod, string, recommender.Resource) recommender.Amount { return c.template }
			if c.want != 70 { // after the rollout
				f.Pods = running(map[string]string{"app": recommender.Format(cpu, c.template)})
			}
			holds := mayWrite(hpaAt(c.target, "")).WithStored(stored, at).Keep([]string{"app"}, nil, f)
			follower := holds.Follower()
			require.NotNil(t, follower)
			assert.Equal(t, c.want, follower.Threshold.Target)
			assert.Equal(t, c.target, follower.At(follower.Present), "the target stays")
			if c.want != 70 {
				assert.Zero(t, holds.Stored()[0].OriginalPercent, "the next pass knows no other original target")
			}
		})
	}
}

// TestTargetOfAUserIsTheNewOriginalOne: a user changed the target after attune had. When all pods have their original requests,
// it belongs to them.
func TestTargetOfAUserIsTheNewOriginalOne(t *testing.T) {
	pod := func(request string) map[string]string { return map[string]string{"app": request} }
	for name, c := range map[string]struct {
		note  string
		pods  []map[string]string
		knows bool
	}{
		"all pods":       {`{"metric":"cpu","original":70,"written":88}`, []map[string]string{pod("1"), pod("1")}, true},
		"not readable":   {`70`, []map[string]string{pod("1"), pod("1")}, true},
		"another metric": {`{"metric":"cpu/app","original":70,"written":88}`, []map[string]string{pod("1")}, true},
		"one is lowered": {`{"metric":"cpu","original":70,"written":88}`, []map[string]string{pod("1"), pod("800m")}, false},
		"no pods":        {`{"metric":"cpu","original":70,"written":88}`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := hpaAt(60, c.note)
			follower := mayWrite(live).Keep([]string{"app"}, nil, retargets(c.pods...)).Follower()
			if !c.knows {
				assert.Nil(t, follower)
				return
			}
			require.NotNil(t, follower)
			assert.EqualValues(t, 60, follower.Threshold.Target)
			assert.True(t, follower.Settled(follower.At(follower.Present)))
			change, err := follower.Rewrite(object(t, live), 60)
			require.NoError(t, err)
			require.NotNil(t, change)
			target, note := targets(patched(t, object(t, live), change.Patch))
			assert.Equal(t, [2]string{"60", ""}, [2]string{target, note})
			live.Annotations[autoscale.OriginalTargetAnnotation] = `{"metric":"cpu","original":61,"written":88}`
			_, err = follower.Rewrite(object(t, live), 60)
			assert.Error(t, err, "another annotation than the cache had")
		})
	}
}
