package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// scene is everything that one look at a node sees: values, and functions that read memory. Nothing in it
// asks the API server or a usage source, so that a test can build one.
type scene struct {
	node *corev1.Node
	// pods are all pods that are bound to the node, also those that take no part, by namespace and name.
	pods []*corev1.Pod
	// recommendations are those of the pods' workloads, by pod; a pod without one is missing.
	recommendations map[types.UID]*v1alpha1.AttuneRecommendation
	// held returns why a gate keeps a pod as it is; empty: none does.
	held func(workload types.NamespacedName, pod types.UID) string
	// stays returns why a pod may not be evicted; empty: it may.
	stays func(workload types.NamespacedName, pod types.UID) string
	// changed returns when a pod was last lowered and last resized.
	changed func(types.UID) changes
	// base returns a container's own recent usage; false: nothing was measured.
	base func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool)
	// quotas are by namespace, for those that have pods of the strategy on the node.
	quotas map[string][]corev1.ResourceQuota
	now    time.Time
}

// ledger is what there is to share on a node, and among whom. members, demands and seen have the same
// length and order.
type ledger struct {
	// available is in millicores and bytes; negative where the other pods hold more than the node has.
	available node.Amounts
	// members and demands are the pods that share, also those that may not be changed now (frozen).
	members []*corev1.Pod
	demands []node.Pod
	// seen is how each of them was seen, for explanations.
	seen []seen
}

// ledger returns the node's ledger with the demands of its members, bounded by what quotas let them have.
func (s *scene) ledger() ledger {
	of := board.LedgerOf(s.node, s.pods, func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation { return s.recommendations[pod.UID] })
	l := ledger{available: of.Available(), members: of.Members}
	for _, pod := range l.members {
		demand, seen := s.demand(pod)
		l.demands, l.seen = append(l.demands, demand), append(l.seen, seen)
	}
	s.boundByQuotas(&l)
	return l
}

// frozen returns why a pod may not be changed now: a word for programs and a sentence for people. Both
// empty: it may. A pod that is leaving is not frozen, since its node has to decide in each look whether it
// still has to.
func (s *scene) frozen(pod *corev1.Pod) (reason, message string) {
	rec := s.recommendations[pod.UID]
	if board.Leaving(pod, rec) {
		return "", ""
	}
	if reason, message = board.Frozen(pod, rec); reason != "" {
		return reason, message
	}
	switch reason = s.held(client.ObjectKeyFromObject(rec), pod.UID); reason {
	case "":
	case board.NotLookedAt:
		return reason, "the operator has just started and has not looked at its workload yet"
	default:
		return reason, "it may not be changed now: " + reason
	}
	if resized := s.changed(pod.UID).resized; node.Paced(resized, s.now) {
		return string(node.ResizedLately), "it was resized a moment ago: a pod is resized at most every " + node.Pace.String()
	}
	return "", ""
}

// demand returns a pod as it takes part in the sharing, and as it was seen. A pod that can never be raised
// is ranked Never: it is not evicted, and no pod waits for its leaving. A container that is not ready or
// has just restarted is not lowered: it asks for at least what it holds.
func (s *scene) demand(pod *corev1.Pod) (node.Pod, seen) {
	rec := s.recommendations[pod.UID]
	m := seen{name: pod.Namespace + "/" + pod.Name, holds: podview.Counted(pod), stays: s.stays(client.ObjectKeyFromObject(rec), pod.UID)}
	m.reason, m.message = s.frozen(pod)
	m.known, m.wants = make([][2]bool, len(m.holds)), make([]recommender.Size, len(m.holds))
	ranking, _ := node.RankingOf(string(rec.Spec.EvictionRanking))
	if m.stays != "" || resize.NeverRaised(pod) {
		ranking = node.Never
	}
	// Frozen pods take part with their whole demand: their neighbours must not take the room that they
	// will claim when they are free again.
	p := node.Pod{
		Name:        m.name,
		Group:       board.GroupOf(rec),
		DaemonSet:   rec.Spec.Workload.Kind == v1alpha1.KindDaemonSet,
		Frozen:      m.reason != "",
		Ranking:     ranking,
		InitRequest: podview.InitRequests(pod),
		LastLowered: s.changed(pod.UID).lowered, LastResized: s.changed(pod.UID).resized,
	}
	for i, c := range m.holds {
		t := board.TargetOf(rec, c.Name)
		if t != nil {
			m.wants[i] = podview.FromResources(t.Target)
		}
		of := s.container(pod, c, t, &m.known[i])
		if resize.NotLowered(pod, c.Name, s.now) {
			m.tender = true
			of.Least = node.Amounts{max(of.Least[0], of.Current[0]), max(of.Least[1], of.Current[1])}
			keepLimit(&of)
		}
		p.Containers = append(p.Containers, of)
	}
	return p, m
}

