package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

const (
	// starvedFor is how long a container needs more CPU than it requests before its raise is surely due; raisedIn is how
	// long the cooldown may still be named as the reason after that.
	starvedFor = resize.LatelyWindow + 5*time.Minute
	raisedIn   = 5 * time.Minute
)

// starved: no raise that is due waits for the cooldown alone. After a regression all changes wait.
type starved struct {
	deaf
	*scene
	podsOf func(types.NamespacedName) []*corev1.Pod
	// needs is the least CPU in cores that a container needed for as long as starvedFor; 0: it ran for less.
	needs func(pod *corev1.Pod, container string) float64
	// well: the usage source answers an operator whose clock is right.
	well  func() bool
	recs  map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	since map[types.NamespacedName]time.Time
}

func newStarved(s *scene, podsOf func(types.NamespacedName) []*corev1.Pod, needs func(*corev1.Pod, string) float64, well func() bool) *starved {
	return &starved{
		scene: s, podsOf: podsOf, needs: needs, well: well,
		recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}, since: map[types.NamespacedName]time.Time{},
	}
}

func (s *starved) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok {
		return
	}
	key := key2(rec.Namespace, rec.Name)
	s.recs[key] = rec
	if e.Type == watch.Deleted {
		delete(s.recs, key)
	}
	if e.Type == watch.Deleted || !coolsDown(rec) {
		delete(s.since, key)
	}
}

func (s *starved) tick() {
	for key, rec := range s.recs {
		short := ""
		if coolsDown(rec) && s.well() && !s.excused() {
			short = s.short(rec, s.podsOf(key))
		}
		switch {
		case short == "":
			delete(s.since, key)
		case s.since[key].IsZero():
			s.since[key] = s.now()
		case s.now().Sub(s.since[key]) > raisedIn:
			delete(s.since, key)
			s.violate("raises that are due", key.String(), "%s needs more CPU than it requests, for %s, and waits for the cooldown", short, starvedFor)
		}
	}
}

// coolsDown: the cooldown is all that the workload waits for.
func coolsDown(rec *v1alpha1.AttuneRecommendation) bool {
	blocked := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	return blocked != nil && blocked.Reason == resize.ReasonCooldown && strings.HasPrefix(blocked.Message, "cooldown until") &&
		rec.Status.Phase == v1alpha1.PhaseCooldown && rec.Status.Backoff == nil
}

// short is a pod with a container that needs more CPU than it requests and whose target is higher; empty: there is none.
// A raise with a lower limit is not due.
func (s *starved) short(rec *v1alpha1.AttuneRecommendation, pods []*corev1.Pod) string {
	for _, pod := range pods {
		if !isReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		for _, target := range rec.Spec.Containers {
			for _, c := range pod.Spec.Containers {
				has, limit, to := c.Resources.Requests.Cpu(), c.Resources.Limits.Cpu(), target.Target.CPURequest
				if c.Name != target.Name || !limit.IsZero() || to == nil || len(target.Holds) > 0 {
					continue
				}
				if off(has, to, false) && s.needs(pod, c.Name) > has.AsApproximateFloat64() {
					return "container " + c.Name + " of pod " + pod.Name
				}
			}
		}
	}
	return ""
}

// leastNeed is the least CPU in cores that a container needed for as long as starvedFor; 0: its source knows less.
func (w *world) leastNeed(pod *corev1.Pod, container string) float64 {
	least := 0.0
	for _, life := range w.lives.all[string(pod.UID)] {
		if life.container != container {
			continue
		}
		for at := w.time.now.Add(-starvedFor); !at.After(w.time.now); at = at.Add(30 * time.Second) {
			if !life.measured(at) {
				return 0
			}
			if cpu, _ := life.of.at(at, life.started, life.pod); least == 0 || cpu < least {
				least = cpu
			}
		}
	}
	return least
}
