package ui

import (
	"context"
	"time"
)

const (
	// addedWithin is how long the savings of all workloads may take to be added up, with the wait for others. A workload of three
	// pods takes some 25 µs beside reading it.
	addedWithin = 6 * time.Second
	// addedFor is how long a page of savings is shown again.
	addedFor = 15 * time.Second
)

// additions has pages of savings made one at a time, and keeps the last one for addedFor: viewers in a loop cost one
// processor at most, and on one page next to nothing. Only who has the turn uses the other fields.
type additions struct {
	turn chan struct{}
	// path and page are those of last, which was made at a time.
	path string
	page int
	last savedPage
	made time.Time
}

func newAdditions() *additions { return &additions{turn: make(chan struct{}, 1)} }

// begin waits for the turn, which is had at once where nobody else has it. false: the context ended before.
func (a *additions) begin(ctx context.Context) bool {
	select {
	case a.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case a.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// end gives the turn to the next.
func (a *additions) end() { <-a.turn }

// known is the page of a path, if it is the last one and not too old.
func (a *additions) known(path string, page int) (savedPage, bool) {
	return a.last, a.path == path && a.page == page && time.Since(a.made) < addedFor
}

// keep a page that was made now.
func (a *additions) keep(path string, page int, made savedPage) {
	a.path, a.page, a.last, a.made = path, page, made, time.Now()
}
