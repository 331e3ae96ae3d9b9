package node

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// look holds what is needed to explain a reconcile later: values only. It keeps no pod and no recommendation, because
// each node would otherwise keep its own version of them in memory.
type look struct {
	node string
	at   time.Time
	// allocatable is the node's, available is the part that its members share, in millicores and bytes.
	allocatable, available node.Amounts
	// members share the node and have these demands, in the same order. others count with their present resources.
	// Both are empty if no pod shares.
	members, others []seen
	demands         []node.Pod
	// chosen are the indices of the members to evict.
	chosen []int
}

// seen is the state of a pod in a reconcile.
type seen struct {
	name string
	// reason and message are why the pod does not share, or is frozen; both empty: it shares and may be changed.
	reason, message string
	// stays is why the pod may not be evicted; empty: it may.
	stays string
	// tender reports that the pod is not lowered, because it is not ready or just restarted.
	tender bool
	// holds are the present sizes of its containers; known and wants have the same length and order.
	holds []podview.Container
	// known reports, for each resource of a container, whether its demand was measured; wants is the size that a new
	// container gets.
	known [][2]bool
	wants []recommender.Size
}

// look stores what is needed to explain a reconcile. It lists other pods only if some pods share the node.
func (s *scene) look(out shared) *look {
	l := &look{
		node: s.node.Name, at: s.now, allocatable: board.Allocatable(s.node), available: out.ledger.available,
		members: out.ledger.seen, demands: out.ledger.demands, chosen: out.chosen,
	}
	if len(l.members) == 0 {
		return l
	}
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if reason, message := board.AsItIs(pod, rec); reason != "" && !resize.Finished(pod) {
			holds := podview.Read(pod)
			l.others = append(l.others, seen{name: pod.Namespace + "/" + pod.Name, reason: reason, message: message, holds: holds, wants: board.Wants(rec, holds)})
		}
	}
	return l
}

// notMeasured is the reason of a share that equals the container's present size because its demand is not known.
const notMeasured = "NotMeasured"

