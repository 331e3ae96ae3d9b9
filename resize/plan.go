package resize

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Move is the change of one container.
type Move struct {
	// Container is its name.
	Container string
	// Sidecar is true for a native sidecar, which the patch lists under initContainers.
	Sidecar bool
	// From is what the pod's spec asks for, To what it is to ask for. An amount that From has is never absent in
	// To: a resize cannot remove a request or a limit. To may add one.
	From, To recommender.Size
	// MemoryUsage is what the container held when the move was planned, in bytes; 0 is unknown.
	MemoryUsage recommender.Amount
}

// Plan is one change of one pod that the API server applies as a whole. PlanFor makes it and Admit narrows it;
// Split may part it into two patches. The zero value changes nothing.
type Plan struct {
	// PodUID, PodName, Namespace and Node identify the pod and the node that it is bound to; Node is empty for a
	// pod without a node.
	PodUID             types.UID
	PodName, Namespace string
	Node               string
	// Version is the pod's resource version on which the plan rests; the API server then refuses the patch for a
	// pod that has changed since. It is set where a change could be harmful on other facts; empty: any version
	// will do.
	Version string
	// TemplateHash is the pod's template generation, to which kept sizes and originals belong.
	TemplateHash string
	// Moves are the containers that change, in the pod's order.
	Moves []Move
	// Restarts is true where the resizePolicy of a container restarts it for this change.
	Restarts bool
	// Urgent is true for an answer to an OOM kill. Such a plan only raises amounts and is exempt from most waits.
	Urgent bool
	// Elsewhere is true where the pod's node can never carry the plan out: nothing is sent, and the pod is to be
	// evicted.
	Elsewhere bool
	// Reason is why the plan exists where it is no step towards a target; the record takes it over. Empty for a
	// step.
	Reason string
	// Wave is WaveFirst or WaveNext for a step, set by Wave or Together, or the wave of an errand.
	Wave string
	// LeftOut lists what was wished for and is not part of the plan, with the reasons.
	LeftOut []Refusal
}

// PlanFor plans the change of a pod towards the wished sizes. Wishes for containers that the pod does not have are
// ignored; absent amounts leave the present ones alone.
//
// There are three kinds of rules, from the widest to the narrowest effect:
//  1. podRefusal refuses the whole pod, whatever the wish is.
//  2. moveRules take a resource or a direction out of one container's move; the rest of the move stays.
//  3. planRules refuse the plan that is left, for instance because the class of the pod would change.
//
// Amounts that change are at least podview.RaiseToLeast, and no limit is raised above what the node has.
// Without a move left, the refusal is the reason for the first thing that was left out, or ReasonNoChange.
func PlanFor(pod *corev1.Pod, wished []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	return planFor(pod, wished, caps, now, meaningful)
}

// PlanBack is PlanFor towards sizes that the pod had: they are given back exactly, also those below the least sizes and
// limits above what the node has. The plan has the wave and the reason of its errand.
func PlanBack(pod *corev1.Pod, had []podview.Container, caps Capabilities, now time.Time, wave, reason string) (Plan, *Refusal) {
	plan, refusal := planFor(pod, had, caps, now, exact)
	plan.Wave, plan.Reason = wave, reason
	return plan, refusal
}

func planFor(pod *corev1.Pod, wished []podview.Container, caps Capabilities, now time.Time, sized func(from, to recommender.Size, node [2]recommender.Amount) recommender.Size) (Plan, *Refusal) {
	plan := PlanOf(pod)
	s := situation{pod: pod, caps: caps, now: now, statuses: podview.Statuses(pod), wished: podview.ByName(wished)}
	if refusal := podRefusal(s); refusal != nil {
		return plan, refusal
	}
	for _, c := range podview.Resizable(pod) {
		wish, ok := s.wished[c.Name]
		if !ok {
			continue
		}
		from := podview.ReadSpec(c.Resources)
		move := Move{
			Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: from, To: Merge(from, wish.Size), MemoryUsage: wish.MemoryUsage,
		}
		move.To = sized(move.From, move.To, caps.Allocatable)
		move, left := permitted(s, move)
		plan.LeftOut = append(plan.LeftOut, left...)
		if move.To != move.From {
			plan.Moves = append(plan.Moves, move)
			plan.Restarts = plan.Restarts || move.RestartsContainer(c)
		}
	}
	if len(plan.Moves) == 0 {
		return plan, nothingLeft(plan.LeftOut)
	}
	for _, rule := range planRules {
		if refusal := rule(s, plan); refusal != nil {
			return plan, refusal
		}
	}
	return plan, nil
}

