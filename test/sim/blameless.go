package sim

import (
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// blameless: where nothing harms a container, no size is blamed for harm. It watches worlds whose plan says so: in
// others it is not known who or what turned a pod unready.
type blameless struct {
	deaf
	*scene
	// nothingHarms the containers of this world.
	nothingHarms bool
}

func (b *blameless) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok || e.Type == watch.Deleted || !b.nothingHarms {
		return
	}
	if s := rec.Status; s.Backoff != nil || len(s.Floors) > 0 || len(s.BadSeeds) > 0 {
		b.violate("blameless", key2(rec.Namespace, rec.Name).String(), "nothing harms, and it has back-off %v, floors %v, bad seeds %v", s.Backoff, s.Floors, s.BadSeeds)
	}
}
