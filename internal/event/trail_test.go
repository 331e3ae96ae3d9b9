package event

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

var start = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func keyOf(workload string) TrailKey {
	return TrailKey{Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: workload, Container: "app"}
}

func sizes(request recommender.Amount) [2]TrailValues {
	return [2]TrailValues{{Request: request, Target: 200}, {Request: 1 << 30, Limit: 2 << 30, Target: 1 << 30}}
}

// A change is recorded once, with the time at which it was first seen; an OOM kill too.
func TestChanges(t *testing.T) {
	s := NewTrailStore(1 << 20)
	for i, request := range []recommender.Amount{500, 500, 250, 250, 300} {
		s.Note(keyOf("web"), start.Add(time.Duration(i)*time.Minute), sizes(request), []time.Time{start.Add(-time.Hour), start})
	}
	got := s.Of(keyOf("web"))
	at := func(minutes int) int64 { return start.Add(time.Duration(minutes) * time.Minute).UnixMilli() }
	assert.Equal(t, []TrailPoint{{at(0), sizes(500)[0]}, {at(2), sizes(250)[0]}, {at(4), sizes(300)[0]}}, got.Points[recommender.CPU])
	assert.Equal(t, []TrailPoint{{at(0), sizes(0)[1]}}, got.Points[recommender.Memory])
	assert.Equal(t, []int64{at(-60), at(0)}, got.Kills)
	got.Points[0][0].Request = 1
	assert.EqualValues(t, 500, s.Of(keyOf("web")).Points[0][0].Request, "a trail is the reader's own")
	assert.Zero(t, (*TrailStore)(nil).Of(keyOf("web")))
}

// A container with constant changes and OOM kills keeps the newest of both.
func TestBoundOfAContainer(t *testing.T) {
	s := NewTrailStore(1 << 20)
	last := start
	for i := range 1000 {
		last = start.Add(time.Duration(i) * time.Minute)
		s.Note(keyOf("web"), last, sizes(recommender.Amount(1+i)), []time.Time{last})
	}
	got := s.Of(keyOf("web"))
	assert.Len(t, got.Points[recommender.CPU], mostPoints)
	assert.Len(t, got.Kills, mostKills)
	assert.Equal(t, last.UnixMilli(), got.Points[recommender.CPU][mostPoints-1].At)
	assert.Equal(t, last.UnixMilli(), got.Kills[mostKills-1])
	assert.Less(t, s.Bytes(), 8<<10)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Trails that have just grown stay within the counted memory too.
func TestBoundOfGrownTrails(t *testing.T) {
	before := heap()
	s := NewTrailStore(4 << 20)
	for change := range 34 {
		for i := range 2000 {
			s.Note(keyOf(fmt.Sprint(i)), start.Add(time.Duration(change)*time.Minute), sizes(recommender.Amount(1+change)), nil)
		}
	}
	assert.Less(t, heap()-before, uint64(s.Bytes()))
	runtime.KeepAlive(s)
}

// With any number of containers and changes, the store stays within its limit, and no container displaces another one.
func TestBoundOfTrails(t *testing.T) {
	const most = 1 << 20
	before := heap()
	s := NewTrailStore(most)
	s.Note(keyOf("first"), start, sizes(1), nil)
	for round := range 30 {
		at := start.Add(time.Duration(1+round) * time.Minute)
		s.Note(keyOf("first"), at, sizes(1), nil)
		for i := range 3000 {
			s.Note(keyOf(fmt.Sprint(strings.Repeat("long-", 20), i)), at, sizes(recommender.Amount(i+round)), []time.Time{at})
		}
		assert.LessOrEqual(t, s.Bytes(), most)
	}
	assert.Less(t, heap()-before, uint64(most+most/10), "what is counted is what it takes")
	assert.Len(t, s.Of(keyOf("first")).Points[0], 1)
	s.ForgetBefore(start.Add(time.Hour))
	assert.Zero(t, s.Bytes(), "what is gone leaves all of its room")
	runtime.KeepAlive(s)
}
