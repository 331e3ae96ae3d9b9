package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// recommendedWithin is how long a workload waits for its recommendation.
const recommendedWithin = 10 * time.Minute

// recommended: every workload that a policy selects has a recommendation, whatever becomes of its neighbours'.
type recommended struct {
	deaf
	*scene
	selected func() []types.NamespacedName
	there    map[types.NamespacedName]bool
	since    map[types.NamespacedName]time.Time
	refused  map[types.NamespacedName]bool
}

func newRecommended(s *scene, selected func() []types.NamespacedName) *recommended {
	return &recommended{scene: s, selected: selected, there: map[types.NamespacedName]bool{}, since: map[types.NamespacedName]time.Time{}, refused: map[types.NamespacedName]bool{}}
}

func (r *recommended) changed(e api.Event) {
	if rec, ok := e.Object.(*v1alpha1.AttuneRecommendation); ok {
		r.there[key2(rec.Namespace, rec.Name)] = e.Type != "DELETED"
	}
}

// wrote: what the API server refuses cannot be there.
func (r *recommended) wrote(w api.Write) {
	if w.Kind == "AttuneRecommendation" && w.Verb == "create" {
		r.refused[keyOf(w.Key)] = w.Answer != nil
	}
}

func (r *recommended) tick() {
	for _, name := range r.selected() {
		switch {
		case r.there[name] || r.refused[name] || r.excused():
			delete(r.since, name)
		case r.since[name].IsZero():
			r.since[name] = r.now()
		case r.now().Sub(r.since[name]) > recommendedWithin:
			delete(r.since, name)
			r.violate("recommended", name.String(), "%s has no recommendation for %s", name, recommendedWithin)
		}
	}
}
