package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
)

// followsItsLimit: two replicas of 256Mi to 512Mi need 100Mi, and fill what their limit leaves at 0.3 MiB/s, as page cache
// does that counts in the working set. The kernel gives it back at the limit: nothing is ever killed. A rollout comes each
// 12 hours.
func followsItsLimit(climbs bool) plan {
	w := web(2)
	w.Containers = []corev1.Container{container(amounts("200m", "256Mi"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")})}
	p := roomy(30*time.Hour, w)
	p.Climbs = climbs
	p.Policies = []policyPlan{readme(v1alpha1.KindDeployment)}
	p.Policies[0].Spec.Memory = nil
	p.Script = func(w *world) {
		w.fills("app", 100*mib, 0.98)
		n := 0
		w.time.every(12*time.Hour, func() bool {
			n++
			w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = fmt.Sprintf("example.org/app:%d", n) })
			w.watching.disturbed("a rollout")
			return true
		})
	}
	return p
}

// followsOnNode is followsItsLimit under the strategy Node, with a limit in the template or without.
func followsOnNode(limited bool) plan {
	p := followsItsLimit(false)
	p.Policies[0].Spec.Strategy = ptr(v1alpha1.StrategyNode)
	if !limited {
		p.Workloads[0].Containers[0].Resources.Limits = nil
	}
	return p
}

// fills has the containers of shop/web fill a part of their limit, of which they need some bytes.
func (w *world) fills(container string, needs, part float64) {
	w.time.every(15*time.Second, func() bool {
		for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
			limit := memoryLimitOf(pod, container)
			if limit == 0 {
				limit = gib / 2 // without a limit the node's other pods take their part
			}
			of := w.demands["shop/web"]
			of.memory = needs
			of.ramp = ramp{from: beginning, until: beginning.Add(1000 * time.Hour), speed: 0.3 * mib, top: part*limit - needs, own: true}
			w.demands["shop/"+pod.Name] = of
			for _, l := range w.lives.all[string(pod.UID)] {
				l.of = of
			}
		}
		return true
	})
}
