package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

// weightLasts is how long an answer is not asked for again: a source knows no better before its next scrape.
const weightLasts = 15 * time.Second

// weights are what pods' containers held lately. They are safe for concurrent use.
type weights struct {
	mutex sync.Mutex
	last  map[types.UID]weight
	swept time.Time
}

type weight struct {
	at   time.Time
	held map[string]recommender.Amount
	// soon: nothing is known, but will be within seconds.
	soon bool
}

// of is the last answer about a pod; false: there is none that still holds.
func (x *weights) of(pod types.UID, now time.Time) (weight, bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	last, ok := x.last[pod]
	return last, ok && !last.old(now)
}

// note an answer, also that nothing is known. Old ones are forgotten.
func (x *weights) note(pod types.UID, answer weight) {
	now := answer.at
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if now.Sub(x.swept) >= weightLasts {
		maps.DeleteFunc(x.last, func(_ types.UID, last weight) bool { return last.old(now) })
		x.swept = now
	}
	if x.last == nil {
		x.last = map[types.UID]weight{}
	}
	x.last[pod] = answer
}

func (w weight) old(now time.Time) bool { return now.Sub(w.at) >= weightLasts }
