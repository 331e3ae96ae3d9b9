package policy

import (
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// renewEvery is how far what is stored may lag behind what is known where nothing that anybody acts on has changed:
// the time of the newest sample, the figures that explain, the checkpoints. renewEarly is the same while there is no
// target yet, and progress is all there is to see.
const renewEvery, renewEarly = time.Hour, 30 * time.Minute

// worthWriting tells whether a new spec differs from the stored one in anything that anybody acts
// on. Figures in explanations move with every step of history, and a write for each would be most of
// what the API server gets from us.
func worthWriting(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	if needsRenewal(rec, wanted, now) {
		return true
	}
	return !equality.Semantic.DeepEqual(essence(rec.Spec), essence(wanted))
}

// needsRenewal: the seed is half way through its life, or the recommendation's turn to be renewed has come.
func needsRenewal(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	stored := rec.Spec
	if stored.Seed != nil && wanted.Seed != nil && stored.Seed.ValidUntil.Time.Before(now.Add(seedLifetime/2)) &&
		wanted.Seed.ValidUntil.Time.After(stored.Seed.ValidUntil.Time) {
		return true
	}
	if stored.DataUntil == nil || wanted.DataUntil == nil {
		return stored.DataUntil != wanted.DataUntil
	}
	within := renewEvery
	if !recommended(stored) {
		within = renewEarly
	}
	// What was just stored leaves out a turn that comes soon.
	soon, every, key := within/5, within/5*4, client.ObjectKeyFromObject(rec)
	return Turn(key, wanted.DataUntil.Time, every) > Turn(key, stored.DataUntil.Add(soon), every)
}

// Turn numbers a recommendation's turns to be renewed. They begin at another moment for each, so that those of a
// cluster, which often begin together, are not renewed together.
func Turn(recommendation types.NamespacedName, at time.Time, every time.Duration) int64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(recommendation.String())) // it takes everything
	seconds := int64(every / time.Second)
	return (at.Unix() + int64(hash.Sum32())%seconds) / seconds
}

// essence drops what may drift without consequence. It changes nothing of the spec, and shares the rest
// with it.
func essence(spec v1alpha1.AttuneRecommendationSpec) v1alpha1.AttuneRecommendationSpec {
	spec.DataUntil, spec.Checkpoints = nil, nil
	if spec.Seed != nil {
		seed := *spec.Seed
		seed.ValidUntil = metav1.Time{}
		spec.Seed = &seed
	}
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Steps, c.Confidence, c.DataPoints = nil, "", 0
		c.Holds = slices.Clone(c.Holds)
		for j := range c.Holds {
			c.Holds[j].Message = ""
		}
	}
	return spec
}
