package node

import (
	"cmp"
	"slices"

	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// notMeasured is the reason of a share that equals what the container holds because its demand is not
// known.
const notMeasured = "NotMeasured"

// answer describes the outcome of a look. It is computed anew with the same function (settle) as the
// loop's own decision, so that it cannot differ from it.
func (l *look) answer() decision.Node {
	out := settle(l.available, l.demands, l.at)
	var others node.Amounts
	for _, r := range recommender.Resources {
		others[r] = l.allocatable[r] - l.available[r]
	}
	answer := decision.Node{
		Node: l.node, Allocatable: decision.PairOf(l.allocatable), Others: decision.PairOf(others),
		Available: decision.PairOf(node.Amounts{max(0, l.available[0]), max(0, l.available[1])}),
		Pods:      []decision.Pod{}, Evictions: l.evictions(out.result),
		Decided: &decision.Decided{
			At: l.at.UTC(), Needed: decision.PairOf(out.result.Needed), Overcommitted: out.result.Overcommitted != [2]bool{}, Holders: l.holders(out.holders),
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
	slices.SortFunc(answer.Pods, func(a, b decision.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

// asItIs describes a pod that takes no part in the sharing: it gets what it holds.
func (p *seen) asItIs() decision.Pod {
	pod := decision.Pod{Name: p.name, Reason: p.reason, Message: p.message}
	for j := range p.holds {
		pod.Containers = append(pod.Containers, p.container(j, p.holds[j].Size))
	}
	return pod
}

// container describes one container: what it holds, what it gets, and what a new one would be born with.
func (p *seen) container(j int, gets recommender.Size) decision.Container {
	c := decision.Container{Name: p.holds[j].Name, Holds: display.AmountsOf(p.holds[j].Size), Gets: display.AmountsOf(gets)}
	if p.wants != nil {
		c.Wants = display.AmountsOf(p.wants[j])
	}
	return c
}

// member describes a pod that shares, without its containers.
func (l *look) member(i int) decision.Pod {
	m, p := &l.members[i], &l.demands[i]
	return decision.Pod{
		Name: p.Name, Shares: true, Frozen: p.Frozen, Group: p.Group, Reason: m.reason, Message: m.message,
		Ranking: p.Ranking.String(), Stays: m.stays,
	}
}

// container describes a container of a member: its demand, its share, what of the share it gets now, and
// why that differs.
func (l *look) container(i, j int, granted, next node.Grant, why [2]node.Difference, steps []recommender.Step) decision.Container {
	m, of := &l.members[i], &l.demands[i].Containers[j]
	c := m.container(j, resize.Merge(m.holds[j].Size, sizeOf(of, next)))
	c.Base = decision.DemandOf(node.Amounts{of.Of[0].Base, of.Of[1].Base}, m.known[j])
	c.Peak = decision.DemandOf(node.Amounts{of.Of[0].Peak, of.Of[1].Peak}, m.known[j])
	share := display.AmountsOf(recommender.Size{{Request: granted.Request[0]}, {Request: granted.Request[1], Limit: granted.MemoryLimit}})
	c.Share = &share
	for _, r := range recommender.Resources {
		switch {
		case why[r].Why != "":
			c.Why = append(c.Why, decision.Why{Resource: r.String(), Reason: string(why[r].Why), Message: m.because(why[r])})
		case !m.known[j][r]:
			c.Why = append(c.Why, decision.Why{Resource: r.String(), Reason: notMeasured, Message: "what it needs is not known yet, or held: it keeps what it holds"})
		}
	}
	// Steps of a demand that is not known would explain a number that the loop does not use.
	for _, s := range steps {
		if m.known[j][s.Resource] {
			c.Steps = append(c.Steps, display.StepOf(s))
		}
	}
	return c
}

// because explains why a pod holds something else than its share.
func (p *seen) because(d node.Difference) string {
	switch {
	case d.Why == node.HeldFrozen && p.message != "":
		return p.message
	case d.Why == node.HeldLeast && p.tender:
		return "it is not ready, or restarted a moment ago"
	case d.Why == node.HeldLeast:
		return "its policy allows no less: minAllowed, or memory without allowDecrease"
	}
	return d.Reason()
}

// evictions lists the pods that have to go. Waits: the pod was not chosen in this look, since the budget
// was used up or another pod goes first.
func (l *look) evictions(result node.Result) []decision.Eviction {
	out := []decision.Eviction{}
	for _, v := range result.Evictions {
		out = append(out, decision.Eviction{
			Name: v.Name, Reason: v.Reason(), Ranking: v.Ranking.String(), Waits: !slices.Contains(l.chosen, v.Pod),
		})
	}
	return out
}

// holders lists the pods that keep others below their bases, with the amounts above their own shares.
func (l *look) holders(of []node.Holder) []decision.Holder {
	out := []decision.Holder{}
	for _, h := range of {
		out = append(out, decision.Holder{
			Name: h.Name, Resource: h.Resource.String(), Above: recommender.Format(h.Resource, h.Above), Reason: string(h.Why),
			Message: l.members[h.Pod].because(node.Difference{Why: h.Why}),
		})
	}
	return out
}
