package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

// memoryLasts is how long an answer is not asked for again: a source knows no better before its next scrape.
const memoryLasts = 15 * time.Second

// memoryHeld are what pods' containers held lately. They are safe for concurrent use.
type memoryHeld struct {
	mutex sync.Mutex
	last  map[types.UID]heldAt
	swept time.Time
}

type heldAt struct {
	at   time.Time
	held map[string]recommender.Amount
	// soon: nothing is known, but will be within seconds.
	soon bool
}

// of is the last answer about a pod; false: there is none that still holds.
func (x *memoryHeld) of(pod types.UID, now time.Time) (heldAt, bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	last, ok := x.last[pod]
	return last, ok && !last.old(now)
}

// note an answer, also that nothing is known. Old ones are forgotten.
func (x *memoryHeld) note(pod types.UID, answer heldAt) {
	now := answer.at
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if now.Sub(x.swept) >= memoryLasts {
		maps.DeleteFunc(x.last, func(_ types.UID, last heldAt) bool { return last.old(now) })
		x.swept = now
	}
	if x.last == nil {
		x.last = map[types.UID]heldAt{}
	}
	x.last[pod] = answer
}

func (w heldAt) old(now time.Time) bool { return now.Sub(w.at) >= memoryLasts }
