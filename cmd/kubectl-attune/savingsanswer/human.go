package savingsanswer

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"attune.io/attune/cmd/kubectl-attune/table"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/savings"
	"attune.io/attune/recommender"
)

// Human writes the answer for people: three sentences, a table of the workloads, one of the sums, and with wide what is not counted.
func (r Report) Human(w io.Writer, wide bool) error {
	if len(r.Workloads) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "Freed on nodes now: %s.\nPotential, not applied yet: %s.\n%s\n",
		sentence(r.Total.Realised), sentence(&r.Total.Potential), r.Total.NotCounted.sentence()); err != nil {
		return err
	}
	if err := r.workloads(wide).WriteBelow(w); err != nil {
		return err
	}
	if err := r.sums().WriteBelow(w); err != nil {
		return err
	}
	if !wide {
		return nil
	}
	return r.left().WriteBelow(w)
}

// sentence is such as "250m of CPU and 1Gi of memory ($5.48 a month)".
func sentence(s *Saved) string {
	if s == nil {
		return "not known"
	}
	text := explain.Readable(recommender.CPU, s.CPU) + " of CPU and " + explain.Readable(recommender.Memory, s.Memory) + " of memory"
	if money := s.money(); money != "" {
		text += " (" + money + " a month)"
	}
	return text
}

// money joins the amounts of all currencies; empty where there is no price.
func (s *Saved) money() string {
	var amounts []string
	for _, m := range s.Monthly {
		amounts = append(amounts, m.Currency+m.Amount)
	}
	return strings.Join(amounts, " + ")
}

// sentence says how much is not counted.
func (n NotCounted) sentence() string {
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

// workloads has two rows for each workload: what is realised and what is potential.
func (r Report) workloads(wide bool) table.Table {
	t := table.Table{Header: []string{"NAMESPACE", "WORKLOAD", "SAVING", "CPU", "MEMORY", "A MONTH", "NOT COUNTED"}}
	if wide {
		t.Header = append(t.Header, "PODS", "REPLICAS", "MODE", "POLICY")
	}
	for _, of := range r.Workloads {
		for _, saving := range []struct {
			name       string
			saved      *Saved
			notCounted string
		}{{"realised", of.Realised, ""}, {"potential", &of.Potential, words(of.NotCounted)}} {
			row := append([]string{of.Namespace, string(of.Kind) + "/" + of.Workload, saving.name}, cells(saving.saved)...)
			row = append(row, saving.notCounted)
			if wide {
				row = append(row, strconv.Itoa(of.Pods), strconv.Itoa(int(of.Replicas)), string(of.Mode), of.Policy)
			}
			t.Add(row...)
		}
	}
	return t
}

// words has a reason once for the whole workload and how often for single resources, such as "AllowDecrease, 2 NoData".
func words(all []savings.NotCounted) string {
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

// cells are CPU, memory and price.
func cells(s *Saved) []string {
	if s == nil {
		return []string{"", "", ""}
	}
	return []string{table.Cell(recommender.CPU, &s.CPU), table.Cell(recommender.Memory, &s.Memory), s.money()}
}

// sums has two rows for each namespace and for all of them.
func (r Report) sums() table.Table {
	t := table.Table{Header: []string{"NAMESPACE", "WORKLOADS", "SAVING", "CPU", "MEMORY", "A MONTH"}}
	add := func(name string, of Sum) {
		t.Add(append([]string{name, strconv.Itoa(of.Workloads), "realised"}, cells(of.Realised)...)...)
		t.Add(append([]string{name, strconv.Itoa(of.Workloads), "potential"}, cells(&of.Potential)...)...)
	}
	for _, of := range r.Namespaces {
		add(of.Namespace, of.Sum)
	}
	if len(r.Namespaces) > 1 {
		add("(all)", r.Total)
	}
	return t
}

// left has a row for everything that is not counted.
func (r Report) left() table.Table {
	t := table.Table{Header: []string{"NAMESPACE", "WORKLOAD", "CONTAINER", "RESOURCE", "NOT COUNTED", "WHY"}}
	for _, of := range r.Workloads {
		for _, n := range of.NotCounted {
			t.Add(of.Namespace, string(of.Kind)+"/"+of.Workload, n.Container, n.Resource, n.Reason, n.Message)
		}
	}
	return t
}
