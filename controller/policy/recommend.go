package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

// pass is what one look at a policy rests on, worked out once for all of its workloads.
type pass struct {
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	digest   string
	source   usage.Digest
	// settled: histories that were restored have been continued.
	settled bool
	// known are the policy's recommendations by name, less those of the workloads that were looked at. They
	// are the cache's own.
	known map[string]*v1alpha1.AttuneRecommendation
	// refused are the writes that were not taken, by the recommendation's name.
	refused map[string]refusal
	// before are the decisions of the last pass, made those of this one, both by the recommendation's name.
	before, made map[string]decision
	now          time.Time
}

// outcome of a look at a policy's workloads.
type outcome struct {
	// recommendations of the workloads that were won, in their order.
	recommendations []v1alpha1.AttuneRecommendation
	// refused are those of them that the API server did not take.
	refused []refusal
	// open: a pod is being resized or watched for the policy.
	open bool
	// later is why the policy is to be looked at again: another writer was first.
	later error
}

// recommend writes the AttuneRecommendation of each workload that the policy won, on change only, and
// releases those of the workloads that it no longer has. One that is refused is no other's trouble.
func (c *Controller) recommend(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings,
	matched matched, now time.Time) (outcome, error) {
	recs, err := c.recommendationsOf(ctx, p)
	if err != nil {
		return outcome{}, err
	}
	key := client.ObjectKeyFromObject(p)
	pass := pass{
		policy: p, settings: settings, digest: settings.Digest(), source: settings.Source.Digest(),
		settled: c.settled(settings, now), known: recs, refused: c.refused.of(key), now: now,
		before: c.decided.last(key, settings), made: map[string]decision{},
	}
	defer func() { c.decided.keep(key, settings, pass.made) }()
	out := outcome{recommendations: make([]v1alpha1.AttuneRecommendation, 0, len(matched.won)), open: watched(recs)}
	for _, w := range matched.won {
		rec, err := c.recommendWorkload(ctx, pass, w)
		if err := out.note(err); err != nil {
			return out, err
		}
		out.recommendations = append(out.recommendations, *rec)
		out.open = out.open || len(rec.Status.Records) > 0
	}
	c.refused.keep(key, out.refused)
	return out, c.release(ctx, pass.known, matched.whyReleased)
}

// note what kept one recommendation from being written; an error that it returns concerns them all.
func (o *outcome) note(err error) error {
	var refused refusal
	switch {
	case errors.As(err, &refused):
		o.refused = append(o.refused, refused)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		o.later = err
	default:
		return err
	}
	return nil
}

// recommendWorkload is the workload's AttuneRecommendation, written where it is not what it should be.
func (c *Controller) recommendWorkload(ctx context.Context, pass pass, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
	rec, err := c.recommendation(ctx, pass, w)
	if err != nil || c.anothers(rec) {
		return rec, err
	}
	holds, err := c.holds(ctx, w)
	if err != nil {
		return nil, err
	}
	complete := c.complete(pass, w)
	facing, timeless := c.facing(pass, rec, w, holds)
	if known, ok := pass.before[rec.Name]; ok && timeless && complete && c.stillDecided(ctx, pass, rec, w, known, facing) {
		pass.made[rec.Name] = known
		c.confirm(pass, rec, known.dataUntil)
		return rec, nil
	}
	c.resume(ctx, pass, rec, w)
	// What comes while it is decided is news for the next look, and a past that ends meanwhile was not there.
	complete = c.complete(pass, w)
	facing.news = c.History.News(pass.key(w, ""))
	in := c.inputsOf(ctx, pass, rec, w, holds)
	wanted := wantedOf(rec, in, complete)
	writing := rec.UID == "" || worthWriting(rec, wanted, pass.now)
	checkpoints := rec.Spec.Checkpoints
	if writing || c.checkpointDue(pass, rec) {
		// A target is stored together with the history that it rests on.
		checkpoints = c.checkpoints(pass, w, checkpoints)
	}
	if !writing && sameCheckpoints(rec.Spec.Checkpoints, checkpoints) {
		if !complete { // what is carried over tells nothing new
			return rec, nil
		}
		c.stands(pass, rec, facing, in, wanted.DataUntil, timeless)
		return rec, nil
	}
	in.explained = true
	wanted = wantedOf(rec, in, complete)
	brief(wanted.Containers)
	wanted.Checkpoints = checkpoints
	// Writing decodes the answer into the object: nothing of it may be the cache's.
	written := rec.DeepCopy()
	written.Spec = *wanted.DeepCopy()
	if err := c.tryWriting(ctx, pass, rec, written); err != nil {
		return rec, err
	}
	return written, nil
}

// stands: what is stored of a recommendation is what would be written. By which data, is known in memory.
func (c *Controller) stands(pass pass, rec *v1alpha1.AttuneRecommendation, facing decision, in inputs, until *metav1.Time, timeless bool) {
	if until != nil {
		facing.dataUntil = until.Time
	}
	facing.silent = in.silent
	if timeless {
		pass.made[rec.Name] = facing.lasts(pass, rec, in.profiles)
	}
	c.confirm(pass, rec, facing.dataUntil)
}

