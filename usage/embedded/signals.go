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

// What a decision needs beside usage: what only cAdvisor has of a pod, and what nodes have used. A pod that a caller asks
// about is scraped more often from then on, for askedFor.

// Throttled returns the fraction, 0 to 1, of its CFS periods in which each container of some pods was throttled
// over the window. A container without a CPU limit is missing. So is a pod that is asked about for the first time:
// cAdvisor is scraped for it only from then on.
func (s *Source) Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return s.about(ctx, namespace, pods, at, func(pods []string) string { return prometheus.Everything.Throttled(namespace, pods, window) })
}

// Waiting returns the fraction, 0 to 1, of the window in which each container of some pods waited for CPU (PSI).
func (s *Source) Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return s.about(ctx, namespace, pods, at, func(pods []string) string { return prometheus.Everything.Waiting(namespace, pods, window) })
}

// Memory is the most that the cgroups of some pods' containers held over the window, page cache included, in bytes,
// by pod and container; what is not known is missing. The error is usage.ErrSoon, with all that is known, where a pod has
// only now been asked about.
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

// OOMKills returns how many processes of each container the kernel killed within its pod's window, as far as they
// were seen: kills before the first scrape in the window are not counted, since the pod may not have been scraped
// until then.
func (s *Source) OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error) {
	for pod := range windows {
		s.note(namespace, pod)
	}
	return prometheus.AskSince(ctx, windows, at, s.askRange, func(pods []string, window time.Duration) string {
		return prometheus.Everything.Seen(namespace, pods, window)
	})
}

// CPU returns what a container has used on average since a time, in millicores; false where there are no two
// scrapes.
func (s *Source) CPU(ctx context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	most, _ := s.scraper.targets.most()
	cores, known := s.measured(ctx, prometheus.Everything.Used(namespace, pod, container, now.Sub(since)), now, most)
	return recommender.Usage(cores * 1000), known
}

// Busy is the used fraction, 0 to 1, of a node's CPU since a time, by what was scraped; false where there are no two scrapes.
func (s *Source) Busy(ctx context.Context, node string, since, now time.Time) (float64, bool) {
	most := s.scraper.targets.cores(node)
	cores, known := s.measured(ctx, prometheus.Everything.NodeUsage(node, now.Sub(since)), now, most)
	return min(cores/most, 1), known && most > 0
}

// measured cores; false: they were not, or they are more than there can be.
func (s *Source) measured(ctx context.Context, expression string, at time.Time, most float64) (float64, bool) {
	cores, err := s.Value(ctx, expression, at)
	return cores, err == nil && cores >= 0 && cores <= usage.MostOn(most, 0).Cores
}

// note records a question about a pod, and returns for how long the pod has been asked about.
func (s *Source) note(namespace, pod string) time.Duration {
	return s.scraper.asked.about(Pod{namespace, pod}, s.options.Clock.Now())
}

// about some pods, by what only cAdvisor has.
func (s *Source) about(ctx context.Context, namespace string, pods []string, at time.Time, expression func(pods []string) string) (usage.ByContainer, error) {
	for _, pod := range pods {
		s.note(namespace, pod)
	}
	return prometheus.AskPods(ctx, pods, at, s.askRange, expression)
}

const (
	// askedFor is how long a pod is scraped for more after it was last asked about.
	askedFor = 15 * time.Minute
	// knownWithin is how long it takes at most until more is known of such a pod: the next look at the cluster, and two
	// turns of its node, as kubelets measure that often.
	knownWithin = nodesEvery + 2*watchInterval
)

// asked remembers which pods callers have asked about, so that the scraper reads cAdvisor on their nodes. Its zero
// value is ready for use. mutex guards pods. Pods that are not asked about for askedFor are forgotten, which
// bounds its size.
type asked struct {
	mutex sync.Mutex
	// pods that were asked about within askedFor.
	pods map[Pod]asking
}

// asking holds when a pod was first and last asked about. A pause longer than askedFor begins a new first.
type asking struct{ first, last time.Time }

// about records a question about a pod, and returns for how long the pod has been asked about without a pause of
// askedFor.
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

// recently returns the pods that were asked about within askedFor, in no order, and forgets the others.
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
