package event

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

// TrailKey names a container of a workload.
type TrailKey struct {
	Namespace string
	Kind      v1alpha1.WorkloadKind
	Workload  string
	Container string
}

// TrailValues are those of a resource at a time, in millicores or bytes; 0: there is none. Request and Limit are the highest among
// the running pods, Target is the request that the recommendation has.
type TrailValues struct{ Request, Limit, Target recommender.Amount }

// TrailPoint is what holds from a time on, in milliseconds since 1970.
type TrailPoint struct {
	At int64
	TrailValues
}

// Trail is what is known of one container. It shares nothing with the TrailStore.
type Trail struct {
	// Points are changes by resource, oldest first. The first one is where the trail begins.
	Points [2][]TrailPoint
	// Kills are the times of OOM kills in milliseconds, oldest first.
	Kills []int64
}

// TrailStore keeps trails. Its methods may be called at the same time.
type TrailStore struct {
	most int

	mutex sync.Mutex
	of    map[TrailKey]*trailEntry
	bytes int
}

type trailEntry struct {
	trail Trail
	// seen is when it was last told of, in milliseconds.
	seen int64
}

// NewTrailStore makes a TrailStore of at most that many bytes.
func NewTrailStore(most int) *TrailStore {
	return &TrailStore{most: most, of: map[TrailKey]*trailEntry{}}
}

// Note tells what a container has now, and which OOM kills its pods show. A container for which there is no room is not kept;
// where there is room for no more changes, the oldest one of the same container makes it. No container takes the room of others.
func (s *TrailStore) Note(key TrailKey, at time.Time, now [2]TrailValues, kills []time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e, known := s.of[key], false
	if known = e != nil; !known {
		if !s.take(entryBytes + key.bytes() + 2*pointBytes) {
			return
		}
		e = &trailEntry{}
		s.of[key] = e
	}
	e.seen = at.UnixMilli()
	for r := range now {
		points := &e.trail.Points[r]
		p := TrailPoint{e.seen, now[r]}
		switch last := len(*points) - 1; {
		case !known:
			*points = []TrailPoint{p} // its room, for one, was taken with the entry's
		case (*points)[last].TrailValues == p.TrailValues:
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
func (s *TrailStore) grow(points *[]TrailPoint) bool {
	has := cap(*points)
	next := min(has+morePoints, mostPoints)
	if next == has || !s.take((next-has)*pointBytes) {
		return false
	}
	*points = append(make([]TrailPoint, 0, next), *points...)
	return true
}

// kill notes one OOM kill, once.
func (s *TrailStore) kill(e *trailEntry, at int64) {
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
func (s *TrailStore) take(bytes int) bool {
	if s.bytes+bytes > s.most {
		return false
	}
	s.bytes += bytes
	return true
}

// ForgetBefore drops the containers that were not told of since a time.
func (s *TrailStore) ForgetBefore(at time.Time) {
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
func (k TrailKey) bytes() int {
	return len(k.Namespace) + len(k.Kind) + len(k.Workload) + len(k.Container)
}

func (e *trailEntry) bytes() int {
	return entryBytes + pointBytes*(cap(e.trail.Points[0])+cap(e.trail.Points[1])) + killBytes*len(e.trail.Kills)
}

// Of returns the trail of a container; the zero value where none is kept. A nil TrailStore keeps none.
func (s *TrailStore) Of(key TrailKey) Trail {
	if s == nil {
		return Trail{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.of[key]
	if e == nil {
		return Trail{}
	}
	return Trail{Points: [2][]TrailPoint{slices.Clone(e.trail.Points[0]), slices.Clone(e.trail.Points[1])}, Kills: slices.Clone(e.trail.Kills)}
}

// Bytes is what the trails take.
func (s *TrailStore) Bytes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}
