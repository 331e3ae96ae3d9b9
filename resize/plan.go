package resize

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Move is the change of one container.
type Move struct {
	// Container is the container's name.
	Container string
	// Sidecar is true for a native sidecar, which the patch lists under initContainers.
	Sidecar bool
	// From is the size in the pod's spec, To the planned size. An amount that From has is never absent in To: a resize
	// cannot remove a request or a limit. To may add one.
	From, To recommender.Size
	// MemoryUsage is the container's memory usage when the move was planned, in bytes; 0: not known.
	MemoryUsage recommender.Amount
}

// Plan is one change of one pod that the API server applies as a whole. PlanFor creates it and Admit narrows it; Split
// may divide it into two patches. The zero value changes nothing.
type Plan struct {
	// PodUID, PodName, Namespace and Node identify the pod and its node; Node is empty for a pod without a node.
	PodUID             types.UID
	PodName, Namespace string
	Node               string
	// Version is the pod's resource version that the plan is based on; the API server then refuses the patch if the pod
	// has changed since. It is set if the change could be harmful after such a change; empty: any version is valid.
	Version string
	// TemplateHash is the pod's template generation, to which verified sizes and original resources belong.
	TemplateHash string
	// Moves are the containers that change, in the pod's order.
	Moves []Move
	// Restarts is true if a container's resizePolicy restarts it for this change.
	Restarts bool
	// Urgent is true for an answer to an OOM kill. Such a plan only raises amounts and is exempt from most waits.
	Urgent bool
	// Due is true if a raise of the plan is due (Lately.Above). Such plans are the first of their wave.
	Due bool
	// Elsewhere is true if the pod's node can never carry the plan out: attune sends no resize, and evicts the pod.
	Elsewhere bool
	// Reason is why the plan exists if it is not a resize step towards a target; the record has the same reason. Empty
	// for a resize step.
	Reason string
	// Wave is WaveFirst or WaveNext for a resize step, set by Wave or Together, or the wave of an errand.
	Wave string
	// LeftOut lists the wished changes that are not part of the plan, with the reasons.
	LeftOut []Refusal
}

// PlanFor plans the change of a pod towards the wished sizes. It ignores wishes for containers that the pod does not
// have; absent amounts leave the current ones unchanged.
//
// There are three kinds of rules, from the widest to the narrowest effect:
// 1. podRefusal refuses every change of the pod.
// 2. specRules, which new pods share, and moveRules remove a resource or a direction from one container's move; the
// rest of the move stays.
// 3. planRules refuse the remaining plan, for instance because the class of the pod would change.
//
// Changed amounts are at least recommender.RaiseToLeast, and no limit is raised above the node's capacity. If no move
// remains, the refusal is the first reason in LeftOut, or ReasonNoChange.
func PlanFor(pod *corev1.Pod, wished []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	return planFor(situation{pod: pod, caps: caps, now: now}, wished, meaningful)
}

// PlanBack is PlanFor towards sizes that the pod had. They are restored exactly, even below the least sizes, and with
// limits above the node's capacity. The plan has the wave and the reason of its errand.
func PlanBack(pod *corev1.Pod, had []podview.Container, caps Capabilities, now time.Time, wave, reason string) (Plan, *Refusal) {
	plan, refusal := planFor(situation{pod: pod, caps: caps, now: now, back: true}, had, exact)
	plan.Wave, plan.Reason = wave, reason
	return plan, refusal
}

// PlanToStart plans to restore the memory limits that a pod had, while it waits on its node for its first container. The
// kubelet allocates such a resize, and starts the containers with it at its next attempt. Requests stay, except in a
// Guaranteed pod: a larger request could find no room on the node. CPU stays too: the pod's cgroup already has its CPU
// limit, and with cgroup v1 no container with a larger one starts. The memory limit of that cgroup follows with the
// next resize (CatchUp).
func PlanToStart(pod *corev1.Pod, had []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	guaranteed := podview.Guaranteed(pod)
	limits := podview.Map(had, func(c podview.Container) podview.Container {
		memory := recommender.Allocation{Limit: c.Size[recommender.Memory].Limit}
		if guaranteed {
			memory.Request = memory.Limit
		}
		c.Size = recommender.Size{recommender.Memory: memory}
		return c
	})
	plan, refusal := planFor(situation{pod: pod, caps: caps, now: now, toStart: true}, limits, exact)
	plan.Wave, plan.Reason = WaveTemplate, ReasonFailedStart
	return plan, refusal
}

