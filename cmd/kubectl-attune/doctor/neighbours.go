package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// verticalAutoscalers looks for VPA objects that size what a policy selects. Where the policy does not act, the VPA is the
// only autoscaler that works, and no command stops it.
func verticalAutoscalers(seen *Seen, f *findings) {
	vpas := seen.Neighbours.VPAs
	if meta.IsNoMatchError(vpas.Err) {
		f.fine("the cluster has no VerticalPodAutoscalers")
		return
	}
	unread := f.unreadable("VerticalPodAutoscalers", vpas.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	for rec := range seen.Recommendations.all() {
		w := workload.Workload{Identity: workload.IdentityOf(rec)}
		for vpa := range vpas.all() {
			if vpa.GetNamespace() != w.Namespace || !autoscale.Sizes(vpa, w) {
				continue
			}
			if rec.Spec.Mode == v1alpha1.UpdateObserve || rec.Spec.Mode == v1alpha1.UpdateRecommend {
				f.add(OK, "", "VerticalPodAutoscaler %s goes on sizing %s in namespace %s, for which policy %s is in mode %s: switch updateStrategy.type of the policy before the VerticalPodAutoscaler is stopped",
					vpa.GetName(), w, w.Namespace, policy.NameOf(rec.Spec.Policy), rec.Spec.Mode)
				continue
			}
			f.add(Warning, "kubectl patch verticalpodautoscaler "+vpa.GetName()+" --namespace "+w.Namespace+` --type merge --patch '{"spec":{"updatePolicy":{"updateMode":"Off"}}}'`,
				"VerticalPodAutoscaler %s sizes %s in namespace %s, so attune applies nothing there", vpa.GetName(), w, w.Namespace)
		}
	}
	f.fine("no VerticalPodAutoscaler sizes what a policy selects")
}

// horizontalAutoscalers looks for HPAs that scale on a request which a policy would change.
func horizontalAutoscalers(seen *Seen, f *findings) {
	unread := f.unreadable("HorizontalPodAutoscalers", seen.Neighbours.HPAs.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	for rec := range seen.Recommendations.all() {
		w := workload.Workload{Identity: workload.IdentityOf(rec)}
		for hpa := range seen.Neighbours.HPAs.all() {
			if hpa.Namespace != w.Namespace {
				continue
			}
			for _, b := range autoscale.Bindings(hpa, w) {
				f.add(Warning, "kubectl edit horizontalpodautoscaler "+hpa.Name+" --namespace "+hpa.Namespace,
					"%s of %s in namespace %s is left alone: %s; a target of type AverageValue would leave it free", b.Resource, w, w.Namespace, b)
			}
		}
	}
	f.fine("no HorizontalPodAutoscaler scales on a request that a policy sizes")
}

// growth is what a workload's running pods need more for their targets, of requests and limits.
type growth struct {
	id workload.Identity
	of recommender.Size
}

// quotas looks whether the growth of every workload to its targets has room in the quotas of its namespace. Quotas with
// scopes are left out: which pods they count depends on each pod.
func quotas(seen *Seen, f *findings) {
	unread := f.unreadable("ResourceQuotas", seen.Neighbours.Quotas.Err)
	unread = f.unreadable("pods", seen.Neighbours.Pods.Err) || unread
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	for _, g := range seen.growths() {
		for q := range seen.Neighbours.Quotas.all() {
			if q.Namespace == g.id.Namespace && len(q.Spec.Scopes) == 0 && q.Spec.ScopeSelector == nil {
				g.within(q, f)
			}
		}
	}
	f.fine("the quotas have room for every target")
}

// within judges the growth by one quota.
func (g growth) within(q *corev1.ResourceQuota, f *findings) {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		counted, ok := constraint.CountedBy(name)
		if !ok {
			continue
		}
		hard, used, known := counted.State(q, name)
		if more := counted.Of(g.of); known && more > 0 && more > hard-used {
			f.add(Warning, "kubectl edit resourcequota "+q.Name+" --namespace "+q.Namespace, "quota %s of namespace %s has %s left of %s, and %s needs %s more for its targets",
				q.Name, q.Namespace, recommender.Format(counted.Resource, max(0, hard-used)), name, g.id, recommender.Format(counted.Resource, more))
		}
	}
}

// growths returns the workloads whose running pods are to grow, by name.
func (s *Seen) growths() []growth {
	recs := map[workload.Identity]*v1alpha1.AttuneRecommendation{}
	for rec := range s.Recommendations.all() {
		if rec.Spec.Mode != v1alpha1.UpdateObserve {
			recs[workload.IdentityOf(rec)] = rec
		}
	}
	sums := map[workload.Identity]recommender.Size{}
	for pod := range s.Neighbours.Pods.all() {
		id, owned := workload.OwnerOf(pod, pod.Namespace, nil)
		rec := recs[id]
		if !owned || rec == nil || !podview.Running(pod) {
			continue
		}
		sums[id] = plus(sums[id], needs(pod, rec))
	}
	all := make([]growth, 0, len(sums))
	for id, of := range sums {
		all = append(all, growth{id, of})
	}
	slices.SortFunc(all, func(a, b growth) int {
		return cmp.Or(strings.Compare(a.id.Namespace, b.id.Namespace), strings.Compare(a.id.String(), b.id.String()))
	})
	return all
}

// needs returns what one pod needs more for the targets of its containers. A resource that is held grows by nothing, and
// what shrinks makes room only when it has.
func needs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (sum recommender.Size) {
	has := podview.ByName(podview.Read(pod))
	for i := range rec.Spec.Containers {
		t := &rec.Spec.Containers[i]
		now, there := has[t.Name]
		if !there {
			continue
		}
		target := podview.FromResources(t.Target)
		for _, r := range recommender.Resources {
			if slices.ContainsFunc(t.Holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() }) {
				continue
			}
			if target[r].Request > 0 {
				sum[r].Request = savings.Plus(sum[r].Request, max(0, target[r].Request-now.Size[r].Request))
			}
			if target[r].Limit > 0 {
				sum[r].Limit = savings.Plus(sum[r].Limit, max(0, target[r].Limit-now.Size[r].Limit))
			}
		}
	}
	return sum
}

func plus(a, b recommender.Size) recommender.Size {
	for r := range a {
		a[r].Request, a[r].Limit = savings.Plus(a[r].Request, b[r].Request), savings.Plus(a[r].Limit, b[r].Limit)
	}
	return a
}
