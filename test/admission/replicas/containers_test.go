package replicas

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// TestRangesOfContainersAreUpstreams: ranges of the containers of a pod, from the pods' specs to what upstream asks for.
// Pods differ: requests from 1m to 64 CPUs, native sidecars, and containers that attune does not size. Only some of them
// are ready, and each has any size of its ranges. Some HPAs have other bounds at night.
func TestRangesOfContainersAreUpstreams(t *testing.T) {
	dice := rand.New(rand.NewPCG(46, 2026))
	granted, scaled := 0, 0
	for n := range *fleets / 5 {
		f := anyPods(dice)
		holds := f.keep()
		if holds.Kept("app", recommender.CPU) == nil {
			continue // blocked, or the HPA is fixed
		}
		granted++
		counted := dice.Perm(len(f.pods))
		before, earlier := f.desired(counted, f.scaler), f.desired(counted, f.earlier)
		if before != f.scaler.Min && before != int32(len(f.pods)) {
			scaled++
		}
		text := fmt.Sprintf("fleet %d: %s", n, f)
		f.resize(dice, holds)
		after := [2]int32{f.desired(counted, f.scaler), f.desired(counted, f.earlier)}
		if !assert.Equal(t, [2]int32{before, earlier}, after, "%s, then %s", text, f) {
			return
		}
	}
	t.Logf("%d granted, %d of them scale", granted, scaled)
	assert.Greater(t, granted, *fleets/50)
	assert.Greater(t, scaled, *fleets/5000)
}

// podFleet are the pods of a workload with a Resource or a ContainerResource metric, of which the first `ready` of an
// order use a mean.
type podFleet struct {
	pods     []*corev1.Pod
	scaler   replicas.Scaler
	earlier  replicas.Scaler // with the bounds of the night
	metric   string          // container of the metric; empty: whole pods
	ready    int
	usage    float64
	original map[string]recommender.Amount
}

func (f *podFleet) String() string {
	text := fmt.Sprintf("%+v of container %q, %d ready use %v:", f.scaler, f.metric, f.ready, f.usage)
	for _, pod := range f.pods {
		text += " ["
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			text += " " + c.Name + "=" + c.Resources.Requests.Cpu().String()
		}
		text += "]"
	}
	return text
}