// inputsOf a look at a workload.
func (c *Controller) inputsOf(ctx context.Context, pass pass, rec *v1alpha1.AttuneRecommendation, w workload.Workload, holds autoscale.Holds) inputs {
	in := inputs{
		workload: w, policy: pass.policy, settings: pass.settings, settingsDigest: pass.digest,
		status: rec.Status, stored: rec.Spec.Containers, standing: rec.Spec.Seed, now: pass.now,
		profiles: c.profiles(pass, w), blocked: holds.On,
	}
	in.silent = c.silent(ctx, pass, w, newest(in.profiles))
	if pass.settings.Strategy == v1alpha1.StrategyNode {
		in.highest = c.highest(pass, w)
	}
	return in
}

// wantedOf is what the recommendation should be by now.
func wantedOf(rec *v1alpha1.AttuneRecommendation, in inputs, complete bool) v1alpha1.AttuneRecommendationSpec {
	wanted := desired(in)
	if rec.UID != "" && !complete {
		return carriedOver(rec.Spec, wanted, in)
	}
	return wanted
}

// confirm that the stored targets still hold. Whose data was too old to act on as far as was known is looked at again:
// nothing is written that would tell.
func (c *Controller) confirm(pass pass, rec *v1alpha1.AttuneRecommendation, dataUntil time.Time) {
	if dataUntil.IsZero() {
		return
	}
	key, oldest := client.ObjectKeyFromObject(rec), pass.now.Add(-pass.settings.Recommender.StaleAfter())
	known := c.Confirmed.Confirm(key, dataUntil)
	if known.Before(oldest) && rec.Spec.DataUntil.Time.Before(oldest) && !dataUntil.Before(oldest) && c.Reconfirmed != nil {
		c.Reconfirmed(key)
	}
}

// anothers: two operators took turns at a workload, which is paused for it, and the other one looks after it. This
// one writes nothing about it, so that there is an end to it.
func (c *Controller) anothers(rec *v1alpha1.AttuneRecommendation) bool {
	return c.Operator != "" && rec.Status.Paused != nil && rec.Status.Operator != "" && rec.Status.Operator != c.Operator
}

func (c *Controller) holds(ctx context.Context, w workload.Workload) (autoscale.Holds, error) {
	if c.Autoscalers == nil {
		return autoscale.Holds{}, nil
	}
	holds, err := c.Autoscalers.Of(ctx, w)
	if err != nil {
		return holds, fmt.Errorf("%w: %w", errUnlisted, err)
	}
	return holds, nil
}

// errUnlisted: what autoscalers hold is not known, so that nothing is recommended.
var errUnlisted = errors.New("autoscalers cannot be listed")

func (c *Controller) profiles(pass pass, w workload.Workload) map[string]recommender.Profile {
	out := map[string]recommender.Profile{}
	for _, container := range sized(w.Template, pass.settings) {
		if profile, ok := c.History.Profile(pass.key(w, container.Name), pass.now); ok {
			out[container.Name] = profile
		}
	}
	return out
}

func (c *Controller) highest(pass pass, w workload.Workload) func(string, recommender.Resource) node.Span {
	return func(container string, r recommender.Resource) node.Span {
		return func(from, to time.Time) (recommender.Usage, bool) {
			return c.History.Highest(pass.key(w, container), r, from, to)
		}
	}
}

// recommendation is the workload's object, or a new one that is not written yet. It is taken out of those
// that are known: what is left there is no longer the policy's. One that is not there may be another
// policy's, whose workload it was.
func (c *Controller) recommendation(ctx context.Context, pass pass, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
	name := w.RecommendationName()
	if rec := pass.known[name]; rec != nil {
		delete(pass.known, name)
		return rec, nil
	}
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = w.Namespace, name
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(rec), rec)
	if apierrors.IsNotFound(err) {
		rec.Labels = w.RecommendationLabels()
		rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: w.Kind, Name: w.Name}
		return rec, nil
	}
	return rec, err
}

// write what has changed since it was read: the cache does not keep all of it.
func (c *Controller) write(ctx context.Context, read, rec *v1alpha1.AttuneRecommendation) error {
	if rec.UID == "" {
		return c.Client.Create(ctx, rec)
	}
	return c.Client.Patch(ctx, rec, locked(read))
}

// release stops seeding for workloads that the policy had and no longer has, and says why. Their open watches are
// finished by the workload loop; proven sizes stay.
func (c *Controller) release(ctx context.Context, recs map[string]*v1alpha1.AttuneRecommendation, why func(*v1alpha1.AttuneRecommendation) string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[name]
		if released(rec.Spec) {
			continue
		}
		read := rec
		rec = rec.DeepCopy()
		rec.Spec.Mode, rec.Spec.Seed, rec.Spec.SeedWithheld = v1alpha1.UpdateObserve, nil, why(read)
		rec.Spec.Containers, rec.Spec.EvictionRanking, rec.Spec.NodeGroup = nil, "", ""
		if err := c.write(ctx, read, rec); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("releasing AttuneRecommendation %s: %w", rec.Name, err))
		}
	}
	return errors.Join(failed...)
}

func released(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Mode == v1alpha1.UpdateObserve && spec.Seed == nil && len(spec.Containers) == 0
}

// recommendationsOf are a policy's, by name. They are the cache's own: to change one, copy it.
func (c *Controller) recommendationsOf(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	err := c.Client.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{byPolicy: p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing recommendations of policy %s: %w", p.Name, err)
	}
	recs := make(map[string]*v1alpha1.AttuneRecommendation, len(list.Items))
	for i := range list.Items {
		recs[list.Items[i].Name] = &list.Items[i]
	}
	return recs, nil
}
