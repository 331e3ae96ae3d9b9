package resize

import (
	"cmp"
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Waves of resize steps.
const (
	WaveFirst = "first"
	WaveNext  = "next"
)

// Wave returns the plans that begin now, from the plans of one workload's pods that pass the gates.
//
// Plans have three ranks:
//  1. Urgent plans always begin, while records are free.
//  2. Followers raise a pod, or lower it to a size that a pod of the workload has verified. They go in waves of at most
//     MaxConcurrent pods that are resized or observed at once, and before any new size is tried.
//  3. Trials lower a pod below every verified size. They begin with a first wave of max(1, canary %) pods.
//
// OneShot and plans that restart containers go one pod at a time. The order follows the pods' hashed names: it is the
// same after attune restarts, and no name is always the first one in all workloads.
//
// records are the open records of the workload, kept its verified sizes, pods the number of its live pods, unreachable
// the nodes of records that are not ready.
func Wave(plans []Plan, records []v1alpha1.ResizeRecord, kept []v1alpha1.VerifiedResources, pods int, rules Rules, unreachable map[string]bool) []Plan {
	urgent, rest := partition(inOrder(plans), func(p Plan) bool { return p.Urgent })
	trials, followers := partition(rest, func(p Plan) bool { return Untried(p, kept) })
	room := v1alpha1.MaxRecords - len(records)
	going := firstPlans(urgent, &room, v1alpha1.MaxRecords, WaveNext)
	open := openSteps(records, unreachable) + len(going)
	if len(followers) > 0 {
		return append(going, firstPlans(gentle(followers, open), &room, Concurrent(rules, pods)-open, WaveNext)...)
	}
	return append(going, firstPlans(gentle(trials, open), &room, FirstWave(rules, pods)-open, WaveFirst)...)
}

// inOrder returns the plans that are due, then the others, each in the order of their pods' hashed names.
func inOrder(plans []Plan) []Plan {
	ordered := slices.Clone(plans)
	slices.SortStableFunc(ordered, func(a, b Plan) int {
		if a.Due != b.Due {
			return map[bool]int{true: -1, false: 1}[a.Due]
		}
		return cmp.Or(cmp.Compare(podview.Hash(a.PodName), podview.Hash(b.PodName)), cmp.Compare(a.PodName, b.PodName))
	})
	return ordered
}

// Promoted divides plans by whether a user has to promote their sizes first (Rules.AwaitsPromotion). A plan may go if it
// lowers nothing below the promoted sizes in kept, or if its pod belongs to the first wave, which has lowered pods so
// far and at most FirstWave pods in all. isFirst reports whether a pod belongs to it. The raises of a waiting plan go.
func Promoted(plans []Plan, kept []v1alpha1.VerifiedResources, lowered, pods int, rules Rules, isFirst func(Plan) bool) (going, waiting []Plan) {
	if !rules.AwaitsPromotion() {
		return plans, nil
	}
	for _, p := range inOrder(plans) {
		switch {
		case p.Urgent, !p.Lowers(), isFirst(p), !BelowPromoted(p, kept):
			going = append(going, p)
		case lowered < FirstWave(rules, pods):
			lowered++
			going = append(going, p)
		default:
			waiting = append(waiting, p)
			if raises := p.reducedTo(withoutDecreases); !raises.Empty() {
				going = append(going, raises)
			}
		}
	}
	return going, waiting
}

// BelowPromoted reports whether a plan lowers an amount below the promoted size of its container, or of a container
// without one.
func BelowPromoted(p Plan, kept []v1alpha1.VerifiedResources) bool {
	return anyMove(p, func(m Move) bool {
		k := podview.First(kept, func(k v1alpha1.VerifiedResources) bool { return k.Name == m.Container })
		if k.Promoted == nil {
			return m.Lowers()
		}
		least := podview.FromResources(*k.Promoted)
		for _, r := range recommender.Resources {
			if m.To[r].Request < min(m.From[r].Request, least[r].Request) || lowersLimit(m, r) && (least[r].Limit == 0 || m.To[r].Limit < least[r].Limit) {
				return true
			}
		}
		return false
	})
}

// Untried reports whether the plan lowers an amount below every verified size of the pod's template generation.
func Untried(p Plan, kept []v1alpha1.VerifiedResources) bool {
	survived := map[string]recommender.Size{}
	for _, k := range kept {
		if k.TemplateHash == p.TemplateHash {
			survived[k.Name] = podview.FromResources(k.Size)
		}
	}
	return anyMove(p, func(m Move) bool {
		least, ok := survived[m.Container]
		for _, r := range recommender.Resources {
			from, to := m.From[r], m.To[r]
			if to.Request < from.Request && (!ok || to.Request < least[r].Request) ||
				lowersLimit(m, r) && (!ok || least[r].Limit == 0 || to.Limit < least[r].Limit) {
				return true
			}
		}
		return false
	})
}

// FirstWave returns how many pods try a new size first: the canary percentage of all pods, rounded up, at least one.
func FirstWave(rules Rules, pods int) int {
	if rules.Mode == v1alpha1.UpdateOneShot {
		return 1
	}
	return max(1, (pods*rules.CanaryPercent+99)/100)
}

// Concurrent returns how many pods of a workload may be resized or observed at once; at least one. A percentage is
// rounded down.
func Concurrent(rules Rules, pods int) int {
	switch {
	case rules.Mode == v1alpha1.UpdateOneShot:
		return 1
	case rules.MaxConcurrentPercent > 0:
		return max(1, pods*rules.MaxConcurrentPercent/100)
	}
	return max(1, rules.MaxConcurrent)
}

// gentle returns the plans that may go together: a plan that restarts containers goes alone, and only while no other
// record is open.
func gentle(plans []Plan, open int) []Plan {
	restarting, rest := partition(plans, func(p Plan) bool { return p.Restarts })
	if len(restarting) > 0 && open == 0 {
		return restarting[:1]
	}
	return rest
}

// firstPlans returns the first plans, up to room and most, with their wave set, and reduces room by their number.
func firstPlans(plans []Plan, room *int, most int, wave string) []Plan {
	n := max(0, min(len(plans), *room, most))
	*room -= n
	going := slices.Clone(plans[:n])
	for i := range going {
		going[i].Wave = wave
	}
	return going
}

func partition(plans []Plan, is func(Plan) bool) (yes, no []Plan) {
	for _, p := range plans {
		if is(p) {
			yes = append(yes, p)
		} else {
			no = append(no, p)
		}
	}
	return yes, no
}
