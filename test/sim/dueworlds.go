package sim

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

var webKey = key2("shop", "deployment-web")

// starvedWorlds are those of containers that need more than they request, by name.
func starvedWorlds() map[string]plan {
	return map[string]plan{
		"a container is starved":                     starvedTwice(),
		"a container is starved in a cooldown":       starvedInCooldown(),
		"a container is throttled at its limit":      throttledAtLimit(),
		"a container needs more memory":              needsMoreMemory(),
		"one of two containers is starved":           oneOfTwoStarved(),
		"a container is starved amid decreases":      starvedAmidDecreases(),
		"a container is starved under an HPA":        starvedUnderHPA(),
		"a container is starved after a revert":      starvedAfterRevert(),
		"a starved container has nine samples":       starvedUnseen(func(s []usage.Sample) []usage.Sample { return s[max(0, len(s)-9):] }),
		"a starved container has only stale samples": starvedUnseen(stale),
	}
}

// patient is a policy at the defaults, with a cooldown of an hour, that has targets an hour after it began to look.
func patient() policyPlan {
	p := readme(v1alpha1.KindDeployment)
	p.Spec.MetricsSource = &v1alpha1.MetricsSource{MinimumDataPoints: ptr(int32(12))}
	return p
}

// starvedWorld is a world of one workload with a patient policy. Its script ends with what must have happened.
func starvedWorld(length time.Duration, of workloadPlan, script, end func(w *world, j *dueRaises)) plan {
	p := roomy(length, of)
	p.Policies = []policyPlan{patient()}
	p.Script = func(w *world) {
		j := w.judgeRaises(webKey)
		if script != nil {
			script(w, j)
		}
		w.time.at(beginning.Add(length-time.Minute), func() { end(w, j) })
	}
	return p
}

// tiny is a Deployment that requests 10m and some memory, without limits, and uses 33m and 100Mi.
func tiny(replicas int32, memory string) workloadPlan {
	w := web(replicas)
	w.Containers = []corev1.Container{container(amounts("10m", memory), nil)}
	w.Demand.cpu = 0.033
	return w
}

// rise is when a container of the later worlds comes to need 33m: in the cooldown of the first resize.
const rise = 80 * time.Minute

// risen is tiny, with a need of 5m that becomes one of 33m.
func risen(replicas int32, memory string) workloadPlan {
	w := tiny(replicas, memory)
	w.Demand.cpu, w.Demand.risen, w.Demand.risesAt = 0.005, 0.033, beginning.Add(rise)
	return w
}

// raisedAtLeast so many times because it was due.
func raisedAtLeast(n int) func(*world, *dueRaises) {
	return func(_ *world, j *dueRaises) {
		due := 0
		for _, r := range j.raises {
			if r.due {
				due++
			}
		}
		if due < n {
			j.violate("of at least %d raises that are due %d were carried out: %v", n, due, j.raises)
		}
	}
}

// starvedTwice: a container that requests 10m uses 33m from the beginning, and then, in the cooldown of its raise, 99m.
func starvedTwice() plan {
	of := tiny(1, "128Mi")
	of.Demand.risen, of.Demand.risesAt = 0.099, beginning.Add(rise)
	return starvedWorld(3*time.Hour, of, nil, raisedAtLeast(2))
}

// starvedInCooldown: the cooldown of a memory decrease has begun when a container comes to need more CPU. Its raise takes no
// decrease along.
func starvedInCooldown() plan {
	return starvedWorld(3*time.Hour, risen(1, "1Gi"), func(w *world, j *dueRaises) {
		var was string
		memory := func() string { return w.podsOf(webKey)[0].Spec.Containers[0].Resources.Requests.Memory().String() }
		w.time.after(rise, func() { was = memory() })
		w.time.after(2*time.Hour, func() {
			raises := j.of("app", recommender.CPU)
			if was == "1Gi" || memory() != was || len(raises) == 0 || !raises[len(raises)-1].cooling {
				j.violate("in a cooldown of a memory decrease to %s CPU is to be raised alone: memory is %s, raises are %v", was, memory(), j.raises)
			}
		})
	}, raisedAtLeast(1))
}

// throttledAtLimit: a container uses all of its CPU limit, which is its request, and needs twice as much. In the cooldown of
// its raise it needs more again.
func throttledAtLimit() plan {
	of := web(1)
	of.Containers = []corev1.Container{container(amounts("100m", "128Mi"), amounts("100m", "128Mi"))}
	of.Demand.cpu, of.Demand.capped = 0.2, true
	of.Demand.risen, of.Demand.risesAt = 0.5, beginning.Add(rise)
	p := starvedWorld(3*time.Hour, of, nil, raisedAtLeast(2))
	p.Policies[0].Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: ptr(resource.MustParse("1"))}}
	return p
}

