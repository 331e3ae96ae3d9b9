package output

import (
	"fmt"
	"strconv"
	"strings"

	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
)

// Savings is the answer of savings.
type Savings struct {
	answers.SavingsReport
	// Nodes is nil unless the whole cluster was selected and the user may list its nodes.
	Nodes *Nodes `json:"nodes,omitempty"`
}

// Nodes estimates how many nodes could be removed (answers.RemovableNodes).
type Nodes struct {
	// Nodes counts the nodes of the cluster.
	Nodes int `json:"nodes"`
	// Removable counts with the present sizes of pods, Before with their sizes before attune, After with their
	// targets.
	Removable int `json:"removable"`
	Before    int `json:"removableBefore"`
	After     int `json:"removableAfter"`
}

// sentence returns for example "Removable nodes, an estimate: 2 of 12; 1 before attune, 3 with the available savings."
func (n Nodes) sentence() string {
	return fmt.Sprintf("Removable nodes, an estimate: %d of %d; %d before attune, %d with the available savings.", n.Removable, n.Nodes, n.Before, n.After)
}

// Human writes the answer for people: some sentences, a table of the workloads and one of the sums. With wide
// it adds a table of resources that are not counted.
func (r Savings) Human(wide bool) (string, error) {
	if len(r.Workloads) == 0 {
		return "", nil
	}
	said := r.Total.Sentences()
	text := strings.Join(said, "\n") + "\n"
	if r.Nodes != nil {
		text += r.Nodes.sentence() + "\n"
	}
	text += Below(r.workloads(), wide) + Below(r.sums(), false)
	if wide {
		text += Below(r.notCountedTable(), wide)
	}
	return text, nil
}

// workloads has two rows for each workload: saved and available amounts.
func (r Savings) workloads() answers.Table {
	t := answers.Table{
		Header:   []string{"NAMESPACE", "WORKLOAD", "SAVING", "CPU", "MEMORY", "A MONTH", "NOT COUNTED", "PODS", "REPLICAS", "MODE", "POLICY"},
		OnlyWide: []string{"PODS", "REPLICAS", "MODE", "POLICY"},
	}
	for _, of := range r.Workloads {
		add := func(name string, saved *answers.Saved, notCounted string) {
			row := append([]string{of.Namespace, string(of.Kind) + "/" + of.Workload, name}, cells(saved)...)
			t.Add(append(row, notCounted, strconv.Itoa(of.Pods), strconv.Itoa(int(of.Replicas)), string(of.Mode), of.Policy)...)
		}
		add("saved", of.Saved, "")
		add("available", &of.Available, answers.NotCountedText(of.NotCounted))
	}
	return t
}

// cells formats CPU, memory and price.
func cells(s *answers.Saved) []string {
	if s == nil {
		return []string{"", "", ""}
	}
	return []string{answers.Cell(recommender.CPU, &s.CPU), answers.Cell(recommender.Memory, &s.Memory), s.Money()}
}

// sums has two rows for each namespace, and for all namespaces together.
func (r Savings) sums() answers.Table {
	t := answers.Table{Header: []string{"NAMESPACE", "WORKLOADS", "SAVING", "CPU", "MEMORY", "A MONTH"}}
	add := func(name string, of answers.SavingsSum) {
		t.Add(append([]string{name, strconv.Itoa(of.Workloads), "saved"}, cells(of.Saved)...)...)
		t.Add(append([]string{name, strconv.Itoa(of.Workloads), "available"}, cells(&of.Available)...)...)
	}
	for _, of := range r.Namespaces {
		add(of.Namespace, of.SavingsSum)
	}
	if len(r.Namespaces) > 1 {
		add("(all)", r.Total)
	}
	return t
}

// notCountedTable has a row for each resource that is not counted.
func (r Savings) notCountedTable() answers.Table {
	t := answers.Table{Header: []string{"NAMESPACE", "WORKLOAD", "CONTAINER", "RESOURCE", "NOT COUNTED", "WHY"}}
	for _, of := range r.Workloads {
		for _, n := range of.NotCounted {
			t.Add(of.Namespace, string(of.Kind)+"/"+of.Workload, n.Container, n.Resource, n.Reason, n.Message)
		}
	}
	return t
}
