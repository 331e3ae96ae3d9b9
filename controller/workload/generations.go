package workload

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// generationsLast is how long a generation is remembered: far longer than a working cache is behind.
const generationsLast = 10 * time.Minute

// seenGenerations are the generations of pods as the API server last returned them. The cache may show an
// older one for a moment; a decision on that pod would repeat its last resize. It may be lost: then a
// cache that is behind is believed once. mutex guards of; entries older than generationsLast are removed
// with each note.
type seenGenerations struct {
	mutex sync.Mutex
	of    map[types.UID]shown
}

// shown is the generation of a pod and when the API server returned it.
type shown struct {
	generation int64
	at         time.Time
}

// note remembers a pod as the API server has it. A generation lower than the known one is ignored.
func (x *seenGenerations) note(pod *corev1.Pod, now time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	maps.DeleteFunc(x.of, func(_ types.UID, s shown) bool { return now.Sub(s.at) > generationsLast })
	if x.of == nil {
		x.of = map[types.UID]shown{}
	}
	if pod.Generation >= x.of[pod.UID].generation {
		x.of[pod.UID] = shown{pod.Generation, now}
	}
}

// behind reports whether the cached pod is older than what the API server has already returned; false
// where nothing is known of it.
func (x *seenGenerations) behind(pod *corev1.Pod) bool {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return pod.Generation < x.of[pod.UID].generation
}
