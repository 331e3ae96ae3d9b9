package answers

import (
	"fmt"
	"io"
	"strconv"

	"attune.io/attune/internal/savings/report"
	"attune.io/attune/recommender"
)

// Savings is the answer of savings.
type Savings struct {
	report.Report
	// Nodes is nil where not the whole cluster was asked for, or the user may not list its nodes.
	Nodes *Nodes `json:"nodes,omitempty"`
}

// Nodes is an estimate of how many nodes could be removed (package internal/savings/removable).
type Nodes struct {
	// Nodes of the cluster.
	Nodes int `json:"nodes"`
	// Removable with the pods as they are, Before with the sizes that they had before attune, and Potential with their
	// targets.
	Removable int `json:"removable"`
	Before    int `json:"removableBefore"`
	Potential int `json:"removablePotential"`
}

// sentence is such as "Removable nodes, an estimate: 2 of 12; 1 before attune, 3 with the potential."
func (n Nodes) sentence() string {
	return fmt.Sprintf("Removable nodes, an estimate: %d of %d; %d before attune, %d with the potential.", n.Removable, n.Nodes, n.Before, n.Potential)
}

// Human writes the answer for people: three sentences or four, a table of the workloads, one of the sums, and with wide what is not counted.
func (r Savings) Human(w io.Writer, wide bool) error {
	if len(r.Workloads) == 0 {
		return nil
	}
	said := r.Total.Sentences()
	if _, err := fmt.Fprintf(w, "%s\n%s\n%s\n", said[0], said[1], said[2]); err != nil {
		return err
	}
	if r.Nodes != nil {
		if _, err := fmt.Fprintln(w, r.Nodes.sentence()); err != nil {
			return err
		}
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

// workloads has two rows for each workload: what is realised and what is potential.
func (r Savings) workloads(wide bool) Table {
	t := Table{Header: []string{"NAMESPACE", "WORKLOAD", "SAVING", "CPU", "MEMORY", "A MONTH", "NOT COUNTED"}, Wide: wide}
	if wide {
		t.Header = append(t.Header, "PODS", "REPLICAS", "MODE", "POLICY")
	}
	for _, of := range r.Workloads {
		for _, saving := range []struct {
			name       string
			saved      *report.Saved
			notCounted string
		}{{"realised", of.Realised, ""}, {"potential", &of.Potential, report.Words(of.NotCounted)}} {
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

// cells are CPU, memory and price.
func cells(s *report.Saved) []string {
	if s == nil {
		return []string{"", "", ""}
	}
	return []string{Cell(recommender.CPU, &s.CPU), Cell(recommender.Memory, &s.Memory), s.Money()}
}

// sums has two rows for each namespace and for all of them.
func (r Savings) sums() Table {
	t := Table{Header: []string{"NAMESPACE", "WORKLOADS", "SAVING", "CPU", "MEMORY", "A MONTH"}}
	add := func(name string, of report.Sum) {
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
func (r Savings) left() Table {
	t := Table{Header: []string{"NAMESPACE", "WORKLOAD", "CONTAINER", "RESOURCE", "NOT COUNTED", "WHY"}, Wide: true}
	for _, of := range r.Workloads {
		for _, n := range of.NotCounted {
			t.Add(of.Namespace, string(of.Kind)+"/"+of.Workload, n.Container, n.Resource, n.Reason, n.Message)
		}
	}
	return t
}
