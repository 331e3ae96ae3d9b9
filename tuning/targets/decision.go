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

// DecisionLifetime is the longest time for which a decision is reused. Time alone changes some inputs, such as how
// long a template counts as new.
const DecisionLifetime = 30 * time.Minute

// Facts are the inputs of a decision about a workload, except the time and the autoscalers. It is comparable with ==,
// so that one comparison finds that nothing has changed.
type Facts struct {
	// Recommendation, Workload and Policy are the uids of the three objects. A recreated object of the same name is a
	// different one.
	Recommendation, Workload, Policy types.UID
	// RecommendationVersion and WorkloadVersion are the resourceVersions of the objects.
	RecommendationVersion, WorkloadVersion string
	// Generation is the policy's generation. Its status does not matter.
	Generation int64
	// News is a number of the history that changes whenever the usage of the workload's containers changes.
	News uint64
	// Largest is the most that the pods may request, in millicores and bytes (View.Largest).
	Largest [2]recommender.Amount
	// Limits is LimitsDigest of View.Limits. Pods start and are resized without any change of the other facts.
	Limits uint64
	// Requests is autoscale.RequestsDigest of the pods if the setting Keep matters to the workload. Others resize pods too.
	Requests uint64
	// TargetRefused: requests must not depend on another target of the HPA at present (resize.RefusesTarget).
	TargetRefused bool
	// Silent is History.Silent.
	Silent bool
	// Identity is View.Identity.
	Identity string
}

// Decision has the inputs of the last evaluation of a workload that had nothing to write. The same inputs give the
// same result, so a reconcile of an idle cluster costs little. It is kept only in memory: losing it costs one
// evaluation.
type Decision struct {
	// Facts are the inputs at the time of the evaluation.
	Facts
	// Holds are the blocks by autoscalers at that time.
	Holds autoscale.Holds
	// Until is when the decision expires. DataUntil is the time of the newest sample that it used.
	Until, DataUntil time.Time
}

// Stands reports whether the decision is still valid: the facts and holds are the same, and the time is before Until.
func (d Decision) Stands(now Decision, at time.Time) bool {
	return at.Before(d.Until) && d.Facts == now.Facts && d.Holds.Equal(now.Holds)
}

// Lasting returns the decision with Until set to the first time at which time alone changes it: a container's data
// becomes stale, the seed has to be renewed or expires, or a template no longer counts as new. A time equal to Now
// counts too, because some comparisons include it.
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

// Timeless reports whether Lasting knows all changes of a decision by time alone. Three inputs change with time and
// exclude that: floors, which expire gradually; strategy Node, which forecasts the next hour; Jobs, whose run is over
// when no newer sample comes. The recommendation must be stored.
func Timeless(rec *v1alpha1.AttuneRecommendation, strategy v1alpha1.Strategy, kind v1alpha1.WorkloadKind) bool {
	return rec.UID != "" && len(rec.Status.Floors) == 0 && strategy != v1alpha1.StrategyNode && !workload.Batch(kind)
}

// RenewEvery is how stale the stored object may be while no loop and no webhook acts on a change: the time of the
// newest sample, numbers in explanations, checkpoints. RenewEarly applies while there is no target yet and only
// progress can be shown.
const RenewEvery, RenewEarly = time.Hour, 30 * time.Minute

// WorthWriting reports whether the new spec must be written: it differs from the stored one in anything that a loop,
// the webhook or a user acts on, or its renewal is due. Numbers in explanations change with every sample; writing
// each change would be most of the operator's load on the API server.
func WorthWriting(rec *v1alpha1.AttuneRecommendation, wanted v1alpha1.AttuneRecommendationSpec, now time.Time) bool {
	return needsRenewal(rec, wanted, now) || !equality.Semantic.DeepEqual(withoutVolatile(rec.Spec), withoutVolatile(wanted))
}

// needsRenewal reports one of three cases: the largest node has become known or unknown, the stored seed has passed
// half of its life and the new one lives longer, or the renewal of the recommendation is due. Without the second, the
// seed of an unchanged workload would expire, and new pods would be created with the template's size.
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
	// A spec that was just stored skips a renewal that is due soon.
	soon, every, key := within/5, within/5*4, types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
	return Turn(key, wanted.DataUntil.Time, every) > Turn(key, stored.DataUntil.Add(soon), every)
}

// Turn numbers the renewal periods of one recommendation, so that it is renewed once in each. The periods start at a
// different time for each name (a hash). Otherwise recommendations that were created together would all be written in
// the same minute. every must be at least one second.
func Turn(recommendation types.NamespacedName, at time.Time, every time.Duration) int64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(recommendation.String())) // never returns an error
	seconds := int64(every / time.Second)
	return (at.Unix() + int64(hash.Sum32())%seconds) / seconds
}

// withoutVolatile returns the spec without fields whose change alone needs no write. The result shares memory with
// the argument, so neither must be changed afterwards. The argument is not changed.
func withoutVolatile(spec v1alpha1.AttuneRecommendationSpec) v1alpha1.AttuneRecommendationSpec {
	spec.DataUntil, spec.Checkpoints = nil, nil
	// Nodes come and go. Their size acts through a hold or a limit, which are compared; the next renewal writes the
	// rest.
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
		c.Kept = slices.Clone(c.Kept)
		for j := range c.Kept {
			c.Kept[j].Since, c.Kept[j].ValidUntil = metav1.Time{}, metav1.Time{}
		}
	}
	return spec
}

// CheckpointDue reports whether the checkpoints of a recommendation must be computed again:
//   - The source cannot be queried for the past again (forgets), a measured container has no checkpoint, and none was
//     made within the last RenewEvery.
//   - A checkpoint is older than 2 × RenewEvery. A recommendation without new samples is not renewed, but more of the
//     past may have been read since.
func CheckpointDue(spec v1alpha1.AttuneRecommendationSpec, forgets bool, now time.Time) bool {
	if forgets && lacksCheckpoint(spec, now.Add(-RenewEvery)) {
		return true
	}
	old := now.Add(-2 * RenewEvery)
	return slices.ContainsFunc(spec.Checkpoints, func(c v1alpha1.Checkpoint) bool { return c.At.Time.Before(old) })
}

// lacksCheckpoint reports that a measured container has no checkpoint, and that no other checkpoint is newer than
// since.
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

// SameCheckpoints compares checkpoints by name and content, not by their time.
func SameCheckpoints(a, b []v1alpha1.Checkpoint) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.Checkpoint) bool {
		return a.Name == b.Name && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Replicas, b.Replicas)
	})
}
