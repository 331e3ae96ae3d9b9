package resize

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

const (
	// mostBackoff caps how much reverts lengthen the cooldown.
	mostBackoff = 16
	// degradedReverts of the last degradedOf resizes make a workload degraded.
	degradedReverts, degradedOf = 3, 5
)

// CooldownFor is the cooldown after reverts: doubled for each consecutive one, at most 16 times.
func CooldownFor(base time.Duration, backoff *v1alpha1.Backoff) time.Duration {
	factor := time.Duration(1)
	if backoff != nil {
		for i := int32(0); i < backoff.ConsecutiveReverts && factor < mostBackoff; i++ {
			factor *= 2
		}
	}
	return base * factor
}

// BackoffAfter counts a closed record's result: a revert lengthens the back-off, a success ends it, and
// anything else leaves it.
func BackoffAfter(backoff *v1alpha1.Backoff, result string, now time.Time) *v1alpha1.Backoff {
	switch result {
	case ResultSuccess:
		return nil
	case ResultReverted:
		next := v1alpha1.Backoff{Since: metav1.NewTime(now)}
		if backoff != nil {
			next.ConsecutiveReverts = backoff.ConsecutiveReverts
		}
		next.ConsecutiveReverts++
		return &next
	}
	return backoff
}

// Learn is what a verdict teaches about sizes to stay above: after an OOM kill 1.3 times the limit that
// killed, after throttling 1.3 times the CPU limit, after other harm what the pod had before. A floor is
// as old as the harm it was learned from, so that learning it again changes nothing.
func Learn(v Verdict, record v1alpha1.ResizeRecord, now time.Time) []v1alpha1.Floor {
	at := v.At
	if at.IsZero() {
		at = now
	}
	if v.Evidence == "" {
		v.Evidence = string(record.PodUID) + "@" + record.WrittenAt.UTC().Format(time.RFC3339)
	}
	var floors []v1alpha1.Floor
	for _, c := range changesOf(record) {
		if v.Container != "" && v.Container != c.name {
			continue
		}
		for r, amount := range floorsAfter(v, c) {
			if amount > 0 {
				floors = append(floors, floor(c.name, recommender.Resource(r), amount, string(v.Harm), at, v.Evidence))
			}
		}
	}
	return floors
}

// LearnOOMs is what kills teach, whatever size the container had when they happened.
func LearnOOMs(kills []OOM) []v1alpha1.Floor {
	var floors []v1alpha1.Floor
	for _, k := range kills {
		if k.Limit > 0 {
			floors = append(floors, floor(k.Container, recommender.Memory, recommender.OOMFloor(k.Limit), string(HarmOOM), k.At, k.Evidence))
		}
	}
	return floors
}

// floorsAfter are the amounts that one container should stay above, by Resource; 0 is none.
func floorsAfter(v Verdict, c change) [2]recommender.Amount {
	var floors [2]recommender.Amount
	switch v.Harm {
	case HarmOOM:
		floors[recommender.Memory] = recommender.OOMFloor(v.Ceiling)
	case HarmThrottle:
		floors[recommender.CPU] = recommender.ThrottleFloor(cpuCeiling(c.desired))
	case HarmRestart, HarmNotReady, HarmSLO:
		for _, r := range recommender.Resources {
			if c.desired[r].Request < c.prior[r].Request {
				floors[r] = c.prior[r].Request
			}
		}
	}
	return floors
}

// cpuCeiling is the CPU limit, or the request where there is none.
func cpuCeiling(size recommender.Size) recommender.Amount {
	if limit := size[recommender.CPU].Limit; limit > 0 {
		return limit
	}
	return size[recommender.CPU].Request
}

func floor(container string, r recommender.Resource, amount recommender.Amount, reason string, at time.Time, evidence string) v1alpha1.Floor {
	return v1alpha1.Floor{
		Container: container, Resource: r.String(), Amount: Quantity(r, amount), Reason: reason,
		LearnedAt: metav1.NewTime(at), Evidence: evidence,
	}
}

// Unlearned are the floors whose evidence is not among those known already.
func Unlearned(known, learned []v1alpha1.Floor) []v1alpha1.Floor {
	seen := map[string]bool{}
	for _, f := range known {
		seen[identity(f)] = true
	}
	return slices.DeleteFunc(slices.Clone(learned), func(f v1alpha1.Floor) bool { return seen[identity(f)] })
}

func identity(f v1alpha1.Floor) string { return f.Container + "/" + f.Resource + "/" + f.Evidence }

// Degraded: 3 of the last 5 resizes of a workload were reverted. The history is newest first and has a
// row per container; rows of one pod at one time are one resize.
func Degraded(history []v1alpha1.HistoryEntry) bool {
	type one struct {
		pod string
		at  int64
	}
	seen, reverted := map[one]bool{}, 0
	for _, row := range history {
		id := one{row.Pod, row.Timestamp.Unix()}
		if seen[id] || row.Result != ResultSuccess && row.Result != ResultReverted && row.Result != ResultFailed {
			continue
		}
		seen[id] = true
		if row.Result == ResultReverted {
			reverted++
		}
		if len(seen) == degradedOf {
			break
		}
	}
	return reverted >= degradedReverts
}
