package workload

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// generationsLast is far longer than a cache is ever behind while it is in step at all.
const generationsLast = 10 * time.Minute

// seenGenerations are the generations of pods as the API server last showed them. They may be lost: then a cache that is behind
// is believed. They are safe for concurrent use.
type seenGenerations struct {
	mutex sync.Mutex
	of    map[types.UID]shown
}

type shown struct {
	generation int64
	at         time.Time
}

// note a pod as the API server has it.
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

// behind: the pod as the cache has it is older than it was shown already.
func (x *seenGenerations) behind(pod *corev1.Pod) bool {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return pod.Generation < x.of[pod.UID].generation
}
