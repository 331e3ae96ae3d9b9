package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

const (
	// silentFor is how long a pod may be off its target while the status has no reason for it.
	silentFor = 2 * time.Hour
	// offBy is how far a request is from its target at least, as a part of the target: smaller steps are not worth a
	// resize.
	offBy = 0.3
)

// reached: every pod is at its target, or the status of its workload says why not: a resize is under way, a cool-down
// or a pause lasts, or ResizeBlocked has a reason. Waiting has no end by itself; silence has.
type reached struct {
	deaf
	*scene
	// podsOf a recommendation.
	podsOf func(types.NamespacedName) []*corev1.Pod
	recs   map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	since  map[types.NamespacedName]time.Time
}

func newReached(s *scene, podsOf func(types.NamespacedName) []*corev1.Pod) *reached {
	return &reached{scene: s, podsOf: podsOf, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}, since: map[types.NamespacedName]time.Time{}}
}

func (r *reached) disturbed(string) { clear(r.since) }

func (r *reached) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok {
		return
	}
	key := key2(rec.Namespace, rec.Name)
	if e.Type == watch.Deleted {
		delete(r.recs, key)
		delete(r.since, key)
		return
	}
	r.recs[key] = rec
	if old, _ := e.Old.(*v1alpha1.AttuneRecommendation); old != nil && excuse(old) != "" {
		delete(r.since, key)
	}
}

func (r *reached) tick() {
	for key, rec := range r.recs {
		off := ""
		if excuse(rec) == "" && !r.excused() {
			off = offTarget(rec, r.podsOf(key), r.now())
		}
		switch {
		case off == "":
			delete(r.since, key)
		case r.since[key].IsZero():
			r.since[key] = r.now()
		case r.now().Sub(r.since[key]) > silentFor:
			delete(r.since, key)
			r.violate("at its target", key.String(), "%s is not, for %s, and the status does not say why", off, silentFor)
		}
	}
}

// excuse is why a workload is not at its target, as its status has it; empty: there is none.
func excuse(rec *v1alpha1.AttuneRecommendation) string {
	if mode := rec.Spec.Mode; mode != v1alpha1.UpdateAuto && mode != v1alpha1.UpdateCanary {
		return "mode " + string(mode)
	}
	if rec.Spec.Strategy == v1alpha1.StrategyNode {
		return "each pod has a size of its own"
	}
	switch rec.Spec.Workload.Kind {
	case v1alpha1.KindJob, v1alpha1.KindCronJob:
		return "sized at admission"
	}
	if phase := rec.Status.Phase; phase != v1alpha1.PhaseIdle || len(rec.Status.Records) > 0 {
		return "phase " + string(phase)
	}
	if blocked := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked); blocked == nil || blocked.Status == "True" {
		return "blocked"
	}
	return ""
}

// offTarget is a running pod that is not at the target, with what it has; empty: there is none.
func offTarget(rec *v1alpha1.AttuneRecommendation, pods []*corev1.Pod, now time.Time) string {
	for _, pod := range pods {
		if !isReady(pod) || pod.DeletionTimestamp != nil || now.Sub(pod.CreationTimestamp.Time) < silentFor {
			continue
		}
		for _, target := range rec.Spec.Containers {
			held := map[string]bool{}
			for _, h := range target.Holds {
				held[h.Resource] = true
			}
			for _, c := range pod.Spec.Containers {
				if c.Name != target.Name {
					continue
				}
				if !held["cpu"] && off(c.Resources.Requests.Cpu(), sensible(target.Target), true) {
					return "the CPU request of pod " + pod.Name + ", " + c.Resources.Requests.Cpu().String()
				}
				if !held["memory"] && off(c.Resources.Requests.Memory(), target.Target.MemoryRequest, false) {
					return "the memory request of pod " + pod.Name + ", " + c.Resources.Requests.Memory().String()
				}
			}
		}
	}
	return ""
}

// leastQuota is the least CPU limit that a kernel knows: one below it is the same as this one, and no pod is resized to
// it (hard case 77).
var leastQuota = resource.MustParse("10m")

// sensible is the CPU request that a pod can have of a target: where it is the limit too, at least the least limit.
func sensible(target v1alpha1.Resources) *resource.Quantity {
	request, limit := target.CPURequest, target.CPULimit
	if request == nil || limit == nil || request.Cmp(*limit) != 0 || request.Cmp(leastQuota) >= 0 {
		return request
	}
	return &leastQuota
}

// off: an amount is far from what it should be. Memory may be above it: what is in use is not taken away.
func off(has, wanted *resource.Quantity, lower bool) bool {
	if wanted == nil || has.IsZero() {
		return false
	}
	h, w := has.AsApproximateFloat64(), wanted.AsApproximateFloat64()
	return h < w*(1-offBy) || lower && h > w*(1+offBy)
}

// podsOf a recommendation, as they are stored.
func (w *world) podsOf(rec types.NamespacedName) (pods []*corev1.Pod) {
	for _, o := range w.server.Stored(&corev1.Pod{}) {
		if pod := o.(*corev1.Pod); w.watching.owners[key2(pod.Namespace, pod.Name)] == rec {
			pods = append(pods, pod)
		}
	}
	return pods
}

// evicts: the policy of a recommendation may be asked for evictions. A policy that was there counts for as long as
// one like it is.
func (w *world) evicts(rec string) bool {
	for _, p := range w.policies() {
		recommended, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(rec)).(*v1alpha1.AttuneRecommendation)
		if !found || recommended.Spec.Policy.UID != p.UID || p.Spec.UpdateStrategy == nil {
			continue
		}
		method, strategy, node := p.Spec.UpdateStrategy.ResizeMethod, p.Spec.Strategy, p.Spec.Node
		byNode := strategy != nil && *strategy == v1alpha1.StrategyNode && node != nil && node.Eviction != nil && *node.Eviction == v1alpha1.Enabled
		return byNode || method != nil && *method == v1alpha1.ResizeInPlaceOrRecreate
	}
	return false
}
