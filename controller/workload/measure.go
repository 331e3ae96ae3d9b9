package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/resize"
)

// Gauge answers what a source measures of pods at a moment; the queries are the source's own affair.
type Gauge interface {
	// Throttled is the fraction of periods in which a container was throttled over the window.
	Throttled(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Waiting is the fraction of time in which a container waited for CPU.
	Waiting(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Memory is the most that a container's cgroup held over the window, page cache included, in bytes.
	Memory(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// OOMKills is how many processes of a container the kernel killed within the window.
	OOMKills(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Value answers a guardrail's query.
	Value(ctx context.Context, query string, at time.Time) (float64, error)
}

// measureFor bounds what one pass waits for a source; a pod that can be judged without it is not kept waiting.
const measureFor = 10 * time.Second

// measure asks the source about the pods whose watch has ended: what is judged then, and only then.
func (c *Controller) measure(ctx context.Context, w *world) {
	w.measured = map[string]resize.Signals{}
	if c.Gauges == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	for _, record := range w.rec.Status.Records {
		pod := w.pod(record.PodUID)
		if pod == nil || record.Phase != v1alpha1.RecordWatching || record.WatchUntil == nil || w.now.Before(record.WatchUntil.Time) {
			continue
		}
		gauge, err := c.Gauges(w.settings)
		if err != nil {
			w.measured[string(record.PodUID)] = resize.Signals{SLO: unanswered(w.settings.SLOGuardrails, err)}
			continue
		}
		w.measured[string(record.PodUID)] = signalsOf(ctx, gauge, w.settings, pod, record, w.now)
	}
}

func signalsOf(ctx context.Context, gauge Gauge, settings policy.Settings, pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) resize.Signals {
	signals := resize.Signals{Throttle: map[string]float64{}, CPUPressure: map[string]float64{}, OOMEvents: map[string]float64{}}
	for _, container := range record.Desired {
		note(signals.OOMEvents, container.Name, func() (float64, error) {
			return gauge.OOMKills(ctx, pod.Namespace, pod.Name, container.Name, now.Sub(record.WrittenAt.Time), now)
		})
		note(signals.Throttle, container.Name, func() (float64, error) {
			return gauge.Throttled(ctx, pod.Namespace, pod.Name, container.Name, settings.Resize.RateWindow, now)
		})
		note(signals.CPUPressure, container.Name, func() (float64, error) {
			return gauge.Waiting(ctx, pod.Namespace, pod.Name, container.Name, settings.Resize.RateWindow, now)
		})
	}
	for _, g := range settings.SLOGuardrails {
		value, err := gauge.Value(ctx, g.Query, now)
		signals.SLO = append(signals.SLO, guardrail(g, value, err))
	}
	return signals
}

// note leaves out what was not measured: the judge says that it was not.
func note(values map[string]float64, name string, ask func() (float64, error)) {
	if value, err := ask(); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
		values[name] = value
	}
}

func unanswered(guardrails []v1alpha1.SLOGuardrail, err error) []resize.SLOResult {
	var out []resize.SLOResult
	for _, g := range guardrails {
		out = append(out, guardrail(g, 0, err))
	}
	return out
}

var errNotANumber = errors.New("the answer is not a number")

// guardrail compares a query's answer with its threshold.
func guardrail(g v1alpha1.SLOGuardrail, value float64, err error) resize.SLOResult {
	threshold, bad := strconv.ParseFloat(string(g.Threshold), 64)
	if err == nil {
		err = bad
	}
	if err == nil && math.IsNaN(value) {
		err = errNotANumber
	}
	if err != nil {
		return resize.SLOResult{Name: g.Name, Failed: err.Error()}
	}
	held := map[v1alpha1.Comparison]bool{
		"<": value < threshold, "<=": value <= threshold, ">": value > threshold, ">=": value >= threshold,
	}[g.Comparison]
	return resize.SLOResult{
		Name: g.Name, Held: held,
		Message: fmt.Sprintf("%s: %g, wanted %s %s", g.Name, value, g.Comparison, g.Threshold),
	}
}
