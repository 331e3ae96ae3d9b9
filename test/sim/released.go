package sim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// guardedFor is how long a policy may have the operator's finalizer while no record of it is open.
const guardedFor = time.Hour

// released: a policy that nothing rests on can be deleted without the operator, so that an uninstall leaves no namespace
// that cannot be deleted.
type released struct {
	deaf
	*scene
	recs map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	// since when policies are guarded for nothing.
	guarded map[types.NamespacedName]*v1alpha1.AttunePolicy
	since   map[types.NamespacedName]time.Time
}

func newReleased(s *scene) *released {
	return &released{
		scene: s, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{},
		guarded: map[types.NamespacedName]*v1alpha1.AttunePolicy{}, since: map[types.NamespacedName]time.Time{},
	}
}

func (l *released) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		if l.recs[key2(o.Namespace, o.Name)] = o; e.Type == watch.Deleted {
			delete(l.recs, key2(o.Namespace, o.Name))
		}
	case *v1alpha1.AttunePolicy:
		key := key2(o.Namespace, o.Name)
		if l.guarded[key] = o; e.Type == watch.Deleted || !slices.Contains(o.Finalizers, v1alpha1.CleanupFinalizer) {
			delete(l.guarded, key)
			delete(l.since, key)
		}
	}
}

func (l *released) tick() {
	for key, p := range l.guarded {
		switch {
		case l.excused() || l.rests(p):
			delete(l.since, key)
		case l.since[key].IsZero():
			l.since[key] = l.now()
		case l.now().Sub(l.since[key]) > guardedFor:
			delete(l.since, key)
			l.violate("released", "", "policy %s cannot be deleted without the operator, and no record of it is open for %s", key, guardedFor)
		}
	}
}

// rests: a record is open that a policy's settings decide about.
func (l *released) rests(p *v1alpha1.AttunePolicy) bool {
	for _, rec := range l.recs {
		if rec.Spec.Policy.UID == p.UID && len(rec.Status.Records) > 0 {
			return true
		}
	}
	return false
}
