package prometheus

import (
	"context"
	"errors"
	"time"

	"attune.io/attune/usage"
)

// Metered is a Client whose questions and answers are counted. It is a usage.Source, and it answers what the loops
// ask about running pods. The meter's kinds of questions are usage, throttling, waiting, memory, oomkills, slo and
// load.
type Metered struct {
	// Client asks the server.
	Client *Client
	// Meter counts; it must not be nil.
	Meter *Meter
	// Namespace of the policies that name the server; empty: it is the operator's own server.
	Namespace string
	// Failed is called when the server gave no answer; nil: it is not called.
	Failed func()
}

var _ usage.Source = Metered{}

// Read implements usage.Source.
func (m Metered) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	began := time.Now()
	report, err := m.Client.Read(ctx, query, yield)
	took := time.Since(began)
	m.Meter.Took(Name, report.Samples)
	m.Meter.Read(Name, took)
	m.count("usage", took, err)
	return report, err
}

// Throttled returns the fraction, 0 to 1, of CFS periods in which each container of some pods was throttled (see
// Scope.Throttled). A container that was not measured is missing.
func (m Metered) Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "throttling", pods, at, func(pods []string) string { return m.Client.Scope().Throttled(namespace, pods, window) })
}

// Waiting returns the fraction, 0 to 1, of time in which each container of some pods waited for CPU (see
// Scope.Waiting).
func (m Metered) Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "waiting", pods, at, func(pods []string) string { return m.Client.Scope().Waiting(namespace, pods, window) })
}

// Memory returns the most, in bytes, that each container of some pods held (see Scope.Held).
func (m Metered) Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "memory", pods, at, func(pods []string) string { return m.Client.Scope().Held(namespace, pods, window) })
}

// OOMKills returns how many processes of each container the kernel killed within its pod's window (see
// Scope.Killed).
func (m Metered) OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error) {
	began := time.Now()
	answer, err := m.Client.Since(ctx, windows, at, func(pods []string, window time.Duration) string {
		return m.Client.Scope().Killed(namespace, pods, window)
	})
	m.count("oomkills", time.Since(began), err)
	return answer, err
}

// Value evaluates the query of a guardrail, as Client.Value does.
func (m Metered) Value(ctx context.Context, query string, at time.Time) (float64, error) {
	began := time.Now()
	v, err := m.Client.Value(ctx, query, at)
	m.count("slo", time.Since(began), err)
	return v, err
}

// Nodes evaluates an expression about all nodes, as AskNodes does.
func (m Metered) Nodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	began := time.Now()
	answer, err := m.Client.Nodes(ctx, expression, at)
	m.count("load", time.Since(began), err)
	return answer, err
}

// pods asks about containers of some pods, in a few requests; the answer counts as one.
func (m Metered) pods(ctx context.Context, what string, pods []string, at time.Time, expression func([]string) string) (usage.ByContainer, error) {
	began := time.Now()
	answer, err := m.Client.Pods(ctx, pods, at, expression)
	m.count(what, time.Since(began), err)
	return answer, err
}

// count counts a question. An answer in which nothing matches is a success, and so is a question that the caller
// gave up: neither says anything about the server.
func (m Metered) count(what string, took time.Duration, err error) {
	if errors.Is(err, ErrNoValue) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil && m.Failed != nil {
		m.Failed()
	}
	m.Meter.Asked(m.Namespace, what, took, err)
}