func anyPods(dice *rand.Rand) *podFleet {
	f := &podFleet{metric: pick(dice, "", "", "app"), original: map[string]recommender.Amount{}}
	f.scaler = anyScaler(dice)
	f.earlier = f.scaler
	if dice.IntN(3) == 0 {
		f.earlier.Min, f.earlier.Max = 1+dice.Int32N(f.scaler.Max), 1+dice.Int32N(30)
		f.earlier.Max = max(f.earlier.Min+1, f.earlier.Max)
	}
	base := 1 + dice.Int64N(pick[int64](dice, 10, 500, 4000, 64_000))
	f.original["app"] = recommender.Amount(base)
	sidecar, proxy, side := dice.IntN(3) == 0, dice.IntN(2) == 0, dice.IntN(2) == 0
	if side {
		f.original["side"] = recommender.Amount(1 + base/pick[int64](dice, 1, 4, 10))
	}
	proxies := 1 + base/pick[int64](dice, 1, 3, 10)
	near, newer := pick(dice, 0, 0.02, 0.3), pick[int64](dice, 1, 1, 5) // some pods have an injected container of a newer size

	about := func(amount int64) int64 { return max(1, int64(float64(amount)*(1+near*(2*dice.Float64()-1)))) }
	pods := 1 + dice.IntN(pick(dice, 2, 8, 8, 60))
	mean := 0.
	for i := range pods {
		pod := &corev1.Pod{}
		pod.Name = fmt.Sprint("web-", i)
		add := func(name string, amount int64, init bool) {
			c := corev1.Container{Name: name}
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(amount, resource.DecimalSI)}
			if f.metric == "" || f.metric == name {
				mean += float64(amount) / float64(pods)
			}
			if init {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
				return
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		add("app", about(base), false)
		if side {
			add("side", about(int64(f.original["side"])), sidecar)
		}
		if proxy {
			add("proxy", pick(dice, proxies, about(proxies), proxies*newer), false)
		}
		f.pods = append(f.pods, pod)
	}
	f.ready = pick(dice, pods, pods, 1+dice.IntN(pods))
	usage := mean * float64(f.scaler.Target) / 100 * pick(dice, 1, 0.9, 1.05, dice.Float64(), 0.3*dice.Float64(), 2*dice.Float64())
	f.usage = math.Floor(usage*float64(f.ready)) / float64(f.ready) // metrics are whole millicores
	return f
}

// keep proves ranges from a history of nothing but the usage.
func (f *podFleet) keep() autoscale.Holds {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	hpa := autoscalingv2.HorizontalPodAutoscaler{Spec: utilization(f.scaler, corev1.ResourceCPU)}
	hpa.Name, hpa.Spec.ScaleTargetRef.Name = "web", "web"
	hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &autoscalingv2.HPAScalingRules{Tolerance: quantity(f.scaler.Up)},
		ScaleDown: &autoscalingv2.HPAScalingRules{Tolerance: quantity(f.scaler.Down)},
	}
	f.earlier.Up, f.earlier.Down = hpa.Spec.Behavior.ScaleUp.Tolerance.AsApproximateFloat64(), hpa.Spec.Behavior.ScaleDown.Tolerance.AsApproximateFloat64()
	f.scaler.Up, f.scaler.Down = hpa.Spec.Behavior.ScaleUp.Tolerance.AsApproximateFloat64(), hpa.Spec.Behavior.ScaleDown.Tolerance.AsApproximateFloat64()
	if f.metric != "" {
		target := hpa.Spec.Metrics[0].Resource.Target
		hpa.Spec.Metrics[0] = autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: corev1.ResourceCPU, Container: f.metric, Target: target}}
	}
	of := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}}
	span := replicas.Span{Ready: int32(f.ready), Unready: int32(len(f.pods) - f.ready), Least: f.usage, Greatest: f.usage}
	names := []string{"app"}
	if f.original["side"] > 0 {
		names = append(names, "side")
	}
	rows := []v1alpha1.HPABinding{{HPA: "web", Container: f.metric, Resource: "cpu", Percent: f.scaler.Target, MinReplicas: f.earlier.Min, MaxReplicas: f.earlier.Max}}
	return autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}}.Of(of).WithStored(rows, now).Keep(names, nil, autoscale.Fleet{
		Keeps: func(string, recommender.Resource) bool { return true }, Pods: f.pods, Read: true, Now: now,
		Original: func(container string, _ recommender.Resource) recommender.Amount { return f.original[container] },
		Past: func(string, recommender.Resource) autoscale.Past {
			return autoscale.Past{Spans: []replicas.Span{span}, Since: now.AddDate(0, 0, -7), Until: now, Window: 7 * 24 * time.Hour}
		},
	})
}

func quantity(value float64) *resource.Quantity {
	q := resource.MustParse(fmt.Sprintf("%.3f", value))
	return &q
}

// resize gives the containers any requests of their ranges.
func (f *podFleet) resize(dice *rand.Rand, holds autoscale.Holds) {
	way := dice.IntN(3)
	for _, pod := range f.pods {
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				kept := holds.Kept(list[i].Name, recommender.CPU)
				if kept == nil || dice.IntN(4) == 0 {
					continue
				}
				most := kept.Most
				if most == 0 {
					most = 10 * max(kept.Least, 1000)
				}
				amount := []recommender.Amount{kept.Least, most, kept.Least + recommender.Amount(dice.Int64N(int64(most-kept.Least)+1))}[way]
				list[i].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)
			}
		}
	}
}

// desired is what upstream asks for if the first pods of an order are ready, and the others start.
func (f *podFleet) desired(order []int, s replicas.Scaler) int32 {
	u := &upstream{}
	total := int64(math.Round(f.usage * float64(f.ready)))
	for i, at := range order {
		p, usage := starting, int64(0)
		if i < f.ready {
			p, usage = ready, total/int64(f.ready)
			if i == 0 {
				usage += total % int64(f.ready)
			}
		}
		pod := u.add(p, corev1.ResourceCPU, 1, usage)
		pod.Spec = f.pods[at].Spec
	}
	current := int32(len(order))
	if current != max(s.Min, min(current, s.Max)) {
		return max(s.Min, min(current, s.Max))
	}
	calculator := podautoscaler.NewReplicaCalculator(u, u, cpuInitialization, initialReadiness)
	wanted, _, _, _, err := calculator.GetResourceReplicas(context.Background(), current, s.Target, corev1.ResourceCPU, tolerances(s), "", labels.Everything(), f.metric)
	if err != nil {
		return current
	}
	return max(s.Min, min(wanted, s.Max))
}