// needsMoreMemory: a container without limits uses more memory than it requests.
func needsMoreMemory() plan {
	of := web(1)
	of.Containers = []corev1.Container{container(amounts("100m", "50Mi"), nil)}
	of.Demand.memory = 200 * mib
	return starvedWorld(3*time.Hour, of, nil, raisedAtLeast(1))
}

// oneOfTwoStarved: a pod's other container has what it needs.
func oneOfTwoStarved() plan {
	of := tiny(1, "128Mi")
	side := container(amounts("90m", "128Mi"), nil)
	side.Name = "side"
	of.Containers = append(of.Containers, side)
	return starvedWorld(3*time.Hour, of, nil, func(w *world, j *dueRaises) {
		raisedAtLeast(1)(w, j)
		if raises := j.of("side", recommender.CPU); len(raises) > 0 {
			j.violate("a container that has what it needs is raised: %v", raises)
		}
	})
}

// starvedAmidDecreases: one of six pods comes to need more while their memory is lowered, one after the other. It waits for
// the pod that is observed, and goes before the others.
func starvedAmidDecreases() plan {
	return starvedWorld(4*time.Hour, tinyIdle(6, "1Gi"), func(w *world, j *dueRaises) {
		w.once("a resize is watched", func() bool { return len(w.openRecords()) > 0 }, func() {
			// The last one in the order of the waves.
			w.starve(slices.MaxFunc(w.podsOf(webKey), func(a, b *corev1.Pod) int {
				return cmp.Compare(podview.Hash(a.Name), podview.Hash(b.Name))
			}))
		})
	}, func(w *world, j *dueRaises) {
		raisedAtLeast(1)(w, j)
		if i := slices.IndexFunc(j.raises, func(r requestRaise) bool { return r.due }); i >= 0 && !j.lowered.After(j.raises[i].at) {
			j.violate("no pod was lowered after the raise: %v", j.raises)
		}
	})
}

// tinyIdle is tiny, and needs 5m.
func tinyIdle(replicas int32, memory string) workloadPlan {
	w := tiny(replicas, memory)
	w.Demand.cpu = 0.005
	return w
}

// starve a pod: from now on it needs 33m.
func (w *world) starve(pod *corev1.Pod) {
	of, _ := w.demandOf(pod)
	of.risen, of.risesAt = 0.033, w.time.now
	w.demands[pod.Namespace+"/"+pod.Name] = of
	for _, l := range w.lives.all[string(pod.UID)] {
		l.of = of
	}
}

// starvedUnderHPA: an HPA scales on CPU utilization, which the raise would change.
func starvedUnderHPA() plan {
	of := tiny(1, "128Mi")
	p := starvedWorld(3*time.Hour, of, nil, func(_ *world, j *dueRaises) {
		if raises := j.of("app", recommender.CPU); len(raises) > 0 {
			j.violate("an HPA scales on the CPU that is raised: %v", raises)
		}
	})
	p.Objects = []client.Object{autoscaler(of, 80)}
	return p
}

// starvedAfterRevert: a memory decrease is reverted, and the container comes to need more CPU. The backoff holds.
func starvedAfterRevert() plan {
	of := risen(1, "1Gi")
	of.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	return starvedWorld(6*time.Hour, of, func(w *world, _ *dueRaises) {
		w.once("a resize is watched", w.watched, func() { w.grow("shop/web", 8) })
	}, func(w *world, j *dueRaises) {
		raisedAtLeast(1)(w, j)
		for _, r := range j.of("app", recommender.CPU) {
			if r.cooling && r.backedOff {
				j.violate("raised in a backoff: %v", r)
			}
		}
	})
}

// starvedUnseen: the usage source does not tell enough of the last minutes. So the raise takes its steps, of 50 % and
// after a cooldown each.
func starvedUnseen(told func([]usage.Sample) []usage.Sample) plan {
	p := starvedWorld(4*time.Hour, tiny(1, "128Mi"), nil, func(_ *world, j *dueRaises) {
		raises := j.of("app", recommender.CPU)
		for i, r := range raises {
			if r.cooling || r.to > r.from+(r.from+1)/2 || i > 0 && r.at.Sub(raises[i-1].at) < time.Hour {
				j.violate("raised by usage that is not known: %v", raises)
			}
		}
		if len(raises) == 0 {
			j.violate("not raised at all")
		}
	})
	p.Recent = func(s usage.Series) usage.Series {
		s.CPU, s.Memory = told(s.CPU), told(s.Memory)
		return s
	}
	return p
}

// stale are the samples of ten minutes earlier, and those that are older than eight minutes.
func stale(samples []usage.Sample) (out []usage.Sample) {
	for _, s := range samples {
		s.At -= dueWindow.Milliseconds() - 2*time.Minute.Milliseconds()
		out = append(out, s)
	}
	return out
}
