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

// RenewEvery is how far the stored object may lag behind what is known, while nothing has changed that a
// loop or the webhook acts on: the time of the newest sample, figures in explanations, checkpoints.
// RenewEarly is the same while there is no target yet and progress is all that can be shown.
const RenewEvery, RenewEarly = time.Hour, 30 * time.Minute

// WorthWriting reports whether a new spec differs from the stored one in anything that a loop, the webhook
// or a person acts on, or whether the turn of the object to be renewed has come. Figures in explanations
// move with every step of the history; a write for each would be most of the operator's load on the API
// server.
func WorthWriting(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	if needsRenewal(rec, wanted, now) {
		return true
	}
	return !equality.Semantic.DeepEqual(withoutVolatile(rec.Spec), withoutVolatile(wanted))
}

// needsRenewal reports that the stored seed has passed half of its life and the new one lives longer, or
// that the turn of the recommendation has come. Without the first, a seed of an unchanged workload would
// expire and new pods would be born with the template's size.
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

// Turn numbers the periods of one recommendation, so that it is renewed once in each. The periods begin at
// another moment for each name (a hash), so that the recommendations of a cluster, which are often created
// together, are not all written in the same minute. every must be at least a second.
func Turn(recommendation types.NamespacedName, at time.Time, every time.Duration) int64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(recommendation.String())) // it takes everything
	seconds := int64(every / time.Second)
	return (at.Unix() + int64(hash.Sum32())%seconds) / seconds
}

// withoutVolatile returns the spec without what may drift without consequence. The result shares the rest
// with the argument: neither must be changed afterwards. The argument itself is not changed.
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

// CheckpointDue reports whether the checkpoints of a recommendation have to be computed again. That is so
// in two cases:
//   - The source cannot be asked for the past again (forgets), a measured container has no checkpoint, and
//     none was made within the last RenewEvery.
//   - A checkpoint is older than 2 × RenewEvery. A recommendation whose newest sample stands still is not
//     renewed, while more of the past may have been read meanwhile.
func CheckpointDue(spec v1alpha1.AttuneRecommendationSpec, forgets bool, now time.Time) bool {
	if forgets && lacksCheckpoint(spec, now.Add(-RenewEvery)) {
		return true
	}
	old := now.Add(-2 * RenewEvery)
	return slices.ContainsFunc(spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.At.Time.Before(old) })
}

// lacksCheckpoint reports that a measured container has no checkpoint, and that no checkpoint of the
// others is newer than a time.
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

// SameCheckpoints compares checkpoints by name and content; when they were made does not count.
func SameCheckpoints(a, b []v1alpha1.Checkpoint) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.Checkpoint) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}
