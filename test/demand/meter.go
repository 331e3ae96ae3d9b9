package demand

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// ErrDown is what a source answers that is down.
var ErrDown = errors.New("the usage source is down")

// Meter is a source that has measured every container which it was shown (usage.Source, and the workload loop's Gauge
// and RecentCPU). It is for one goroutine.
type Meter struct {
	Of Of
	// Now is the time of the source: nothing later is answered.
	Now func() time.Time
	// Capacity of a node in cores.
	Capacity func(node string) float64
	// Keep is how long it remembers containers that are gone: 15 days.
	Keep time.Duration
	// Down: no question is answered. Late is how old the newest sample is.
	Down bool
	Late time.Duration
	// Missing, where set, leaves pods out, and says that the answer is partial.
	Missing func(namespace, pod string) bool

	lives map[string]*life
	order []string
}

// life is one container of a pod.
type life struct {
	namespace, pod, container, node string
	runs                            []span
	kills                           []time.Time
	restarts                        int32
	demand                          Demand
	ended                           time.Time
}

// span is a time in which a container ran, with the same limits.
type span struct {
	from, to time.Time // to is zero while it lasts
	started  time.Time
	cpu      float64 // cores; 0: no limit
	memory   float64 // bytes; 0: no limit
}

// Observe the pods as they are now; it is to be called whenever one has changed.
func (m *Meter) Observe(now time.Time, pods []*corev1.Pod) {
	if m.lives == nil {
		m.lives = map[string]*life{}
	}
	seen := map[string]bool{}
	for _, pod := range pods {
		for i := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[i]
			key := string(pod.UID) + "/" + s.Name
			seen[key] = true
			m.see(now, key, pod, s)
		}
	}
	m.order = slices.DeleteFunc(m.order, func(key string) bool {
		l := m.lives[key]
		if !seen[key] && l.ended.IsZero() {
			l.close(now)
			l.ended = now
		}
		old := !l.ended.IsZero() && now.Sub(l.ended) > m.keep()
		if old {
			delete(m.lives, key)
		}
		return old
	})
}

func (m *Meter) keep() time.Duration {
	if m.Keep == 0 {
		return 15 * 24 * time.Hour
	}
	return m.Keep
}

func (m *Meter) see(now time.Time, key string, pod *corev1.Pod, s *corev1.ContainerStatus) {
	l := m.lives[key]
	if l == nil {
		demand, known := m.Of(pod, s.Name)
		if !known {
			return
		}
		l = &life{namespace: pod.Namespace, pod: pod.Name, container: s.Name, node: pod.Spec.NodeName, demand: demand}
		m.lives[key] = l
		m.order = append(m.order, key)
	}
	if t := s.LastTerminationState.Terminated; t != nil && s.RestartCount > l.restarts && t.Reason == "OOMKilled" {
		l.kills = append(l.kills, t.FinishedAt.Time)
	}
	l.restarts = s.RestartCount
	if s.State.Running == nil {
		l.close(now)
		return
	}
	next := span{from: now, started: s.State.Running.StartedAt.Time}
	if s.Resources != nil {
		next.cpu, next.memory = s.Resources.Limits.Cpu().AsApproximateFloat64(), s.Resources.Limits.Memory().AsApproximateFloat64()
	}
	l.open(next)
	l.forget(now.Add(-m.keep()))
}

// forget what was before a time.
func (l *life) forget(before time.Time) {
	for len(l.runs) > 0 && !l.runs[0].to.IsZero() && l.runs[0].to.Before(before) {
		l.runs = l.runs[1:]
	}
	for len(l.kills) > 0 && l.kills[0].Before(before) {
		l.kills = l.kills[1:]
	}
}

// open a span, unless it is the one that lasts.
func (l *life) open(next span) {
	if n := len(l.runs); n > 0 && l.runs[n-1].to.IsZero() {
		last := l.runs[n-1]
		if last.started.Equal(next.started) && last.cpu == next.cpu && last.memory == next.memory {
			return
		}
		l.close(next.from)
	} else {
		next.from = next.started
	}
	l.runs = append(l.runs, next)
}

