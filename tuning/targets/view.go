// Package targets decides the spec of a workload's AttuneRecommendation: the target of each container, the seed for
// new pods, and whether the result differs enough from the stored one to be written.
//
// The data flows in this order:
//  1. The policy loop fills a View: the workload, the resolved settings, usage profiles, the stored spec, the
//     status.
//  2. Wanted(View) calls the recommender for each container (desired.go), or the rules of strategy Node (node.go),
//     ignores small decreases (keep.go) and derives the seed (seed.go).
//  3. WorthWriting compares the result with the stored spec (decision.go). Brief shortens long explanations
//     (target.go).
//  4. Decision remembers the inputs of the result, so that a reconcile without changes can skip all steps
//     (decision.go).
//
// The package has no client and no clock, and never writes. Package tuning decides about running pods. No result is
// below a floor learned from a regression. Start reading with View, then Desired.
package targets

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// View has all inputs of a workload's AttuneRecommendation. No function of this package changes it.
type View struct {
	// Workload is the workload with its template. If the template is nil, nothing is recommended.
	Workload workload.Workload
	// Identity is the workload's identity for new workloads (spec.identity); empty: it has none, or not all workloads with
	// it have the same policy.
	Identity string
	// Policy is the policy that sizes the workload; never nil.
	Policy *v1alpha1.AttunePolicy
	// Settings are the policy's settings, resolved over all levels.
	Settings policy.Settings
	// Digest is the hash of Settings, stored as spec.settingsDigest. A different stored digest means that the spec
	// was computed with other settings.
	Digest string
	// History is the known usage; zero: no usage is known.
	History History
	// Stored is the stored spec; zero for a new recommendation. Its targets, its seed and its largest node influence
	// the next spec.
	Stored v1alpha1.AttuneRecommendationSpec
	// Status is the part of the object that the workload loop writes: floors, verified sizes, originals, bad seeds.
	// It is read-only here.
	Status v1alpha1.AttuneRecommendationStatus
	// Blocked returns why a container's resource must not be changed, for a reason outside of the history (an HPA, a
	// VPA); nil: it may be changed.
	Blocked func(container string, r recommender.Resource) *recommender.Hold
	// Kept returns the proof that HPAs keep the number of replicas within a range of requests (autoscale.Holds.Kept); nil:
	// there is none. The function may be nil.
	Kept func(container string, r recommender.Resource) *autoscale.Proof
	// Proposed returns the range of a request that is blocked because attune must not change the target of an HPA
	// (autoscale.Holds.Proposed); nil: there is none. The function may be nil.
	Proposed func(container string, r recommender.Resource) *autoscale.Proof
	// Paired returns the request of new pods that belongs to a target that attune changed and cannot change at present
	// (autoscale.Holds.Paired); 0: there is none. The function may be nil.
	Paired func(container string, r recommender.Resource) recommender.Amount
	// HPABindings are the bindings of HPAs to store (autoscale.Holds.Stored).
	HPABindings []v1alpha1.HPABinding
	// Largest is the most that the pods may request, in millicores and bytes, indexed by resource (LargestOf). 0: not
	// known.
	Largest [2]recommender.Amount
	// Gone reports that Largest comes from a deleted node.
	Gone bool
	// Placement is a digest of what decides on which nodes the pods may run; empty: any node.
	Placement string
	// Limits are the memory limits of the running pods by container name; nil: not known.
	Limits map[string]LimitInForce
	// Now is the time of the whole reconcile.
	Now time.Time
	// Explained adds the explanation steps to every target. They cost more to compute than the target, and only a
	// spec to be written needs them.
	Explained bool
}

// History has the known usage of the workload.
type History struct {
	// Profiles are by container name. A container without one has no usage yet.
	Profiles map[string]recommender.Profile
	// Implausible are the dropped samples of the last day, by container name and resource; nil: none was dropped.
	Implausible map[string][2]recommender.Implausible
	// Young reports that the counts of Implausible do not go back a day, because the operator has restarted.
	Young bool
	// Estimates are by container name (only strategy Adaptive, otherwise nil). adaptive.Of computes them.
	Estimates map[string]*[2]recommender.Estimate
	// Highest returns the highest usage of a container's resource over all replicas in a span of time, in millicores
	// or bytes.
	Highest func(container string, r recommender.Resource) node.Span
	// Silent reports that pods ran for so long since the last sample that the source should have a newer one. It
	// separates a broken source from a workload without running pods.
	Silent bool
}

// batch reports whether the workload is a Job or a CronJob: it runs now and then, and its history counts in runs, not
// in hours.
func (v View) batch() bool {
	return workload.Batch(v.Workload.Kind)
}

// Newest returns the time of the last sample of any container; zero: no sample.
func Newest(profiles map[string]recommender.Profile) (last time.Time) {
	for _, p := range profiles {
		if p.Last.After(last) {
			last = p.Last
		}
	}
	return last
}
