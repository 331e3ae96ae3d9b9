package prometheus

import (
	"context"
	"strings"
	"time"

	"attune.io/attune/usage"
)

// maxPoints is the most points per series that servers answer with.
const maxPoints = 11_000

// Element is one series of the answer to a range query. It and its samples are only valid during a call.
type Element struct {
	// Labels of the series; labels that the expression removes are empty.
	Labels Labels
	// Samples in order of time. The expression determines their unit.
	Samples []usage.Sample
	// Histograms counts samples that are not numbers.
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
	// Peak marks series with peaks.
	Peak string `json:"attune_peak"`
}

// PeakLabel is the name of the label Peak.
const PeakLabel = "attune_peak"

// Asker evaluates an expression at each step of a query and calls yield for each series of the answer. In the report it
// sets only the warnings, shortened, and Partial if the server could not read all of its data.
type Asker func(ctx context.Context, expression string, query usage.Query, yield func(Element)) (usage.Report, error)

// Read queries CPU and memory: once each, or once per 11,000 steps. A query without namespaces sends nothing and
// returns an empty report. After an error the caller must discard the yielded series.
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

// picker turns the series of an answer into usage.Series, and counts unusable samples by reason.
type picker struct {
	query usage.Query
	// asked is the subject of the query. Other data is rejected: otherwise a policy's server could set
	// the usage of another namespace.
	asked usage.Asked
	// memory is true for the answer about memory, false for CPU.
	memory bool
	yield  func(usage.Series)
	report *usage.Report
}

// element checks one series and yields its usable samples. The order of the checks decides the reason that is counted
// for a series without names.
func (p *picker) element(e Element) {
	p.report.Drop(usage.DropHistogram, e.Histograms)
	of := e.Labels
	if of.Namespace == "" || of.Pod == "" || of.Container == "" {
		p.query.Drop(p.report, usage.DropUnnamed, e.Samples...)
		return
	}
	if !p.asked.Namespace(of.Namespace) {
		p.query.Drop(p.report, usage.DropForeign, e.Samples...)
		return
	}
	if !p.asked.Pod(of.Pod) {
		return // the names were too many for one expression
	}
	var facts usage.Facts
	if p.query.Of != nil {
		facts = p.query.Of(of.Namespace, of.Pod, of.Container)
	}
	out := usage.Series{Namespace: of.Namespace, Pod: of.Pod, Container: of.Container, Started: facts.Started, Restarts: facts.Restarts,
		Gone: p.query.Of != nil && facts.Created == 0}
	samples, implausible := p.usable(e, facts, &out)
	if len(samples)+len(implausible) == 0 {
		return
	}
	if len(samples) > 0 {
		p.report.Series++
		p.report.Samples += len(samples)
	}
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

// aboutTheQuery is the prefix of warnings of the query engine, which are not about the data.
const aboutTheQuery = "PromQL "

// said returns the report in a server's answer. A server that queries other servers (Thanos, or Prometheus with remote
// read) signals a partial answer only by a warning.
func (e envelope) said() usage.Report {
	said := usage.Report{Partial: e.Partial}
	for _, warning := range e.Warnings {
		said.Warnings = append(said.Warnings, envelope{Error: warning}.text())
		said.Partial = said.Partial || !strings.HasPrefix(warning, aboutTheQuery)
	}
	return said
}

// usable keeps the samples that are amounts and lie within the query, in place. It also returns the impossible samples,
// and describes the highest one in the series.
func (p *picker) usable(e Element, facts usage.Facts, out *usage.Series) (kept, implausible []usage.Sample) {
	start, end, window := p.query.Start.UnixMilli(), p.query.End.UnixMilli(), p.window(e.Labels)
	if p.query.Waited { // up to twice the usage
		facts.Node.Cores, facts.Limit.Cores = 2*facts.Node.Cores, 2*facts.Limit.Cores
	}
	kept = e.Samples[:0]
	highest := -1.0
	for _, sample := range e.Samples {
		drop := facts.DropOf(sample, p.memory, p.query.Most, window)
		if sample.At < start || sample.At > end {
			drop = usage.DropOutside
		}
		if drop == "" {
			kept = append(kept, sample)
			continue
		}
		if drop.Impossible() {
			implausible = append(implausible, sample)
			if sample.Value > highest {
				highest, out.Why, out.Bound = sample.Value, drop, facts.Bound(drop, p.memory, p.query.Most)
			}
		}
		p.query.Drop(p.report, drop, sample)
	}
	return kept, implausible
}

// window is the time before a sample that it was measured over.
func (p *picker) window(of Labels) time.Duration {
	switch {
	case p.memory:
		return p.query.Step
	case of.Peak == peakValue:
		return p.query.Step + p.query.RateWindow
	}
	return p.query.RateWindow
}