func planFor(s situation, wished []podview.Container, sized func(from, to recommender.Size, node [2]recommender.Amount) recommender.Size) (Plan, *Refusal) {
	pod := s.pod
	plan := PlanOf(pod)
	s.statuses, s.wished = podview.Statuses(pod), podview.ByName(wished)
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
		move.To = sized(move.From, move.To, s.caps.Allocatable)
		move, left := permitted(s, c, move)
		plan.LeftOut = append(plan.LeftOut, left...)
		if move.To != move.From {
			plan.Moves = append(plan.Moves, move)
			plan.Restarts = plan.Restarts || move.RestartsContainer(c)
		}
	}
	if !s.back && !s.toStart {
		plan = stayBurstable(pod, plan, GateInput{})
		plan.Restarts = RestartsAny(pod, plan)
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

// LowersMemoryLimit reports whether the plan lowers or adds a memory limit, the only kind of change that can kill a
// container by itself.
func (p Plan) LowersMemoryLimit() bool { return anyMove(p, Move.LowersMemoryLimit) }

// Apply returns the pod after the plan, as the API server would store its spec. The argument is not changed; both pods
// share everything except the lists of amounts.
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

// byContainer indexes the moves by container name.
func (p Plan) byContainer() map[string]Move {
	moves := make(map[string]Move, len(p.Moves))
	for _, m := range p.Moves {
		moves[m.Container] = m
	}
	return moves
}

// withOwnAmounts copies containers together with their lists of amounts. It shares everything that no resize changes.
func withOwnAmounts(containers []corev1.Container) []corev1.Container {
	own := slices.Clone(containers)
	for i := range own {
		own[i].Resources.Requests = maps.Clone(own[i].Resources.Requests)
		own[i].Resources.Limits = maps.Clone(own[i].Resources.Limits)
	}
	return own
}

// Split divides a plan into patches that are sent in order, each after the previous one was verified. Risky decreases
// of memory limits get their own patch: a decrease that the kubelet cannot carry out blocks everything in the same
// patch.
//
// The order follows from the needs of each part. A rest that raises an amount comes last, so that it never waits for
// room that the other part frees. Otherwise the rest comes first, since it is the safer part. A plan that restarts a
// container is not split: two patches would restart it twice. A StartPlan is followed by its reverse.
func Split(plan Plan) []Plan {
	if plan.Reason == ReasonNotRunning {
		return []Plan{plan, plan.reverse()}
	}
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

// reducedTo returns the plan with other target sizes, without moves that change nothing.
func (p Plan) reducedTo(size func(Move) recommender.Size) Plan {
	moves := p.Moves
	p.Moves = nil
	for _, m := range moves {
		m.To = size(m)
		p.Moves = AppendMove(p.Moves, m)
	}
	return p
}

// reverse returns the plan from the target sizes to the current ones.
func (p Plan) reverse() Plan {
	p.Moves = slices.Clone(p.Moves)
	for i, m := range p.Moves {
		p.Moves[i].From, p.Moves[i].To = m.To, m.From
	}
	return p
}

// after returns the remaining plan once the first part is carried out.
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

// AsUrgent returns the part of the plan that answers an OOM kill: all increases.
func (p Plan) AsUrgent() Plan {
	p = p.reducedTo(withoutDecreases)
	p.Urgent = true
	return p
}

// Effect returns by how much the plan changes the footprint that the scheduler counts for the pod, in millicores and
// bytes; negative amounts are savings. It is 0 if an init container requests more than all other containers together.
func (p Plan) Effect(pod *corev1.Pod) [2]recommender.Amount {
	before, after := podview.Requests(pod), podview.Requests(p.Apply(pod))
	for _, r := range recommender.Resources {
		after[r] -= before[r]
	}
	return after
}

// PlanOf returns a plan for the pod without moves.
func PlanOf(pod *corev1.Pod) Plan {
	return Plan{
		PodUID: pod.UID, PodName: pod.Name, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
		TemplateHash: podview.TemplateHash(pod),
	}
}

// Merge returns from with the wished amounts; absent wishes leave an amount unchanged. No wished amount is set above
// recommender.MaxAmount.
func Merge(from, wish recommender.Size) recommender.Size {
	return podview.Combine(from, wish, func(has, wished recommender.Amount) recommender.Amount {
		if wished > 0 {
			return min(wished, recommender.MaxAmount)
		}
		return has
	})
}

// permitted removes changes that the platform's rules do not allow from a move. It does not report a refusal that
// leaves the move unchanged.
func permitted(s situation, c *corev1.Container, m Move) (Move, []Refusal) {
	var left []Refusal
	facts := s.factsOf(c)
	for _, r := range recommender.Resources {
		to, refusal := AllowedBySpec(&facts, r, m.From[r], m.To[r])
		if m.To[r] = to; refusal != nil {
			refusal.Container = m.Container
			left = append(left, *refusal)
		}
	}
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

// nothingLeft returns why a plan has no move: the reason of the first removed change. It is transient only if all of
// the reasons are.
func nothingLeft(left []Refusal) *Refusal {
	if len(left) == 0 {
		return Refuse(ReasonNoChange, "the pod already has the target resources")
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

// Raises reports whether the move raises an amount. A new limit does not count as a raise.
func (m Move) Raises() bool {
	return slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		from, to := m.From[r], m.To[r]
		return to.Request > from.Request || from.Limit > 0 && to.Limit > from.Limit
	})
}

// Lowers reports whether the move lowers an amount. A new limit counts as a decrease, since no limit applied before.
func (m Move) Lowers() bool {
	return m.LowersOf(recommender.CPU) || m.LowersOf(recommender.Memory)
}

// LowersOf is Lowers for one resource.
func (m Move) LowersOf(r recommender.Resource) bool {
	return m.To[r].Request < m.From[r].Request || lowersLimit(m, r)
}

// LowersMemoryLimit reports whether the move lowers or adds a memory limit.
func (m Move) LowersMemoryLimit() bool { return lowersLimit(m, recommender.Memory) }

// riskyMemoryLimit reports whether the new memory limit is less than 1.5 times the container's usage, or the usage is
// not known.
func riskyMemoryLimit(m Move) bool {
	return m.LowersMemoryLimit() && (m.MemoryUsage == 0 || m.To[recommender.Memory].Limit < m.MemoryUsage+m.MemoryUsage/2)
}

// lowersLimit reports whether a limit falls; a new limit counts as a decrease, and one that admission removed does not.
func lowersLimit(m Move, r recommender.Resource) bool {
	from, to := m.From[r].Limit, m.To[r].Limit
	return to > 0 && (to < from || from == 0)
}

// RestartsAny reports whether the plan restarts a container of the pod.
func RestartsAny(pod *corev1.Pod, p Plan) bool {
	moves := p.byContainer()
	return slices.ContainsFunc(podview.Resizable(pod), func(c *corev1.Container) bool { return moves[c.Name].RestartsContainer(c) })
}

// Patch returns the plan as a strategic merge patch for the pod's resize subresource. It contains the pod's uid, so
// that it cannot reach another pod of the same name, and the resource version if the plan has one. It contains only
// changed amounts, so that other resources and containers stay unchanged. Equal plans give equal bytes.
func (p Plan) Patch() []byte {
	patch := podPatch{}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = p.PodUID, p.Version
	for _, m := range p.Moves {
		c := containerPatch{Name: m.Container}
		amounts := podview.ToRequirements(m.newAmounts())
		c.Resources.Requests, c.Resources.Limits = amounts.Requests, amounts.Limits
		if m.Sidecar {
			patch.Spec.InitContainers = append(patch.Spec.InitContainers, c)
		} else {
			patch.Spec.Containers = append(patch.Spec.Containers, c)
		}
	}
	return clip.JSON(patch)
}

// podPatch is the part of a pod that a patch may contain.
type podPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Containers     []containerPatch `json:"containers,omitempty"`
		InitContainers []containerPatch `json:"initContainers,omitempty"`
	} `json:"spec"`
}

// containerPatch is one container's part; absent lists are not written.
type containerPatch struct {
	Name      string `json:"name"`
	Resources struct {
		Requests corev1.ResourceList `json:"requests,omitempty"`
		Limits   corev1.ResourceList `json:"limits,omitempty"`
	} `json:"resources"`
}
