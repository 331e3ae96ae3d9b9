package prometheus

import (
	"strings"

	"attune.io/attune/usage"
)

// picker turns an answer's series into usage.Series and counts what is of no use.
type picker struct {
	query  usage.Query
	memory bool
	yield  func(usage.Series)
	report *usage.Report
}

func (p *picker) series(s *series) {
	p.report.Drop(usage.DropHistogram, len(s.Histograms))
	if s.Metric.Namespace == "" || s.Metric.Pod == "" || s.Metric.Container == "" {
		p.report.Drop(usage.DropUnnamed, len(s.Values))
		return
	}
	samples := p.usable(s.Values)
	if len(samples) == 0 {
		return
	}
	p.report.Series++
	p.report.Samples += len(samples)
	out := usage.Series{Namespace: s.Metric.Namespace, Pod: s.Metric.Pod, Container: s.Metric.Container}
	switch {
	case p.memory:
		out.Memory = samples
	case s.Metric.Peak == peakValue:
		out.CPUPeak = samples
	default:
		out.CPU = samples
	}
	p.yield(out)
}

// aboutTheQuery begins the warnings that are not about the data: those of the query engine.
const aboutTheQuery = "PromQL "

// warnings keeps those of an answer. A server that asks other servers (Thanos, or Prometheus with remote
// reading) has no other sign for an answer that is partial.
func (p *picker) warnings(answer envelope) {
	p.report.Partial = p.report.Partial || answer.Partial
	for _, warning := range answer.Warnings {
		p.report.Warn(envelope{Error: warning}.text())
		p.report.Partial = p.report.Partial || !strings.HasPrefix(warning, aboutTheQuery)
	}
}

// usable keeps the samples that are amounts and lie within the query, in place.
func (p *picker) usable(samples []usage.Sample) []usage.Sample {
	start, end := p.query.Start.UnixMilli(), p.query.End.UnixMilli()
	kept := samples[:0]
	for _, sample := range samples {
		if drop := dropOf(sample, start, end); drop != "" {
			p.report.Drop(drop, 1)
			continue
		}
		kept = append(kept, sample)
	}
	return kept
}

// dropOf is why a sample is of no use, or empty.
func dropOf(sample usage.Sample, start, end int64) usage.Drop {
	if sample.At < start || sample.At > end {
		return usage.DropOutside
	}
	return usage.DropOf(sample.Value)
}
