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

// scene holds all inputs of one reconcile of a node: values, and functions that read memory. No part of it queries
// the API server or a usage source, so that a test can build one.
type scene struct {
	node *corev1.Node
	// pods are all pods that are bound to the node, including those that do not share, by namespace and name.
	pods []*corev1.Pod
	// recommendations are those for the pods' workloads, by pod; a pod without one is missing.
	recommendations map[types.UID]*v1alpha1.AttuneRecommendation
	// held returns why a gate blocks changes of a pod; empty: none does.
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

// ledger is the amount to share on a node, and the pods that share it. members, demands and seen have the same length
// and order.
type ledger struct {
	// available is in millicores and bytes; negative if the other pods hold more than the node has.
	available node.Amounts
	// members and demands are the pods that share, including those that may not be changed now (frozen).
	members []*corev1.Pod
	demands []node.Pod
	// seen is the state of each of them, for explanations.
	seen []seen
}

// ledger returns the node's ledger with the demands of its members, within the quotas.
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

// frozen returns why a pod may not be changed now: a reason for programs and a message for users. Both empty: it may.
// A pod to be evicted is not frozen, because each reconcile decides again whether it still has to leave.
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
		return reason, "the operator has just started and has not reconciled the pod's workload yet"
	default:
		return reason, "the pod cannot be resized now: " + reason
	}
	if resized := s.changed(pod.UID).resized; node.Paced(resized, s.now) {
		return string(node.ResizedLately), "the pod was resized recently: attune resizes a pod at most once every " + node.Pace.String()
	}
	return "", ""
}

// demand returns a pod as a member, and its state. A pod that can never be raised is ranked Never: it is not evicted,
// and no pod waits for its eviction. A container that is not ready or just restarted is not lowered: it demands at
// least its present size.
func (s *scene) demand(pod *corev1.Pod) (node.Pod, seen) {
	rec := s.recommendations[pod.UID]
	m := seen{name: pod.Namespace + "/" + pod.Name, holds: podview.Counted(pod), stays: s.stays(client.ObjectKeyFromObject(rec), pod.UID)}
	m.reason, m.message = s.frozen(pod)
	m.known, m.wants = make([][2]bool, len(m.holds)), board.Wants(rec, m.holds)
	ranking, _ := node.RankingOf(string(rec.Spec.EvictionRanking))
	if m.stays != "" || resize.NeverRaised(pod) {
		ranking = node.Never
	}
	// Frozen pods take part with their whole demand: other pods must not take the room that they will need later.
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
		of := s.container(pod, c, board.TargetOf(rec, c.Name), &m.known[i])
		if resize.NotLowered(pod, c.Name, s.now) {
			m.tender = true
			of.Least = node.Amounts{max(of.Least[0], of.Current[0]), max(of.Least[1], of.Current[1])}
			keepLimit(&of)
		}
		p.Containers = append(p.Containers, of)
	}
	return p, m
}

// container returns a container with its demand. A resource whose demand is not known keeps its present amount: the
// workload's peak is blocked or not known, or the container itself was not measured, such as one that was just
// created. known is set for each resource whose demand is known.
func (s *scene) container(pod *corev1.Pod, live podview.Container, t *v1alpha1.ContainerTarget, known *[2]bool) node.Container {
	c := node.Container{Name: live.Name, CurrentLimit: live.Size[recommender.Memory].Limit, Restarts: resize.RestartsOn(pod, live.Name)}
	for _, r := range recommender.Resources {
		c.Current[r] = live.Size[r].Request
		c.Of[r] = node.Unmeasured(c.Current[r])
	}
	c.AtCreation = createdWith(pod, s.recommendations[pod.UID], live.Name, c.Current)
	if t != nil && t.Demand != nil {
		*known = s.measured(pod, live, t.Demand, &c)
	}
	return c
}

