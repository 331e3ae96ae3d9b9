package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// pass holds the inputs of one reconcile of a policy, computed once for all of its workloads.
type pass struct {
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	// digest is the hash of the settings that is stored in each spec; source is part of the keys of the history.
	digest string
	source usage.Digest
	// settled reports that new samples have continued the restored histories. Before that, a restored history seems
	// to have ended, and its workload would look stopped.
	settled bool
	// young is history.State.Young.
	young bool
	// known are the policy's recommendations by name. Each reconciled workload removes its own, so that the rest must
	// be released at the end. The objects belong to the cache.
	known map[string]*v1alpha1.AttuneRecommendation
	// refused are the writes that the API server rejected recently, by the recommendation's name.
	refused map[string]refusal
	// before are the decisions of the last pass and made those of this one, both by the recommendation's name.
	before, made map[string]targets.Decision
	now          time.Time
	// identities are those of the matching.
	identities map[workload.Identity]string
}

// key is the key of a container's history; an empty container stands for the whole workload.
func (p pass) key(w workload.Workload, container string) history.Key {
	return history.Key{Source: p.source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name, Container: container}
}

// outcome is the result of reconciling a policy's workloads.
type outcome struct {
	// recommendations are for the won workloads, in the same order as matched.won: status.go pairs them by index.
	recommendations []v1alpha1.AttuneRecommendation
	// refused are the recommendations that the API server rejected.
	refused []refusal
	// open reports that a resize of the policy is in flight or under observation.
	open bool
	// later is why the policy must be reconciled again soon: another writer was first; nil: no need.
	later error
}

// recommend writes the AttuneRecommendation of each workload that the policy won, if the change is worth a write, and
// releases those that the policy no longer sizes. A rejected recommendation does not affect the others. On an error
// that affects all, it returns the work done so far.
func (c *Controller) recommend(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings,
	matched matched, now time.Time) (outcome, error) {
	key := client.ObjectKeyFromObject(p)
	s := sizer{reader: reader{c.Client, c.History, c.Autoscalers, &lookup.Strangers{Reader: c.Client, Now: now}, c.largestNow}, recommendations: recommendations{c.Client}, loop: c}
	recs, err := s.recommendations.of(ctx, p)
	if err != nil {
		return outcome{}, err
	}
	state, _ := s.history.State(settings.Source)
	s.pass = pass{
		policy: p, settings: settings, digest: settings.Digest(), source: settings.Source.Digest(),
		settled: !now.Before(state.SettledAt), young: state.Young, known: recs, refused: byName(c.policies.refused.Of(key)), now: now,
		before: c.policies.decided.Of(key).under(settings), made: map[string]targets.Decision{}, identities: matched.identities,
	}
	defer func() { c.policies.decided.Put(key, decided{p.Generation, settings, s.made}) }()
	out := outcome{recommendations: make([]v1alpha1.AttuneRecommendation, 0, len(matched.won)), open: watched(recs)}
	for _, w := range matched.won {
		rec, err := s.size(ctx, w)
		if err := out.recordWriteError(err); err != nil {
			return out, err
		}
		out.recommendations = append(out.recommendations, *rec)
		out.open = out.open || len(rec.Status.Records) > 0
	}
	// The recommendations left in known are no longer the policy's.
	if c.policies.refused.Forget(key); len(out.refused) > 0 {
		c.policies.refused.Put(key, out.refused)
	}
	s.keepUnseen(matched)
	// What no workload has taken out of known is no longer the policy's.
	return out, s.recommendations.release(ctx, s.known, matched.whyReleased)
}

