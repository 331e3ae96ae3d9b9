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
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// DecisionLifetime is how long a decision is used again at most, whatever it depends on: time alone
// changes some inputs, such as how long a template has been new.
const DecisionLifetime = 30 * time.Minute

// Facts is what a decision about a workload depends on, except for the time and the autoscalers. It is
// comparable with ==, so that "nothing has changed" is one comparison.
type Facts struct {
	// Recommendation, Workload and Policy are the uids of the three objects; an object that was created
	// anew under the same name is another one.
	Recommendation, Workload, Policy types.UID
	// RecommendationVersion and WorkloadVersion are the resourceVersions of the objects.
	RecommendationVersion, WorkloadVersion string
	// Generation is that of the policy: its status does not matter.
	Generation int64
	// News is a number of the history that changes whenever the usage of the workload's containers does.
	News uint64
	// Largest is what the pods may request at most.
	Largest [2]recommender.Amount
	// Silent is History.Silent.
	Silent bool
}

// Decision is what the last look at a workload depended on, where the look ended with nothing to write.
// While all of it is the same, the result is the same, so that a pass over a quiet cluster costs little.
// It is kept in memory only: a loss costs one full look.
type Decision struct {
	// Facts are the inputs at the time of the look.
	Facts
	// Holds are the holds of autoscalers at that time.
	Holds autoscale.Holds
	// Until is when the decision has to be made anew. DataUntil is the time of the newest sample that it
	// used.
	Until, DataUntil time.Time
}

// Stands reports whether the decision would be the same now, given the same facts and holds and a time
// before Until.
func (d Decision) Stands(now Decision, at time.Time) bool {
	return at.Before(d.Until) && d.Facts == now.Facts && d.Holds.Equal(now.Holds)
}

// Lasting returns the decision with Until set to the first moment at which time alone changes it: a
// container's data becomes old, the seed has to be renewed or expires, a template is no longer new. A
// moment equal to Now counts too, because some comparisons include it.
func (d Decision) Lasting(v View) Decision {
	d.Until = v.Now.Add(DecisionLifetime)
	sooner := func(at time.Time) {
		if !at.Before(v.Now) && at.Before(d.Until) {
			d.Until = at
		}
	}
	old := v.Settings.Recommender.StaleAfter()
	for _, profile := range v.History.Profiles {
		for _, resource := range profile.Of {
			sooner(resource.Last.Add(old))
		}
	}
	if seed := v.Stored.Seed; seed != nil {
		sooner(seed.ValidUntil.Add(-seedLifetime / 2))
		sooner(seed.ValidUntil.Time)
	}
	if w := v.Status.AdmissionWithdrawn; w != nil {
		sooner(w.Until.Time)
	}
	for _, original := range v.Status.Originals {
		sooner(seen(original).Add(newFor(v.Settings)))
	}
	return d
}

// Timeless reports whether time alone changes nothing of a decision except for what Lasting knows. Three
// things move with time and exclude it: floors, which are forgotten little by little; the strategy Node,
// whose forecast looks an hour ahead; and Jobs, whose run is over when no newer sample comes.
func Timeless(rec *v1alpha1.AttuneRecommendation, strategy v1alpha1.Strategy, kind v1alpha1.WorkloadKind) bool {
	return rec.UID != "" && len(rec.Status.Floors) == 0 && strategy != v1alpha1.StrategyNode && !workload.Batch(kind)
}

// RenewEvery is how far the stored object may lag behind what is known, while nothing has changed that a
// loop or the webhook acts on: the time of the newest sample, figures in explanations, checkpoints.
// RenewEarly is the same while there is no target yet and progress is all that can be shown.
const RenewEvery, RenewEarly = time.Hour, 30 * time.Minute

// WorthWriting reports whether a new spec differs from the stored one in anything that a loop, the webhook
// or a person acts on, or whether the turn of the object to be renewed has come. Figures in explanations
// move with every step of the history; a write for each would be most of the operator's load on the API
// server.
func WorthWriting(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	return needsRenewal(rec, wanted, now) || !equality.Semantic.DeepEqual(withoutVolatile(rec.Spec), withoutVolatile(wanted))
}

// needsRenewal reports that the stored seed has passed half of its life and the new one lives longer, or
// that the turn of the recommendation has come. Without the first, a seed of an unchanged workload would
// expire and new pods would be born with the template's size.
func needsRenewal(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	stored := rec.Spec
	if (stored.LargestNode == nil) != (wanted.LargestNode == nil) {
		return true
	}
	if stored.Seed != nil && wanted.Seed != nil && stored.Seed.ValidUntil.Time.Before(now.Add(seedLifetime/2)) &&
		wanted.Seed.ValidUntil.Time.After(stored.Seed.ValidUntil.Time) {
		return true
	}
	if stored.DataUntil == nil || wanted.DataUntil == nil {
		return stored.DataUntil != wanted.DataUntil
	}
	within := RenewEvery
	if !podview.HasTarget(stored) {
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
	// Nodes come and go. What their size changes is a hold or a limit, and the rest is written with the next renewal.
	spec.LargestNode = nil
	if spec.Seed != nil {
		seed := *spec.Seed
		seed.ValidUntil, seed.LargestPod = metav1.Time{}, v1alpha1.Resources{}
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
