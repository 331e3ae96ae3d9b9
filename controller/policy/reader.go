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

// reader observes what a workload's recommendation depends on. It changes nothing.
type reader struct {
	client      client.Reader
	history     History
	autoscalers Autoscalers
}

// view of a workload.
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

// facts are what a decision about the workload rests on now; false: on the time as well.
func (r reader) facts(pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) (targets.Decision, bool) {
	return targets.Decision{Holds: holds, Facts: targets.Facts{
		Recommendation: rec.UID, RecommendationVersion: rec.ResourceVersion, Workload: w.UID, WorkloadVersion: w.Version,
		Policy: pass.policy.UID, Generation: pass.policy.Generation, News: r.history.News(pass.key(w, "")),
	}}, targets.Timeless(rec, pass.settings.Strategy, w.Kind)
}

// continued: histories that were restored have been continued. One that was not may only seem to have ended.
func (r reader) continued(settings policy.Settings, now time.Time) bool {
	state, _ := r.history.State(settings.Source)
	return !now.Before(state.SettledAt)
}

// complete: the past of the workload has been read. Until then, such as after a change of leader, an empty history means
// that nobody looked yet. What has been read of others does not matter: anybody may add a workload.
func (r reader) complete(pass pass, w workload.Workload) bool {
	return pass.settled && r.history.Read(pass.key(w, ""))
}

// profiles of a workload's containers, by their names.
func (r reader) profiles(pass pass, w workload.Workload) map[string]recommender.Profile {
	out := map[string]recommender.Profile{}
	for _, container := range targets.Sized(w.Template, pass.settings) {
		if profile, ok := r.history.Profile(pass.key(w, container.Name), pass.now); ok {
			out[container.Name] = profile
		}
	}
	return out
}

// highest answers for a workload's containers what the history knows of their peaks.
func (r reader) highest(pass pass, w workload.Workload) func(string, recommender.Resource) node.Span {
	return func(container string, of recommender.Resource) node.Span {
		return func(from, to time.Time) (recommender.Usage, bool) {
			return r.history.Highest(pass.key(w, container), of, from, to)
		}
	}
}

// silent tells a source that is silent from a workload that does not run, of which there is nothing to measure: a
// CronJob between runs, zero replicas, a StatefulSet that is down. It asks the cache of pods, which the workload loop
// keeps, and only once the last sample is old. In doubt the source is silent, and nothing is done.
func (r reader) silent(ctx context.Context, pass pass, w workload.Workload, last time.Time) bool {
	most := pass.settings.Recommender.StaleAfter()
	if pass.now.Sub(last) <= most {
		return false
	}
	pods, err := owners.Pods(ctx, r.client, w.Identity)
	return err != nil || targets.Ran(pods, last, pass.now) > most
}

// holds of autoscalers on a workload; errUnlisted: they are not known.
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

// errUnlisted: what autoscalers hold is not known, so that nothing is recommended.
var errUnlisted = errors.New("autoscalers cannot be listed")
