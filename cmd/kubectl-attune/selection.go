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
	"attune.io/attune/internal/workload"
)

// workloads holds workloads by identity.
type workloads map[workload.Identity]workload.Workload

// recommendations reads the recommendations of the named workloads, else of every workload in scope, sorted by namespace,
// kind and name. A named workload without a recommendation is an error.
//
// -l selects by the labels of the workloads. Recommendations do not have those, so the workloads are listed too.
func (e *environment) recommendations(ctx context.Context, arguments []string) (r reach, err error) {
	if r, err = e.reach(); err != nil {
		return r, err
	}
	if len(arguments) > 0 {
		return r, r.readNamed(ctx, arguments)
	}
	var list v1alpha1.AttuneRecommendationList
	if err := r.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return r, fmt.Errorf("listing the recommendations: %w", err)
	}
	// The API server's order is that of the recommendations' names, which are derived and mean nothing to a user.
	slices.SortFunc(list.Items, byWorkload)
	r.recs = list.Items
	// Without -l the workloads are not listed, so no right for them is needed.
	if r.selector == nil {
		return r, nil
	}
	return r, r.keepExisting(ctx)
}

// keepExisting drops the recommendations whose workloads do not exist or do not have the labels of -l.
func (r *reach) keepExisting(ctx context.Context) error {
	selected, err := r.workloads(ctx, func(v1alpha1.WorkloadKind, error) bool { return false })
	r.recs = slices.DeleteFunc(r.recs, func(rec v1alpha1.AttuneRecommendation) bool {
		_, ok := selected[workload.IdentityOf(&rec)]
		return !ok
	})
	return err
}

// readNamed reads the recommendations of the workloads on the command line, in their order.
func (r *reach) readNamed(ctx context.Context, arguments []string) error {
	named, err := r.env.parseWorkloads(arguments)
	if err != nil {
		return err
	}
	r.recs = make([]v1alpha1.AttuneRecommendation, len(named))
	for i, id := range named {
		// A kind that is not served is said where there is no recommendation.
		id.Kind, _, _ = kindOf(r, id.Kind)
		err := r.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}, &r.recs[i])
		switch {
		case apierrors.IsNotFound(err):
			return withoutRecommendation(ctx, r, id)
		case err != nil:
			return fmt.Errorf("reading the recommendation for %s: %w", id, err)
		}
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
func (r reach) workloads(ctx context.Context, leftOut func(v1alpha1.WorkloadKind, error) bool) (workloads, error) {
	found := workloads{}
	for _, kind := range kindsOf(r.recs) {
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
func (r reach) templates(ctx context.Context) (workloads, error) {
	r.selector = nil // the recommendations are selected already
	return r.workloads(ctx, func(kind v1alpha1.WorkloadKind, err error) bool {
		unread := apierrors.IsForbidden(err) || errors.As(err, new(notServed))
		if unread {
			r.env.note("what the %ss ask now is not shown: %v", kind, err)
		}
		return unread
	})
}
