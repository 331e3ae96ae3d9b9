package embedded

import (
	"context"
	"slices"
	"sync"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// Signals that decisions need in addition to usage: per-pod metrics that only cAdvisor has, and node usage. A pod that
// a caller queries is scraped more often from then on, for askedFor.

// Throttled returns, for each container of some pods, the fraction (0 to 1) of its CFS periods in the window that were
// throttled. A container without a CPU limit is missing. So is a pod on its first query: its cAdvisor metrics are
// scraped only from then on.
func (s *Source) Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return s.about(ctx, namespace, pods, at, func(pods []string) string { return prometheus.Everything.Throttled(namespace, pods, window) })
}

// Waiting returns the fraction, 0 to 1, of the window in which each container of some pods waited for CPU (PSI).
func (s *Source) Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return s.about(ctx, namespace, pods, at, func(pods []string) string { return prometheus.Everything.Waiting(namespace, pods, window) })
}

// Memory returns the peak memory of the cgroups of some pods' containers over the window, including page cache, in
// bytes, by pod and container. Unknown values are missing. The error is usage.ErrSoon, with all known values, if a pod
// without values was first queried less than knownWithin ago.
func (s *Source) Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	var young []string
	for _, pod := range pods {
		if s.note(namespace, pod) < knownWithin {
			young = append(young, pod)
		}
	}
	held, err := prometheus.AskPods(ctx, pods, at, s.askRange, func(pods []string) string { return prometheus.Everything.Held(namespace, pods, window) })
	if err == nil && slices.ContainsFunc(young, func(pod string) bool { return held[pod] == nil }) {
		err = usage.ErrSoon
	}
	return held, err
}

// OOMKills returns how many processes of each container the kernel killed within its pod's window. Kills before the
// first scrape in the window are not counted, because the pod may not have been scraped until then.
func (s *Source) OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error) {
	for pod := range windows {
		s.note(namespace, pod)
	}
	return prometheus.AskSince(ctx, windows, at, s.askRange, func(pods []string, window time.Duration) string {
		return prometheus.Everything.Seen(namespace, pods, window)
	})
}

// CPU returns the average CPU usage of a container since a time, in millicores; false with fewer than two scrapes.
func (s *Source) CPU(ctx context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	most, _ := s.scraper.targets.most()
	cores, known := s.measured(ctx, prometheus.Everything.Used(namespace, pod, container, now.Sub(since)), now, most)
	return recommender.Usage(cores * 1000), known
}

// Busy is the used fraction, 0 to 1, of a node's CPU since a time, from scraped samples; false with fewer than two
// scrapes.
func (s *Source) Busy(ctx context.Context, node string, since, now time.Time) (float64, bool) {
	most := s.scraper.targets.cores(node)
	cores, known := s.measured(ctx, prometheus.Everything.NodeUsage(node, now.Sub(since)), now, most)
	return min(cores/most, 1), known && most > 0
}

// measured returns cores; false if they were not measured or exceed the possible maximum.
func (s *Source) measured(ctx context.Context, expression string, at time.Time, most float64) (float64, bool) {
	cores, err := s.Value(ctx, expression, at)
	return cores, err == nil && cores >= 0 && cores <= usage.MostOn(most, 0).Cores
}

// note records a query about a pod, and returns for how long the pod has been queried.
func (s *Source) note(namespace, pod string) time.Duration {
	return s.scraper.asked.about(Pod{namespace, pod}, s.options.Clock.Now())
}

// about queries cAdvisor metrics of some pods.
func (s *Source) about(ctx context.Context, namespace string, pods []string, at time.Time, expression func(pods []string) string) (usage.ByContainer, error) {
	for _, pod := range pods {
		s.note(namespace, pod)
	}
	return prometheus.AskPods(ctx, pods, at, s.askRange, expression)
}

const (
	// askedFor is how long a pod's cAdvisor metrics are scraped after its last query.
	askedFor = 15 * time.Minute
	// knownWithin is the longest time until such metrics are available: the next lookup of the cluster, and two scrapes
	// of its node, as often as kubelets measure.
	knownWithin = nodesEvery + 2*watchInterval
)

// asked remembers the pods that callers have queried, so that the scraper reads cAdvisor on their nodes. Its zero value
// is ready for use. mutex guards pods. Pods without a query for askedFor are removed, which bounds its size.
type asked struct {
	mutex sync.Mutex
	// pods that were queried within askedFor.
	pods map[Pod]asking
}

// asking has the first and last query of a pod. A gap longer than askedFor starts a new first.
type asking struct{ first, last time.Time }

// about records a query about a pod, and returns for how long the pod has been queried without a gap of askedFor.
func (a *asked) about(pod Pod, now time.Time) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.pods == nil {
		a.pods = map[Pod]asking{}
	}
	of, known := a.pods[pod]
	if !known || now.Sub(of.last) > askedFor {
		of.first = now
	}
	of.last = now
	a.pods[pod] = of
	return now.Sub(of.first)
}

// recently returns the pods that were queried within askedFor, unordered, and removes the others.
func (a *asked) recently(now time.Time) []Pod {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var pods []Pod
	for pod, of := range a.pods {
		if now.Sub(of.last) > askedFor {
			delete(a.pods, pod)
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}
