package sim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// oneWave: the pods of one wave that are harmed are one revert to the back-off, and not as many as there are pods. A wave that
// was begun since is another one.
type oneWave struct {
	deaf
	*scene
	raised map[types.NamespacedName]time.Time
}

func newOneWave(s *scene) *oneWave {
	return &oneWave{scene: s, raised: map[types.NamespacedName]time.Time{}}
}

func (o *oneWave) changed(e api.Event) {
	after, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	before, had := e.Old.(*v1alpha1.AttuneRecommendation)
	if !ok || !had || after.Status.Backoff == nil {
		return
	}
	was := int32(0)
	if before.Status.Backoff != nil {
		was = before.Status.Backoff.ConsecutiveReverts
	}
	now, key := after.Status.Backoff.ConsecutiveReverts, key2(after.Namespace, after.Name)
	if now <= was {
		return
	}
	since := o.now().Sub(o.raised[key])
	another := slices.ContainsFunc(after.Status.Records, func(r v1alpha1.ResizeRecord) bool {
		return r.Phase == v1alpha1.RecordReverting && r.WrittenAt.After(o.raised[key])
	})
	o.raised[key] = o.now()
	if now > was+1 || since < time.Minute && !another {
		o.violate("one wave, one revert", key.String(), "%d consecutive reverts became %d, %s after the last one", was, now, since)
	}
}
