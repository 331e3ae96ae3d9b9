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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// recommendations reads and writes AttuneRecommendations: of each, its spec alone.
type recommendations struct{ client client.Client }

// of a policy, by name. They are the cache's own: to change one, copy it.
func (r recommendations) of(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	err := r.client.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{byPolicy: p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing recommendations of policy %s: %w", p.Name, err)
	}
	recs := make(map[string]*v1alpha1.AttuneRecommendation, len(list.Items))
	for i := range list.Items {
		recs[list.Items[i].Name] = &list.Items[i]
	}
	return recs, nil
}

// take is the workload's object, or a new one that is not written yet. It is taken out of those
// that are known: what is left there is no longer the policy's. One that is not there may be another
// policy's, whose workload it was.
func (r recommendations) take(ctx context.Context, known map[string]*v1alpha1.AttuneRecommendation, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
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

// write what has changed since it was read: the cache does not keep all of it.
func (r recommendations) write(ctx context.Context, read, rec *v1alpha1.AttuneRecommendation) error {
	if rec.UID == "" {
		return r.client.Create(ctx, rec)
	}
	return r.client.Patch(ctx, rec, locked(read))
}

// tryWriting writes unless that was refused a short while ago.
func (r recommendations) tryWriting(ctx context.Context, pass pass, read, rec *v1alpha1.AttuneRecommendation) error {
	last := pass.refused[rec.Name]
	if pass.now.Before(last.until) {
		return last
	}
	err := r.write(ctx, read, rec)
	switch {
	case err == nil:
		return nil
	case !ofTheObject(err):
		return fmt.Errorf("writing AttuneRecommendation %s: %w", rec.Name, err)
	}
	wait := min(max(2*last.wait, leastWait), mostWait)
	about := rec.Spec.Workload
	return refusal{
		recommendation: rec.Name, workload: string(about.Kind) + "/" + about.Name, reason: sentence(err),
		wait: wait, until: pass.now.Add(wait),
	}
}

// release stops seeding for workloads that the policy had and no longer has, and says why. Their open watches are
// finished by the workload loop; proven sizes stay.
func (r recommendations) release(ctx context.Context, recs map[string]*v1alpha1.AttuneRecommendation, why func(*v1alpha1.AttuneRecommendation) string) error {
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
		if err := r.write(ctx, read, rec); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("releasing AttuneRecommendation %s: %w", rec.Name, err))
		}
	}
	return errors.Join(failed...)
}

func released(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Mode == v1alpha1.UpdateObserve && spec.Seed == nil && len(spec.Containers) == 0
}

// locked is the change of an object since before, if nobody else has changed it meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// A recommendation that the API server refuses is tried again after leastWait, and after twice as long each
// time, up to mostWait: what refuses it is somebody's rule or quota, which a pass every moment does not change.
const leastWait, mostWait = time.Minute, 16 * time.Minute

// refusal is why the API server did not take a workload's recommendation.
type refusal struct {
	// recommendation is the object's name, workload what it sizes.
	recommendation, workload string
	reason                   string
	// wait is how long it was put off, until the time when it is tried again.
	wait  time.Duration
	until time.Time
}

func (r refusal) Error() string { return r.workload + ": " + r.reason }

// ofTheObject: an answer that is about this object, and not about its version or the API server's own state.
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

// nextTry is when a policy is looked at again where nothing happens.
func nextTry(refused []refusal, now time.Time) time.Duration {
	next := resync
	for _, r := range refused {
		next = min(next, max(r.until.Sub(now), time.Second))
	}
	return next
}

// byName are refusals by the recommendation's name.
func byName(refused []refusal) map[string]refusal {
	out := make(map[string]refusal, len(refused))
	for _, r := range refused {
		out[r.recommendation] = r
	}
	return out
}