func (l *life) close(now time.Time) {
	if n := len(l.runs); n > 0 && l.runs[n-1].to.IsZero() {
		l.runs[n-1].to = now
	}
}

// at is the span of a time.
func (l *life) at(t time.Time) (span, bool) {
	for i := len(l.runs) - 1; i >= 0; i-- {
		s := l.runs[i]
		if !t.Before(s.from) && (s.to.IsZero() || t.Before(s.to)) {
			return s, true
		}
	}
	return span{}, false
}

// minutes calls f for each minute between two times in which the container ran, at its end.
func (l *life) minutes(from, to time.Time, f func(at time.Time, s span)) {
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		if s, ran := l.at(at.Add(-time.Second)); ran {
			f(at.Add(-time.Second), s)
		}
	}
}

// used is the CPU in cores that a container used at a time: what it needs, up to its limit.
func (l *life) used(at time.Time, s span) float64 {
	cpu := l.demand.CPUAt(at, s.started, l.pod)
	if s.cpu > 0 {
		return min(cpu, s.cpu)
	}
	return cpu
}

// cpu is the average and the peak between two times.
func (l *life) cpu(from, to time.Time) (average, peak float64, known bool) {
	n := 0
	l.minutes(from, to, func(at time.Time, s span) {
		used := l.used(at, s)
		average, peak, n = average+used, max(peak, used), n+1
	})
	return average / float64(max(n, 1)), peak, n > 0
}

// memory is the highest working set, and the most that the cgroup held, between two times; in bytes. A quarter of the
// page cache is in use, and so in the working set.
func (l *life) memory(from, to time.Time) (working, held float64, known bool) {
	l.minutes(from, to, func(at time.Time, s span) {
		needs, cache := l.demand.MemoryAt(at, s.started, l.pod)
		if s.memory > 0 {
			cache = min(cache, max(0, s.memory-needs-1<<20))
		}
		working, held, known = max(working, needs+cache/4), max(held, needs+cache), true
	})
	return working, held, known
}

var _ usage.Source = (*Meter)(nil)

// Read answers with one series for each container.
func (m *Meter) Read(_ context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	var report usage.Report
	if m.Down {
		return report, ErrDown
	}
	newest := m.Now().Add(-m.Late)
	for _, key := range m.order {
		l := m.lives[key]
		if !asked(q, l) || !l.ended.IsZero() && l.ended.Before(q.Start.Add(-q.Step)) {
			continue
		}
		if m.Missing != nil && m.Missing(l.namespace, l.pod) {
			report.Partial = true
			continue
		}
		series := l.series(q, newest)
		report.Series++
		report.Samples += len(series.CPU) + len(series.CPUPeak) + len(series.Memory)
		yield(series)
	}
	return report, nil
}

func asked(q usage.Query, l *life) bool {
	return slices.Contains(q.Namespaces, l.namespace) &&
		(len(q.PodPrefixes) == 0 || slices.ContainsFunc(q.PodPrefixes, func(p string) bool { return strings.HasPrefix(l.pod, p) }))
}

func (l *life) series(q usage.Query, newest time.Time) usage.Series {
	out := usage.Series{Namespace: l.namespace, Pod: l.pod, Container: l.container}
	window := max(q.RateWindow, time.Minute)
	for at := q.Start; !at.After(q.End) && !at.After(newest); at = at.Add(q.Step) {
		if average, _, known := l.cpu(at.Add(-window), at); known {
			out.CPU = append(out.CPU, usage.Sample{At: at.UnixMilli(), Value: average})
		}
		if _, peak, known := l.cpu(at.Add(-q.Step), at); known && q.Step > window {
			out.CPUPeak = append(out.CPUPeak, usage.Sample{At: at.UnixMilli(), Value: peak})
		}
		if working, _, known := l.memory(at.Add(-q.Step), at); known {
			out.Memory = append(out.Memory, usage.Sample{At: at.UnixMilli(), Value: working})
		}
	}
	return out
}

