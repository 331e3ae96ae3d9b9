package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/board"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// shared is the result of reconciling a node.
type shared struct {
	settled
	// grants are the published grants, by pod UID.
	grants map[types.UID]board.Pod
	// ledger is the input: the amount to share, and the pods that share it.
	ledger ledger
	// chosen are the indices of the members to evict.
	chosen []int
}

// settled is the result of the arithmetic. Its slices belong to the Sharer and are valid until its next use.
type settled struct {
	sharer *node.Sharer
	// result has the share of each container, in the order of the pods and of their containers.
	result node.Result
	// next is the present grant of each container, in the same order: a share is reached in several steps
	// (node.Settle).
	next []node.Grant
	// holders are the pods that keep others below their base demands.
	holders []node.Holder
}

// settle divides the available amount. The loop and kubectl attune node both use it, so that they agree. It creates a
// new Sharer each time, because a Sharer is for one goroutine.
func settle(available node.Amounts, demands []node.Pod, now time.Time) settled {
	sharer := &node.Sharer{}
	result := sharer.Share(available, demands)
	next := node.Settle(available, demands, result, now)
	return settled{sharer: sharer, result: result, next: next, holders: node.Holders(demands, result, next)}
}

// share is a pure function except for may, which reports whether one more pod may be evicted, and counts it. Members
// without a change get a grant too: without a grant, the node would not know the pod.
func (s *scene) share(may func(pod *corev1.Pod) bool) shared {
	l := s.ledger()
	out := shared{settled: settle(l.available, l.demands, s.now), grants: make(map[types.UID]board.Pod, len(l.members)), ledger: l}
	// next is a flat list over the containers of all members, in their order; each member takes its part from the
	// front.
	next := out.next
	for i, pod := range l.members {
		p := &l.demands[i]
		sizes := next[:len(p.Containers)]
		next = next[len(p.Containers):]
		granted := board.Pod{Recommendation: client.ObjectKeyFromObject(s.recommendations[pod.UID]), Sizes: map[string]recommender.Size{}}
		for j := range p.Containers {
			granted.Sizes[p.Containers[j].Name] = sizeOf(&p.Containers[j], sizes[j])
		}
		out.grants[pod.UID] = granted
	}
	for _, v := range out.result.Evictions {
		if pod := l.members[v.Pod]; may(pod) {
			granted := out.grants[pod.UID]
			granted.Evict = v.Reason()
			out.grants[pod.UID] = granted
			out.chosen = append(out.chosen, v.Pod)
		}
	}
	return out
}

// sizeOf returns the size that a container is to have. Amounts that it already has are zero, which means unchanged.
func sizeOf(c *node.Container, g node.Grant) recommender.Size {
	var size recommender.Size
	for _, r := range recommender.Resources {
		if g.Request[r] != c.Current[r] {
			size[r].Request = g.Request[r]
		}
	}
	if g.MemoryLimit != c.CurrentLimit {
		size[recommender.Memory].Limit = g.MemoryLimit
	}
	return size
}

// victims are the pods of a node that were chosen for eviction, and the times at which earlier ones left. They are
// kept between reconciles for the budget. If they are lost, at most one more budget of pods is evicted.
type victims struct {
	chosen []types.UID
	gone   []time.Time
}

// settle moves victims that have left to gone, and drops those that left an interval ago. No pod stays chosen: each
// reconcile chooses again, so that a pod that fits by now is not evicted.
func (v victims) settle(pods []*corev1.Pod, interval time.Duration, now time.Time) victims {
	out := victims{gone: slices.DeleteFunc(slices.Clone(v.gone), func(at time.Time) bool { return now.Sub(at) >= interval })}
	for _, uid := range v.chosen {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid && p.DeletionTimestamp == nil }) {
			out.gone = append(out.gone, now)
		}
	}
	return out
}

// budget is how many pods of a node may be evicted in an interval: a tenth of its members, at least one.
func budget(members int) int { return max(1, members/10) }

// goesFor is how long the loop waits for a pod that is being deleted. A finalizer or a long grace period must not
// leave the node short for longer.
const goesFor = 10 * time.Minute

// going reports that a pod is about to free its room. The deletion timestamp includes the grace period (Kubernetes
// sets it to the time of the request plus that period), so the period is subtracted.
func going(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp == nil || resize.Finished(pod) {
		return false
	}
	asked := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		asked = asked.Add(-time.Duration(*grace) * time.Second)
	}
	return now.Sub(asked) < goesFor
}

// chooser returns a function that chooses victims within the budget: one for each workload at a time, and none while
// a pod of the node is terminating, because its room may be enough.
func (v *victims) chooser(s *scene, members int) func(*corev1.Pod) bool {
	// The function below is called in the order of the evictions, lowest ranking first, so that the budget is used
	// for these.
	workloads := map[types.NamespacedName]bool{}
	somebodyGoes := slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return going(p, s.now) })
	return func(pod *corev1.Pod) bool {
		of := client.ObjectKeyFromObject(s.recommendations[pod.UID])
		if somebodyGoes || workloads[of] || len(v.chosen)+len(v.gone) >= budget(members) {
			return false
		}
		workloads[of] = true
		v.chosen = append(v.chosen, pod.UID)
		return true
	}
}
