package ui

import (
	"context"
	"sync"
	"time"
)

const (
	// addedWithin is how long the savings of all workloads may take to be added up, with the wait for others. A workload of three
	// pods takes some 25 µs beside reading it.
	addedWithin = 6 * time.Second
	// addedFor is how long a page of savings is shown again.
	addedFor = 15 * time.Second
	// mostAdding is how many requests add up or wait: others than savings are to be answered meanwhile.
	mostAdding = 2
)

// additions has pages of savings made one at a time, and keeps the last one for addedFor: viewers in a loop cost one
// processor at most, and on one page next to nothing.
type additions struct {
	// places are those of the requests that add up or wait, and turn is that of the one that adds up.
	places, turn chan struct{}

	// mutex guards what follows: the page that was made last, whose it is, and when.
	mutex sync.Mutex
	path  string
	page  int
	last  savedPage
	made  time.Time
}

func newAdditions() *additions {
	return &additions{places: make(chan struct{}, mostAdding), turn: make(chan struct{}, 1)}
}

// begin waits for the turn, which is had at once where nobody else has it. false: too many wait already, or the context ended
// before.
func (a *additions) begin(ctx context.Context) bool {
	select {
	case a.places <- struct{}{}:
	default:
		return false
	}
	select {
	case a.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case a.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		<-a.places
		return false
	}
}

// end gives the turn to the next.
func (a *additions) end() { <-a.turn; <-a.places }

// known is the page of a path, if it is the last one and not too old.
func (a *additions) known(path string, page int) (savedPage, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.last, a.path == path && a.page == page && time.Since(a.made) < addedFor
}

// keep a page that was made now.
func (a *additions) keep(path string, page int, made savedPage) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.path, a.page, a.last, a.made = path, page, made, time.Now()
}
