package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

const (
	// restsAfter is how long after the last cause a workload's object is at rest.
	restsAfter = time.Hour
	// mostAtRest are the writes within an hour of rest: what time alone ends, such as a cool-down, a back-off or a mark.
	mostAtRest = 3
)

// rest: from an hour on after the last cause, the workload loop writes nothing about a workload but what time has
// ended. Causes are pods that come, go, restart or change their readiness, targets, resizes and whatever happens to
// the cluster and the operator. What waits, waits in silence, whatever it waits for.
type rest struct {
	deaf
	*scene
	// disturbance is the newest cause of all workloads, causes those of each.
	disturbance time.Time
	causes      map[types.NamespacedName]time.Time
	writes      map[types.NamespacedName][]time.Time
}

func newRest(s *scene) *rest {
	return &rest{scene: s, disturbance: s.now(), causes: map[types.NamespacedName]time.Time{}, writes: map[types.NamespacedName][]time.Time{}}
}

func (r *rest) cause(of types.NamespacedName) {
	if of.Name != "" {
		r.causes[of] = r.now()
		delete(r.writes, of)
	}
}

func (r *rest) disturbed(string)        { r.disturbance = r.now() }
func (r *rest) faulted(api.Call, error) { r.disturbance = r.now() }
func (r *rest) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *corev1.Pod:
		old, _ := e.Old.(*corev1.Pod)
		if e.Type != watch.Modified || o.Generation != old.Generation || restarts(o) != restarts(old) || o.Status.Phase != old.Status.Phase ||
			len(o.Status.Conditions) != len(old.Status.Conditions) || isReady(o) != isReady(old) {
			r.cause(r.workloadOf("Pod", key2(o.Namespace, o.Name)))
		}
	case *v1alpha1.AttuneRecommendation:
		old, _ := e.Old.(*v1alpha1.AttuneRecommendation)
		if e.Type != watch.Modified || o.Generation != old.Generation {
			r.cause(key2(o.Namespace, o.Name))
		}
	case *v1alpha1.AttunePolicy, *v1alpha1.AttuneClusterPolicy, *v1alpha1.AttuneDefaults, *corev1.Node, *corev1.ResourceQuota, *corev1.LimitRange:
		if e.Type != watch.Modified {
			r.disturbance = r.now()
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *rest) wrote(w api.Write) {
	if w.Kind != "AttuneRecommendation" || !strings.HasPrefix(w.Actor, "attune") || w.Answer != nil {
		return
	}
	of := keyOf(w.Key)
	since := r.causes[of]
	if r.disturbance.After(since) {
		since = r.disturbance
	}
	if r.excused() || r.now().Sub(since) < restsAfter {
		delete(r.writes, of)
		return
	}
	recent := []time.Time{r.now()}
	for _, at := range r.writes[of] {
		if r.now().Sub(at) < time.Hour {
			recent = append(recent, at)
		}
	}
	r.writes[of] = recent
	if len(recent) > mostAtRest {
		delete(r.writes, of)
		r.violate("at rest", of.String(), "nothing has happened to %s since %s; it was written %d times within an hour", of, since, len(recent))
	}
}
