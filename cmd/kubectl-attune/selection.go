package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/nearest"
	"attune.io/attune/cmd/kubectl-attune/selection"
	"attune.io/attune/internal/workload"
)

// workloads holds workloads by identity.
type workloads map[workload.Identity]workload.Workload

// selectRecommendations returns the recommendations of the named workloads, else of every workload in scope,
// sorted by namespace, kind and name. A named workload without a recommendation is an error.
//
// -l selects by the labels of the workloads. Recommendations do not have those, so the workloads are listed too.
func (e *environment) selectRecommendations(ctx context.Context, r reach, arguments []string) ([]v1alpha1.AttuneRecommendation, error) {
	if len(arguments) > 0 {
		return e.namedRecommendations(ctx, r, arguments)
	}
	var list v1alpha1.AttuneRecommendationList
	if err := r.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return nil, fmt.Errorf("listing the recommendations: %w", err)
	}
	// The API server's order is that of the recommendations' names, which are derived and mean nothing to a user.
	slices.SortFunc(list.Items, byWorkload)
	// Without -l the workloads are not listed, so no right for them is needed.
	if r.selector == nil {
		return list.Items, nil
	}
	return r.ofWorkloads(ctx, list.Items)
}

// ofWorkloads returns the recommendations whose workloads exist and have the labels.
func (r reach) ofWorkloads(ctx context.Context, recs []v1alpha1.AttuneRecommendation) ([]v1alpha1.AttuneRecommendation, error) {
	selected, err := r.workloads(ctx, recs, func(v1alpha1.WorkloadKind, error) bool { return false })
	return slices.DeleteFunc(recs, func(rec v1alpha1.AttuneRecommendation) bool {
		_, ok := selected[workload.IdentityOf(&rec)]
		return !ok
	}), err
}

// namedRecommendations reads the recommendations of the workloads on the command line, in their order.
func (e *environment) namedRecommendations(ctx context.Context, c client.Client, arguments []string) ([]v1alpha1.AttuneRecommendation, error) {
	named, err := e.parseWorkloads(arguments)
	if err != nil {
		return nil, err
	}
	recs := make([]v1alpha1.AttuneRecommendation, len(named))
	for i, id := range named {
		if err := getRecommendation(ctx, c, id, &recs[i]); err != nil {
			return nil, err
		}
	}
	return recs, nil
}

// getRecommendation reads one recommendation. Its name is derived from the workload's identity.
func getRecommendation(ctx context.Context, c client.Client, id workload.Identity, rec *v1alpha1.AttuneRecommendation) error {
	// A kind that is not served is said where there is no recommendation.
	id.Kind, _, _ = selection.KindOf(c, id.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}, rec)
	if apierrors.IsNotFound(err) {
		return withoutRecommendation(ctx, c, id)
	}
	if err != nil {
		return fmt.Errorf("reading the recommendation for %s: %w", id, err)
	}
	return nil
}

// withoutRecommendation returns why a workload has none, as far as the user may read it and the policies.
func withoutRecommendation(ctx context.Context, c client.Client, id workload.Identity) error {
	w, _, err := getWorkload(ctx, c, id)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var own v1alpha1.AttunePolicyList
	if err != nil || c.List(ctx, &own, client.InNamespace(id.Namespace)) != nil {
		return fmt.Errorf("there is no recommendation for %s in namespace %s: "+
			"no policy selects it, or the operator has not looked at it yet; kubectl attune status shows the policies", id, id.Namespace)
	}
	// Cluster policies may be out of the user's sight, or not be served: then they are left out.
	instances, _ := policies(c).Instances(ctx, id.Namespace)
	return errors.New(nearest.Why(w, append(own.Items, instances...)))
}

// byWorkload orders recommendations by namespace, kind and name of their workloads.
func byWorkload(a, b v1alpha1.AttuneRecommendation) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Spec.Workload.Kind, b.Spec.Workload.Kind),
		cmp.Compare(a.Spec.Workload.Name, b.Spec.Workload.Name),
	)
}

// workloads lists the workloads of the kinds that the recommendations have. Other kinds are not listed, so the
// user needs no rights for them. A kind whose error is left out has none.
func (r reach) workloads(ctx context.Context, recs []v1alpha1.AttuneRecommendation, leftOut func(v1alpha1.WorkloadKind, error) bool) (workloads, error) {
	found := workloads{}
	for _, kind := range kindsOf(recs) {
		listed, err := listWorkloads(ctx, r, kind, r.namespace, r.selector)
		if err != nil && !leftOut(kind, err) {
			return nil, err
		}
		maps.Copy(found, listed)
	}
	return found, nil
}

// kindsOf returns the kinds of the recommendations' workloads, each once, sorted.
func kindsOf(recs []v1alpha1.AttuneRecommendation) []v1alpha1.WorkloadKind {
	kinds := map[v1alpha1.WorkloadKind]bool{}
	for _, rec := range recs {
		kinds[rec.Spec.Workload.Kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// templates returns the workloads of the recommendations, whose templates hold the current requests. Where the
// user may not read a kind, its workloads are missing and a note says so.
// Other errors end the verb: half of an answer without a note would be misleading.
func (e *environment) templates(ctx context.Context, c client.Client, recs []v1alpha1.AttuneRecommendation) (workloads, error) {
	namespace, err := e.namespace()
	if err != nil {
		return nil, err
	}
	return reach{Client: c, namespace: namespace}.workloads(ctx, recs, func(kind v1alpha1.WorkloadKind, err error) bool {
		unread := apierrors.IsForbidden(err) || errors.As(err, new(selection.NotServed))
		if unread {
			e.note("what the %ss ask now is not shown: %v", kind, err)
		}
		return unread
	})
}
