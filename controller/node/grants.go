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

// shared is what one look at a node comes to.
type shared struct {
	settled
	grants map[types.UID]board.Pod
	ledger ledger
	// chosen are the indices of the members that are asked to go.
	chosen []int
}

// settled is what a sharing comes to.
type settled struct {
	sharer *node.Sharer
	result node.Result
	next   []node.Grant
	// holders keep others below their base demands.
	holders []node.Holder
}

// settle shares what is available: what the loop grants, and what it shows of that, is what this returns.
func settle(available node.Amounts, demands []node.Pod, now time.Time) settled {
	sharer := &node.Sharer{}
	result := sharer.Share(available, demands)
	next := node.Settle(available, demands, result, now)
	return settled{sharer: sharer, result: result, next: next, holders: node.Holders(demands, result, next)}
}

// share is the look as a pure function. may says whether one more pod of a workload may be sent away.
func (s *scene) share(may func(pod *corev1.Pod) bool) shared {
	l := s.ledger()
	out := shared{settled: settle(l.available, l.demands, s.now), grants: make(map[types.UID]board.Pod, len(l.members)), ledger: l}
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

// sizeOf is what a container is to hold; what it holds already is left out.
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

// victims are the pods of a node that were chosen to go, and when those went that are gone.
type victims struct {
	chosen []types.UID
	gone   []time.Time
}

// settle forgets victims that are no longer there, and those that went an interval ago.
func (v victims) settle(pods []*corev1.Pod, interval time.Duration, now time.Time) victims {
	var out victims
	for _, at := range v.gone {
		if now.Sub(at) < interval {
			out.gone = append(out.gone, at)
		}
	}
	for _, uid := range v.chosen {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid && p.DeletionTimestamp == nil }) {
			out.gone = append(out.gone, now)
		}
	}
	return out
}

// budget is how many pods of a node may go in an interval: a tenth of those that share it, at least one.
func budget(members int) int { return max(1, members/10) }

// goesFor is how long a pod that is being deleted is waited for: one that a finalizer or a long grace period keeps is no
// reason to leave the node short.
const goesFor = 10 * time.Minute

// going: the pod leaves room in a moment. The time of its deletion has its grace period in it.
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

// chooser takes victims within the budget: one per workload at a time, and nobody while a pod of the node is going,
// since what that leaves may do.
func (v *victims) chooser(s *scene, members int) func(*corev1.Pod) bool {
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
