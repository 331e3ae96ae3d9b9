package sim

import (
	"context"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// shape is how a demand moves over time.
type shape string

const (
	steady  shape = "steady"
	diurnal shape = "diurnal"
	bursty  shape = "bursty"
	leaking shape = "leaking"
	stepped shape = "stepped"
	idle    shape = "idle"
)

// demand is what each container of a workload needs.
type demand struct {
	shape shape
	// cpu in cores and memory in bytes, at the usual load; cache is page cache, in bytes, that gives way.
	cpu, memory, cache float64
	// stepAt is when a stepped demand doubles.
	stepAt time.Time
	// risesAt is when the need of CPU becomes risen; zero: never.
	risesAt time.Time
	risen   float64
	// among is the part of the CPU that each pod needs at a time, where all share one load; nil: each has its own.
	among func(time.Time) float64
	// capped: the CPU that is measured ends at the limit.
	capped bool
	// startCPU is the request in cores with less of which a process does not come up; one that runs needs less.
	startCPU float64
	// ramp is what it needs beside that for a while; the zero value: nothing.
	ramp ramp
	// elastic is usage that follows the memory limit, beside that; the zero value: none.
	elastic elastic
	// work is how long the pod of a Job runs.
	work time.Duration
	seed uint64
}

// at is the need of a replica that started at a time.
func (d demand) at(now, started time.Time, replica string) (cpu, memory float64) {
	cpu = d.cpu
	if !d.risesAt.IsZero() && !now.Before(d.risesAt) {
		cpu = d.risen
	}
	if d.among != nil {
		cpu *= d.among(now)
	}
	return cpu * d.load(now) * (0.9 + 0.2*noise(d.seed, replica, now.Unix()/60)), d.memoryAt(now, started, replica)
}

// memoryAt is the memory that it needs.
func (d demand) memoryAt(now, started time.Time, replica string) float64 {
	memory := d.memory * (0.7 + 0.3*min(d.load(now), 1.5))
	if d.shape == leaking {
		memory += d.memory * now.Sub(started).Hours() / 48
	}
	return memory*(0.97+0.03*noise(d.seed, replica+"m", now.Unix()/300)) + d.ramp.at(now, started, replica)
}

// load is how busy it is, around 1.
func (d demand) load(now time.Time) float64 {
	switch d.shape {
	case diurnal:
		return 0.6 + 0.4*math.Sin(2*math.Pi*float64(now.Unix()%86400)/86400)
	case bursty:
		if noise(d.seed, "burst", now.Unix()/600) > 0.97 {
			return 3
		}
	case stepped:
		if now.After(d.stepAt) {
			return 2
		}
	case idle:
		return 0.02
	}
	return 1
}

// noise is a number from 0 to 1 that is the same whenever it is asked for.
func noise(seed uint64, of string, n int64) float64 {
	h := fnv.New64a()
	h.Write([]byte(of))
	x := h.Sum64() ^ seed ^ uint64(n)*0x9e3779b97f4a7c15
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// life is one container of a pod, from its start to its end, as a usage source remembers it.
type life struct {
	namespace, pod, container, uid, key string
	of                                  demand
	started, ended                      time.Time
	// limits are the memory limits in force, for usage that follows them; cpuLimits are those of CPU, for usage that ends
	// at them.
	limits, cpuLimits []limitSince
}

// remembers is how long a source keeps the pods that are gone.
const remembers = 8 * 24 * time.Hour

// lives are all containers that run or ran lately.
type lives struct {
	all map[string][]*life // by pod uid
	// order of the uids as they came.
	order []string
}

// see a pod as it is now.
func (l *lives) see(pod *corev1.Pod, of demand, now time.Time) {
	uid := string(pod.UID)
	if l.all == nil {
		l.all = map[string][]*life{}
	}
	if l.all[uid] == nil && pod.Status.Phase == corev1.PodRunning {
		l.order = append(l.order, uid)
		for _, c := range pod.Spec.Containers {
			l.all[uid] = append(l.all[uid], &life{namespace: pod.Namespace, pod: pod.Name, container: c.Name, uid: uid, key: pod.Namespace + "/" + pod.Labels[appLabel], of: of, started: now})
		}
	}
	for _, life := range l.all[uid] {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == life.container && s.State.Running != nil && s.RestartCount > 0 {
				life.started = s.State.Running.StartedAt.Time
			}
			if s.Name == life.container && of.elastic.follows() && s.Resources != nil {
				life.limits = addLimit(life.limits, s.Resources.Limits.Memory(), now)
			}
			if s.Name == life.container && of.capped && s.Resources != nil {
				life.cpuLimits = addLimit(life.cpuLimits, s.Resources.Limits.Cpu(), now)
			}
		}
		if pod.Status.Phase != corev1.PodRunning && life.ended.IsZero() {
			life.ended = now
		}
	}
}

// of a container of an app.
func (l *lives) of(key, container string) (all []*life) {
	for _, uid := range l.order {
		for _, life := range l.all[uid] {
			if life.key == key && life.container == container {
				all = append(all, life)
			}
		}
	}
	return all
}

func (l *lives) end(uid string, now time.Time) {
	for _, life := range l.all[uid] {
		if life.ended.IsZero() {
			life.ended = now
		}
	}
}

// forget those that ended long ago.
func (l *lives) forget(now time.Time) {
	l.order = slices.DeleteFunc(l.order, func(uid string) bool {
		old := !l.all[uid][0].ended.IsZero() && now.Sub(l.all[uid][0].ended) > remembers
		if old {
			delete(l.all, uid)
		}
		return old
	})
}

// source is a server that has measured every container; it answers one operator.
type source struct {
	of *operator
	// recent: it is asked about the last minutes.
	recent bool
}

func (s source) Read(_ context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	w := s.of.w
	// Sources of several settings are asked at the same time.
	w.asking.Lock()
	defer w.asking.Unlock()
	s.of.takes(50 * time.Millisecond)
	told := func(s usage.Series) usage.Series { return s }
	if s.recent && w.plan.Recent != nil {
		told = w.plan.Recent
	}
	if err := w.faults.silent(s.of); err != nil {
		return usage.Report{}, err
	}
	if err := w.faults.tooMuch(q); err != nil {
		return usage.Report{}, err
	}
	var report usage.Report
	now := w.time.now
	for _, uid := range w.lives.order {
		for _, life := range w.lives.all[uid] {
			if !asked(q, life) {
				continue
			}
			if w.faults.partial() && noise(life.of.seed, life.pod, 0) < 0.5 {
				report.Partial = true
				continue
			}
			series := told(life.series(q, now))
			report.Series++
			report.Samples += len(series.CPU) + len(series.Memory)
			yield(series)
		}
	}
	return report, nil
}

func asked(q usage.Query, l *life) bool {
	if !slices.Contains(q.Namespaces, l.namespace) {
		return false
	}
	return len(q.PodPrefixes) == 0 || slices.ContainsFunc(q.PodPrefixes, func(p string) bool { return strings.HasPrefix(l.pod, p) })
}

func (l *life) series(q usage.Query, now time.Time) usage.Series {
	out := usage.Series{Namespace: l.namespace, Pod: l.pod, Container: l.container}
	for at := q.Start; !at.After(q.End) && !at.After(now); at = at.Add(q.Step) {
		if !l.measured(at) {
			continue
		}
		cpu, memory := l.of.at(at, l.started, l.pod)
		cpu, memory = l.granted(cpu, at), memory+l.elastic(at)
		out.CPU = append(out.CPU, usage.Sample{At: at.UnixMilli(), Value: cpu})
		out.Memory = append(out.Memory, usage.Sample{At: at.UnixMilli(), Value: memory})
	}
	return out
}

// granted is what a container gets of the CPU that it needs at a time.
func (l *life) granted(cpu float64, at time.Time) float64 {
	for _, since := range slices.Backward(l.cpuLimits) {
		if since.at.After(at) {
			continue
		}
		if since.limit > 0 {
			cpu = min(cpu, since.limit)
		}
		break
	}
	return cpu
}

// measured: the container ran at a time, and had for a minute.
func (l *life) measured(at time.Time) bool {
	return !at.Before(l.started.Add(time.Minute)) && (l.ended.IsZero() || !at.After(l.ended))
}

// held is what a container's cgroup holds: what it needs, and page cache as far as the limit leaves room.
func (w *world) held(pod *corev1.Pod, container string) int64 {
	need, cache := w.needs(pod)
	for _, c := range pod.Spec.Containers {
		if limit, limited := c.Resources.Limits[corev1.ResourceMemory]; limited && c.Name == container {
			cache = min(cache, max(0, float64(limit.Value())-need-1<<20))
		}
	}
	return int64(need + cache)
}

func (w *world) needs(pod *corev1.Pod) (memory, cache float64) {
	of, known := w.demandOf(pod)
	if !known {
		return 0, 0
	}
	started := pod.CreationTimestamp.Time
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil {
			started = s.State.Running.StartedAt.Time
		}
	}
	_, memory = of.at(w.time.now, started, pod.Name)
	return memory + w.elasticOf(pod), of.cache
}