// Recent is what a pod's container used just now, in millicores, as the metrics API has it: a minute old.
func (m *Meter) Recent(pod *corev1.Pod, container string, now time.Time) (milli int64, known bool) {
	l := m.lives[string(pod.UID)+"/"+container]
	if l == nil || m.Down {
		return 0, false
	}
	average, _, known := l.cpu(now.Add(-2*time.Minute), now)
	return int64(average * 1000), known
}

// errNoSeries is what a source answers about a container that it has not measured.
var errNoSeries = errors.New("no series")

// find the container of a pod that ran last under this name.
func (m *Meter) find(namespace, pod, container string) (*life, error) {
	if m.Down {
		return nil, ErrDown
	}
	for _, key := range slices.Backward(m.order) {
		if l := m.lives[key]; l.namespace == namespace && l.pod == pod && l.container == container {
			if m.Missing != nil && m.Missing(namespace, pod) {
				return nil, errNoSeries
			}
			return l, nil
		}
	}
	return nil, errNoSeries
}

// Throttled is the fraction of periods in which a container was throttled over the window.
func (m *Meter) Throttled(_ context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	l, err := m.find(namespace, pod, container)
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0
	l.minutes(at.Add(-window), at.Add(-m.Late), func(at time.Time, s span) {
		sum, n = sum+Throttled(l.demand.CPUAt(at, s.started, l.pod), s.cpu), n+1
	})
	return answer(sum/float64(max(n, 1)), n > 0)
}

func answer(value float64, known bool) (float64, error) {
	if !known {
		return 0, errNoSeries
	}
	return value, nil
}

// Waiting is the fraction of time in which a container waited for CPU: what of its node is used beyond 90 %.
func (m *Meter) Waiting(ctx context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	l, err := m.find(namespace, pod, container)
	if err != nil {
		return 0, err
	}
	busy, known := m.Busy(ctx, l.node, at.Add(-window), at)
	return answer(min(1, max(0, (busy-0.9)*5)), known)
}

// Memory is the most that a container's cgroup held over the window, page cache included, in bytes.
func (m *Meter) Memory(_ context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	l, err := m.find(namespace, pod, container)
	if err != nil {
		return 0, err
	}
	_, held, known := l.memory(at.Add(-window), at.Add(-m.Late))
	return answer(held, known)
}

// OOMKills is how many processes of a container the kernel killed within the window.
func (m *Meter) OOMKills(_ context.Context, namespace, pod, container string, window time.Duration, at time.Time) (float64, error) {
	l, err := m.find(namespace, pod, container)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, kill := range l.kills {
		if !kill.After(at) && at.Sub(kill) <= window {
			n++
		}
	}
	return float64(n), nil
}

// Value of a guardrail's query: none is known.
func (m *Meter) Value(context.Context, string, time.Time) (float64, error) {
	if m.Down {
		return 0, ErrDown
	}
	return 0, errNoSeries
}

// CPU that a container has needed on average since a time; false: it was not measured.
func (m *Meter) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	l, err := m.find(namespace, pod, container)
	if err != nil {
		return 0, false
	}
	average, _, known := l.cpu(since, now.Add(-m.Late))
	return recommender.Usage(math.Round(average * 1000)), known
}

// Busy is the used fraction of a node's CPU since a time; false: it was not measured.
func (m *Meter) Busy(_ context.Context, node string, since, now time.Time) (float64, bool) {
	if m.Down || m.Capacity == nil || m.Capacity(node) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, key := range m.order {
		if l := m.lives[key]; l.node == node {
			average, _, _ := l.cpu(since, now.Add(-m.Late))
			sum += average
		}
	}
	return sum / m.Capacity(node), true
}
