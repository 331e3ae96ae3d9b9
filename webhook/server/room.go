package server

import (
	"container/list"
	"sync"
)

// room is the memory that reviews in flight share. Where it is used up, the review that has been arriving for the
// longest time is dropped. An API server sends a review at once, so its reviews are the oldest only for a moment;
// a client that sends slowly cannot keep others out.
//
// mutex guards all fields but all, and those of every stay. At any time free plus what all stays hold equals all.
type room struct {
	// all is the whole memory in bytes, free what is not reserved.
	all   int64
	mutex sync.Mutex
	free  int64
	// going is what dropped reviews still hold. It becomes free soon, as their reads have been made to fail.
	going int64
	// arriving lists the stays whose review is not complete, the oldest first.
	arriving list.List
	// left is signalled when memory is returned or a review is dropped; its lock is mutex.
	left *sync.Cond
}

func newRoom(bytes int64) *room {
	r := &room{all: bytes, free: bytes}
	r.left = sync.NewCond(&r.mutex)
	return r
}

// stay is the share of one review in the room, from enter to leave.
type stay struct {
	room *room
	held int64
	// drop makes the reading of the review fail at once. It is called with the room locked, and never after leave.
	drop func()
	// at is the place in arriving; nil: the review is complete, or was dropped.
	at      *list.Element
	dropped bool
}

// enter adds a review at the end of those arriving. It reserves nothing.
func (r *room) enter(drop func()) *stay {
	s := &stay{room: r, drop: drop}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s.at = r.arriving.PushBack(s)
	return s
}

// take reserves memory and returns true. It drops older reviews as long as too little is free, and waits only for
// dropped ones, whose reads have failed by then. It returns false where the room is too small even so, and where
// this review was dropped itself.
func (s *stay) take(bytes int64) bool {
	r := s.room
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for !s.dropped && r.free < bytes {
		if r.free+r.going >= bytes {
			r.left.Wait()
			continue
		}
		oldest := r.arriving.Front()
		if oldest == nil {
			return false
		}
		oldest.Value.(*stay).dropIt()
	}
	if s.dropped {
		return false
	}
	r.free -= bytes
	s.held += bytes
	return true
}

// dropIt drops the review. The room is locked by the caller.
func (s *stay) dropIt() {
	s.room.arriving.Remove(s.at)
	s.at, s.dropped = nil, true
	s.room.going += s.held
	s.drop()
	s.room.left.Broadcast() // it may be waiting itself
}

// give returns a part of what was taken.
func (s *stay) give(bytes int64) {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.gives(bytes)
}

// gives returns memory; the room is locked by the caller.
func (s *stay) gives(bytes int64) {
	s.held -= bytes
	s.room.free += bytes
	if s.dropped {
		s.room.going -= bytes
	}
	s.room.left.Broadcast()
}

// arrived marks the review as complete: from then on it is not dropped. It returns false where it was dropped
// before.
func (s *stay) arrived() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	return !s.dropped
}

// leave returns everything that the review holds.
func (s *stay) leave() {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	s.gives(s.held)
}

// stays takes the review off the list of those that can be dropped. The room is locked by the caller.
func (s *stay) stays() {
	if s.at != nil {
		s.room.arriving.Remove(s.at)
		s.at = nil
	}
}

// wasDropped reports whether the review was dropped because others needed the room.
func (s *stay) wasDropped() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	return s.dropped
}