// gauge measures single containers, with the same server.
type gauge struct{ of *operator }

func (g gauge) find(pod, container string) *life {
	w := g.of.w
	for i := len(w.lives.order) - 1; i >= 0; i-- {
		for _, l := range w.lives.all[w.lives.order[i]] {
			if l.pod == pod && l.container == container {
				return l
			}
		}
	}
	return nil
}

func (g gauge) ask() error {
	g.of.takes(5 * time.Millisecond)
	return g.of.w.faults.silent(g.of)
}

// Throttled is the part of the CPU that a container needs and does not get.
func (g gauge) Throttled(_ context.Context, namespace string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	return g.each(namespace, pods, func(pod *corev1.Pod, container string) float64 {
		return g.of.w.throttled(namespace, pod.Name, container)
	})
}

// Waiting is never much: nodes are roomy for CPU.
func (g gauge) Waiting(_ context.Context, namespace string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	return g.each(namespace, pods, func(*corev1.Pod, string) float64 { return 0 })
}

// OOMKills are seen on the pod.
func (g gauge) OOMKills(_ context.Context, namespace string, windows map[string]time.Duration, _ time.Time) (usage.ByContainer, error) {
	return g.each(namespace, slices.Sorted(maps.Keys(windows)), func(*corev1.Pod, string) float64 { return 0 })
}

// each asks once about the containers of some pods.
func (g gauge) each(namespace string, pods []string, value func(pod *corev1.Pod, container string) float64) (usage.ByContainer, error) {
	if err := g.ask(); err != nil {
		return nil, err
	}
	all := usage.ByContainer{}
	for _, name := range pods {
		pod := g.of.w.pod(namespace, name)
		if pod == nil {
			continue
		}
		all[name] = map[string]float64{}
		for _, c := range pod.Spec.Containers {
			all[name][c.Name] = value(pod, c.Name)
		}
	}
	return all, nil
}

// Value of a guardrail is within bounds.
func (g gauge) Value(context.Context, string, time.Time) (float64, error) { return 0, g.ask() }

// lately is what the operator knows of CPU without asking.
type lately struct{ of *operator }

func (l lately) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return l.of.recent.CPU(namespace, pod, container, since, now)
}

func (lately) Busy(context.Context, string, time.Time, time.Time) (float64, bool) { return 0, false }

var _ usage.Source = source{}
