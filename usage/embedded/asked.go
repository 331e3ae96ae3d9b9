package embedded

import (
	"sync"
	"time"
)

// askedFor is how long a pod that somebody has asked about is scraped for more.
const askedFor = 15 * time.Minute

// asked remembers which pods somebody has asked about. Its zero value is ready for use.
type asked struct {
	mutex sync.Mutex
	last  map[Pod]time.Time
}

func (a *asked) about(pod Pod, now time.Time) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.last == nil {
		a.last = map[Pod]time.Time{}
	}
	a.last[pod] = now
}

// recently asked about; the others are forgotten.
func (a *asked) recently(now time.Time) []Pod {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var pods []Pod
	for pod, at := range a.last {
		if now.Sub(at) > askedFor {
			delete(a.last, pod)
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}
