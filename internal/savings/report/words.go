package report

import (
	"strconv"
	"strings"

	"attune.io/attune/internal/display"
	"attune.io/attune/internal/savings"
	"attune.io/attune/recommender"
)

// Autoscaler says what freed requests are, and what they are not.
const Autoscaler = "Freed requests are room on nodes; whether a node is given back is decided by the node autoscaler."

// Sentences are what is realised, what is potential, and how much is not counted.
func (s Sum) Sentences() [3]string {
	return [3]string{"Freed on nodes now: " + sentence(s.Realised) + ".", "Potential, not applied yet: " + sentence(&s.Potential) + ".", s.NotCounted.Sentence()}
}

// sentence is such as "250m of CPU and 1Gi of memory ($5.48 a month)".
func sentence(s *Saved) string {
	if s == nil {
		return "not known"
	}
	text := display.Readable(recommender.CPU, s.CPU) + " of CPU and " + display.Readable(recommender.Memory, s.Memory) + " of memory"
	if money := s.Money(); money != "" {
		text += " (" + money + " a month)"
	}
	return text
}

// Money joins the amounts of all currencies; empty where there is no price.
func (s *Saved) Money() string {
	var amounts []string
	for _, m := range s.Monthly {
		amounts = append(amounts, m.Currency+m.Amount)
	}
	return strings.Join(amounts, " + ")
}

// Sentence says how much is not counted.
func (n NotCounted) Sentence() string {
	var parts []string
	for _, part := range []struct {
		n         int
		one, more string
	}{
		{n.HeldResources, "held resource", "held resources"},
		{n.HeldWorkloads, "workload that is held or not known", "workloads that are held or not known"},
		{n.SkippedWorkloads, "skipped workload", "skipped workloads"},
	} {
		switch {
		case part.n == 1:
			parts = append(parts, "1 "+part.one)
		case part.n > 1:
			parts = append(parts, strconv.Itoa(part.n)+" "+part.more)
		}
	}
	if parts == nil {
		return "Everything is counted."
	}
	return "Not counted: " + strings.Join(parts, ", ") + "."
}

// Words has a reason once for the whole workload and how often for single resources, such as "AllowDecrease, 2 NoData".
func Words(all []savings.NotCounted) string {
	var reasons []string
	times := map[string]int{}
	for _, n := range all {
		if times[n.Reason] == 0 {
			reasons = append(reasons, n.Reason)
		}
		times[n.Reason]++
	}
	for i, reason := range reasons {
		if n := times[reason]; n > 1 {
			reasons[i] = strconv.Itoa(n) + " " + reason
		}
	}
	return strings.Join(reasons, ", ")
}