// Empty reports whether the plan changes nothing.
func (p Plan) Empty() bool { return len(p.Moves) == 0 }

// Grows reports whether the plan raises an amount.
func (p Plan) Grows() bool { return anyMove(p, Move.Raises) }

// Lowers reports whether the plan lowers an amount or adds a limit.
func (p Plan) Lowers() bool { return anyMove(p, Move.Lowers) }

// LowersMemoryLimit reports whether the plan lowers or adds a memory limit, the one kind of change that can kill a
// container by itself.
func (p Plan) LowersMemoryLimit() bool { return anyMove(p, Move.LowersMemoryLimit) }

// Apply returns the pod after the plan, as the API server would store its spec. The argument is not changed; both
// pods share everything but the lists of amounts.
func (p Plan) Apply(pod *corev1.Pod) *corev1.Pod {
	next := *pod
	next.Spec.Containers = withOwnAmounts(pod.Spec.Containers)
	next.Spec.InitContainers = withOwnAmounts(pod.Spec.InitContainers)
	moves := p.byContainer()
	for _, c := range podview.Resizable(&next) {
		if m, ok := moves[c.Name]; ok {
			for _, r := range recommender.Resources {
				c.Resources.Requests = podview.Put(c.Resources.Requests, r, m.To[r].Request)
				c.Resources.Limits = podview.Put(c.Resources.Limits, r, m.To[r].Limit)
			}
		}
	}
	return &next
}

// byContainer indexes the moves by their containers.
func (p Plan) byContainer() map[string]Move {
	moves := make(map[string]Move, len(p.Moves))
	for _, m := range p.Moves {
		moves[m.Container] = m
	}
	return moves
}

// withOwnAmounts copies containers together with their lists of amounts; all else is shared, as no resize changes
// it.
func withOwnAmounts(containers []corev1.Container) []corev1.Container {
	own := slices.Clone(containers)
	for i := range own {
		own[i].Resources.Requests = maps.Clone(own[i].Resources.Requests)
		own[i].Resources.Limits = maps.Clone(own[i].Resources.Limits)
	}
	return own
}

// Split parts a plan into patches that are sent one after the other, each after the one before was verified. Risky
// lowerings of memory limits get a patch of their own: one that the kubelet cannot carry out blocks everything
// else in the same patch.
//
// The order follows from what each part needs. A rest that raises something comes last, so that it never waits for
// room that the other part frees. Else the rest comes first, since it is the safer part. A plan that restarts a
// container is not split: two patches would restart it twice.
func Split(plan Plan) []Plan {
	rest := plan.reducedTo(func(m Move) recommender.Size {
		if riskyMemoryLimit(m) {
			return WithoutMemory(m)
		}
		return m.To
	})
	limits := plan.reducedTo(func(m Move) recommender.Size {
		if riskyMemoryLimit(m) {
			return withoutCPU(m)
		}
		return m.From
	})
	switch {
	case plan.Restarts || rest.Empty() || limits.Empty():
		return []Plan{plan}
	case rest.Grows():
		return []Plan{limits, plan.after(limits)}
	}
	return []Plan{rest, plan.after(rest)}
}

// reducedTo returns the plan with other target sizes; moves without a change are dropped.
func (p Plan) reducedTo(size func(Move) recommender.Size) Plan {
	moves := p.Moves
	p.Moves = nil
	for _, m := range moves {
		m.To = size(m)
		p.Moves = AppendMove(p.Moves, m)
	}
	return p
}

// after returns what is left of the plan when the first part is carried out.
func (p Plan) after(first Plan) Plan {
	reached, moves := first.byContainer(), p.Moves
	p.Moves = nil
	for _, m := range moves {
		if at, ok := reached[m.Container]; ok {
			m.From = at.To
		}
		p.Moves = AppendMove(p.Moves, m)
	}
	return p
}

