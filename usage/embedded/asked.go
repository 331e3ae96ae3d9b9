package embedded

import (
	"sync"
	"time"
)

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
