package server

import (
	"container/list"
	"sync"
)

// room is the memory that reviews in flight share. Where there is too little, the review goes that has been arriving
// for longest: an API server sends one at once, so it is never the oldest for long, and whoever sends slowly keeps
// nobody out.
type room struct {
	// all is what there is.
	all   int64
	mutex sync.Mutex
	free  int64
	// going is what reviews hold that were dropped and have not let go of it.
	going int64
	// arriving are stays whose review is not all here, the oldest first.
	arriving list.List
	left     *sync.Cond
}

func newRoom(bytes int64) *room {
	r := &room{all: bytes, free: bytes}
	r.left = sync.NewCond(&r.mutex)
	return r
}

// stay is one review's part of the room.
type stay struct {
	room *room
	held int64
	// drop has the reading of the review fail at once. It is called with the room locked, and never after leave.
	drop func()
	// at is the place among those arriving; nil: it is all here, or was dropped.
	at      *list.Element
	dropped bool
}

func (r *room) enter(drop func()) *stay {
	s := &stay{room: r, drop: drop}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s.at = r.arriving.PushBack(s)
	return s
}

// take reserves more. It fails where there is no room, even without the reviews that have been arriving for longer,
// and where this one had to go. It waits for nobody but those who are dropped, whose reading has failed by then.
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

// dropIt is called with the room locked.
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

func (s *stay) gives(bytes int64) {
	s.held -= bytes
	s.room.free += bytes
	if s.dropped {
		s.room.going -= bytes
	}
	s.room.left.Broadcast()
}

// arrived: the review is all here, and is not dropped any more. It is false where it was dropped.
func (s *stay) arrived() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	return !s.dropped
}

// leave gives everything back.
func (s *stay) leave() {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	s.stays()
	s.gives(s.held)
}

// stays: it is not among those that are dropped for others any more.
func (s *stay) stays() {
	if s.at != nil {
		s.room.arriving.Remove(s.at)
		s.at = nil
	}
}

// wasDropped: others needed the room.
func (s *stay) wasDropped() bool {
	s.room.mutex.Lock()
	defer s.room.mutex.Unlock()
	return s.dropped
}