// measured sets the known part of a container's demand, and returns for which resources it is known. The demand is
// the measured one, and at least the minimums learned from regressions. minAllowed is not demand: it is granted only
// if no other pod needs the room (Least).
func (s *scene) measured(pod *corev1.Pod, live podview.Container, d *v1alpha1.ContainerDemand, c *node.Container) (known [2]bool) {
	const memory = recommender.Memory
	floors := s.recommendations[pod.UID].Status.Floors
	learned := resize.RequestFloorsOf(floors, live.Name, live.Size[memory].Limit, s.now)
	peaks := podview.FromResources(v1alpha1.Resources{CPURequest: d.CPUPeak, MemoryRequest: d.MemoryPeak})
	least, most := podview.FromResources(d.Least), podview.FromResources(d.Most)
	if limit := live.Size[memory].Limit; limit > 0 && d.MemoryMax7d == nil { // the policy leaves the limit alone
		most[memory].Request = within(limit, most[memory].Request)
	}
	has := board.Allocatable(s.node)
	for _, r := range recommender.Resources {
		// Not more than the node has: a policy can set any amount.
		c.Least[r] = min(within(least[r].Request, mostOf(r, live.Size[r], most[r].Request)), has[r])
	}
	// Memory in use cannot be reclaimed. If the policy forbids lowering memory, the container keeps at least its
	// present amount.
	if peaks[memory].Request > 0 {
		known := podview.FromResources(v1alpha1.Resources{MemoryRequest: d.MemoryMax7d, MemoryLimit: d.MemoryOOM})[memory]
		if c.Max7d = known.Request; c.Max7d > 0 { // without it the policy leaves the limit alone, also after OOM kills
			c.OOM = max(known.Limit, resize.OOMFloorOf(floors, live.Name, s.now))
		}
		if d.MemoryLimitMost != nil { // a kill may be newer than the demand, and the limit on raises never lowers a limit
			c.LimitMost = max(podview.AmountOf(memory, *d.MemoryLimitMost), learned[memory].Taught, c.CurrentLimit)
		}
		if !d.AllowMemoryDecrease {
			c.Least[memory] = max(c.Least[memory], c.Current[memory])
			keepLimit(c)
		}
	}
	for _, r := range recommender.Resources {
		base, measured := s.base(pod, live.Name, r)
		if s.recommendations[pod.UID].Spec.PolicySource {
			// A server that a tenant chose must not take room from pods of other namespaces. The base comes from the
			// operator's own source.
			most[r].Request = within(max(1, c.Current[r], base.RoundUp()), most[r].Request)
		}
		of, ok := (node.Forecast{Base: base, BaseKnown: measured, Peak: recommender.Usage(peaks[r].Request), PeakKnown: peaks[r].Request > 0}).Demand()
		if known[r] = ok && measured; known[r] {
			c.Of[r] = of.Within(r, learned[r].Amount, mostOf(r, live.Size[r], most[r].Request))
		}
	}
	return known
}

// createdWith returns the resources that a container was created with: those of its template's pods before attune changed
// them (status.originals), or the present ones if none are recorded. A DaemonSet's container takes part with no more
// than that, because no pod should be evicted for a DaemonSet.
func createdWith(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation, container string, current node.Amounts) node.Amounts {
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

// keepLimit raises Max7d until the memory limit, which is twice that amount (node.MemoryLimit), is not below the
// current one. A limit without any data is not changed anyway.
func keepLimit(c *node.Container) {
	if c.Max7d > 0 || c.OOM > 0 {
		c.Max7d = max(c.Max7d, (c.CurrentLimit+1)/2)
	}
}

// within limits an amount to most; 0: no limit.
func within(amount, most recommender.Amount) recommender.Amount {
	if most == 0 {
		return amount
	}
	return min(amount, most)
}

// mostOf limits a CPU request to the container's CPU limit, which stays as in the template: the API server rejects a
// request above the limit. 0: no limit.
func mostOf(r recommender.Resource, live recommender.Allocation, most recommender.Amount) recommender.Amount {
	if r != recommender.CPU || live.Limit == 0 {
		return most
	}
	return within(live.Limit, most)
}

// readQuotas reads, from the cache, the quotas of the namespaces that have pods of the strategy on the node. It reads
// each namespace once per reconcile.
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

// boundByQuotas sets for each container the most that the quotas of its namespace permit now (Reach). The rest of a
// quota goes to the namespace's pods in the order of their names: first up to their bases, then up to their peaks.
// Without this, a node would evict pods for room that a quota then denies.
//
// Frozen pods are not counted, because they do not grow. Pods of the namespace on other nodes may take the room
// first: only the API server's answer to the resize is certain.
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
	// All bases take precedence over any peak: base demand is permanent, a peak is a spike.
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Base })
	}
	for _, b := range bounded {
		b.grow(func(d node.Demand) recommender.Amount { return d.Peak })
		b.settle()
	}
}

// bound is a pod that grows within its quotas.
type bound struct {
	pod    *corev1.Pod
	demand *node.Pod
	// room is shared by the pods of the namespace; nil: the pod may not grow at all.
	room *constraint.QuotaRoom
	// free is how much the containers may grow inside the pod's init request, which quotas count anyway.
	free node.Amounts
}

// newBound starts with the pod's present size, and reserves the growth of its memory limits. If a quota does not
// permit that, the pod gets nothing: one patch changes limits and requests, and the API server rejects it as a whole.
func newBound(pod *corev1.Pod, demand *node.Pod, room *constraint.QuotaRoom) *bound {
	b := &bound{pod: pod, demand: demand, room: room, free: demand.InitRequest}
	var limits recommender.Size
	for i := range demand.Containers {
		c := &demand.Containers[i]
		for _, r := range recommender.Resources {
			// 0 would mean that there is no limit, so the smallest Reach is 1.
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

// grow raises the containers towards the part of their demands that to selects, within the room. Quotas count the
// larger of init and regular requests, so growth inside the init request is free.
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

// settle rounds Reach down to whole amounts, and removes it (0) if the container can have its whole peak.
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
