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

// readQuotas reads those of the namespaces of pods that are sized by their node, from the cache that the workload loop
// fills.
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

// boundByQuotas says of each container the most that its namespace's quotas let it have now. What they leave goes to the pods
// of the namespace in the order of their names, for what they lack of their bases first, then of their peaks. Pods of
// the namespace on other nodes may take it before: only the resize itself tells.
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
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Base })
	}
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Peak })
		b.settle()
	}
}

// bound is a pod that grows within the room of its quotas.
type bound struct {
	pod    *corev1.Pod
	demand *node.Pod
	room   *constraint.QuotaRoom
	// free is what it may grow by inside its init request, which quotas count anyway.
	free node.Amounts
}

// newBound has what it holds. Where its memory limits cannot grow as they are to, the patch that changes them is
// refused as a whole, so it has nothing more than that.
func newBound(pod *corev1.Pod, demand *node.Pod, room *constraint.QuotaRoom) *bound {
	b := &bound{pod: pod, demand: demand, room: room, free: demand.InitRequest}
	var limits recommender.Size
	for i := range demand.Containers {
		c := &demand.Containers[i]
		for _, r := range recommender.Resources {
			c.Reach[r] = max(1, c.Current[r])
			b.free[r] -= c.Current[r]
		}
		if !c.Restarts[recommender.Memory] {
			limit := node.MemoryLimit(c.Max7d, c.OOM, demand.Asks(c, recommender.Memory).Peak)
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

// grow lets the containers have so much of their demands.
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

// settle leaves whole amounts, and no bound where none is needed.
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
