package workload

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/lifecycle"
)

// steps are the records with progress that is not worth a write of its own, since each look at a pod shows
// it again (lifecycle.Retold): that a resize was accepted and since when it is applied. The progress is
// stored with the next write. It may be lost: then a resize is verified anew. mutex guards of.
type steps struct {
	mutex sync.Mutex
	of    map[types.NamespacedName][]v1alpha1.ResizeRecord
}

// note keeps the records of a recommendation as they are now; none: the recommendation is removed.
func (x *steps) note(name types.NamespacedName, records []v1alpha1.ResizeRecord) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(records) == 0 {
		delete(x.of, name)
		return
	}
	if x.of == nil {
		x.of = map[types.NamespacedName][]v1alpha1.ResizeRecord{}
	}
	x.of[name] = slices.Clone(records)
}

// recall puts the remembered progress into the records of a recommendation that was just read. A record
// that another replica has changed since is left as it is.
func (x *steps) recall(rec *v1alpha1.AttuneRecommendation) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, known := range x.of[client.ObjectKeyFromObject(rec)] {
		for i, stored := range rec.Status.Records {
			if stored.PodUID == known.PodUID && lifecycle.Retold(stored, known) {
				rec.Status.Records[i] = *known.DeepCopy()
			}
		}
	}
}

// noNews reports that nothing has changed between two statuses that has to be stored.
func noNews(before, after v1alpha1.AttuneRecommendationStatus) bool {
	if !slices.EqualFunc(before.Records, after.Records, lifecycle.Retold) {
		return false
	}
	before.Records, after.Records = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}
