package policy

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// decidedFor is how long a decision stands at most before it is made anew, whatever it rests on: time alone changes some,
// such as how long a target has been what a person meant.
const decidedFor = 30 * time.Minute

// facts are what a decision about a workload rests on, but for the time.
type facts struct {
	recommendation, workload, policy types.UID
	// versions of the objects, as the API server counts their changes; generation is the policy's.
	recommendationVersion, workloadVersion string
	generation                             int64
	// news is the history's.
	news   uint64
	silent bool
}

// decision is what the last look at a workload rested on, where it ended with nothing to write. While all of it is the
// same, so is the decision: a pass costs as much as there is news.
type decision struct {
	facts
	holds autoscale.Holds
	// until is when it has to be made anew, dataUntil what it told of the data.
	until, dataUntil time.Time
}

// stands says whether it would be the same now.
func (d decision) stands(now decision, at time.Time) bool {
	return at.Before(d.until) && d.facts == now.facts && d.holds.Equal(now.holds)
}

// decisions of the policies' last passes. They are forgotten with their policies, and with what a pass does not come to.
// It is safe for concurrent use.
type decisions struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]decided
}

// decided is what a pass decided, by the recommendation's name, with the settings that it had.
type decided struct {
	settings policy.Settings
	made     map[string]decision
}

// last decisions about a policy's workloads; none where the settings are others, of whatever level.
func (d *decisions) last(of types.NamespacedName, settings policy.Settings) map[string]decision {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	last := d.of[of]
	if !reflect.DeepEqual(last.settings, settings) {
		return nil
	}
	return last.made
}

func (d *decisions) keep(of types.NamespacedName, settings policy.Settings, made map[string]decision) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.of == nil {
		d.of = map[types.NamespacedName]decided{}
	}
	d.of[of] = decided{settings, made}
}

func (d *decisions) forget(of types.NamespacedName) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.of, of)
}

// facing is what a decision about the workload rests on now; false: on the time as well. What harm has taught is forgotten
// little by little, the strategy Node looks an hour ahead, and a run of a Job is over when nothing has come after it.
func (c *Controller) facing(pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) (decision, bool) {
	timeless := rec.UID != "" && len(rec.Status.Floors) == 0 && pass.settings.Strategy == v1alpha1.StrategyWorkload &&
		w.Kind != v1alpha1.KindJob && w.Kind != v1alpha1.KindCronJob
	return decision{holds: holds, facts: facts{
		recommendation: rec.UID, recommendationVersion: rec.ResourceVersion, workload: w.UID, workloadVersion: w.Version,
		policy: pass.policy.UID, generation: pass.policy.Generation, news: c.History.News(pass.key(w, "")),
	}}, timeless
}

// lasts until a time comes that changes it: a container's data is old, the seed is to be renewed, a template is no longer
// new. At that very time it is made anew, and so is what is made at that time: some comparisons include it.
func (d decision) lasts(pass pass, rec *v1alpha1.AttuneRecommendation, profiles map[string]recommender.Profile) decision {
	d.until = pass.now.Add(decidedFor)
	sooner := func(at time.Time) {
		if !at.Before(pass.now) && at.Before(d.until) {
			d.until = at
		}
	}
	old := pass.settings.Recommender.StaleAfter()
	for _, profile := range profiles {
		for _, resource := range profile.Of {
			sooner(resource.Last.Add(old))
		}
	}
	if rec.Spec.Seed != nil {
		sooner(rec.Spec.Seed.ValidUntil.Add(-seedLifetime / 2))
		sooner(rec.Spec.Seed.ValidUntil.Time)
	}
	for _, original := range rec.Status.Originals {
		sooner(seen(original).Add(newFor(pass.settings)))
	}
	return d
}

// stillDecided: nothing that the last decision rests on is another one, and its checkpoints are those that are stored.
func (c *Controller) stillDecided(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, known, facing decision) bool {
	facing.silent = c.silent(ctx, pass, w, known.dataUntil)
	if !known.stands(facing, pass.now) {
		return false
	}
	if c.checkpointDue(pass, rec) && !sameCheckpoints(rec.Spec.Checkpoints, c.checkpoints(pass, w, rec.Spec.Checkpoints)) {
		return false
	}
	if c.Doubt != nil {
		c.Doubt(ctx, rec.Name, c.wouldWrite(ctx, pass, rec, w, facing))
	}
	return true
}

// wouldWrite says whether a full look at the workload would write anything.
func (c *Controller) wouldWrite(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, facing decision) bool {
	in := c.inputsOf(ctx, pass, rec, w, facing.holds)
	return worthWriting(rec, wantedOf(rec, in, true), pass.now)
}