// recordWriteError records why one recommendation was not written. It returns an error only if that affects all of
// them.
func (o *outcome) recordWriteError(err error) error {
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

// sizer updates the recommendations for one policy's workloads, one after the other, within one pass. It is for one
// goroutine.
type sizer struct {
	pass
	reader
	recommendations recommendations
	loop            *Controller
}

// size returns the workload's AttuneRecommendation, and writes it if the stored one is out of date.
//  1. If nothing has changed since the last pass, the last decision is reused without a computation.
//  2. Checkpoints are restored before the profile is read: they are part of the history.
//  3. News is read before the view: data that arrives between the two then counts as news for the next
//     pass.
//  4. The target is computed without an explanation, and compared. Only a target to be written is explained.
//  5. A target is stored together with the checkpoint of the history that it was computed from.
func (s *sizer) size(ctx context.Context, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
	rec, err := s.recommendations.takeKnownOrNew(ctx, s.known, w)
	if err != nil || anothers(s.loop.Operator, rec) {
		return rec, err
	}
	holds, err := s.holds(ctx, rec, w, s.now)
	if err != nil {
		return nil, err
	}
	complete := s.complete(s.pass, w)
	facing, timeless := s.facts(ctx, s.pass, rec, w, holds)
	if known, ok := s.before[rec.Name]; ok && timeless && complete && s.stillDecided(ctx, rec, w, known, facing) {
		s.made[rec.Name] = known
		s.confirm(rec, known.DataUntil)
		return rec, nil
	}
	s.restore(ctx, s.pass, rec, w)
	// Data that arrives from here on is news for the next reconcile, and a history that becomes complete from here on
	// is not complete in this one.
	complete = s.complete(s.pass, w)
	facing.News = s.history.News(s.key(w, ""))
	v := s.view(ctx, s.pass, rec, w, s.keep(ctx, s.pass, rec, w, holds, complete))
	wanted := targets.Wanted(rec, v, complete)
	writing := rec.UID == "" || targets.WorthWriting(rec, wanted, s.now)
	checkpoints := rec.Spec.Checkpoints
	if writing || s.checkpointsDue(s.pass, rec) {
		// A target is stored together with the history behind it.
		checkpoints = s.renewed(s.pass, w, checkpoints)
	}
	if !writing && targets.SameCheckpoints(rec.Spec.Checkpoints, checkpoints) {
		if !complete { // a target that was carried over confirms nothing
			return rec, nil
		}
		s.confirmUpToDate(rec, facing, v, wanted.DataUntil, timeless)
		return rec, nil
	}
	v.Explained = true
	wanted = targets.Wanted(rec, v, complete)
	targets.Brief(wanted.Containers)
	wanted.Checkpoints = checkpoints
	// The client decodes the answer into the object: it must share nothing with the cache.
	written := rec.DeepCopy()
	written.Spec = *wanted.DeepCopy()
	if err := s.recommendations.tryWriting(ctx, s.pass, rec, written); err != nil {
		return rec, err
	}
	return written, nil
}

// confirmUpToDate records that the stored recommendation is up to date, and confirms it with the time of the newest
// data. Both are in memory only.
func (s *sizer) confirmUpToDate(rec *v1alpha1.AttuneRecommendation, facing targets.Decision, v targets.View, until *metav1.Time, timeless bool) {
	if until != nil {
		facing.DataUntil = until.Time
	}
	facing.Silent = v.History.Silent
	if timeless {
		s.made[rec.Name] = facing.Lasting(v)
	}
	s.confirm(rec, facing.DataUntil)
}

// stillDecided reports that no input of the last decision has changed, and that the stored checkpoints are up to
// date.
func (s *sizer) stillDecided(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w workload.Workload, known, facing targets.Decision) bool {
	facing.Silent = s.silent(ctx, s.pass, w, known.DataUntil)
	if !known.Stands(facing, s.now) ||
		s.checkpointsDue(s.pass, rec) && !targets.SameCheckpoints(rec.Spec.Checkpoints, s.renewed(s.pass, w, rec.Spec.Checkpoints)) {
		return false
	}
	if s.loop.Doubt != nil {
		v := s.view(ctx, s.pass, rec, w, s.keep(ctx, s.pass, rec, w, facing.Holds, true))
		s.loop.Doubt(ctx, rec.Name, targets.WorthWriting(rec, targets.Wanted(rec, v, true), s.now))
	}
	return true
}

// confirm publishes that the stored targets are valid with data until a time. If the data of a recommendation was
// stale and is fresh again, it notifies the workload loop, which sees no write.
func (s *sizer) confirm(rec *v1alpha1.AttuneRecommendation, dataUntil time.Time) {
	if dataUntil.IsZero() {
		return
	}
	key, oldest := client.ObjectKeyFromObject(rec), s.now.Add(-s.settings.Recommender.StaleAfter())
	known := s.loop.Confirmed.Confirm(key, dataUntil)
	if known.Before(oldest) && rec.Spec.DataUntil.Time.Before(oldest) && !dataUntil.Before(oldest) && s.loop.Reconfirmed != nil {
		s.loop.Reconfirmed(key)
	}
}

// anothers reports that a workload is paused because two attune installations alternately wrote it, and that the
// other one manages it. This installation then writes nothing about it, to end the alternation.
func anothers(operator string, rec *v1alpha1.AttuneRecommendation) bool {
	return operator != "" && rec.Status.Paused != nil && rec.Status.Operator != "" && rec.Status.Operator != operator
}

// recommendations reads and writes AttuneRecommendations. It writes only the spec: the status belongs to the workload
// loop.
type recommendations struct{ client client.Client }

// of returns a policy's recommendations by name. The objects belong to the cache: copy one before you change it.
func (r recommendations) of(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	err := r.client.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{policy.RecommendationsByPolicy: p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing recommendations of policy %s: %w", p.Name, err)
	}
	recs := make(map[string]*v1alpha1.AttuneRecommendation, len(list.Items))
	for i := range list.Items {
		recs[list.Items[i].Name] = &list.Items[i]
	}
	return recs, nil
}

// takeKnownOrNew returns the workload's object, or a new one that is not written yet (without a UID). It removes the
// object from known: the rest at the end of the pass is no longer the policy's. An object that is not in known may
// exist: it belongs to the policy that sized the workload before.
func (r recommendations) takeKnownOrNew(ctx context.Context, known map[string]*v1alpha1.AttuneRecommendation, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
	name := w.RecommendationName()
	if rec := known[name]; rec != nil {
		delete(known, name)
		return rec, nil
	}
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = w.Namespace, name
	err := r.client.Get(ctx, client.ObjectKeyFromObject(rec), rec)
	if apierrors.IsNotFound(err) {
		rec.Labels = w.RecommendationLabels()
		rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: w.Kind, Name: w.Name}
		return rec, nil
	}
	return rec, err
}

