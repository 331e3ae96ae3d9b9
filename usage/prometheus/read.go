package prometheus

import (
	"context"
	"strings"

	"attune.io/attune/usage"
)

// maxPoints is what the servers answer with at most, per series.
const maxPoints = 11_000

// Element is one series of the answer to a range query. It and its samples are only valid during a call.
type Element struct {
	// Labels of the series; those that the expression removes are empty.
	Labels Labels
	// Samples in the order of their times. Their unit is that of the expression.
	Samples []usage.Sample
	// Histograms counts samples that are no numbers.
	Histograms int
}

// Labels are the labels that the expressions of this package keep.
type Labels struct {
	// Namespace, Pod and Container identify a container; empty in answers about nodes.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Node is the node's name, in answers about nodes and of the embedded source.
	Node string `json:"node"`
	// Peak marks series that hold peaks.
	Peak string `json:"attune_peak"`
}

// PeakLabel is the name of the label Peak.
const PeakLabel = "attune_peak"

// Asker evaluates an expression at each step of a query and calls yield for each series of the answer. Of the
// report it sets the warnings, shortened, and Partial where the server could not read all of its data.
type Asker func(ctx context.Context, expression string, query usage.Query, yield func(Element)) (usage.Report, error)

// Read asks for CPU and for memory: once each, or once for each 11,000 steps. A query without namespaces asks
// nothing and returns an empty report. After an error the caller throws away what was yielded.
func Read(ctx context.Context, scope Scope, query usage.Query, ask Asker, yield func(usage.Series)) (usage.Report, error) {
	var report usage.Report
	if len(query.Namespaces) == 0 {
		return report, nil
	}
	asked := query.Asked()
	for _, part := range query.Split(maxPoints) {
		for _, expression := range []struct {
			text   string
			memory bool
		}{{scope.CPU(part), false}, {scope.Memory(part), true}} {
			pick := picker{query: part, asked: asked, memory: expression.memory, yield: yield, report: &report}
			said, err := ask(ctx, expression.text, part, pick.element)
			if err != nil {
				return report, err
			}
			report.Add(said)
		}
	}
	return report, nil
}

// picker turns the series of an answer into usage.Series, and counts what is of no use by its reason.
type picker struct {
	query usage.Query
	// asked is what the query is about. A server is not believed about anything else: a policy's server could set
	// the usage of another namespace otherwise.
	asked usage.Asked
	// memory is true for the answer about memory, false for CPU.
	memory bool
	yield  func(usage.Series)
	report *usage.Report
}

// element checks one series and yields its usable samples. The order of the checks decides by which reason a
// series without names is counted.
func (p *picker) element(e Element) {
	p.report.Drop(usage.DropHistogram, e.Histograms)
	of := e.Labels
	if of.Namespace == "" || of.Pod == "" || of.Container == "" {
		p.report.Drop(usage.DropUnnamed, len(e.Samples))
		return
	}
	if !p.asked.Namespace(of.Namespace) {
		p.report.Drop(usage.DropForeign, len(e.Samples))
		return
	}
	if !p.asked.Pod(of.Pod) {
		return // the names were too many for one expression
	}
	samples, implausible := p.usable(e.Samples)
	if len(samples)+len(implausible) == 0 {
		return
	}
	if len(samples) > 0 {
		p.report.Series++
		p.report.Samples += len(samples)
	}
	out := usage.Series{Namespace: of.Namespace, Pod: of.Pod, Container: of.Container}
	switch {
	case p.memory:
		out.Memory, out.MemoryImplausible = samples, implausible
	case of.Peak == peakValue:
		out.CPUPeak, out.CPUImplausible = samples, implausible
	default:
		out.CPU, out.CPUImplausible = samples, implausible
	}
	p.yield(out)
}

// aboutTheQuery begins the warnings that are not about the data: those of the query engine.
const aboutTheQuery = "PromQL "

// said is what a server's answer says of itself. A server that asks other servers (Thanos, or Prometheus
// with remote reading) has no other sign for an answer that is partial than a warning.
func (e envelope) said() usage.Report {
	said := usage.Report{Partial: e.Partial}
	for _, warning := range e.Warnings {
		said.Warnings = append(said.Warnings, envelope{Error: warning}.text())
		said.Partial = said.Partial || !strings.HasPrefix(warning, aboutTheQuery)
	}
	return said
}

// usable keeps the samples that are amounts and lie within the query, in place. It also returns those that are more than
// any node has.
func (p *picker) usable(samples []usage.Sample) (kept, implausible []usage.Sample) {
	start, end := p.query.Start.UnixMilli(), p.query.End.UnixMilli()
	kept = samples[:0]
	for _, sample := range samples {
		drop := p.query.Most.DropOf(sample.Value, p.memory)
		if sample.At < start || sample.At > end {
			drop = usage.DropOutside
		}
		switch drop {
		case "":
			kept = append(kept, sample)
			continue
		case usage.DropImplausible:
			implausible = append(implausible, sample)
		}
		p.report.Drop(drop, 1)
	}
	return kept, implausible
}
