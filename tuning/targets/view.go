// Package targets decides what a workload's AttuneRecommendation says: the target of each container, the
// seed that new pods are born with, and whether the result differs enough from what is stored to be
// written.
//
// The flow of data, in order:
//  1. The policy loop fills a View: the workload, the resolved settings, profiles of its usage, what is
//     stored, the status.
//  2. Wanted(View) asks the recommender for each container (desired.go), or the rules of the strategy Node
//     (node.go), keeps small falls out (keep.go) and derives the seed (seed.go).
//  3. WorthWriting compares the result with what is stored (decision.go); Brief cuts explanations that are
//     too long (target.go).
//  4. Decision remembers what the answer depended on, so that a pass without news can skip all of this
//     (decision.go).
//
// The package has no client and no clock, and never writes. It does not decide about running pods: that is
// package tuning. It never lowers anything below what harm has taught (floors). Start reading with View,
// then Desired.
package targets

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// View is everything that a workload's AttuneRecommendation depends on. It is not changed by any function
// of this package.
type View struct {
	// Workload is the workload with its template. Its template may be nil: then nothing is recommended.
	Workload workload.Workload
	// Policy is the policy that sizes the workload; never nil.
	Policy *v1alpha1.AttunePolicy
	// Settings are the policy's, resolved over all levels.
	Settings policy.Settings
	// Digest is the hash of Settings that is stored as spec.settingsDigest. Another digest means: computed
	// with other settings.
	Digest string
	// History is the usage that is known; the zero value: nothing is.
	History History
	// Stored is what the recommendation says until now; the zero value for a new one. Its targets, its seed and its largest
	// node influence what it says next.
	Stored v1alpha1.AttuneRecommendationSpec
	// Status is the half of the object that the workload loop writes: floors, kept sizes, originals, bad
	// seeds. It is only read.
	Status v1alpha1.AttuneRecommendationStatus
	// Blocked returns a reason outside of the history not to change a container's resource (an HPA, a
	// VPA); nil: there is none.
	Blocked func(container string, r recommender.Resource) *recommender.Hold
	// Largest is what the pods may request at most, in millicores and bytes, indexed by resource: see LargestOf. 0: not known.
	Largest [2]recommender.Amount
	// Gone: Largest is that of a node that is gone.
	Gone bool
	// Now is the time of the whole pass.
	Now time.Time
	// Explained adds to every target the steps that led to it. They cost more to compute than the target,
	// and only what is written needs them.
	Explained bool
}

// History is what is known of the workload's usage.
type History struct {
	// Profiles are by the container's name. A container without one has no usage yet.
	Profiles map[string]recommender.Profile
	// Implausible are the samples of the last day that were dropped, by the container's name and resource; nil: none was.
	Implausible map[string][2]recommender.Implausible
	// Estimates are by the container's name (strategy Adaptive only, otherwise nil); adaptive.Of makes them.
	Estimates map[string]*[2]recommender.Estimate
	// Highest returns the highest usage of a container's resource over all replicas in a span of time
	// (strategy Node only, otherwise nil): millicores or bytes.
	Highest func(container string, r recommender.Resource) node.Span
	// Silent reports that pods ran for so long since the last sample that the source should have a newer
	// one. It separates a broken source from a workload that does not run.
	Silent bool
}

// batch reports whether the workload is a Job or a CronJob: it runs now and then, and its past counts in
// runs, not in hours.
func (v View) batch() bool {
	return workload.Batch(v.Workload.Kind)
}

// Newest returns the time of the last sample of any container; zero: there is none.
func Newest(profiles map[string]recommender.Profile) (last time.Time) {
	for _, p := range profiles {
		if p.Last.After(last) {
			last = p.Last
		}
	}
	return last
}
