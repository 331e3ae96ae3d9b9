package embedded

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
)

// Climb is what the scraper needs to look more often at containers that are on their way to their memory limits. All of
// its functions are called from several goroutines.
type Climb struct {
	// Limits returns the memory limits of a pod's containers, in bytes; nil where the pod is not looked at for this.
	Limits func(ctx context.Context, pod Pod) (map[string]float64, error)
	// Near reports whether a container with a limit and samples, the oldest first, is on its way to the limit.
	Near func(limit float64, samples []usage.Sample, now time.Time) bool
	// Tell is called with a pod whose container is, after each scrape that says so. It must not block.
	Tell func(pod Pod)
}

const (
	// nearEvery is how often a kubelet is scraped with such a container, mostNear how many kubelets at once; highEvery and
	// mostHigh are those of kubelets with a container that holds half of its limit. Together that is at most ten scrapes a
	// second beside the others.
	nearEvery, mostNear = 5 * time.Second, 32
	highEvery, mostHigh = 15 * time.Second, 64
	// traceWindow is how far back Lately tells: memory always has that much.
	traceWindow = minNeeded
	// stalledOver is the time over which waiting for memory is measured.
	stalledOver = time.Minute
	// workingSet and stalled are the metrics of what a container needs, and of how long it waited for memory (PSI).
	workingSet = "container_memory_working_set_bytes"
	stalled    = "container_pressure_memory_waiting_seconds_total"
)

// high is a sample of a container that holds half of its limit at least.
type high struct {
	pod    Pod
	series *series
	limit  float64
}

// near tells of the containers of a scrape that are on their way to their limits, and returns how soon their kubelet is to be
// scraped again. Of their pods cAdvisor is asked too from then on, which knows how long they wait for memory.
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

// haste says how soon a kubelet is scraped again. The zero value: when its turn comes.
type haste string

const (
	// hasteHigh: a container holds half of its memory limit. hasteNear: one is on its way there.
	hasteHigh haste = "high"
	hasteNear haste = "near"
)

// hasten has a kubelet scraped soon again whose scrape found containers that hold much, as far as there is a place.
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

// holdsFor is how long a kubelet keeps its place among those that are scraped more often at least: a climb is found within
// that time, and places that changed hands faster would be of use to none.
const holdsFor = time.Minute

// yields has the kubelet give up its place that has had it longest, so that containers which only seem to climb do not
// keep the places for ever. It has its usual turn next, and may ask again then. False: none has had its place for long
// enough. The caller holds mutex.
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

// inHaste is hastened for who does not hold mutex.
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

// Lately returns what the containers of some pods have held lately, from memory alone: nothing is waited for.
func (s *Source) Lately(_ context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error) {
	return s.recent.traces(namespace, pods, at), nil
}

// traces of the containers of some pods. Where two nodes have told of one container, the series with the newest sample
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

// fraction is the rate of a counter of seconds, 0 to 1; 0 where it is not known.
func fraction(counter []usage.Sample) float64 {
	if len(counter) < 2 {
		return 0
	}
	first, last := counter[0], counter[len(counter)-1]
	return min(1, max(0, (last.Value-first.Value)*1000/float64(last.At-first.At)))
}

// podOf is the pod of a series that Lately tells of; false: it tells of none.
func podOf(of labels.Labels) (Pod, bool) {
	metric := of.Get(labels.MetricName)
	pod := Pod{of.Get("namespace"), of.Get("pod")}
	return pod, pod.Name != "" && of.Get("container") != "" && (metric == workingSet || metric == stalled)
}

// limit looks up the memory limit of a series' container. Where that fails, the last one stays.
func (r *reader) limit(k *known) {
	if !k.held || r.limitsOf == nil {
		return
	}
	if limits, err := r.limited.about(k.pod, r.limitsOf); err == nil {
		k.limit = limits[k.labels.Get("container")]
	}
}
