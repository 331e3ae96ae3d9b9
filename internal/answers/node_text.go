package answers

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"attune.io/attune/recommender"
)

// Sentence says how much room the node has, which pods take it, and how long before now that was decided.
func (a NodeAnswer) Sentence(now time.Time) string {
	return fmt.Sprintf("Node %s has %s: %s for fixed pods, %s for pods that share the node%s",
		a.Node, pairText(a.Allocatable), pairText(a.Fixed), pairText(a.Available), a.decidedText(now))
}

// pairText formats CPU and memory for a sentence.
func pairText(p NodeAmounts) string {
	return Readable(recommender.CPU, p.CPU) + " of CPU and " + Readable(recommender.Memory, p.Memory) + " of memory"
}

// decidedText says what the leader decided and when; empty if no leader answered.
func (a NodeAnswer) decidedText(now time.Time) string {
	if a.Decided == nil {
		return ""
	}
	return fmt.Sprintf(", which need %s; decided %s ago", pairText(a.Decided.Needed), duration.HumanDuration(max(0, now.Sub(a.Decided.At).Round(time.Second))))
}

// OvercommittedText explains an overcommitted node.
const OvercommittedText = "Overcommitted: the pods do not fit, and no pod can be evicted. Every pod keeps what it has of its share and gets a part of the free room."

// Overcommitted returns OvercommittedText if the pods do not fit; empty if they do.
func (a NodeAnswer) Overcommitted() string {
	if a.Decided == nil || !a.Decided.Overcommitted {
		return ""
	}
	return OvercommittedText
}

// HoldersHead is the sentence above Holders.
const HoldersHead = "Pods have less than their base demands, because other pods keep more than their shares:"

// Holders returns one sentence for each pod that keeps other pods below their base demands.
func (a NodeAnswer) Holders() (sentences []string) {
	if a.Decided == nil {
		return nil
	}
	for _, h := range a.Decided.Holders {
		sentences = append(sentences, fmt.Sprintf("%s keeps %s of %s: %s", h.Name, Readable(recommender.ResourceOf(h.Resource), h.Above), h.Resource, h.Message))
	}
	return sentences
}

// Containers has one row per container. The columns depend on whether the leader answered: only the leader knows
// shares.
func (a NodeAnswer) Containers() Table {
	t := Table{Header: []string{"POD", "CONTAINER", "CPU", "CPU PEAK", "CPU GETS", "MEMORY", "MEMORY PEAK", "MEMORY GETS", "MEMORY LIMIT", "FIXED", "WHY"}}
	// A decision has shares, demands and reasons, so the table has more columns.
	if a.Decided != nil {
		t.Header = []string{"POD", "CONTAINER", "CPU", "CPU BASE", "CPU PEAK", "CPU SHARE", "CPU GETS", "MEMORY", "MEMORY SHARE", "MEMORY GETS", "MEMORY LIMIT", "REASON", "WHY"}
	}
	t.OnlyWide = []string{"CPU BASE", "MEMORY SHARE", "WHY"} // with them, wider than most terminals
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			reason, why := whyUnchanged(p, c)
			t.Add(append(append([]string{p.Name, c.Name}, a.cells(c)...), reason, why)...)
		}
	}
	return t
}

// cells are the amounts of one row, in the order of the header.
func (a NodeAnswer) cells(c NodeContainer) []string {
	const cpu, memory = recommender.CPU, recommender.Memory
	gets := []string{Cell(memory, c.Gets.MemoryRequest), Cell(memory, c.Gets.MemoryLimit)}
	if a.Decided == nil {
		return append([]string{
			Cell(cpu, c.Holds.CPURequest), Cell(cpu, c.Wants.CPURequest), Cell(cpu, c.Gets.CPURequest),
			Cell(memory, c.Holds.MemoryRequest), Cell(memory, c.Wants.MemoryRequest),
		}, gets...)
	}
	// For a pod that does not share the node these are empty, and the table shows dashes.
	var base, peak Quantities
	var share Amounts
	if c.Share != nil && c.Base != nil && c.Peak != nil {
		base, peak, share = *c.Base, *c.Peak, *c.Share
	}
	return append([]string{
		Cell(cpu, c.Holds.CPURequest), Cell(cpu, base.CPU), Cell(cpu, peak.CPU), Cell(cpu, share.CPURequest), Cell(cpu, c.Gets.CPURequest),
		Cell(memory, c.Holds.MemoryRequest), Cell(memory, share.MemoryRequest),
	}, gets...)
}

// whyUnchanged returns why a pod does not share or is frozen, or else why a container does not get its share. Both results
// are empty if the container gets its share.
func whyUnchanged(p NodePod, c NodeContainer) (reason, why string) {
	if p.Reason != "" {
		return p.Reason, p.Message
	}
	var reasons, sentences []string
	for _, w := range c.Why {
		reasons, sentences = append(reasons, w.Resource+":"+w.Reason), append(sentences, w.Resource+": "+w.Message)
	}
	return strings.Join(reasons, ","), strings.Join(sentences, "; ")
}

// Computation has one row for each step of the leader's computation of a share.
func (a NodeAnswer) Computation() Table {
	t := Table{Header: []string{"POD", "CONTAINER", "RESOURCE", "STEP", "AMOUNT", "WHY"}}
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			for _, s := range c.Steps {
				t.Add(p.Name, c.Name, s.Resource, s.Name, Readable(recommender.ResourceOf(s.Resource), s.After), s.Reason)
			}
		}
	}
	return t
}

// Leaving has one row for each pod that is being evicted or that has to leave.
func (a NodeAnswer) Leaving() Table {
	t := Table{Header: []string{"EVICTED", "RANKING", "WHY"}}
	if a.Decided != nil {
		t.Header[0] = "TO EVICT"
	}
	for _, v := range a.Evictions {
		// A waiting pod is not evicted yet, because other pods are evicted first.
		reason := v.Reason
		if v.Waits {
			reason += "; other pods are evicted first"
		}
		t.Add(v.Name, v.Ranking, reason)
	}
	return t
}
