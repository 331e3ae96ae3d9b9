package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/grant"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// scene is what one look at a node sees: values only.
type scene struct {
	node *corev1.Node
	pods []*corev1.Pod
	// recommendations of the pods' workloads, by pod.
	recommendations map[types.UID]*v1alpha1.AttuneRecommendation
	// held says why the workload loop leaves a pod as it is; empty: it does not.
	held func(types.UID) string
	// stays says why a pod may not be evicted; empty: it may.
	stays func(types.UID) string
	// lowered is when a pod was lowered last; zero: never.
	lowered func(types.UID) time.Time
	// base is a container's own recent usage; false: nothing was measured.
	base func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool)
	now  time.Time
}

// ledger is what there is to share on a node, and among whom.
type ledger struct {
	available node.Amounts
	// members and demands are the pods that share, in the same order.
	members []*corev1.Pod
	demands []node.Pod
}

// ledger takes off what a node has what the scheduler counts for every pod that is not changed now.
func (s *scene) ledger() ledger {
	var l ledger
	for _, r := range recommender.Resources {
		l.available[r] = resize.AmountOf(r, s.node.Status.Allocatable[resize.NameOf(r)])
	}
	for _, pod := range s.pods {
		taken := resize.Footprint(pod)
		if s.shares(pod) {
			taken = resize.Overhead(pod)
			l.members = append(l.members, pod)
			l.demands = append(l.demands, s.demand(pod))
		}
		for _, r := range recommender.Resources {
			l.available[r] -= taken[r]
		}
	}
	return l
}

// shares: the pod may be changed now, and its node says how. Every other pod counts as it is.
func (s *scene) shares(pod *corev1.Pod) bool {
	if reason, _ := grant.AsItIs(pod, s.recommendations[pod.UID]); reason != "" {
		return false
	}
	return s.held(pod.UID) == ""
}

// demand is a pod as it takes part in the sharing.
func (s *scene) demand(pod *corev1.Pod) node.Pod {
	rec := s.recommendations[pod.UID]
	ranking, _ := node.RankingOf(string(rec.Spec.EvictionRanking))
	if s.stays(pod.UID) != "" {
		ranking = node.Never
	}
	p := node.Pod{
		Name:        pod.Namespace + "/" + pod.Name,
		Group:       workload.IdentityOf(rec).String(),
		DaemonSet:   rec.Spec.Workload.Kind == v1alpha1.KindDaemonSet,
		Ranking:     ranking,
		InitRequest: resize.InitRequests(pod),
		LastLowered: s.lowered(pod.UID),
	}
	for _, c := range resize.Read(pod) {
		p.Containers = append(p.Containers, s.container(pod, c, targetOf(rec, c.Name)))
	}
	return p
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
// known, or it was not measured itself, such as one that has just been born.
func (s *scene) container(pod *corev1.Pod, live resize.Container, t *v1alpha1.ContainerTarget) node.Container {
	c := node.Container{Name: live.Name, CurrentLimit: live.Size[recommender.Memory].Limit}
	for _, r := range recommender.Resources {
		c.Current[r] = live.Size[r].Request
		c.Of[r] = node.Unmeasured(c.Current[r])
	}
	if t == nil || t.Demand == nil {
		return c
	}
	rec := s.recommendations[pod.UID]
	floors := resize.FloorsOf(rec.Status.Floors, live.Name, s.now)
	peaks := resize.FromResources(v1alpha1.Resources{CPURequest: t.Demand.CPUPeak, MemoryRequest: t.Demand.MemoryPeak})
	least, most := resize.FromResources(t.Demand.Least), resize.FromResources(t.Demand.Most)
	for _, r := range recommender.Resources {
		least[r].Request = max(least[r].Request, floors[r].Amount)
	}
	if peaks[recommender.Memory].Request > 0 {
		memory := resize.FromResources(v1alpha1.Resources{MemoryRequest: t.Demand.MemoryMax7d, MemoryLimit: t.Demand.MemoryOOM})[recommender.Memory]
		c.Max7d, c.OOM = memory.Request, max(memory.Limit, floors[recommender.Memory].Amount)
		if !t.Demand.AllowMemoryDecrease {
			keepMemory(&c, &least[recommender.Memory], &most[recommender.Memory])
		}
	}
	for _, r := range recommender.Resources {
		base, known := s.base(pod, live.Name, r)
		d, ok := (node.Forecast{Base: base, BaseKnown: known, Peak: recommender.Usage(peaks[r].Request), PeakKnown: peaks[r].Request > 0}).Demand()
		if ok && known {
			c.Of[r] = d.Within(r, least[r].Request, mostOf(r, live.Size[r], most[r].Request))
		}
	}
	return c
}

// keepMemory: where the policy does not allow it, neither a pod's request nor its limit is lowered.
func keepMemory(c *node.Container, least, most *recommender.Allocation) {
	const memory = recommender.Memory
	least.Request = max(least.Request, c.Current[memory])
	if most.Request > 0 {
		most.Request = max(most.Request, c.Current[memory])
	}
	if c.Max7d > 0 || c.OOM > 0 {
		c.Max7d = max(c.Max7d, (c.CurrentLimit+1)/2)
	}
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
