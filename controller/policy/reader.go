package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/tuning/targets"
)

// reader reads what a workload's recommendation depends on. It changes nothing.
type reader struct {
	client      client.Reader
	history     History
	autoscalers Autoscalers
}

// view builds the input of targets.Wanted for a workload.
func (r reader) view(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) targets.View {
	v := targets.View{
		Workload: w, Policy: pass.policy, Settings: pass.settings, Digest: pass.digest,
		History: targets.History{Profiles: r.profiles(pass, w)},
		Stored:  targets.Stored{Containers: rec.Spec.Containers, Seed: rec.Spec.Seed},
		Status:  rec.Status, Blocked: holds.On, Now: pass.now,
	}
	v.History.Silent = r.silent(ctx, pass, w, targets.Newest(v.History.Profiles))
	if pass.settings.Strategy == v1alpha1.StrategyNode {
		v.History.Highest = r.highest(pass, w)
	}
	return v
}

// facts returns what a decision about the workload depends on now. false: it depends on the time as well,
// so that it cannot be taken over by the next pass.
func (r reader) facts(pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) (targets.Decision, bool) {
	return targets.Decision{Holds: holds, Facts: targets.Facts{
		Recommendation: rec.UID, RecommendationVersion: rec.ResourceVersion, Workload: w.UID, WorkloadVersion: w.Version,
		Policy: pass.policy.UID, Generation: pass.policy.Generation, News: r.history.News(pass.key(w, "")),
	}}, targets.Timeless(rec, pass.settings.Strategy, w.Kind)
}

// continued reports whether restored histories have been continued by new samples. Before that, a restored
// history only seems to have ended, and its workload would look stopped.
func (r reader) continued(settings policy.Settings, now time.Time) bool {
	state, _ := r.history.State(settings.Source)
	return !now.Before(state.SettledAt)
}

// complete reports whether the past of the workload has been read. Until then, for example after a change
// of leader, an empty history only means that it has not been read yet. The state of other workloads does
// not count: users can add workloads at any time, and would otherwise keep all others incomplete.
func (r reader) complete(pass pass, w workload.Workload) bool {
	return pass.settled && r.history.Read(pass.key(w, ""))
}

// profiles returns the profiles of a workload's containers by name; a container without usage has none.
func (r reader) profiles(pass pass, w workload.Workload) map[string]recommender.Profile {
	out := map[string]recommender.Profile{}
	for _, container := range targets.Sized(w.Template, pass.settings) {
		if profile, ok := r.history.Profile(pass.key(w, container.Name), pass.now); ok {
			out[container.Name] = profile
		}
	}
	return out
}

// highest returns a function that reads peaks from the history (strategy Node).
func (r reader) highest(pass pass, w workload.Workload) func(string, recommender.Resource) node.Span {
	return func(container string, of recommender.Resource) node.Span {
		return func(from, to time.Time) (recommender.Usage, bool) {
			return r.history.Highest(pass.key(w, container), of, from, to)
		}
	}
}

// silent reports that the source gives nothing although the workload runs. A workload that does not run (a
// CronJob between runs, zero replicas) is not silent: there is nothing to measure. The cache of pods is
// read only once the last sample is old, because most workloads are fresh. In doubt the source counts as
// silent, and nothing is changed.
func (r reader) silent(ctx context.Context, pass pass, w workload.Workload, last time.Time) bool {
	most := pass.settings.Recommender.StaleAfter()
	if pass.now.Sub(last) <= most {
		return false
	}
	pods, err := owners.Pods(ctx, r.client, w.Identity)
	return err != nil || targets.Ran(pods, last, pass.now) > most
}

// holds returns what autoscalers hold of a workload; errUnlisted: that is not known.
func (r reader) holds(ctx context.Context, w workload.Workload) (autoscale.Holds, error) {
	if r.autoscalers == nil {
		return autoscale.Holds{}, nil
	}
	holds, err := r.autoscalers.Of(ctx, w)
	if err != nil {
		return holds, fmt.Errorf("%w: %w", errUnlisted, err)
	}
	return holds, nil
}

// errUnlisted means that the holds of autoscalers are not known, so that nothing is recommended: a target
// for a resource that an HPA scales on would make both controllers react to each other.
var errUnlisted = errors.New("autoscalers cannot be listed")
