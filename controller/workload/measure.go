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
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Gauge answers what a source measures of pods at a moment; the queries are the source's own affair.
type Gauge interface {
	// Throttled is the fraction of periods in which a container was throttled over the window.
	Throttled(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Waiting is the fraction of time in which a container waited for CPU.
	Waiting(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Memory is the most that the cgroups of some pods' containers held over the window, page cache included, in bytes,
	// by pod and container; what was not measured is missing.
	Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (map[string]map[string]float64, error)
	// OOMKills is how many processes of a container the kernel killed within the window.
	OOMKills(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error)
	// Value answers a guardrail's query.
	Value(ctx context.Context, query string, at time.Time) (float64, error)
}

// Lately knows what was measured of CPU a moment ago, for whatever purpose: nobody is asked for it. What looks back
// to before the time is left out.
type Lately interface {
	// CPU that a container has needed on average since a time; false: it was not measured.
	CPU(ctx context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool)
	// Busy is the used fraction of a node's CPU since a time; false: it was not measured.
	Busy(ctx context.Context, node string, since, now time.Time) (float64, bool)
}

// lately is how far back is looked at most; as far, samples are at hand.
const lately = 10 * time.Minute

// measureFor bounds what one pass waits for a source; a pod that can be judged without it is not kept waiting.
const measureFor = 10 * time.Second

// measure asks the source about the pods whose watch has ended: what is judged then, and only then.
func (c *Controller) measure(ctx context.Context, w *world) {
	w.measured = map[string]resize.Signals{}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	for _, record := range w.rec.Status.Records {
		pod := w.pod(record.PodUID)
		if pod == nil || !w.watchEnded(record) {
			continue
		}
		signals := c.asked(ctx, w, pod, record)
		c.recall(ctx, &signals, pod, record, w.now)
		w.measured[string(record.PodUID)] = signals
	}
}

// watchEnded: the record's watch is over, and its pod is to be judged.
func (w world) watchEnded(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWatching && record.WatchUntil != nil && !w.now.Before(record.WatchUntil.Time)
}

// asked are the signals that a source answers.
func (c *Controller) asked(ctx context.Context, w *world, pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Signals {
	if c.Gauges == nil {
		return resize.Signals{}
	}
	gauge, err := c.Gauges(w.settings)
	if err != nil {
		return resize.Signals{SLO: unanswered(w.settings.SLOGuardrails, err)}
	}
	return signalsOf(ctx, gauge, w.settings, pod, record, w.now)
}

// recall adds what is known without asking, of the time that the pod has run with its new size.
func (c *Controller) recall(ctx context.Context, signals *resize.Signals, pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) {
	if c.Lately == nil || record.VerifiedOnce == nil {
		return
	}
	since := record.VerifiedOnce.Time
	if earliest := now.Add(-lately); since.Before(earliest) {
		since = earliest
	}
	if busy, known := c.Lately.Busy(ctx, record.Node, since, now); known {
		signals.NodeBusy = busy
	}
	signals.CPUUsage = map[string]recommender.Amount{}
	for _, container := range record.Desired {
		if used, known := c.Lately.CPU(ctx, pod.Namespace, pod.Name, container.Name, since, now); known {
			signals.CPUUsage[container.Name] = recommender.Amount(used)
		}
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
