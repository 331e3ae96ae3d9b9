package workload

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// steps are records with the steps that are not worth a write of their own, since each look at a pod tells them again
// (resize.Retold). They are stored with the next write. They may be lost: then a resize is verified anew. They are
// safe for concurrent use.
type steps struct {
	mutex sync.Mutex
	of    map[types.NamespacedName][]v1alpha1.ResizeRecord
}

// note the records of a recommendation as they were stored, or as they are but for such steps.
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

// recall takes the records of a recommendation that was read as far as they are known to be. One that another replica
// wrote since is left as it is.
func (x *steps) recall(rec *v1alpha1.AttuneRecommendation) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, known := range x.of[client.ObjectKeyFromObject(rec)] {
		for i, stored := range rec.Status.Records {
			if stored.PodUID == known.PodUID && resize.Retold(stored, known) {
				rec.Status.Records[i] = *known.DeepCopy()
			}
		}
	}
}

// noNews: nothing has changed from one status to the other that is to be stored.
func noNews(before, after v1alpha1.AttuneRecommendationStatus) bool {
	if !slices.EqualFunc(before.Records, after.Records, resize.Retold) {
		return false
	}
	before.Records, after.Records = nil, nil
	return equality.Semantic.DeepEqual(before, after)
}
