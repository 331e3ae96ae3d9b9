package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// endsWithin is how long a record may stay open, with its deadlines, its watch and what puts a pod back.
const endsWithin = 12 * time.Hour

// ends: every open record ends.
type ends struct {
	deaf
	*scene
	since map[types.NamespacedName]map[types.UID]time.Time
	names map[types.UID]string
}

func newEnds(s *scene) *ends {
	return &ends{scene: s, since: map[types.NamespacedName]map[types.UID]time.Time{}, names: map[types.UID]string{}}
}

func (n *ends) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok {
		return
	}
	key, open := key2(rec.Namespace, rec.Name), map[types.UID]time.Time{}
	if e.Type != watch.Deleted {
		for _, record := range rec.Status.Records {
			if open[record.PodUID] = n.since[key][record.PodUID]; open[record.PodUID].IsZero() {
				open[record.PodUID] = n.now()
			}
			n.names[record.PodUID] = record.PodName + ", " + string(record.Phase) + " " + record.Reason
		}
	}
	n.since[key] = open
}

func (n *ends) tick() {
	for key, open := range n.since {
		for uid, since := range open {
			if n.excused() {
				open[uid] = since.Add(time.Minute)
			} else if n.now().Sub(since) > endsWithin {
				delete(open, uid)
				n.violate("records end", key.String(), "the record of pod %s is open since %s", n.names[uid], since)
			}
		}
	}
}
