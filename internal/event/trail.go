package event

import (
	"slices"
	"sync"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Limits per container: changes per resource, and OOM kills.
const mostPoints, mostKills = 64, 16

// Estimated memory in bytes: an entry with its key and its share of the maps, a point (also an unused one), a kill.
const entryBytes, pointBytes, killBytes = 512, 40, 8

// morePoints is how many points are allocated at a time. A slice that doubles could take up to twice the counted
// memory.
const morePoints = 8

// TrailKey identifies a container of a workload.
type TrailKey struct {
	Namespace string
	Kind      v1alpha1.WorkloadKind
	Workload  string
	Container string
}

// TrailValues are the values of a resource at a time, in millicores or bytes; 0 means not set. Request and Limit are
// the maxima over the running pods, Target is the request in the recommendation.
type TrailValues struct{ Request, Limit, Target recommender.Amount }

// TrailPoint has the values that apply from a time on, in milliseconds since 1970.
type TrailPoint struct {
	At int64
	TrailValues
}

// Trail is the recorded history of one container. It is a copy: it shares nothing with the TrailStore.
type Trail struct {
	// Points are changes by resource, oldest first. The first point is the start of the trail.
	Points [2][]TrailPoint
	// Kills are the times of OOM kills in milliseconds, oldest first.
	Kills []int64
}

// TrailStore keeps trails. It is safe for concurrent use.
type TrailStore struct {
	most int

	mutex sync.Mutex
	of    map[TrailKey]*trailEntry
	bytes int
}

type trailEntry struct {
	trail Trail
	// seen is when Note last recorded the container, in milliseconds.
	seen int64
}

// NewTrailStore returns a TrailStore with a size limit in bytes.
func NewTrailStore(most int) *TrailStore {
	return &TrailStore{most: most, of: map[TrailKey]*trailEntry{}}
}

// Note records the current values of a container and the OOM kills that its pods show. If the store is full, it does
// not add the container. If there is no room for another change, it drops the oldest change of the same container. A
// container never displaces another one.
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
			*points = []TrailPoint{p} // take above has reserved memory for this point
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

// grow reserves memory for more points; false if there is no room.
func (s *TrailStore) grow(points *[]TrailPoint) bool {
	has := cap(*points)
	next := min(has+morePoints, mostPoints)
	if next == has || !s.take((next-has)*pointBytes) {
		return false
	}
	*points = append(make([]TrailPoint, 0, next), *points...)
	return true
}

// kill records one OOM kill, without duplicates.
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

// take reserves memory; false if there is no room.
func (s *TrailStore) take(bytes int) bool {
	if s.bytes+bytes > s.most {
		return false
	}
	s.bytes += bytes
	return true
}

// ForgetBefore drops the containers that Note has not recorded since a time.
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

// bytes is the size of the key's texts.
func (k TrailKey) bytes() int {
	return len(k.Namespace) + len(k.Kind) + len(k.Workload) + len(k.Container)
}

func (e *trailEntry) bytes() int {
	return entryBytes + pointBytes*(cap(e.trail.Points[0])+cap(e.trail.Points[1])) + killBytes*len(e.trail.Kills)
}

// Of returns a copy of the trail of a container; the zero value if it has no trail or the TrailStore is nil.
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

// Bytes returns the memory that the trails take.
func (s *TrailStore) Bytes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}
