package embedded

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
)

// Climb finds containers that approach their memory limits, so that their kubelets are scraped more often. Several
// goroutines call its functions.
type Climb struct {
	// Limits returns the memory limits of a pod's containers, in bytes; nil if the pod is not checked.
	Limits func(ctx context.Context, pod Pod) (map[string]float64, error)
	// Near reports whether a container with this limit and these samples, oldest first, approaches the limit.
	Near func(limit float64, samples []usage.Sample, now time.Time) bool
	// Tell is called with the pod of such a container after each scrape that finds it. It must not block.
	Tell func(pod Pod)
}

const (
	// nearEvery is the scrape interval of a kubelet with such a container, mostNear the most kubelets at once. highEvery
	// and mostHigh apply to kubelets with a container that uses half of its limit. Together they add at most eleven
	// scrapes a second.
	nearEvery, mostNear = 5 * time.Second, 32
	highEvery, mostHigh = 15 * time.Second, 64
	// traceWindow is how far back Lately reads. Memory always has that much.
	traceWindow = minNeeded
	// stalledOver is the window over which waiting for memory is measured.
	stalledOver = time.Minute
	// workingSet is the metric of a container's memory need, stalled the metric of its waiting time for memory (PSI).
	workingSet = "container_memory_working_set_bytes"
	stalled    = "container_pressure_memory_waiting_seconds_total"
)

// high is a sample of a container that uses at least half of its limit.
type high struct {
	pod    Pod
	series *series
	limit  float64
}

// near reports the scraped containers that approach their limits, and returns how soon their kubelet is scraped again.
// From then on it also reads the pods' cAdvisor metrics, which include the waiting time for memory.
func (s *scraper) near(found []high, now time.Time) (why haste) {
	if len(found) > 0 {
		why = hasteHigh
	}
	for _, h := range found {
		if !s.Climb.Near(h.limit, s.recent.trace(h.series, now.Add(-traceWindow)), now) {
			continue
		}
		why = hasteNear
		s.asked.about(h.pod, now)
		s.Climb.Tell(h.pod)
	}
	return why
}

// haste says how soon a kubelet is scraped again. The zero value means at its usual turn.
type haste string

const (
	// hasteHigh: a container uses half of its memory limit. hasteNear: a container approaches its limit.
	hasteHigh haste = "high"
	hasteNear haste = "near"
)

// hasten schedules an early scrape of a kubelet whose containers use much of their limits, if there is a free place.
// The caller holds mutex.
func (t *targets) hasten(j *job, began time.Time) {
	was := j.target.haste
	j.target.haste = ""
	for _, h := range []struct {
		haste
		every time.Duration
		most  int
	}{{hasteNear, nearEvery, mostNear}, {hasteHigh, highEvery, mostHigh}} {
		if j.haste != h.haste && j.haste != hasteNear {
			continue
		}
		if was != h.haste {
			if t.hastened(h.haste) >= h.most && !t.yields(h.haste, began) {
				continue
			}
			j.target.hasteSince = began
		}
		j.target.haste = h.haste
		if soon := began.Add(h.every); soon.Before(j.target.due) {
			j.target.due = soon
		}
		return
	}
}

// holdsFor is the minimum time for which a kubelet keeps its place among the kubelets scraped more often. A climb is
// found within that time; if places changed faster, no climb would be found.
const holdsFor = time.Minute

// yields takes the place from the kubelet that has had it longest, so that containers that only seem to climb do not
// keep places forever. That kubelet returns to its usual turn, and may get a place again then. It returns false if no
// kubelet has had its place for holdsFor. The caller holds mutex.
func (t *targets) yields(of haste, now time.Time) bool {
	var longest *target
	for _, held := range t.of {
		if held.haste != of || now.Sub(held.hasteSince).Abs() < holdsFor {
			continue
		}
		if longest == nil || cmp.Or(held.hasteSince.Compare(longest.hasteSince), strings.Compare(held.node.Name, longest.node.Name)) < 0 {
			longest = held
		}
	}
	if longest == nil {
		return false
	}
	longest.haste = ""
	longest.due = nextAt(longest.node.Name, t.interval, now)
	return true
}

// hastened counts the kubelets that are scraped more often for a reason. The caller holds mutex.
func (t *targets) hastened(of haste) (n int) {
	for _, target := range t.of {
		if target.haste == of {
			n++
		}
	}
	return n
}

// inHaste is hastened; it takes mutex itself.
func (t *targets) inHaste(of haste) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.hastened(of)
}

// trace copies the samples of a series since a time.
func (r *recent) trace(s *series, since time.Time) []usage.Sample {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.current(s).since(since)
}

// since copies the samples since a time. The caller holds mutex.
func (s *series) since(at time.Time) []usage.Sample {
	var out []usage.Sample
	for _, sample := range s.between(at.UnixMilli(), 1<<62) {
		out = append(out, usage.Sample{At: sample.T, Value: sample.F})
	}
	return out
}

// Lately returns the recent memory use of the containers of some pods. It reads only from memory, so it does not wait.
func (s *Source) Lately(_ context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error) {
	return s.recent.traces(namespace, pods, at), nil
}

// traces of the containers of some pods. If two nodes have reported one container, the series with the newest sample
// counts.
func (r *recent) traces(namespace string, pods []string, at time.Time) usage.Traces {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	out := usage.Traces{}
	for _, pod := range pods {
		of := map[string]usage.Trace{}
		for s := range r.ofPod[Pod{namespace, pod}] {
			container := s.labels.Get("container")
			trace := of[container]
			if s.labels.Get(labels.MetricName) == stalled {
				trace.Stalled = max(trace.Stalled, fraction(s.since(at.Add(-stalledOver))))
			} else if samples := s.since(at.Add(-traceWindow)); usage.Newest(samples) > usage.Newest(trace.Samples) {
				trace.Samples = samples
			}
			of[container] = trace
		}
		if len(of) > 0 {
			out[pod] = of
		}
	}
	return out
}

// fraction is the rate of a counter of seconds, 0 to 1; 0 if unknown.
func fraction(counter []usage.Sample) float64 {
	if len(counter) < 2 {
		return 0
	}
	first, last := counter[0], counter[len(counter)-1]
	return min(1, max(0, (last.Value-first.Value)*1000/float64(last.At-first.At)))
}

// podOf returns the pod of a series that Lately uses; false for other series.
func podOf(of labels.Labels) (Pod, bool) {
	metric := of.Get(labels.MetricName)
	pod := Pod{of.Get("namespace"), of.Get("pod")}
	return pod, pod.Name != "" && of.Get("container") != "" && (metric == workingSet || metric == stalled)
}

// limit looks up the memory limit of a series' container. On an error the last limit stays.
func (r *reader) limit(k *known) {
	if !k.held || r.limitsOf == nil {
		return
	}
	if limits, err := r.limited.about(k.pod, r.limitsOf); err == nil {
		k.limit = limits[k.labels.Get("container")]
	}
}
