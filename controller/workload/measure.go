package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// Gauge heard what a source measures of pods at a moment; the queries are the source's own affair. Each question is
// about the containers of some pods of one namespace, and what was not measured is missing from the answer. An error means
// that the source did not answer.
type Gauge interface {
	// Throttled is the fraction of periods in which each container was throttled over the window.
	Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// Waiting is the fraction of time in which each container waited for CPU.
	Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// Memory is the most that each container's cgroup held over the window, page cache included, in bytes.
	Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error)
	// OOMKills is how many processes of each container the kernel killed within its pod's window.
	OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error)
	// Value heard a guardrail's query.
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

// measurer adds what was measured of pods whose watch has ended.
type measurer struct{ *Controller }

// measure asks the source about the pods whose watch has ended: what is judged then, and only then. It asks once for all
// of them.
func (c measurer) measure(ctx context.Context, w *tuning.View) {
	w.Usage.Signals = map[string]harm.Signals{}
	ended := map[*v1alpha1.ResizeRecord]*corev1.Pod{}
	for i := range w.Rec.Status.Records {
		record := &w.Rec.Status.Records[i]
		if pod := w.Pod(record.PodUID); pod != nil && w.WatchEnded(*record) {
			ended[record] = pod
		}
	}
	if len(ended) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	all := c.askSource(ctx, w, ended)
	for record, pod := range ended {
		signals := all.of(pod.Name, *record)
		c.addRecent(ctx, &signals, pod, *record, w.Now)
		w.Usage.Signals[string(record.PodUID)] = signals
	}
}

// heard of a source about all pods whose watch has ended.
type heard struct {
	killed, throttled, waiting usage.ByContainer
	slo                        []harm.SLOResult
	// unanswered says why the source did not answer; empty: it did.
	unanswered string
}

// askSource are the signals that a source heard.
func (c measurer) askSource(ctx context.Context, w *tuning.View, ended map[*v1alpha1.ResizeRecord]*corev1.Pod) heard {
	if c.Gauges == nil {
		return heard{}
	}
	gauge, err := c.Gauges(w.Policy.Settings)
	if err != nil {
		return heard{slo: unanswered(w.Policy.Settings.SLOGuardrails, err), unanswered: err.Error()}
	}
	var pods []string
	windows := map[string]time.Duration{}
	for record, pod := range ended {
		pods = append(pods, pod.Name)
		windows[pod.Name] = w.Now.Sub(record.WrittenAt.Time)
	}
	slices.Sort(pods)
	namespace, window := w.Rec.Namespace, w.Policy.Settings.Resize.RateWindow
	var a heard
	var failures [3]error
	a.killed, failures[0] = gauge.OOMKills(ctx, namespace, windows, w.Now)
	a.throttled, failures[1] = gauge.Throttled(ctx, namespace, pods, window, w.Now)
	a.waiting, failures[2] = gauge.Waiting(ctx, namespace, pods, window, w.Now)
	if err := cmp.Or(failures[:]...); err != nil {
		a.unanswered = err.Error()
	}
	for _, g := range w.Policy.Settings.SLOGuardrails {
		value, err := gauge.Value(ctx, g.Query, w.Now)
		a.slo = append(a.slo, guardrail(g, value, err))
	}
	return a
}

// of one record's pod.
func (a heard) of(pod string, record v1alpha1.ResizeRecord) harm.Signals {
	return harm.Signals{
		OOMEvents: measured(a.killed[pod], record), Throttle: measured(a.throttled[pod], record),
		CPUPressure: measured(a.waiting[pod], record), SLO: a.slo, Unanswered: a.unanswered,
	}
}

// measured are the values of the record's containers that are numbers: the judge says what was not measured.
func measured(values map[string]float64, record v1alpha1.ResizeRecord) map[string]float64 {
	var numbers map[string]float64
	for _, container := range record.Desired {
		value, known := values[container.Name]
		if !known || math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		if numbers == nil {
			numbers = map[string]float64{}
		}
		numbers[container.Name] = value
	}
	return numbers
}

// addRecent adds what is known without asking, of the time that the pod has run with its new size.
func (c measurer) addRecent(ctx context.Context, signals *harm.Signals, pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) {
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

func unanswered(guardrails []v1alpha1.SLOGuardrail, err error) []harm.SLOResult {
	var out []harm.SLOResult
	for _, g := range guardrails {
		out = append(out, guardrail(g, 0, err))
	}
	return out
}

var errNotANumber = errors.New("the answer is not a number")

// guardrail compares a query's answer with its threshold.
func guardrail(g v1alpha1.SLOGuardrail, value float64, err error) harm.SLOResult {
	threshold, bad := strconv.ParseFloat(string(g.Threshold), 64)
	if err == nil {
		err = bad
	}
	if err == nil && math.IsNaN(value) {
		err = errNotANumber
	}
	if err != nil {
		return harm.SLOResult{Name: g.Name, Failed: err.Error()}
	}
	held := map[v1alpha1.Comparison]bool{
		"<": value < threshold, "<=": value <= threshold, ">": value > threshold, ">=": value >= threshold,
	}[g.Comparison]
	return harm.SLOResult{
		Name: g.Name, Held: held,
		Message: fmt.Sprintf("%s: %g, wanted %s %s", g.Name, value, g.Comparison, g.Threshold),
	}
}
