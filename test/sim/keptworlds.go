package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// keptWorlds are those of an HPA whose workload has the setting Keep, by name. A day of history proves a range.
func keptWorlds() map[string]plan {
	target := func(percent int32) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics[0].Resource.Target.AverageUtilization = &percent
		}
	}
	fixed := func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = *h.Spec.MinReplicas }
	wider := func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 2 * *h.Spec.MinReplicas }
	daily := web(4)
	daily.Demand.shape = diurnal
	follows := web(4)
	follows.Demand.shape, follows.Demand.cpu = diurnal, 0.9
	return map[string]plan{
		"an HPA with Keep":                     keptWorld(40*time.Hour, daily, 4, 70, judgeLowered),
		"an HPA with Keep and a peak each day": keptWorld(40*time.Hour, daily, 4, 30, judgeLowered),
		"an HPA with Keep that follows the load": keptWorld(40*time.Hour, follows, 1, 50, func(w *world) {
			w.time.at(beginning.Add(40*time.Hour-time.Minute), func() { w.judgeRequests(func(r int64) bool { return r == 1000 }) })
		}),
		"an HPA with Keep is edited in a wave": keptWorld(40*time.Hour, web(4), 4, 70, func(w *world) {
			w.inWave(func() { w.editAutoscaler(0, target(8)) })
		}),
		"an HPA with Keep is deleted in a wave": keptWorld(50*time.Hour, web(4), 4, 70, func(w *world) {
			w.inWave(func() {
				h := w.autoscalerOf(w.plan.Workloads[0])
				w.must(w.people.Delete(context.Background(), h.DeepCopy()))
				w.later(3*time.Hour, "an HPA is there again", func() { w.must(w.people.Create(context.Background(), again(h))) })
			})
			judgeLowered(w)
		}),
		"an HPA with Keep is fixed in a wave": keptWorld(50*time.Hour, web(4), 4, 70, func(w *world) {
			w.inWave(func() {
				w.editAutoscaler(0, fixed)
				w.later(3*time.Hour, "an HPA scales again", func() { w.editAutoscaler(0, wider) })
			})
			judgeLowered(w)
		}),
		"an HPA with Keep and a LimitRange below": keptWorld(40*time.Hour, web(4), 4, 30, func(w *world) {
			w.time.after(time.Hour, func() {
				limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small"}}
				limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}}
				w.must(w.people.Create(context.Background(), limits))
			})
		}),
	}
}

// keptWorld has a workload below an HPA with a number of replicas and a target. Its policy resizes one pod of four at once.
func keptWorld(length time.Duration, of workloadPlan, least, target int32, script func(*world)) plan {
	p := roomy(length, of)
	p.Kept, p.Down = true, 30*time.Second
	h := autoscaler(of, target)
	h.Spec.MinReplicas, h.Spec.MaxReplicas = &least, 2*of.Replicas
	p.Objects = []client.Object{h}
	spec := &p.Policies[0].Spec
	spec.MetricsSource.HistoryWindow = duration(24 * time.Hour)
	spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{HPA: ptr(v1alpha1.HPAKeep), MaxChangePercent: ptr(int32(90))}}
	spec.UpdateStrategy.MaxConcurrentResizes, spec.UpdateStrategy.Canary.Percentage = ptr(intstr.FromString("25%")), ptr(int32(25))
	p.Script = func(w *world) {
		w.shareLoad(0)
		if script != nil {
			script(w)
		}
	}
	return p
}

// keeping is how many seeds there are to each one in which a workload below an HPA has the setting Keep.
const keeping = 8

// drawKept gives a workload of one seed in so many an HPA and the setting Keep, and attacks the HPA. It has random numbers
// of its own, as further has: the worlds of the other seeds stay what they are.
func (p *plan) drawKept(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x6ee9))
	of := p.Workloads[r.IntN(len(p.Workloads))]
	if r.IntN(keeping) != 0 || p.Length < 36*time.Hour || of.Kind != v1alpha1.KindDeployment && of.Kind != v1alpha1.KindStatefulSet {
		return
	}
	p.Objects = slices.DeleteFunc(p.Objects, func(o client.Object) bool { return o.GetName() == of.Name && isScaler(o) })
	p.Objects = append(p.Objects, autoscaler(of, int32(40+r.IntN(45))))
	for i := range p.Policies {
		if spec := &p.Policies[i].Spec; spec.TargetRef.Kind == of.Kind {
			spec.CPU.HPA, spec.Strategy = ptr(v1alpha1.HPAKeep), ptr(v1alpha1.StrategyWorkload)
			spec.MetricsSource = &v1alpha1.MetricsSource{HistoryWindow: duration(24 * time.Hour)}
		}
	}
	for range 4 {
		p.Troubles = append(p.Troubles, trouble{After: 20*time.Hour + time.Duration(r.Int64N(int64(p.Length-p.Calm-24*time.Hour))),
			Kind: pick(r, "an HPA comes and goes", "an HPA is fixed"), For: time.Duration(1+r.IntN(300)) * time.Minute, Which: slices.IndexFunc(p.Workloads, func(w workloadPlan) bool { return w.Name == of.Name }), Much: r.Float64()})
	}
}

func isScaler(o client.Object) bool {
	_, is := o.(*autoscalingv2.HorizontalPodAutoscaler)
	return is
}

