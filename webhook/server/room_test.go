package server

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheOldestArrivingGoesFirst(t *testing.T) {
	r := newRoom(100)
	var dropped []string
	enter := func(name string) *stay { return r.enter(func() { dropped = append(dropped, name) }) }
	answered, old, young := enter("answered"), enter("old"), enter("young")
	assert.True(t, answered.take(20))
	assert.True(t, answered.arrived())
	assert.True(t, old.take(50))
	assert.True(t, young.take(30))

	honest, done := enter("honest"), make(chan bool)
	go func() { done <- honest.take(10) }()
	// The memory is not free before its holder returns it.
	for !old.wasDropped() {
	}
	assert.False(t, old.take(1))
	assert.False(t, old.arrived())
	old.leave()
	assert.True(t, <-done)
	assert.Equal(t, []string{"old"}, dropped)

	assert.False(t, honest.take(90), "not even with all that may go")
	assert.Equal(t, []string{"old", "young", "honest"}, dropped, "the one itself is the last")
	for _, s := range []*stay{answered, young, honest} {
		s.leave()
	}
	assert.EqualValues(t, 100, r.free)
	assert.Zero(t, r.going)
	assert.Zero(t, r.arriving.Len())
}

// TestRoomIsNeverOverdrawn: whatever many reviews do at once, the room is never overdrawn, and full at the end.
func TestRoomIsNeverOverdrawn(t *testing.T) {
	r := newRoom(100)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for j := range 200 {
				s := r.enter(func() {})
				for k := range 4 {
					if !s.take(int64(1 + (i+j+k)%40)) {
						break
					}
					r.mutex.Lock()
					assert.GreaterOrEqual(t, r.free, int64(0))
					r.mutex.Unlock()
				}
				s.arrived()
				s.leave()
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 100, r.free)
	assert.Zero(t, r.going)
}
