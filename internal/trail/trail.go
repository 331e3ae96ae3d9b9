// Package trail keeps what containers had and were to have over time, within a bound, for the charts of the web page: objects
// hold only what is now. It is lost with the process. The package is pure.
//
// Store.Note is told what is now, container after container; Store.Of returns what it has been told of one. Start reading there.
package trail

import (
	"slices"
	"sync"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Bounds of one container: changes of a resource, and OOM kills.
const mostPoints, mostKills = 64, 16

// What is kept takes in memory, in bytes: an entry with its key and its maps' part, a point or the room for one, a kill.
const entryBytes, pointBytes, killBytes = 512, 40, 8

// morePoints are those for which room is taken at a time. An array that doubles would take up to twice what is counted.
const morePoints = 8

// Key names a container of a workload.
type Key struct {
	Namespace string
	Kind      v1alpha1.WorkloadKind
	Workload  string
	Container string
}

// Values are those of a resource at a time, in millicores or bytes; 0: there is none. Request and Limit are the highest among
// the running pods, Target is the request that the recommendation has.
type Values struct{ Request, Limit, Target recommender.Amount }

// Point is what holds from a time on, in milliseconds since 1970.
type Point struct {
	At int64
	Values
}

// Trail is what is known of one container. It shares nothing with the Store.
type Trail struct {
	// Points are changes by resource, oldest first. The first one is where the trail begins.
	Points [2][]Point
	// Kills are the times of OOM kills in milliseconds, oldest first.
	Kills []int64
}

// Store keeps trails. Its methods may be called at the same time.
type Store struct {
	most int

	mutex sync.Mutex
	of    map[Key]*entry
	bytes int
}

type entry struct {
	trail Trail
	// seen is when it was last told of, in milliseconds.
	seen int64
}

// New makes a Store of at most that many bytes.
func New(most int) *Store { return &Store{most: most, of: map[Key]*entry{}} }

// Note tells what a container has now, and which OOM kills its pods show. A container for which there is no room is not kept;
// where there is room for no more changes, the oldest one of the same container makes it. No container takes the room of others.
func (s *Store) Note(key Key, at time.Time, now [2]Values, kills []time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e, known := s.of[key], false
	if known = e != nil; !known {
		if !s.take(entryBytes + key.bytes() + 2*pointBytes) {
			return
		}
		e = &entry{}
		s.of[key] = e
	}
	e.seen = at.UnixMilli()
	for r := range now {
		points := &e.trail.Points[r]
		p := Point{e.seen, now[r]}
		switch last := len(*points) - 1; {
		case !known:
			*points = []Point{p} // its room, for one, was taken with the entry's
		case (*points)[last].Values == p.Values:
		case last+1 < cap(*points) || s.grow(points):
			*points = append(*points, p)
		default:
			copy(*points, (*points)[1:])
			(*points)[last] = p
		}
	}
	for _, kill := range kills {
		s.kill(e, kill.UnixMilli())
	}
}

// grow makes room for more points; false: there is none.
func (s *Store) grow(points *[]Point) bool {
	has := cap(*points)
	next := min(has+morePoints, mostPoints)
	if next == has || !s.take((next-has)*pointBytes) {
		return false
	}
	*points = append(make([]Point, 0, next), *points...)
	return true
}

// kill notes one OOM kill, once.
func (s *Store) kill(e *entry, at int64) {
	kills := &e.trail.Kills
	place, known := slices.BinarySearch(*kills, at)
	switch {
	case known:
	case len(*kills) < mostKills && s.take(killBytes):
		*kills = slices.Insert(*kills, place, at)
	case place > 0:
		*kills = slices.Delete(slices.Insert(*kills, place, at), 0, 1)
	}
}

// take room; false: there is none.
func (s *Store) take(bytes int) bool {
	if s.bytes+bytes > s.most {
		return false
	}
	s.bytes += bytes
	return true
}

// ForgetBefore drops the containers that were not told of since a time.
func (s *Store) ForgetBefore(at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key, e := range s.of {
		if e.seen < at.UnixMilli() {
			s.bytes -= e.bytes() + key.bytes()
			delete(s.of, key)
		}
	}
}

// bytes of the key's texts.
func (k Key) bytes() int { return len(k.Namespace) + len(k.Kind) + len(k.Workload) + len(k.Container) }

func (e *entry) bytes() int {
	return entryBytes + pointBytes*(cap(e.trail.Points[0])+cap(e.trail.Points[1])) + killBytes*len(e.trail.Kills)
}

// Of returns the trail of a container; the zero value where none is kept. A nil Store keeps none.
func (s *Store) Of(key Key) Trail {
	if s == nil {
		return Trail{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.of[key]
	if e == nil {
		return Trail{}
	}
	return Trail{Points: [2][]Point{slices.Clone(e.trail.Points[0]), slices.Clone(e.trail.Points[1])}, Kills: slices.Clone(e.trail.Kills)}
}

// Bytes is what the trails take.
func (s *Store) Bytes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}
