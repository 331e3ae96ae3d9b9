package policy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// matched are the workloads that a policy selects: those it won, and those another policy sizes. It is shared, and only
// read.
type matched struct {
	won []workload.Workload
	// lost are the first of them by name, as many as are shown; losses counts them all.
	lost   []v1alpha1.PolicyConflict
	losses int
	// crowded have too many containers, and younger are beyond the bound on the namespace's: it won them, and they are not sized.
	crowded, younger unsized
	most             int
	// settled is what was settled of each workload of the namespace.
	settled map[workload.Identity]match
	// neighbours are the other workloads of the namespace: their pods must not be taken for ours.
	neighbours []workload.KindName
	// large are the workloads of the namespace that are too large to be sized.
	large []workload.Identity
}

// selected are all workloads that the policy won.
func (m matched) selected() int { return len(m.won) + m.crowded.workloads + m.younger.workloads }

// unsized are workloads that are not sized: how many, and the first of them by kind and name.
type unsized struct {
	workloads int
	first     string
}

func (u *unsized) add(w workload.Workload) {
	if u.workloads++; u.workloads == 1 {
		u.first = w.String()
	}
}

// String is the first of them, and how many there are beside it.
func (u unsized) String() string {
	if u.workloads == 1 {
		return u.first
	}
	return fmt.Sprintf("%s and %d more", u.first, u.workloads-1)
}

// noLongerMatches is why there is no seed for a workload that the policy does not select any more.
const noLongerMatches = "PolicyNoLongerMatches"

// whyReleased says why the policy no longer sizes a recommendation's workload.
func (m matched) whyReleased(rec *v1alpha1.AttuneRecommendation) string {
	if reason := m.settled[workload.IdentityOf(rec)].unsized; reason != "" {
		return reason
	}
	return noLongerMatches
}

// matcher finds out which workloads a policy sizes.
type matcher struct {
	client client.Reader
	memory *memories
}

// policiesOf a namespace: those that are used, and those beyond the bound on them.
func (m matcher) policiesOf(ctx context.Context, namespace string) (used, beyond []v1alpha1.AttunePolicy, err error) {
	list := &v1alpha1.AttunePolicyList{}
	if err := m.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing policies: %w", err)
	}
	used, beyond = policy.Used(list.Items)
	return used, beyond, nil
}

// match finds the workloads of the policy's kind in its namespace and settles who sizes them: once for all policies of
// the namespace, for as long as nothing of it has changed.
func (m matcher) match(ctx context.Context, p *v1alpha1.AttunePolicy, used []v1alpha1.AttunePolicy) (matched, error) {
	objects, err := m.everyWorkload(ctx, p.Namespace)
	if err != nil {
		return matched{}, err
	}
	next := m.memory.matchings.of(p.Namespace).next(used, objects, m.memory.mostWorkloads())
	m.memory.matchings.keep(p.Namespace, next)
	return next.to(p.Name), nil
}

// forget the matching of a namespace that has no policy any more.
func (m matcher) forget(ctx context.Context, namespace string) error {
	used, _, err := m.policiesOf(ctx, namespace)
	if err == nil && len(used) == 0 {
		m.memory.matchings.forget(namespace)
	}
	return err
}

// everyWorkload lists the workloads of all kinds from the cache. They are the cache's own.
func (m matcher) everyWorkload(ctx context.Context, namespace string) ([]workload.Object, error) {
	var all []workload.Object
	for _, kind := range workload.Kinds {
		list := workload.NewList(kind)
		if err := m.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %ss: %w", kind, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if object, ok := o.(workload.Object); ok {
				all = append(all, object)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
