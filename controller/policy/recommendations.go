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
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// recommendations reads and writes AttuneRecommendations: of each, its spec alone. The status belongs to
// the workload loop.
type recommendations struct{ client client.Client }

// of returns a policy's recommendations by name. The objects are the cache's own: copy one before you
// change it.
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

// take returns the workload's object, or a new one that is not written yet (without a uid). It removes the
// object from known: what is left there at the end of the pass is no longer the policy's. An object that
// is not in known may exist: it belongs to the policy that sized the workload before.
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

// write creates the object, or patches what has changed since it was read. It does not update the whole
// object, because the cache does not keep all of its fields.
func (r recommendations) write(ctx context.Context, read, rec *v1alpha1.AttuneRecommendation) error {
	if rec.UID == "" {
		return r.client.Create(ctx, rec)
	}
	return r.client.Patch(ctx, rec, loop.Locked(read))
}

// tryWriting writes unless the same was refused a short while ago. It returns nil, a refusal (which is
// about this object only), or an error that is about the API server. The wait after a refusal doubles from
// leastWait to mostWait.
func (r recommendations) tryWriting(ctx context.Context, pass pass, read, rec *v1alpha1.AttuneRecommendation) error {
	last := pass.refused[rec.Name]
	if pass.now.Before(last.until) {
		return last
	}
	kind := rec.Spec.Policy.Kind
	err := r.write(ctx, read, rec)
	if err == nil && rec.Spec.Policy.Kind != kind { // the answer has what is stored
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

// errOldCRD is why a recommendation of a cluster policy does not count as written: without its kind it would be taken for
// that of an AttunePolicy, and written anew in every pass.
var errOldCRD = errors.New("the CRD attunerecommendations.attune.io is older than the operator and drops spec.policy.kind: apply all CRDs of the chart (crd-files)")

// release removes the seeds and targets of workloads that the policy no longer sizes, and stores why. The
// workload loop finishes their open watches; kept sizes stay in the status. It goes on after a failure and
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
		rec.Spec.Mode, rec.Spec.Seed, rec.Spec.SeedWithheld = v1alpha1.UpdateObserve, nil, why(read)
		rec.Spec.Containers, rec.Spec.EvictionRanking, rec.Spec.NodeGroup = nil, "", ""
		if err := r.write(ctx, read, rec); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("releasing AttuneRecommendation %s: %w", rec.Name, err))
		}
	}
	return errors.Join(failed...)
}

// released reports that a spec has nothing left that would be applied to pods.
func released(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Mode == v1alpha1.UpdateObserve && spec.Seed == nil && len(spec.Containers) == 0
}

// leastWait is how soon a refused recommendation is written again, mostWait how soon at the latest; the
// wait doubles in between. A user's rule or quota refuses it, and a write in every pass does not change
// that.
const leastWait, mostWait = time.Minute, 16 * time.Minute

// refusal is why the API server did not accept a workload's recommendation. It is an error.
type refusal struct {
	// recommendation is the object's name, workload the kind and name of what it sizes.
	recommendation, workload string
	reason                   string
	// times is how often in a row it was refused; until is when it is tried again.
	times int
	until time.Time
}

func (r refusal) Error() string { return r.workload + ": " + r.reason }

// ofTheObject reports whether an error is about this object, and not about its version or the state of the
// API server: those pass, and the queue tries again.
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

// nextTry returns when a policy is looked at if nothing happens: after resync, or sooner for a refused
// write.
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
