package resize

import (
	"cmp"
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Waves that a plan goes with.
const (
	WaveFirst = "first"
	WaveNext  = "next"
)

// Wave picks the plans that go now, out of those of one workload's pods that pass the gates. A size that
// lowers a pod under any size that a pod of the workload was seen to survive starts with the first wave
// of max(1, canary %) pods; what raises, or only follows a kept size, goes in waves of at most
// MaxConcurrent pods being resized or watched, and before anything new is tried. OneShot takes one pod
// at a time; what restarts containers as well. Urgent plans always go. The order is that of the pods'
// hashed names: it is the same after a restart, and no pod is always first across workloads.
//
// records are the open ones of the workload, kept its kept sizes, pods the number of its live pods, unreachable the nodes
// of records that are not ready.
func Wave(plans []Plan, records []v1alpha1.ResizeRecord, kept []v1alpha1.KeptSize, pods int, rules Rules, unreachable map[string]bool) []Plan {
	ordered := slices.Clone(plans)
	slices.SortStableFunc(ordered, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(podview.Hash(a.PodName), podview.Hash(b.PodName)), cmp.Compare(a.PodName, b.PodName))
	})
	urgent, rest := partition(ordered, func(p Plan) bool { return p.Urgent })
	trials, followers := partition(rest, func(p Plan) bool { return Untried(p, kept) })
	room := v1alpha1.MaxRecords - len(records)
	going := take(urgent, &room, v1alpha1.MaxRecords, WaveNext)
	open := steps(records, unreachable) + len(going)
	if withheld(rules) {
		followers, _ = partition(followers, func(p Plan) bool { return !p.Lowers() })
	}
	if len(followers) > 0 {
		return append(going, take(gentle(followers, open), &room, Concurrent(rules, pods)-open, WaveNext)...)
	}
	return append(going, take(gentle(trials, open), &room, FirstWave(rules, pods)-open, WaveFirst)...)
}

// steps counts records that take part in waves: the end of a boost does not, nor what no kubelet can put back.
func steps(records []v1alpha1.ResizeRecord, unreachable map[string]bool) (n int) {
	for _, r := range records {
		if r.Wave != WaveBoost && !Unreachable(r, unreachable) {
			n++
		}
	}
	return n
}

// Untried: the plan lowers an amount under what any pod of its template generation was seen to survive.
func Untried(p Plan, kept []v1alpha1.KeptSize) bool {
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

// FirstWave is how many pods try a size first: the canary percentage of all, rounded up, at least one.
func FirstWave(rules Rules, pods int) int {
	if rules.Mode == v1alpha1.UpdateOneShot {
		return 1
	}
	return max(1, (pods*rules.CanaryPercent+99)/100)
}

// Concurrent is how many pods of a workload may be resized or watched at once, at least one.
func Concurrent(rules Rules, pods int) int {
	switch {
	case rules.Mode == v1alpha1.UpdateOneShot:
		return 1
	case rules.MaxConcurrentPercent > 0:
		return max(1, pods*rules.MaxConcurrentPercent/100)
	}
	return max(1, rules.MaxConcurrent)
}

// withheld: a canary that a person promotes.
func withheld(rules Rules) bool { return rules.Mode == v1alpha1.UpdateCanary && !rules.AutoPromote }

// gentle lets one pod at a time restart its containers, and only while nothing else is open.
func gentle(plans []Plan, open int) []Plan {
	restarting, rest := partition(plans, func(p Plan) bool { return p.Restarts })
	if len(restarting) > 0 && open == 0 {
		return restarting[:1]
	}
	return rest
}

func take(plans []Plan, room *int, most int, wave string) []Plan {
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
