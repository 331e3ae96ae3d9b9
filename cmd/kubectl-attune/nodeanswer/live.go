package nodeanswer

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"attune.io/attune/cmd/kubectl-attune/table"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/display"
	"attune.io/attune/internal/explain"
	"attune.io/attune/recommender"
)

// Live is the answer of node about a node of the cluster. From the leader it has the last decision. Without
// the leader it is made of pods and recommendations: grants and gates are not known then, and a container gets the
// size of its open resize, else what it holds.
type Live struct {
	// Node is the JSON of the answer. Its Decided is nil where no leader answered.
	decision.Node
	// Now is the time from which the age of the decision counts.
	Now time.Time `json:"-"`
}

// Human writes the answer for people.
// It writes a line about the node, a table of the containers, with -o wide the computation, and then evictions and
// what the node is short of.
func (a Live) Human(w io.Writer, wide bool) error {
	if _, err := fmt.Fprintf(w, "Node %s has %s: %s for pods that count as they are, %s for those that share%s\n\n",
		a.Node.Node, pairText(a.Allocatable), pairText(a.Others), pairText(a.Available), a.decidedText()); err != nil {
		return err
	}
	if err := a.table(wide).Write(w); err != nil {
		return err
	}
	if a.Decided != nil && wide {
		if err := a.computation().WriteBelow(w); err != nil {
			return err
		}
	}
	if err := a.evictions().WriteBelow(w); err != nil {
		return err
	}
	if a.Decided == nil {
		return nil
	}
	return a.shortness(w)
}

// pairText formats CPU and memory for a sentence.
func pairText(p decision.Pair) string {
	return explain.Readable(recommender.CPU, p.CPU) + " of CPU and " + explain.Readable(recommender.Memory, p.Memory) + " of memory"
}

// decidedText is what the leader decided and when; empty where no leader answered.
func (a Live) decidedText() string {
	if a.Decided == nil {
		return ""
	}
	return fmt.Sprintf(", who need %s; decided %s ago", pairText(a.Decided.Needed), duration.HumanDuration(max(0, a.Now.Sub(a.Decided.At).Round(time.Second))))
}

// shortness writes that the pods do not fit, and which pods keep more than their share.
func (a Live) shortness(w io.Writer) error {
	var text strings.Builder
	if a.Decided.Overcommitted {
		text.WriteString("\nOvercommitted: the pods do not fit, and no pod may be evicted to make them fit. Every pod keeps what it holds of its share, and gets its part of the room that is left.\n")
	}
	if len(a.Decided.Holders) > 0 {
		text.WriteString("\nPods have less than they always need, for what others keep above their shares:\n")
	}
	for _, h := range a.Decided.Holders {
		fmt.Fprintf(&text, "  %s keeps %s of %s: %s\n", h.Name, explain.Readable(resourceOf(h.Resource), h.Above), h.Resource, h.Message)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// resourceOf converts the name in a decision, cpu or memory, to a resource.
func resourceOf(name string) recommender.Resource {
	if name == recommender.Memory.String() {
		return recommender.Memory
	}
	return recommender.CPU
}

// table has one row for each container. Its columns depend on whether the leader answered: shares are known only
// then.
func (a Live) table(wide bool) table.Table {
	t := table.Table{Header: []string{"POD", "CONTAINER", "CPU", "CPU PEAK", "CPU GETS", "MEMORY", "MEMORY PEAK", "MEMORY GETS", "MEMORY LIMIT", "AS IT IS"}}
	// A decision has shares, demands and reasons, so the table has more columns.
	if a.Decided != nil {
		t.Header = []string{"POD", "CONTAINER", "CPU", "CPU BASE", "CPU PEAK", "CPU SHARE", "CPU GETS", "MEMORY", "MEMORY SHARE", "MEMORY GETS", "MEMORY LIMIT", "REASON"}
	}
	if wide {
		t.Header = append(t.Header, "WHY")
	}
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			row := append([]string{p.Name, c.Name}, a.cells(c)...)
			row = append(row, asItIs(p, c))
			if wide {
				row = append(row, why(p, c))
			}
			t.Add(row...)
		}
	}
	return t
}

// cells are the amounts of one row, in the order of the header.
func (a Live) cells(c decision.Container) []string {
	const cpu, memory = recommender.CPU, recommender.Memory
	gets := []string{table.Cell(memory, c.Gets.MemoryRequest), table.Cell(memory, c.Gets.MemoryLimit)}
	if a.Decided == nil {
		return append([]string{
			table.Cell(cpu, c.Holds.CPURequest), table.Cell(cpu, c.Wants.CPURequest), table.Cell(cpu, c.Gets.CPURequest),
			table.Cell(memory, c.Holds.MemoryRequest), table.Cell(memory, c.Wants.MemoryRequest),
		}, gets...)
	}
	// They are empty for a pod that does not share the node, and the table shows dashes.
	var base, peak decision.Demand
	var share display.Amounts
	if c.Share != nil && c.Base != nil && c.Peak != nil {
		base, peak, share = *c.Base, *c.Peak, *c.Share
	}
	return append([]string{
		table.Cell(cpu, c.Holds.CPURequest), table.Cell(cpu, base.CPU), table.Cell(cpu, peak.CPU), table.Cell(cpu, share.CPURequest), table.Cell(cpu, c.Gets.CPURequest),
		table.Cell(memory, c.Holds.MemoryRequest), table.Cell(memory, share.MemoryRequest),
	}, gets...)
}

// asItIs returns the reason for which a pod does not share or is frozen, else the reasons for which a container
// gets something else than its share; empty where it gets its share.
func asItIs(p decision.Pod, c decision.Container) string {
	if p.Reason != "" {
		return p.Reason
	}
	var words []string
	for _, w := range c.Why {
		words = append(words, w.Resource+":"+w.Reason)
	}
	return strings.Join(words, ",")
}

// why returns the sentences for the reasons of asItIs.
func why(p decision.Pod, c decision.Container) string {
	if p.Reason != "" {
		return p.Message
	}
	var sentences []string
	for _, w := range c.Why {
		sentences = append(sentences, w.Resource+": "+w.Message)
	}
	return strings.Join(sentences, "; ")
}

// computation has one row for each step by which the leader computed a share.
func (a Live) computation() table.Table {
	t := table.Table{Header: []string{"POD", "CONTAINER", "RESOURCE", "STEP", "AMOUNT", "WHY"}}
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			for _, s := range c.Steps {
				t.Add(p.Name, c.Name, s.Resource, s.Name, explain.Readable(resourceOf(s.Resource), s.After), s.Reason)
			}
		}
	}
	return t
}

// evictions has one row for each pod that leaves, or that has to, by the leader's decision.
func (a Live) evictions() table.Table {
	t := table.Table{Header: []string{"EVICTED", "RANKING", "WHY"}}
	if a.Decided != nil {
		t.Header[0] = "HAS TO GO"
	}
	for _, v := range a.Evictions {
		// A pod that waits is not evicted yet, because others go first.
		reason := v.Reason
		if v.Waits {
			reason += "; others go first"
		}
		t.Add(v.Name, v.Ranking, reason)
	}
	return t
}
