package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

// memoryLasts is how long an answer is used again: a source knows nothing newer before its next scrape.
const memoryLasts = 15 * time.Second

// memoryHeld is what the containers of pods held lately, in bytes. It may be lost: then a source is asked
// once more. mutex guards all fields; swept is when old answers were removed last, so that a note costs
// little.
type memoryHeld struct {
	mutex sync.Mutex
	last  map[types.UID]heldAt
	swept time.Time
}

// heldAt is one answer about a pod, also "nothing is known".
type heldAt struct {
	at   time.Time
	held map[string]recommender.Amount
	// soon: nothing is known, but will be within seconds.
	soon bool
}

// of returns the last answer about a pod; false: there is none, or it is too old.
func (x *memoryHeld) of(pod types.UID, now time.Time) (heldAt, bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	last, ok := x.last[pod]
	return last, ok && !last.old(now)
}

// note remembers an answer, also that nothing is known: otherwise each pass would ask a source again that
// has no data. Old answers are removed.
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

// old reports whether an answer has to be asked for again.
func (w heldAt) old(now time.Time) bool { return now.Sub(w.at) >= memoryLasts }
