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

// scene is what one look at a node sees: values only.
type scene struct {
	node *corev1.Node
	pods []*corev1.Pod
	// recommendations of the pods' workloads, by pod.
	recommendations map[types.UID]*v1alpha1.AttuneRecommendation
	// held says why a gate keeps a pod as it is; empty: none does.
	held func(workload types.NamespacedName, pod types.UID) string
	// stays says why a pod may not be evicted; empty: it may.
	stays func(workload types.NamespacedName, pod types.UID) string
	// changed says when a pod was lowered and resized last.
	changed func(types.UID) changes
	// base is a container's own recent usage; false: nothing was measured.
	base func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool)
	// quotas by namespace, of those that have pods of the strategy on the node.
	quotas map[string][]corev1.ResourceQuota
	now    time.Time
}

// ledger is what there is to share on a node, and among whom.
type ledger struct {
	available node.Amounts
	// members and demands are the pods that share, in the same order, whether they may be changed now or not.
	members []*corev1.Pod
	demands []node.Pod
	// seen is how each of them was seen.
	seen []seen
}

// ledger of the node with the demands of its members, within what quotas let them have.
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

// frozen says why the pod may not be changed now: a word, and a sentence that follows it. Empty: it may.
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

// demand is a pod as it takes part in the sharing, and as it was seen. Who can never be raised is nobody whose going is
// waited for.
func (s *scene) demand(pod *corev1.Pod) (node.Pod, seen) {
	rec := s.recommendations[pod.UID]
	m := seen{name: pod.Namespace + "/" + pod.Name, holds: podview.Counted(pod), stays: s.stays(client.ObjectKeyFromObject(rec), pod.UID)}
	m.reason, m.message = s.frozen(pod)
	m.known, m.wants = make([][2]bool, len(m.holds)), make([]recommender.Size, len(m.holds))
	ranking, _ := node.RankingOf(string(rec.Spec.EvictionRanking))
	if m.stays != "" || resize.NeverRaised(pod) {
		ranking = node.Never
	}
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
		t := targetOf(rec, c.Name)
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

func targetOf(rec *v1alpha1.AttuneRecommendation, container string) *v1alpha1.ContainerTarget {
	for i := range rec.Spec.Containers {
		if rec.Spec.Containers[i].Name == container {
			return &rec.Spec.Containers[i]
		}
	}
	return nil
}

// container keeps what it holds of a resource that nothing is known of: its workload's peak is held or not
// known, or it was not measured itself, such as one that has just been born. known is told of which something is.
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

// measured is what is known of a container's demand: what was measured, and at least what harm has taught. What its
// policy merely allows at least is no demand. It returns of which resources something is.
func (s *scene) measured(pod *corev1.Pod, live podview.Container, d *v1alpha1.ContainerDemand, c *node.Container) (known [2]bool) {
	const memory = recommender.Memory
	floors := s.recommendations[pod.UID].Status.Floors
	learned := harm.FloorsOf(floors, live.Name, s.now)
	peaks := podview.FromResources(v1alpha1.Resources{CPURequest: d.CPUPeak, MemoryRequest: d.MemoryPeak})
	least, most := podview.FromResources(d.Least), podview.FromResources(d.Most)
	has := board.Allocatable(s.node)
	for _, r := range recommender.Resources {
		// No more than its node has: what a policy says is any amount.
		c.Least[r] = min(within(least[r].Request, mostOf(r, live.Size[r], most[r].Request)), has[r])
	}
	if peaks[memory].Request > 0 {
		known := podview.FromResources(v1alpha1.Resources{MemoryRequest: d.MemoryMax7d, MemoryLimit: d.MemoryOOM})[memory]
		c.Max7d, c.OOM = known.Request, max(known.Limit, harm.OOMFloorOf(floors, live.Name, s.now))
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

// born is what a container is taken to have been born with, of which a DaemonSet's takes part with no more: what pods
// of its template had before attune, as the workload loop noted and believes it; where nothing is noted, what it has.
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

// keepLimit: a memory limit that anything is known for is not lowered.
func keepLimit(c *node.Container) {
	if c.Max7d > 0 || c.OOM > 0 {
		c.Max7d = max(c.Max7d, (c.CurrentLimit+1)/2)
	}
}

// within keeps an amount to the most; zero is no bound.
func within(amount, most recommender.Amount) recommender.Amount {
	if most == 0 {
		return amount
	}
	return min(amount, most)
}

// mostOf a resource: no CPU request is above the limit, which stays as the template has it.
func mostOf(r recommender.Resource, live recommender.Allocation, most recommender.Amount) recommender.Amount {
	if r != recommender.CPU || live.Limit == 0 {
		return most
	}
	if most == 0 {
		return live.Limit
	}
	return min(most, live.Limit)
}
