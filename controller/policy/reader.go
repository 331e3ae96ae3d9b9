package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// reader reads the inputs of a workload's recommendation. It changes only the history, by restore.
type reader struct {
	client      client.Reader
	history     History
	autoscalers autoscale.Reader
	strangers   *lookup.Strangers
	// largest returns the most that pods may request, given the nodes that exist (Controller.largestNow).
	largest func(context.Context, workload.Workload) [2]recommender.Amount
}

// view builds the input of targets.Wanted for a workload.
func (r reader) view(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) targets.View {
	v := targets.View{
		Workload: w, Policy: pass.policy, Settings: pass.settings, Digest: pass.digest,
		History:  targets.History{Profiles: r.profiles(pass, w), Implausible: r.implausible(pass, w), Young: pass.young},
		Identity: pass.identities[w.Identity],
		Stored:   rec.Spec,
		Status:   rec.Status, Blocked: holds.On, HPABindings: holds.Stored(), Now: pass.now,
	}
	if keeping(pass, w, holds) {
		v.Kept, v.Proposed, v.Paired = holds.Kept, holds.Proposed, holds.Paired
	}
	v.Largest, v.Gone = r.bound(ctx, pass, rec, w)
	v.Placement = placementOf(w.Template)
	v.History.Silent = r.silent(ctx, pass, w, targets.Newest(v.History.Profiles))
	if fresh(v.History.Profiles, pass.now.Add(-pass.settings.Recommender.StaleAfter())) {
		r.history.Await(pass.key(w, ""), false)
	}
	v.Limits = r.limitsInForce(ctx, pass, rec, w)
	v.History.Highest = func(container string, of recommender.Resource) node.Span {
		return func(from, to time.Time) (recommender.Usage, bool) {
			return r.history.Highest(pass.key(w, container), of, from, to)
		}
	}
	if pass.settings.Strategy == v1alpha1.StrategyAdaptive {
		v.History.Estimates = map[string]*[2]recommender.Estimate{}
		for container := range v.History.Profiles {
			v.History.Estimates[container] = adaptive.Of(r.history.Steps(pass.key(w, container)), *pass.settings.For(container))
		}
	}
	return v
}

// facts returns the present inputs of a decision about the workload. false: the decision also depends on the time, so
// the next pass must not reuse it.
func (r reader) facts(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) (targets.Decision, bool) {
	largest, _ := r.bound(ctx, pass, rec, w)
	requests, listed := r.requests(ctx, pass, w, holds)
	return targets.Decision{Holds: holds, Facts: targets.Facts{
		Largest:        largest,
		Limits:         targets.LimitsDigest(r.limitsInForce(ctx, pass, rec, w)),
		Identity:       pass.identities[w.Identity],
		Recommendation: rec.UID, RecommendationVersion: rec.ResourceVersion, Workload: w.UID, WorkloadVersion: w.Version,
		Policy: pass.policy.UID, Generation: pass.policy.Generation, News: r.history.News(pass.key(w, "")), Requests: requests,
		TargetRefused: slices.ContainsFunc(rec.Status.Tries, func(t v1alpha1.Try) bool { return resize.RefusesTarget(t, pass.now) }),
	}}, targets.Timeless(rec, pass.settings.Strategy, w.Kind) && listed
}

// requests returns the digest of the requests of the workload's pods; 0: they do not matter. false: they are not known.
func (r reader) requests(ctx context.Context, pass pass, w workload.Workload, holds autoscale.Holds) (uint64, bool) {
	if !keeping(pass, w, holds) {
		return 0, true
	}
	pods, err := lookup.Pods(ctx, r.client, w.Identity)
	return autoscale.RequestsDigest(pods), err == nil
}