// shareLoad has one load shared among the pods of a workload: what its replicas need in the beginning.
func (w *world) shareLoad(which int) {
	of := w.plan.Workloads[which]
	key := of.Namespace + "/" + of.Name
	d := w.demands[key]
	d.among = func(at time.Time) float64 {
		n := 0
		for _, uid := range w.lives.order {
			if l := w.lives.all[uid][0]; l.key == key && !at.Before(l.started) && (l.ended.IsZero() || at.Before(l.ended)) {
				n++
			}
		}
		return float64(of.Replicas) / float64(max(1, n))
	}
	w.demands[key] = d
	for _, lives := range w.lives.all {
		for _, l := range lives {
			if l.key == key {
				l.of = d
			}
		}
	}
}

// judgeLowered: at the end all pods have less CPU than their template.
func judgeLowered(w *world) {
	w.time.at(beginning.Add(w.plan.Length-time.Minute), func() { w.judgeRequests(func(r int64) bool { return r < 1000 }) })
}

func (w *world) judgeRequests(right func(int64) bool) {
	if len(w.plan.Policies) == 0 {
		return
	}
	if requests := w.cpuRequests(); len(requests) == 0 || slices.ContainsFunc(requests, func(r int64) bool { return !right(r) }) {
		w.violate("requests are kept", "at the end the pods request %v\n%s", requests, w.describe(webKey.String()))
	}
}

// cpuRequests of the pods of Deployment web, in millicores.
func (w *world) cpuRequests() (all []int64) {
	for _, pod := range w.podsOf(webKey) {
		all = append(all, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	}
	return all
}

// inWave does something when the first of the pods has less CPU than the others.
func (w *world) inWave(do func()) {
	w.once("a wave", func() bool { return len(slices.Compact(slices.Sorted(slices.Values(w.cpuRequests())))) > 1 }, func() {
		w.watching.disturbed("an HPA is changed in a wave")
		do()
	})
}

func (w *world) editAutoscaler(which int, change func(*autoscalingv2.HorizontalPodAutoscaler)) {
	if h := w.autoscalerOf(w.plan.Workloads[which]); h != nil {
		change(h)
		w.must(w.people.Update(context.Background(), h))
	}
}

// again is an object like one that was deleted.
func again(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}, Spec: h.Spec}
}

// attacksOnKeep are troubles of the worlds of TestKeepUnderAttack.
var attacksOnKeep = []string{
	"kill", "kill", "clock", "clock right", "storm", "lag", "silence", "partial answers", "relist", "leader change", "delete pod", "rollout", "limit range",
	"autoscalers cannot be listed", "skipped", "paused", "kill switch",
}

// attackedKeep is a world of a workload below an HPA, with Keep. For three days its operator, its pods and its HPA are
// attacked. Without targets, the HPA has the same target all the time.
func attackedKeep(seed uint64, targets bool) plan {
	r := rand.New(rand.NewPCG(seed, 0x4ee9))
	of := web(pick(r, int32(2), 4, 6))
	of.Demand.shape, of.Demand.seed = pick(r, steady, diurnal, diurnal, idle), r.Uint64()
	of.Demand.cpu *= pick(r, 1.0, 2, 5)
	p := keptWorld(72*time.Hour, of, pick(r, 1, of.Replicas, of.Replicas), int32(40+r.IntN(45)), nil)
	p.MostLag, p.Calm = time.Minute, 3*time.Hour
	late := func() time.Duration { return time.Duration(r.Int64N(int64(p.Length - p.Calm))) }
	for range 30 {
		p.Troubles = append(p.Troubles, trouble{After: late(), Kind: pick(r, attacksOnKeep...), For: time.Duration(10+r.IntN(3590)) * time.Second, Which: r.IntN(1 << 16), Much: r.Float64()})
	}
	edits := []func(*world){}
	for range 12 {
		edits = append(edits, attackOnScaler(r, targets))
	}
	times := make([]time.Duration, len(edits))
	for i := range times {
		times[i] = 20*time.Hour + late()*2/3
	}
	shares := p.Script
	p.Script = func(w *world) {
		shares(w)
		for i, edit := range edits {
			w.later(times[i], "an HPA is attacked", func() { edit(w) })
		}
		if targets { // without attune there is no wave
			w.inWave(func() { edits[0](w) })
		}
	}
	return p
}

// attackOnScaler changes an HPA, for a while or for good.
func attackOnScaler(r *rand.Rand, targets bool) func(*world) {
	lasts, percent := time.Duration(1+r.IntN(300))*time.Minute, int32(10+r.IntN(90))
	attacks := []func(w *world, h *autoscalingv2.HorizontalPodAutoscaler){
		func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) {
			w.must(w.people.Delete(context.Background(), h.DeepCopy()))
			w.later(lasts, "an HPA is there again", func() { w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), again(h)))) })
		},
		func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) {
			w.must(w.people.Delete(context.Background(), h.DeepCopy()))
			w.must(w.people.Create(context.Background(), again(h)))
		},
		func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) {
			most := h.Spec.MaxReplicas
			w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = *h.Spec.MinReplicas })
			w.later(lasts, "an HPA scales again", func() {
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = max(most, *h.Spec.MinReplicas+1) })
			})
		},
		func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) {
			w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
				h.Spec.Metrics[0].Resource.Target.AverageUtilization = &percent
			})
		},
	}
	attack := attacks[r.IntN(len(attacks)-1)]
	if targets && r.IntN(2) == 0 {
		attack = attacks[len(attacks)-1]
	}
	return func(w *world) {
		if h := w.autoscalerOf(w.plan.Workloads[0]); h != nil {
			attack(w, h)
		}
	}
}
