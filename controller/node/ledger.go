package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
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
	learned := harm.RequestFloorsOf(floors, live.Name, live.Size[memory].Limit, s.now)
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
		c.Max7d, c.OOM = known.Request, max(known.Limit, harm.OOMFloorOf(floors, live.Name, s.now))
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
	for _, o := range slices.Backward(rec.Status.Originals) {
		for _, c := range o.Containers {
			if o.TemplateHash != hash || c.Name != container {
				continue
			}
			size := podview.FromResources(c.Resources)
			for _, r := range recommender.Resources {
				if size[r].Request > 0 {
					current[r] = size[r].Request
				}
			}
			return current
		}
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