// keep adds to the holds the ranges of requests with which HPAs keep the number of replicas, where the settings want
// them. If the pods cannot be listed, there are none.
func (r reader) keep(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds, complete bool) autoscale.Holds {
	if !keeping(pass, w, holds) {
		return holds
	}
	sized := targets.SizedNames(w.Template, pass.settings)
	pods, err := lookup.Pods(ctx, r.client, w.Identity)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the pods of a workload; no other request is proven to keep its replicas", "recommendation", rec.Name)
	}
	stranger, err := r.strangers.Of(ctx, w, pods)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the pods that an HPA counts; no other request is proven to keep its replicas", "recommendation", rec.Name)
		pods = nil
	}
	return holds.Keep(sized, rec.Spec.Containers, autoscale.Fleet{
		Keeps: pass.settings.KeepsReplicas, Retargets: pass.settings.Retargets, Pods: pods, Tries: rec.Status.Tries, Read: complete, Now: pass.now,
		Original: targets.OriginalRequests(targets.View{Workload: w, Settings: pass.settings, Status: rec.Status}), Template: targets.TemplateRequests(w),
		Past: func(container string, of recommender.Resource) autoscale.Past {
			key := pass.key(w, container)
			known := r.history.Covered(key, of)
			return autoscale.Past{Spans: r.history.Spans(key, of), Since: known.Since, Until: known.Until, Window: known.Window, Why: known.Why}
		},
		Stranger: stranger,
	})
}

// keeping reports whether the setting Keep or Retarget matters to the workload, or did when attune changed a target.
func keeping(pass pass, w workload.Workload, holds autoscale.Holds) bool {
	return holds.Retargeted() || pass.settings.KeepsAnyReplicas() && holds.Keeping(targets.SizedNames(w.Template, pass.settings), pass.settings.KeepsReplicas)
}

// limitsInForce returns the memory limits of the workload's running pods; nil: they do not matter, or are not known.
func (r reader) limitsInForce(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload) map[string]targets.LimitInForce {
	if pass.settings.Strategy == v1alpha1.StrategyNode || !pass.settings.SizesNewPods() ||
		!targets.RaisesLimits(&rec.Spec, w.Template) {
		return nil
	}
	pods, err := lookup.Pods(ctx, r.client, w.Identity)
	if err != nil {
		return nil
	}
	return targets.LimitsInForce(pods)
}

// bound returns the most that the workload's pods may request (targets.LargestOf), and whether the node behind that
// limit was deleted.
func (r reader) bound(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload) (bound [2]recommender.Amount, gone bool) {
	known := r.largest(ctx, w)
	bound = targets.LargestOf(known, rec.Spec.LargestNode, placementOf(w.Template), w.Kind, pass.settings.Source.HistoryWindow, pass.now)
	return bound, bound != known
}

// complete reports whether the history of the workload has been read. Until then, for example after a change of
// leader, an empty history only means that it has not been read yet. The state of other workloads does not count:
// users can add workloads at any time, and would otherwise keep all others incomplete.
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

// implausible returns the samples of a workload's containers that were dropped in the last day, by name; nil: none
// were.
func (r reader) implausible(pass pass, w workload.Workload) (out map[string][2]recommender.Implausible) {
	for _, container := range targets.Sized(w.Template, pass.settings) {
		if dropped := r.history.Implausible(pass.key(w, container.Name), pass.now); dropped != ([2]recommender.Implausible{}) {
			podview.SetIn(&out, container.Name, dropped)
		}
	}
	return out
}

// silent reports that the source returns nothing although the workload runs. A workload that does not run (a CronJob
// between runs, zero replicas) is not silent: it has nothing to measure. The function reads the cache of pods only if
// the last sample is old, because most workloads have fresh samples. In case of doubt the source counts as silent,
// and nothing is changed.
func (r reader) silent(ctx context.Context, pass pass, w workload.Workload, last time.Time) bool {
	most := pass.settings.Recommender.StaleAfter()
	if pass.now.Sub(last) <= most {
		return false
	}
	pods, err := lookup.Pods(ctx, r.client, w.Identity)
	silent := err != nil || targets.Ran(pods, last, pass.now) > most
	r.history.Await(pass.key(w, ""), silent && !last.IsZero())
	return silent
}

// fresh reports whether a container has both resources since a time. CPU may come a minute after memory, because a rate
// needs two samples.
func fresh(profiles map[string]recommender.Profile, since time.Time) bool {
	for _, p := range profiles {
		if !p.Of[recommender.CPU].Last.Before(since) && !p.Of[recommender.Memory].Last.Before(since) {
			return true
		}
	}
	return false
}

