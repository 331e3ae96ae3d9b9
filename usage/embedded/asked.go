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

// asked remembers which pods have been asked about. Its zero value is ready for use.
type asked struct {
	mutex sync.Mutex
	pods  map[Pod]asking
}

// asking is since when a pod has been asked about without a pause of askedFor, and when last.
type asking struct{ first, last time.Time }

// about a pod; it returns for how long that has been asked for.
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

// recently asked about; the others are forgotten.
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
