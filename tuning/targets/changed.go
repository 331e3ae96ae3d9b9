package targets

import (
	"bytes"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// RenewEvery is how far what is stored may lag behind what is known where nothing that anybody acts on has changed:
// the time of the newest sample, the figures that explain, the checkpoints. RenewEarly is the same while there is no
// target yet, and progress is all there is to see.
const RenewEvery, RenewEarly = time.Hour, 30 * time.Minute

// WorthWriting tells whether a new spec differs from the stored one in anything that anybody acts
// on. Figures in explanations move with every step of history, and a write for each would be most of
// what the API server gets from us.
func WorthWriting(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	if needsRenewal(rec, wanted, now) {
		return true
	}
	return !equality.Semantic.DeepEqual(withoutVolatile(rec.Spec), withoutVolatile(wanted))
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
	within := RenewEvery
	if !Recommended(stored) {
		within = RenewEarly
	}
	// What was just stored leaves out a turn that comes soon.
	soon, every, key := within/5, within/5*4, types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
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

// withoutVolatile drops what may drift without consequence. It changes nothing of the spec, and shares the rest
// with it.
func withoutVolatile(spec v1alpha1.AttuneRecommendationSpec) v1alpha1.AttuneRecommendationSpec {
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

// CheckpointDue: there is none of a container that has been measured although one is needed, and it was not looked for
// within the hour; or it is older than one whose recommendation is renewed can be: its newest sample stands still, while
// more of the past may have been read. forgets: the source cannot be asked for the past again.
func CheckpointDue(spec v1alpha1.AttuneRecommendationSpec, forgets bool, now time.Time) bool {
	if forgets && lacksCheckpoint(spec, now.Add(-RenewEvery)) {
		return true
	}
	old := now.Add(-2 * RenewEvery)
	return slices.ContainsFunc(spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.At.Time.Before(old) })
}

// lacksCheckpoint: a container has been measured and has none, and no other one's is newer than a time.
func lacksCheckpoint(spec v1alpha1.AttuneRecommendationSpec, since time.Time) bool {
	lacks := false
	for _, container := range spec.Containers {
		i := slices.IndexFunc(spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.Name == container.Name })
		if i >= 0 && spec.Checkpoints[i].At.After(since) {
			return false
		}
		lacks = lacks || i < 0 && container.DataPoints > 0
	}
	return lacks
}

// SameCheckpoints compares them by name and content, whenever they were made.
func SameCheckpoints(a, b []v1alpha1.Checkpoint) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.Checkpoint) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}