// AsUrgent returns the part of the plan that answers an OOM kill: everything that grows.
func (p Plan) AsUrgent() Plan {
	p = p.reducedTo(withoutDecreases)
	p.Urgent = true
	return p
}

// Effect is by how much the plan changes what the scheduler counts for the pod, in millicores and bytes; negative
// amounts are saved. It is 0 where an init container asks for more than all other containers together.
func (p Plan) Effect(pod *corev1.Pod) [2]recommender.Amount {
	before, after := podview.Requests(pod), podview.Requests(p.Apply(pod))
	for _, r := range recommender.Resources {
		after[r] -= before[r]
	}
	return after
}

// planOf is a plan for the pod without any moves.
func PlanOf(pod *corev1.Pod) Plan {
	return Plan{
		PodUID: pod.UID, PodName: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
		TemplateHash: podview.TemplateHash(pod),
	}
}

// Merge returns the first size with the wished amounts in place of its own; absent wishes leave it as it is. No
// amount is above recommender.MaxAmount.
func Merge(from, wish recommender.Size) recommender.Size {
	return podview.Combine(from, wish, func(has, wished recommender.Amount) recommender.Amount {
		if wished > 0 {
			return min(wished, recommender.MaxAmount)
		}
		return has
	})
}

// permitted takes out of a move what the platform's rules do not allow. A refusal that leaves the move unchanged
// is not reported.
func permitted(s situation, m Move) (Move, []Refusal) {
	var left []Refusal
	for _, rule := range moveRules {
		refusal := rule.refuses(s, m)
		if refusal == nil {
			continue
		}
		if narrowed := rule.leaves(m); narrowed != m.To {
			refusal.Container = m.Container
			m.To = narrowed
			left = append(left, *refusal)
		}
	}
	return m, left
}

// nothingLeft returns why a plan has no move: the reason of the first thing that was left out. It is transient
// only where all of the reasons are.
func nothingLeft(left []Refusal) *Refusal {
	if len(left) == 0 {
		return Refuse(ReasonNoChange, "the pod already has the sizes wished for")
	}
	first := left[0]
	for _, other := range left[1:] {
		first.Transient = first.Transient && other.Transient
	}
	return &first
}

func anyMove(p Plan, is func(Move) bool) bool { return slices.ContainsFunc(p.Moves, is) }

func AppendMove(moves []Move, m Move) []Move {
	if m.From == m.To {
		return moves
	}
	return append(moves, m)
}

// Raises reports whether the move raises an amount. A limit that is added raises nothing.
func (m Move) Raises() bool {
	for _, r := range recommender.Resources {
		from, to := m.From[r], m.To[r]
		if to.Request > from.Request || from.Limit > 0 && to.Limit > from.Limit {
			return true
		}
	}
	return false
}

// Lowers reports whether the move lowers an amount. A limit that is added counts as lowered: there was none.
func (m Move) Lowers() bool {
	return m.LowersOf(recommender.CPU) || m.LowersOf(recommender.Memory)
}

// LowersOf is Lowers of one resource.
func (m Move) LowersOf(r recommender.Resource) bool {
	return m.To[r].Request < m.From[r].Request || lowersLimit(m, r)
}

// LowersMemoryLimit reports whether the move lowers or adds a memory limit.
func (m Move) LowersMemoryLimit() bool { return lowersLimit(m, recommender.Memory) }

// riskyMemoryLimit reports whether the new memory limit is less than 1.5 times what the container holds, or its
// usage is not known.
func riskyMemoryLimit(m Move) bool {
	return m.LowersMemoryLimit() && (m.MemoryUsage == 0 || m.To[recommender.Memory].Limit < m.MemoryUsage+m.MemoryUsage/2)
}

// lowersLimit reports whether a limit falls; a limit that is added counts as lowered.
func lowersLimit(m Move, r recommender.Resource) bool {
	from, to := m.From[r].Limit, m.To[r].Limit
	return to < from || from == 0 && to > 0
}

// restartsAny reports whether the plan restarts a container of the pod.
func RestartsAny(pod *corev1.Pod, p Plan) bool {
	moves := p.byContainer()
	return slices.ContainsFunc(podview.Resizable(pod), func(c *corev1.Container) bool { return moves[c.Name].RestartsContainer(c) })
}
