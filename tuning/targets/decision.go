package targets

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
)

// DecisionLifetime is how long a decision stands at most before it is made anew, whatever it rests on: time alone changes
// some, such as how long a template has been new.
const DecisionLifetime = 30 * time.Minute

// Facts are what a decision about a workload rests on, but for the time.
type Facts struct {
	Recommendation, Workload, Policy types.UID
	// Versions of the objects, as the API server counts their changes; Generation is the policy's.
	RecommendationVersion, WorkloadVersion string
	Generation                             int64
	// News is the history's.
	News   uint64
	Silent bool
}

// Decision is what the last look at a workload rested on, where it ended with nothing to write. While all of it is the
// same, so is the decision: a pass costs as much as there is news.
type Decision struct {
	Facts
	Holds autoscale.Holds
	// Until is when it has to be made anew, DataUntil what it told of the data.
	Until, DataUntil time.Time
}

// Stands says whether it would be the same now.
func (d Decision) Stands(now Decision, at time.Time) bool {
	return at.Before(d.Until) && d.Facts == now.Facts && d.Holds.Equal(now.Holds)
}

// Lasting is the decision with the time that changes it (Until): a container's data is old, the seed is to be renewed, a
// template is no longer new. At that very time it is made anew, and so is what is made at that time: some comparisons
// include it.
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
	for _, original := range v.Status.Originals {
		sooner(seen(original).Add(newFor(v.Settings)))
	}
	return d
}

// Timeless: a decision rests on nothing that time alone changes, but for what Lasting knows. What harm has taught is
// forgotten little by little, the strategy Node looks an hour ahead, and a run of a Job is over when nothing has come
// after it.
func Timeless(rec *v1alpha1.AttuneRecommendation, strategy v1alpha1.Strategy, kind v1alpha1.WorkloadKind) bool {
	return rec.UID != "" && len(rec.Status.Floors) == 0 && strategy == v1alpha1.StrategyWorkload &&
		kind != v1alpha1.KindJob && kind != v1alpha1.KindCronJob
}
