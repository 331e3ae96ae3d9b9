// Package targets decides what a workload's AttuneRecommendation says: the target of each container, the seed that new
// pods are given, and whether that differs enough from what is stored to be written. It is pure: the policy loop reads
// a View, calls Wanted, and writes.
package targets

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// View is everything that a workload's AttuneRecommendation depends on.
type View struct {
	Workload workload.Workload
	Policy   *v1alpha1.AttunePolicy
	Settings policy.Settings
	// Digest of the settings.
	Digest  string
	History History
	Stored  Stored
	// Status is the workload loop's half: floors, kept sizes, originals, bad seeds.
	Status v1alpha1.AttuneRecommendationStatus
	// Blocked names a reason not to change a container's resource that lies outside its history.
	Blocked func(container string, r recommender.Resource) *recommender.Hold
	Now     time.Time
	// Explained: every target comes with the steps that led to it. They cost more than the target does, and only what is
	// written needs them.
	Explained bool
}

// History is what is known of the workload's usage.
type History struct {
	// Profiles by the container's name.
	Profiles map[string]recommender.Profile
	// Highest answers the most that replicas used of a container's resource in a span of time (strategy Node).
	Highest func(container string, r recommender.Resource) node.Span
	// Silent: pods ran for so long since the last sample that the source had to have something newer of them.
	Silent bool
}

// Stored is what of the recommendation was written last.
type Stored struct {
	Containers []v1alpha1.ContainerTarget
	Seed       *v1alpha1.Seed
}

// batch: the workload runs now and then.
func (v View) batch() bool {
	return v.Workload.Kind == v1alpha1.KindJob || v.Workload.Kind == v1alpha1.KindCronJob
}

// Newest is the time of the last sample of any container; zero: there is none.
func Newest(profiles map[string]recommender.Profile) (last time.Time) {
	for _, p := range profiles {
		if p.Last.After(last) {
			last = p.Last
		}
	}
	return last
}
