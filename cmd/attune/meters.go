package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded"
	promsource "attune.io/attune/usage/prometheus"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/server"
)

// meters are the metrics of what is made here; the loops have their own.
type meters struct {
	// admission is nil where no webhook is served.
	admission *pod.Metrics
	webhooks  *server.Metrics
	// usage is nil where nothing is measured.
	usage *promsource.Meter
	// embedded is nil where a server is asked instead.
	embedded *embedded.Metrics
	// dropped connections to the ports of the metrics and of the probes.
	dropped *prometheus.CounterVec
}

// newMeters registers those of what the program does. It panics where they are registered already.
func (o *options) newMeters(registry prometheus.Registerer) (m meters) {
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_connections_dropped_total",
		Help: "Connections to the ports of the metrics and the probes that were closed for others.",
	}, []string{"port"})
	registry.MustRegister(m.dropped)
	if o.program.serves {
		m.admission, m.webhooks = pod.NewMetrics(registry), server.NewMetrics(registry)
	}
	if o.program.controls {
		m.usage = promsource.NewMeter(registry)
		if o.usageSource == sourceEmbedded {
			m.embedded = embedded.NewMetrics(registry, m.usage)
		}
	}
	return m
}

// measured is a Prometheus server whose answers are counted.
type measured struct {
	*promsource.Client
	meter *promsource.Meter
	// namespace whose policies name the server; empty: it is the operator's own.
	namespace string
	// failed is told when it gave no answer; nil: nobody wants to know.
	failed func()
}

// Read implements usage.Source.
func (m measured) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	began := time.Now()
	report, err := m.Client.Read(ctx, query, yield)
	took := time.Since(began)
	m.meter.Took(promsource.Name, report.Samples)
	m.meter.Read(promsource.Name, took)
	m.asked("usage", took, err)
	return report, err
}

// value asks for one number; what is the kind of question.
func (m measured) value(ctx context.Context, what, expression string, at time.Time) (float64, error) {
	began := time.Now()
	v, err := m.Client.Value(ctx, expression, at)
	m.asked(what, time.Since(began), err)
	return v, err
}

// pods asks about containers of some pods, in a few requests; the answer counts as one.
func (m measured) pods(ctx context.Context, what string, pods []string, at time.Time, expression func([]string) string) (usage.ByContainer, error) {
	began := time.Now()
	answer, err := m.Client.Pods(ctx, pods, at, expression)
	m.asked(what, time.Since(began), err)
	return answer, err
}

// since asks about containers of pods with windows of their own.
func (m measured) since(ctx context.Context, what string, windows map[string]time.Duration, at time.Time, expression func([]string, time.Duration) string) (usage.ByContainer, error) {
	began := time.Now()
	answer, err := m.Client.Since(ctx, windows, at, expression)
	m.asked(what, time.Since(began), err)
	return answer, err
}

// nodes asks about all nodes.
func (m measured) nodes(ctx context.Context, query string, at time.Time) (map[string]float64, error) {
	began := time.Now()
	answer, err := m.Client.Nodes(ctx, query, at)
	m.asked("load", time.Since(began), err)
	return answer, err
}

// asked counts an answer: that nothing matches is one, and a caller who gave up did not wait for one.
func (m measured) asked(what string, took time.Duration, err error) {
	if errors.Is(err, promsource.ErrNoValue) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil && m.failed != nil {
		m.failed()
	}
	m.meter.Asked(m.namespace, what, took, err)
}
