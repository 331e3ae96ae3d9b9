package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// readQuotas reads the quotas of the namespaces that have pods of the strategy on the node, from the cache
// that the workload loop fills too. Each namespace is read once in a look.
func (c *Controller) readQuotas(ctx context.Context, s *scene) error {
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if _, read := s.quotas[pod.Namespace]; read || rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
			continue
		}
		list := &corev1.ResourceQuotaList{}
		if err := c.Client.List(ctx, list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing quotas of %s: %w", pod.Namespace, err)
		}
		s.quotas[pod.Namespace] = list.Items
	}
	return nil
}

// boundByQuotas sets for each container the most that the quotas of its namespace let it have now (Reach).
// What a quota leaves goes to the namespace's pods in the order of their names: first for what they lack
// of their bases, then of their peaks. Without it, a node would evict neighbours for room that a quota
// then refuses.
//
// Frozen pods are left out, as they do not grow. Pods of the namespace on other nodes may take the room
// first: only the answer to the resize itself is certain.
func (s *scene) boundByQuotas(l *ledger) {
	rooms := map[string]*constraint.QuotaRoom{}
	var bounded []*bound
	for i, pod := range l.members {
		if len(s.quotas[pod.Namespace]) == 0 || l.demands[i].Frozen {
			continue
		}
		if rooms[pod.Namespace] == nil {
			rooms[pod.Namespace] = constraint.NewQuotaRoom(s.quotas[pod.Namespace])
		}
		bounded = append(bounded, newBound(pod, &l.demands[i], rooms[pod.Namespace]))
	}
	// All bases come before any peak: a pod that lacks what it always needs goes before a neighbour's
	// spike.
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Base })
	}
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Peak })
		b.settle()
	}
}

// bound is a pod that grows within what its quotas leave.
type bound struct {
	pod    *corev1.Pod
	demand *node.Pod
	// room is shared by the pods of the namespace; nil: the pod may not grow at all.
	room *constraint.QuotaRoom
	// free is by how much the containers may grow inside the pod's init request, which quotas count
	// anyway.
	free node.Amounts
}

// newBound starts with what the pod holds, and reserves the growth of its memory limits. If a quota does
// not leave that, the pod gets nothing: limits and requests are changed by one patch, which is refused as
// a whole.
func newBound(pod *corev1.Pod, demand *node.Pod, room *constraint.QuotaRoom) *bound {
	b := &bound{pod: pod, demand: demand, room: room, free: demand.InitRequest}
	var limits recommender.Size
	for i := range demand.Containers {
		c := &demand.Containers[i]
		for _, r := range recommender.Resources {
			// 0 would mean that nothing bounds the container, so that the least Reach is 1.
			c.Reach[r] = max(1, c.Current[r])
			b.free[r] -= c.Current[r]
		}
		if !c.Restarts[recommender.Memory] {
			limit := c.MemoryLimit(demand.Asks(c, recommender.Memory).Peak)
			limits[recommender.Memory].Limit += max(0, limit-c.CurrentLimit)
		}
	}
	if limits[recommender.Memory].Limit > room.Left(pod)[recommender.Memory].Limit {
		b.room = nil
		return b
	}
	room.Promise(pod, limits)
	return b
}

// grow lets the containers have as much of their demands as to selects, as far as the room goes.
// What the init containers request is charged to the quota anyway (the larger of init and regular requests
// counts), so that growth inside it is free.
func (b *bound) grow(to func(node.Demand) recommender.Amount) {
	if b.room == nil {
		return
	}
	room := b.room.Left(b.pod)
	var growth recommender.Size
	for i := range b.demand.Containers {
		c := &b.demand.Containers[i]
		for _, r := range recommender.Resources {
			if c.Restarts[r] {
				continue
			}
			lacks := max(0, to(b.demand.Asks(c, r))-c.Reach[r])
			inside := min(lacks, max(0, b.free[r]))
			more := min(lacks-inside, room[r].Request-growth[r].Request)
			b.free[r] -= inside
			growth[r].Request += more
			c.Reach[r] += inside + more
		}
	}
	b.room.Promise(b.pod, growth)
}

// settle rounds Reach down to whole amounts, and removes it (0) where the container can have its whole
// peak.
func (b *bound) settle() {
	for i := range b.demand.Containers {
		c := &b.demand.Containers[i]
		for _, r := range recommender.Resources {
			if c.Reach[r] >= b.demand.Asks(c, r).Peak {
				c.Reach[r] = 0
				continue
			}
			c.Reach[r] = max(1, c.Current[r], r.WholeDown(c.Reach[r]))
		}
	}
}