// answer describes the outcome of a reconcile. It uses the same function (settle) as the loop's decision, so that the
// two cannot differ.
func (l *look) answer() answers.NodeAnswer {
	out := settle(l.available, l.demands, l.at)
	others := node.Amounts{l.allocatable[0] - l.available[0], l.allocatable[1] - l.available[1]}
	answer := answers.NodeAnswer{
		Node: l.node, Allocatable: answers.NodeAmountsOf(l.allocatable), Fixed: answers.NodeAmountsOf(others),
		Available: answers.NodeAmountsOf(node.Amounts{max(0, l.available[0]), max(0, l.available[1])}),
		Pods:      []answers.NodePod{}, Evictions: l.evictions(out.result),
		Decided: &answers.NodeDecided{
			At: l.at.UTC(), Needed: answers.NodeAmountsOf(out.result.Needed), Overcommitted: out.result.Overcommitted != [2]bool{}, Holders: l.holders(out.holders),
		},
	}
	for i := range l.others {
		answer.Pods = append(answer.Pods, l.others[i].asItIs())
	}
	why := node.Differences(l.available, l.demands, out.result, out.next, l.at)
	// Shares and grants are flat lists over all containers of all members; k is the position in them.
	k := 0
	for i := range l.members {
		pod := l.member(i)
		for j := range l.demands[i].Containers {
			pod.Containers = append(pod.Containers, l.container(i, j, out.result.Grants[k], out.next[k], why[k], out.sharer.Explain(i, j)))
			k++
		}
		answer.Pods = append(answer.Pods, pod)
	}
	slices.SortFunc(answer.Pods, func(a, b answers.NodePod) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

// asItIs describes a pod that does not share: it keeps its present size.
func (p *seen) asItIs() answers.NodePod {
	pod := answers.NodePod{Name: p.name, Reason: p.reason, Message: p.message}
	for j := range p.holds {
		pod.Containers = append(pod.Containers, p.container(j, p.holds[j].Size))
	}
	return pod
}

// container describes one container: its present size, the size it gets, and the size that a new container would get.
func (p *seen) container(j int, gets recommender.Size) answers.NodeContainer {
	c := answers.NodeContainer{Name: p.holds[j].Name, Holds: answers.AmountsOf(p.holds[j].Size), Gets: answers.AmountsOf(gets)}
	if p.wants != nil {
		c.Wants = answers.AmountsOf(p.wants[j])
	}
	return c
}

// member describes a pod that shares, without its containers.
func (l *look) member(i int) answers.NodePod {
	m, p := &l.members[i], &l.demands[i]
	return answers.NodePod{
		Name: p.Name, Shares: true, Frozen: p.Frozen, Group: p.Group, Reason: m.reason, Message: m.message,
		Ranking: p.Ranking.String(), Stays: m.stays,
	}
}

// container describes a container of a member: its demand, its share, the part of the share that it gets now, and why
// that differs.
func (l *look) container(i, j int, granted, next node.Grant, why [2]node.Difference, steps []recommender.Step) answers.NodeContainer {
	m, of := &l.members[i], &l.demands[i].Containers[j]
	c := m.container(j, resize.Merge(m.holds[j].Size, sizeOf(of, next)))
	c.Base = new(answers.QuantitiesOf(node.Amounts{of.Of[0].Base, of.Of[1].Base}, m.known[j]))
	c.Peak = new(answers.QuantitiesOf(node.Amounts{of.Of[0].Peak, of.Of[1].Peak}, m.known[j]))
	c.Share = new(answers.AmountsOf(recommender.Size{{Request: granted.Request[0]}, {Request: granted.Request[1], Limit: granted.MemoryLimit}}))
	for _, r := range recommender.Resources {
		switch {
		case why[r].Why != "":
			c.Why = append(c.Why, answers.ShareReason{Resource: r.String(), Reason: string(why[r].Why), Message: m.because(why[r])})
		case !m.known[j][r]:
			c.Why = append(c.Why, answers.ShareReason{Resource: r.String(), Reason: notMeasured, Message: "the demand of the container is not known yet, or its change is blocked: the container keeps its resources"})
		}
	}
	// Steps of a demand that is not known would explain a number that the loop does not use.
	for _, s := range steps {
		if m.known[j][s.Resource] {
			c.Steps = append(c.Steps, answers.StepOf(s))
		}
	}
	return c
}

// because explains why the size of a pod differs from its share.
func (p *seen) because(d node.Difference) string {
	switch {
	case d.Why == node.HeldFrozen && p.message != "":
		return p.message
	case d.Why == node.HeldLeast && p.tender:
		return "the pod is not ready, or restarted recently"
	case d.Why == node.HeldLeast:
		return "the policy allows no less: see minAllowed and memory.allowDecrease"
	}
	return d.Reason()
}

// evictions lists the pods to evict. Waits: the pod was not chosen in this reconcile, because the budget is used up
// or another pod takes precedence.
func (l *look) evictions(result node.Result) []answers.NodeEviction {
	return append([]answers.NodeEviction{}, podview.Map(result.Evictions, func(v node.Eviction) answers.NodeEviction {
		return answers.NodeEviction{Name: v.Name, Reason: v.Reason(), Ranking: v.Ranking.String(), Waits: !slices.Contains(l.chosen, v.Pod)}
	})...)
}

// holders lists the pods that keep others below their bases, with the amounts above their own shares.
func (l *look) holders(of []node.Holder) []answers.NodeHolder {
	return append([]answers.NodeHolder{}, podview.Map(of, func(h node.Holder) answers.NodeHolder {
		return answers.NodeHolder{
			Name: h.Name, Resource: h.Resource.String(), Above: recommender.Format(h.Resource, h.Above), Reason: string(h.Why),
			Message: l.members[h.Pod].because(node.Difference{Why: h.Why}),
		}
	})...)
}
