package targets

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
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
	for _, original := range v.Status.Originals {
		sooner(seen(original).Add(newFor(v.Settings)))
	}
	return d
}

// Timeless reports whether time alone changes nothing of a decision except for what Lasting knows. Three
// things move with time and exclude it: floors, which are forgotten little by little; the strategy Node,
// whose forecast looks an hour ahead; and Jobs, whose run is over when no newer sample comes.
func Timeless(rec *v1alpha1.AttuneRecommendation, strategy v1alpha1.Strategy, kind v1alpha1.WorkloadKind) bool {
	return rec.UID != "" && len(rec.Status.Floors) == 0 && strategy == v1alpha1.StrategyWorkload &&
		kind != v1alpha1.KindJob && kind != v1alpha1.KindCronJob
}
