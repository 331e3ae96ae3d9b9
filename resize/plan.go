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

// Move is one container's change.
type Move struct {
	Container string
	Sidecar   bool
	// From is what the pod's spec asks for; To what it is to ask for. Neither has an amount that the
	// other lacks but for what To adds: a resize never removes a request or a limit.
	From, To recommender.Size
	// MemoryUsage when it was planned; 0 is unknown.
	MemoryUsage recommender.Amount
}

// Plan is one atomic change of one pod: one patch.
type Plan struct {
	PodUID             types.UID
	PodName, Namespace string
	Node               string
	// Version of the pod that the plan rests on, where it must be that one: what lowers anything, and RestPlan; empty: any.
	Version string
	// TemplateHash of the pod: kept sizes and originals belong to it.
	TemplateHash string
	// Moves are the containers that change, in the pod's order.
	Moves []Move
	// Restarts: a container's resizePolicy restarts it.
	Restarts bool
	// Urgent: the change answers an OOM kill, so it only grows and waits for little.
	Urgent bool
	// Elsewhere: the pod's node can never carry it out; nothing is sent, and the pod is to be evicted.
	Elsewhere bool
	// Reason for the plan, where it is not what is recommended; its record carries it.
	Reason string
	// Wave that the plan goes with: WaveFirst or WaveNext.
	Wave string
	// LeftOut says what was wished for and is not part of the plan.
	LeftOut []Refusal
}

// PlanFor plans the change of a pod towards the sizes wished for. Containers that the pod has not are
// ignored, absent amounts left alone. What one rule of the platform refuses for a container is left
// out of the plan; what concerns the pod refuses it whole. Without a move left the refusal says why.
func PlanFor(pod *corev1.Pod, wished []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	plan := planOf(pod)
	s := situation{pod: pod, caps: caps, now: now, statuses: podview.Statuses(pod), wished: podview.ByName(wished)}
	for _, rule := range podRules {
		if refusal := rule(s); refusal != nil {
			return plan, refusal
		}
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
		move.To = meaningful(move.From, move.To)
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

// Empty plans change nothing.
func (p Plan) Empty() bool { return len(p.Moves) == 0 }

// Grows: some amount is raised.
func (p Plan) Grows() bool { return anyMove(p, Move.Raises) }

// Lowers: some amount is lowered.
func (p Plan) Lowers() bool { return anyMove(p, Move.Lowers) }

// LowersMemoryLimit: the one kind of change that can kill by itself.
func (p Plan) LowersMemoryLimit() bool { return anyMove(p, lowersMemoryLimit) }

// Apply is the pod after the plan, as the API server would store its spec; the pod given stays as it is. They
// share everything but the containers' amounts.
func (p Plan) Apply(pod *corev1.Pod) *corev1.Pod {
	next := *pod
	next.Spec.Containers = withOwnAmounts(pod.Spec.Containers)
	next.Spec.InitContainers = withOwnAmounts(pod.Spec.InitContainers)
	moves := make(map[string]Move, len(p.Moves))
	for _, m := range p.Moves {
		moves[m.Container] = m
	}
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

// withOwnAmounts are the containers with lists of amounts that are theirs alone. Whatever else a container
// says, no resize changes.
func withOwnAmounts(containers []corev1.Container) []corev1.Container {
	own := slices.Clone(containers)
	for i := range own {
		own[i].Resources.Requests = maps.Clone(own[i].Resources.Requests)
		own[i].Resources.Limits = maps.Clone(own[i].Resources.Limits)
	}
	return own
}

// Split takes risky lowerings of memory limits out of a plan into a patch of their own, since one that the
// kubelet cannot carry out blocks everything else in its patch. What only lowers goes first, so that no
// part asks for room that a later one frees; else the rest goes first, being the safer part. The plans are
// to be made in order, each after the last one was verified. A plan that restarts a container stays whole:
// two patches would restart it twice.
func Split(plan Plan) []Plan {
	rest := plan.reducedTo(func(m Move) recommender.Size {
		if riskyMemoryLimit(m) {
			return withoutMemory(m)
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

// reducedTo is the plan with other sizes to reach; moves that reach nothing are dropped.
func (p Plan) reducedTo(size func(Move) recommender.Size) Plan {
	moves := p.Moves
	p.Moves = nil
	for _, m := range moves {
		m.To = size(m)
		p.Moves = appendMove(p.Moves, m)
	}
	return p
}

// after is what is left of the plan when its first part has been made.
func (p Plan) after(first Plan) Plan {
	reached := map[string]recommender.Size{}
	for _, m := range first.Moves {
		reached[m.Container] = m.To
	}
	moves := p.Moves
	p.Moves = nil
	for _, m := range moves {
		if at, ok := reached[m.Container]; ok {
			m.From = at
		}
		p.Moves = appendMove(p.Moves, m)
	}
	return p
}

// AsUrgent is the part of a plan that answers an OOM kill: what grows.
func (p Plan) AsUrgent() Plan {
	p = p.reducedTo(withoutDecreases)
	p.Urgent = true
	return p
}

// Effect is by how much a plan changes what the scheduler counts for a pod; what is saved is negative. An
// init container that asks for more than the others together can make it nothing.
func (p Plan) Effect(pod *corev1.Pod) [2]recommender.Amount {
	before, after := podview.Requests(pod), podview.Requests(p.Apply(pod))
	for _, r := range recommender.Resources {
		after[r] -= before[r]
	}
	return after
}

func planOf(pod *corev1.Pod) Plan {
	return Plan{
		PodUID: pod.UID, PodName: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
		TemplateHash: podview.TemplateHash(pod),
	}
}

// Merge takes over the amounts that are wished for.
func Merge(from, wish recommender.Size) recommender.Size {
	to := from
	for _, r := range recommender.Resources {
		if wish[r].Request > 0 {
			to[r].Request = min(wish[r].Request, recommender.MaxAmount)
		}
		if wish[r].Limit > 0 {
			to[r].Limit = min(wish[r].Limit, recommender.MaxAmount)
		}
	}
	return to
}

// permitted narrows a move to what the platform's rules leave of it.
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

// nothingLeft is why a plan has no move.
func nothingLeft(left []Refusal) *Refusal {
	if len(left) == 0 {
		return refuse(ReasonNoChange, "the pod already has the sizes wished for")
	}
	first := left[0]
	first.PodWide = true
	for _, other := range left[1:] {
		first.Transient = first.Transient && other.Transient
	}
	return &first
}

func anyMove(p Plan, is func(Move) bool) bool {
	for _, m := range p.Moves {
		if is(m) {
			return true
		}
	}
	return false
}

func appendMove(moves []Move, m Move) []Move {
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

func lowersMemoryLimit(m Move) bool { return lowersLimit(m, recommender.Memory) }

// riskyMemoryLimit: nobody knows that the new limit is well above what the container holds.
func riskyMemoryLimit(m Move) bool {
	return lowersMemoryLimit(m) && (m.MemoryUsage == 0 || m.To[recommender.Memory].Limit < m.MemoryUsage+m.MemoryUsage/2)
}

func lowersLimit(m Move, r recommender.Resource) bool {
	from, to := m.From[r].Limit, m.To[r].Limit
	return to < from || from == 0 && to > 0
}
