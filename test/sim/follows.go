package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// noFollowing is the invariant that usage that follows its limit does not raise it: without a kill no limit ends above
// twice the template's, or twice the first limit of ours where the template has none.
const noFollowing = "no limit follows its usage"

// following are worlds in which usage follows the limit, and those in which a need grows beyond it.
func following() map[string]plan {
	return map[string]plan{
		"page cache fills its limit":                  fillsItsLimit(false),
		"page cache fills its limit while it climbs":  fillsItsLimit(true),
		"page cache fills its limit on a shared node": fillsOnNode(true),
		"page cache fills a limit of ours":            fillsOnNode(false),
		"a need grows to three times its limit":       grows("256Mi", "512Mi", 1500*mib),
		"a template is much too small":                grows("8Mi", "16Mi", 400*mib),
	}
}

// fillsItsLimit: two replicas of 256Mi to 512Mi need 100Mi, and fill what their limit leaves at 0.3 MiB/s, as page cache does
// that counts in the working set. The kernel gives it back at the limit: nothing is ever killed. A rollout comes each 12 hours.
func fillsItsLimit(climbs bool) plan {
	w := web(2)
	w.Containers = []corev1.Container{container(amounts("200m", "256Mi"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")})}
	p := roomy(30*time.Hour, w)
	p.Climbs = climbs
	p.Policies = []policyPlan{readme(v1alpha1.KindDeployment)}
	p.Policies[0].Spec.Memory = nil
	p.Script = func(w *world) {
		w.fills(100*mib, 0.98, 1024*mib)
		w.rollouts()
		w.time.after(29*time.Hour, func() {
			if reasons := w.holdsOn("deployment-web"); !slices.Contains(reasons, string(recommender.FollowsItsLimit)) {
				w.violate(noFollowing, "held by %v: nobody is told\n%s", reasons, w.describe("shop/deployment-web"))
			}
		})
	}
	return p
}

// fillsOnNode is fillsItsLimit under the strategy Node, with a limit in the template or without.
func fillsOnNode(limited bool) plan {
	p := fillsItsLimit(false)
	p.Policies[0].Spec.Strategy = ptr(v1alpha1.StrategyNode)
	most := 1024.0 * mib
	if !limited {
		p.Workloads[0].Containers[0].Resources.Limits = nil
		most = 2 * 2 * unlimited // the first limit is twice what was used without one
	}
	p.Script = func(w *world) {
		w.fills(100*mib, 0.98, most)
		w.rollouts()
	}
	return p
}

// grows: what two replicas need grows over 20 hours, beyond twice the template's limit. Kills lift the limit until it is
// enough, and then no more of them come.
func grows(request, limit string, to float64) plan {
	w := web(2)
	w.Containers = []corev1.Container{container(amounts("200m", request), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)})}
	w.Demand.memory = w.Containers[0].Resources.Limits.Memory().AsApproximateFloat64() / 2
	w.Demand.ramp = ramp{from: beginning.Add(3 * time.Hour), until: beginning.Add(1000 * time.Hour), speed: to / (20 * time.Hour).Seconds(), top: to - w.Demand.memory}
	p := roomy(48*time.Hour, w)
	p.Policies = []policyPlan{readme(v1alpha1.KindDeployment)}
	p.Script = func(w *world) {
		w.watching.disturbed("it grows")
		var before int32
		w.time.after(30*time.Hour, func() { before = w.restarts() })
		w.time.after(47*time.Hour, func() {
			w.eachLimit("a need is answered", func(limit float64) bool { return limit >= to })
			if after := w.restarts(); after != before {
				w.violate("a need is answered", "%d restarts, %d of them since it grew\n%s", after, after-before, w.describe("shop/deployment-web"))
			}
		})
	}
	return p
}

// rollouts come each 12 hours.
func (w *world) rollouts() {
	n := 0
	w.time.every(12*time.Hour, func() bool {
		n++
		w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = fmt.Sprintf("example.org/app:%d", n) })
		w.watching.disturbed("a rollout")
		return true
	})
}

// unlimited is what a container fills where it has no limit.
const unlimited = 512 * mib

// fills has the containers of shop/web fill a part of their limit, of which they need some bytes. No limit may pass most, and
// none is killed.
func (w *world) fills(needs, part, most float64) {
	w.time.every(15*time.Second, func() bool {
		for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
			limit := memoryLimitOf(pod, "app")
			if limit > most {
				w.violate(noFollowing, "pod %s has a memory limit of %.0fMi\n%s", pod.Name, limit/mib, w.describe("shop/deployment-web"))
			}
			if limit == 0 {
				limit = unlimited
			}
			of := w.demands["shop/web"]
			of.memory = needs
			of.ramp = ramp{from: beginning, until: beginning.Add(1000 * time.Hour), speed: 0.3 * mib, top: part*limit - needs, own: true}
			w.demands["shop/"+pod.Name] = of
			for _, l := range w.lives.all[string(pod.UID)] {
				l.of = of
			}
		}
		if n := w.restarts(); n > 0 {
			w.violate(noFollowing, "%d restarts of containers that need little", n)
		}
		return true
	})
}

// restarts are those of the containers of shop/web that are there.
func (w *world) restarts() (n int32) {
	for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
		for _, s := range pod.Status.ContainerStatuses {
			n += s.RestartCount
		}
	}
	return n
}

// holdsOn are the reasons of the holds on a recommendation's targets.
func (w *world) holdsOn(name string) (reasons []string) {
	rec, ok := w.server.Peek(&v1alpha1.AttuneRecommendation{}, key2("shop", name)).(*v1alpha1.AttuneRecommendation)
	if !ok {
		return nil
	}
	for _, c := range rec.Spec.Containers {
		for _, h := range c.Holds {
			reasons = append(reasons, h.Reason)
		}
	}
	return reasons
}