// holds returns the resources of a workload that autoscalers control, or controlled less than a day ago; errUnlisted:
// they are not known.
func (r reader) holds(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w workload.Workload, now time.Time) (autoscale.Holds, error) {
	if r.autoscalers == nil {
		return autoscale.Holds{}, nil
	}
	holds, err := r.autoscalers.Of(ctx, w)
	if err != nil {
		return holds, fmt.Errorf("%w: %w", errUnlisted, err)
	}
	return holds.WithStored(rec.Spec.HPABindings, now), nil
}

// errUnlisted means that the autoscalers are not known, so nothing is recommended. A target for a resource that an
// HPA scales on would make both controllers react to each other.
var errUnlisted = errors.New("cannot list autoscalers")

// checkpointsDue reports that the stored checkpoints of a recommendation must be compared with the history again.
// Each recommendation stores its checkpoints in the spec. After a restart, they restore the past of a source that
// does not store it.
func (r reader) checkpointsDue(pass pass, rec *v1alpha1.AttuneRecommendation) bool {
	// No source knows which deleted Jobs and Deployments had an identity.
	forgets := rec.Spec.Identity != "" || r.history.Forgets(pass.settings.Source)
	return targets.CheckpointDue(rec.Spec, forgets, pass.now)
}

// restore adds the checkpoints of a workload as the past of its history. The store accepts each once, so later calls
// cost almost nothing. A checkpoint that cannot be used is logged and skipped: it must not block the recommendation.
func (r reader) restore(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload) {
	tryRestoring := func(container string, data []byte) {
		if err := r.history.Restore(pass.key(w, container), data, pass.now); err != nil {
			log.FromContext(ctx).Error(err, "Cannot restore the history from a checkpoint", "recommendation", rec.Name)
		}
	}
	for _, checkpoint := range rec.Spec.Checkpoints {
		tryRestoring(checkpoint.Name, checkpoint.Data)
	}
	if replicas := storedReplicas(rec.Spec.Checkpoints); replicas != nil {
		tryRestoring("", replicas)
	}
}

// storedReplicas returns the history of the replicas in the checkpoints of a workload; nil: there is none.
func storedReplicas(stored []v1alpha1.Checkpoint) []byte {
	for _, checkpoint := range stored {
		if len(checkpoint.Replicas) > 0 {
			return checkpoint.Replicas
		}
	}
	return nil
}

// checkpointsBytes limits the size of the checkpoints of one workload. With many containers each is coarser, so that
// the object stays small.
const checkpointsBytes = 12 << 10

// renewed returns the checkpoints to store: new ones if the history has changed, otherwise the stored ones, until all
// of their data is older than the history window.
func (r reader) renewed(pass pass, w workload.Workload, stored []v1alpha1.Checkpoint) []v1alpha1.Checkpoint {
	var out []v1alpha1.Checkpoint
	containers := targets.Sized(w.Template, pass.settings)
	most := min(history.MaxCheckpoint, checkpointsBytes/max(1, len(containers)))
	for _, container := range containers {
		i := slices.IndexFunc(stored, func(s v1alpha1.Checkpoint) bool { return s.Name == container.Name })
		var kept []byte
		if i >= 0 {
			kept = stored[i].Data
		}
		data := r.history.Checkpoint(pass.key(w, container.Name), most, kept)
		switch {
		case data != nil && (i < 0 || !bytes.Equal(data, stored[i].Data)):
			at := metav1.Time{Time: pass.now.UTC().Truncate(time.Second)}
			out = append(out, v1alpha1.Checkpoint{Name: container.Name, At: at, Data: data})
		case i >= 0 && (data != nil || stored[i].At.After(pass.now.Add(-pass.settings.Source.HistoryWindow))):
			out = append(out, stored[i])
		}
	}
	replicas := r.history.Checkpoint(pass.key(w, ""), checkpointsBytes, storedReplicas(stored))
	for i := range out {
		out[i].Replicas = nil
		if i == 0 {
			out[i].Replicas = replicas
		}
	}
	return out
}
