package policy

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/policy/lookup"
	"attune.io/attune/internal/workload"
)

// matched are the workloads that a policy selects: those it won, and those that another policy sizes. The
// value is shared by the looks of a namespace: it is only read.
type matched struct {
	// won are the workloads that the policy sizes, by kind and name.
	won []workload.Workload
	// lost are the first lost workloads by name, at most maxConflicts; losses counts all of them.
	lost   []v1alpha1.PolicyConflict
	losses int
	// crowded are workloads with too many containers, younger those beyond the bound of the namespace. The
	// policy won both, and neither is sized. most is that bound.
	crowded, younger unsized
	most             int
	// settled is the result for each workload of the namespace.
	settled map[workload.Identity]match
	// neighbours are all workloads of the namespace: their pods must not be taken for the policy's own.
	neighbours []workload.KindName
	// large are the workloads of the namespace that are too large to be kept in memory and sized.
	large []workload.Identity
}

// selected counts all workloads that the policy won, whether they are sized or not.
func (m matched) selected() int { return len(m.won) + m.crowded.workloads + m.younger.workloads }

// unsized counts workloads that are not sized, and names the first of them by kind and name. The status
// must not grow with their number.
type unsized struct {
	workloads int
	first     string
}

// add counts a workload; the first one gives the name.
func (u *unsized) add(w workload.Workload) {
	if u.workloads++; u.workloads == 1 {
		u.first = w.String()
	}
}

// String names the first workload and counts the others, for a message.
func (u unsized) String() string {
	if u.workloads == 1 {
		return u.first
	}
	return fmt.Sprintf("%s and %d more", u.first, u.workloads-1)
}

// noLongerMatches is the reason why a workload that the policy no longer selects has no seed.
const noLongerMatches = "PolicyNoLongerMatches"

// whyReleased returns why the policy no longer sizes a recommendation's workload. The zero value of
// matched gives noLongerMatches.
func (m matched) whyReleased(rec *v1alpha1.AttuneRecommendation) string {
	if reason := m.settled[workload.IdentityOf(rec)].unsized; reason != "" {
		return reason
	}
	return noLongerMatches
}

// matcher finds out which workloads a policy sizes.
type matcher struct {
	client   client.Reader
	policies lookup.Reader
	sized    workload.Sized
	memory   *memories
}

// policiesOf returns the policies of a namespace: those that are used, and those beyond the bound
// (policy.Used). Those of cluster policies come last. The objects are the cache's own.
func (m matcher) policiesOf(ctx context.Context, namespace string) (used, beyond []v1alpha1.AttunePolicy, err error) {
	list := &v1alpha1.AttunePolicyList{}
	if err := m.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing policies: %w", err)
	}
	used, beyond = policy.Used(list.Items)
	instances, err := m.policies.Instances(ctx, namespace)
	// What is beyond the bound follows in the same array.
	return append(slices.Clip(used), instances...), beyond, err
}

// match settles which policy sizes each workload of the namespace, and returns the part of one policy. The
// result is kept and used for all policies of the namespace until a policy or a workload of it changes:
// 100 policies would otherwise match all workloads 100 times.
func (m matcher) match(ctx context.Context, p *v1alpha1.AttunePolicy, used []v1alpha1.AttunePolicy) (matched, error) {
	objects, err := m.everyWorkload(ctx, p.Namespace)
	if err != nil {
		return matched{}, err
	}
	next := m.memory.matchings.Of(p.Namespace).next(used, objects, m.memory.mostWorkloads())
	m.memory.matchings.Put(p.Namespace, next)
	return next.to(p.Name), nil
}

// forget drops the matching of a namespace that has no policy any more.
func (m matcher) forget(ctx context.Context, namespace string) error {
	used, _, err := m.policiesOf(ctx, namespace)
	if err == nil && len(used) == 0 {
		m.memory.matchings.Forget(namespace)
	}
	return err
}

// everyWorkload lists the workloads of all kinds from the cache. The objects are the cache's own: they are
// only read.
func (m matcher) everyWorkload(ctx context.Context, namespace string) ([]workload.Object, error) {
	var all []workload.Object
	for _, kind := range m.sized.Kinds() {
		list := m.sized.NewList(kind)
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