// write creates the object, or patches the fields that have changed since it was read. It does not update the whole
// object, because the cache does not store all of its fields.
func (r recommendations) write(ctx context.Context, read, rec *v1alpha1.AttuneRecommendation) error {
	if rec.UID == "" {
		return r.client.Create(ctx, rec)
	}
	return r.client.Patch(ctx, rec, loop.Locked(read))
}

// tryWriting writes unless the write is in backoff. It returns nil, a refusal (which is about this object only), or
// an error that is about the API server. The backoff doubles from leastWait to mostWait.
func (r recommendations) tryWriting(ctx context.Context, pass pass, read, rec *v1alpha1.AttuneRecommendation) error {
	last := pass.refused[rec.Name]
	if pass.now.Before(last.until) {
		return last
	}
	kind := rec.Spec.Policy.Kind
	err := r.write(ctx, read, rec)
	if err == nil && rec.Spec.Policy.Kind != kind { // the answer has the stored object
		err = errOldCRD
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errOldCRD) && !ofTheObject(err):
		return fmt.Errorf("writing AttuneRecommendation %s: %w", rec.Name, err)
	}
	times := last.times + 1
	about := rec.Spec.Workload
	return refusal{
		recommendation: rec.Name, workload: string(about.Kind) + "/" + about.Name, reason: sentence(err),
		times: times, until: pass.now.Add(backoff.Wait(leastWait, mostWait, times)),
	}
}

// errOldCRD is why a recommendation of a cluster policy does not count as written: without its kind it would be read
// as that of an AttunePolicy, and written again in every pass.
var errOldCRD = errors.New("the CRD attunerecommendations.attune.io is older than the operator and drops spec.policy.kind: apply all CRDs of the chart (crd-files)")

// release removes the seeds and targets of workloads that the policy no longer sizes, and stores the reason. The
// workload loop completes their observation periods; verified sizes stay in the status. An error does not stop it; it
// returns all errors.
func (r recommendations) release(ctx context.Context, recs map[string]*v1alpha1.AttuneRecommendation, why func(*v1alpha1.AttuneRecommendation) string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[name]
		if released(rec.Spec) {
			continue
		}
		read := rec
		rec = rec.DeepCopy()
		rec.Spec.Mode, rec.Spec.Seed, rec.Spec.SeedBlocked = v1alpha1.UpdateObserve, nil, why(read)
		rec.Spec.Containers, rec.Spec.EvictionRanking, rec.Spec.NodeGroup = nil, "", ""
		rec.Spec.PolicySource = false
		if err := r.write(ctx, read, rec); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("releasing AttuneRecommendation %s: %w", rec.Name, err))
		}
	}
	return errors.Join(failed...)
}

// released reports that a spec has nothing left to apply to pods.
func released(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Mode == v1alpha1.UpdateObserve && spec.Seed == nil && len(spec.Containers) == 0
}

// leastWait is the first backoff of a rejected recommendation, mostWait the longest; it doubles in between. A user's
// rule or quota rejects it, and writing in every pass would not change that.
const leastWait, mostWait = time.Minute, 16 * time.Minute

// refusal is why the API server rejected a workload's recommendation. It is an error.
type refusal struct {
	// recommendation is the name of the object, workload the kind and name of its workload.
	recommendation, workload string
	reason                   string
	// times counts consecutive rejections; until is the time of the next attempt.
	times int
	until time.Time
}

func (r refusal) Error() string { return r.workload + ": " + r.reason }

// ofTheObject reports whether an error is about the content of this object, and not about its version or the state of
// the API server: those are temporary, and the queue tries again.
func ofTheObject(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false
	}
	switch answer.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// nextTry returns when to reconcile a policy without an event: after resync, or sooner for a rejected write.
func nextTry(refused []refusal, now time.Time) time.Duration {
	next := resync
	for _, r := range refused {
		next = min(next, max(r.until.Sub(now), time.Second))
	}
	return next
}

// byName indexes refusals by the recommendation's name.
func byName(refused []refusal) map[string]refusal {
	out := make(map[string]refusal, len(refused))
	for _, r := range refused {
		out[r.recommendation] = r
	}
	return out
}
