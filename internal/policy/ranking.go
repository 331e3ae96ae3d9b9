package policy

import (
	"slices"

	"attune.io/attune/api/v1alpha1"
)

// capped returns a ranking, reduced to that of AttuneDefaults where they set one. That ranking is the default of
// policies that set none, and the highest that a namespace may give its own pods: a pod with a higher ranking is
// evicted later, and pods of other namespaces in its place.
func (o strategyFields) capped(r v1alpha1.EvictionRanking) v1alpha1.EvictionRanking {
	for _, l := range o.layers {
		most := l.Node.EvictionRanking
		if l.level == Cluster && most != nil && slices.Index(rankings, r) > slices.Index(rankings, *most) {
			return *most
		}
	}
	return r
}
