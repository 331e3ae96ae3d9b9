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
}

type weight struct {
	at   time.Time
	held map[string]recommender.Amount
}

// of answers from memory, or asks.
func (x *weights) of(pod types.UID, now time.Time, ask func() map[string]recommender.Amount) map[string]recommender.Amount {
	old := func(_ types.UID, last weight) bool { return now.Sub(last.at) >= weightLasts }
	x.mutex.Lock()
	maps.DeleteFunc(x.last, old)
	last, ok := x.last[pod]
	x.mutex.Unlock()
	if ok {
		return last.held
	}
	held := ask()
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.last == nil {
		x.last = map[types.UID]weight{}
	}
	x.last[pod] = weight{now, held}
	return held
}