// container returns a container with its demand. It keeps what it holds of a resource whose demand is not
// known: the workload's peak is held or not known, or the container itself was not measured, such as one
// that has just been born. known is set for each resource whose demand is known.
func (s *scene) container(pod *corev1.Pod, live podview.Container, t *v1alpha1.ContainerTarget, known *[2]bool) node.Container {
	c := node.Container{Name: live.Name, CurrentLimit: live.Size[recommender.Memory].Limit, Restarts: resize.RestartsOn(pod, live.Name)}
	for _, r := range recommender.Resources {
		c.Current[r] = live.Size[r].Request
		c.Of[r] = node.Unmeasured(c.Current[r])
	}
	c.Born = born(pod, s.recommendations[pod.UID], live.Name, c.Current)
	if t != nil && t.Demand != nil {
		*known = s.measured(pod, live, t.Demand, &c)
	}
	return c
}

// measured fills in what is known of a container's demand, and returns for which resources that is so. The
// demand is what was measured, and at least what harm has taught. minAllowed is no demand: it is kept or
// given where no neighbour needs the room (Least).
func (s *scene) measured(pod *corev1.Pod, live podview.Container, d *v1alpha1.ContainerDemand, c *node.Container) (known [2]bool) {
	const memory = recommender.Memory
	floors := s.recommendations[pod.UID].Status.Floors
	learned := resize.RequestFloorsOf(floors, live.Name, live.Size[memory].Limit, s.now)
	peaks := podview.FromResources(v1alpha1.Resources{CPURequest: d.CPUPeak, MemoryRequest: d.MemoryPeak})
	least, most := podview.FromResources(d.Least), podview.FromResources(d.Most)
	has := board.Allocatable(s.node)
	for _, r := range recommender.Resources {
		// No more than its node has: a policy can name any amount.
		c.Least[r] = min(within(least[r].Request, mostOf(r, live.Size[r], most[r].Request)), has[r])
	}
	// Memory that is in use cannot be taken back. Where the policy does not allow it either, the container
	// keeps at least what it holds.
	if peaks[memory].Request > 0 {
		known := podview.FromResources(v1alpha1.Resources{MemoryRequest: d.MemoryMax7d, MemoryLimit: d.MemoryOOM})[memory]
		c.Max7d, c.OOM = known.Request, max(known.Limit, resize.OOMFloorOf(floors, live.Name, s.now))
		if d.MemoryLimitMost != nil { // a kill may be newer than the demand, and the brake lowers no limit
			c.LimitMost = max(podview.AmountOf(memory, *d.MemoryLimitMost), learned[memory].Taught, c.CurrentLimit)
		}
		if !d.AllowMemoryDecrease {
			c.Least[memory] = max(c.Least[memory], c.Current[memory])
			keepLimit(c)
		}
	}
	for _, r := range recommender.Resources {
		base, measured := s.base(pod, live.Name, r)
		of, ok := (node.Forecast{Base: base, BaseKnown: measured, Peak: recommender.Usage(peaks[r].Request), PeakKnown: peaks[r].Request > 0}).Demand()
		if known[r] = ok && measured; known[r] {
			c.Of[r] = of.Within(r, learned[r].Amount, mostOf(r, live.Size[r], most[r].Request))
		}
	}
	return known
}

// born returns what a container is taken to have been born with: what pods of its template had before
// attune (status.originals), and what it has where nothing is noted. A container of a DaemonSet takes part
// with no more than that, because no pod should be evicted for a DaemonSet.
func born(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation, container string, current node.Amounts) node.Amounts {
	hash := podview.TemplateHash(pod)
	for _, o := range slices.Backward(rec.Status.Originals) { // an older entry may name a container that a newer one does not
		if o.TemplateHash != hash {
			continue
		}
		size, noted := podview.SizesOf(o.Containers)[container]
		if !noted {
			continue
		}
		for _, r := range recommender.Resources {
			if size[r].Request > 0 {
				current[r] = size[r].Request
			}
		}
		break
	}
	return current
}

// keepLimit raises Max7d so far that the memory limit, which is twice that amount (node.MemoryLimit), does
// not fall below the current one. A limit for which nothing is known stays as it is anyway.
func keepLimit(c *node.Container) {
	if c.Max7d > 0 || c.OOM > 0 {
		c.Max7d = max(c.Max7d, (c.CurrentLimit+1)/2)
	}
}

// within bounds an amount by the most; 0 is no bound.
func within(amount, most recommender.Amount) recommender.Amount {
	if most == 0 {
		return amount
	}
	return min(amount, most)
}

// mostOf bounds a CPU request by the container's CPU limit, which stays as the template has it: the API
// server refuses a request above the limit. 0: no bound.
func mostOf(r recommender.Resource, live recommender.Allocation, most recommender.Amount) recommender.Amount {
	if r != recommender.CPU || live.Limit == 0 {
		return most
	}
	return within(live.Limit, most)
}

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
