package prometheus

import (
	"context"

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

// Asker evaluates an expression at each step of a query and calls yield for each series of the answer.
type Asker func(ctx context.Context, expression string, query usage.Query, yield func(Element)) (Said, error)

// Said is what an answer reports about itself.
type Said struct {
	// Warnings of the server, shortened; nil: none.
	Warnings []string
	// Partial is true where the server could not read all of its data.
	Partial bool
}

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
			pick.said(said)
		}
	}
	return report, nil
}
