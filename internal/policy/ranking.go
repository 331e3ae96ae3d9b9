package policy

import (
	"slices"

	"attune.io/attune/api/v1alpha1"
)

// capped is a ranking, at most that of AttuneDefaults where they set one: it is the ranking of policies that set
// none, and the highest that a namespace may give its own pods. Whoever ranks higher is evicted later, and a
// neighbour in its place.
func (o strategyFields) capped(r v1alpha1.EvictionRanking) v1alpha1.EvictionRanking {
	for _, l := range o.layers {
		most := l.Node.EvictionRanking
		if l.level == Cluster && most != nil && slices.Index(rankings, r) > slices.Index(rankings, *most) {
			return *most
		}
	}
	return r
}
