package loops

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/fault"
)

// oneIn is how many mishaps there are to each that is tried; 1: all of them are.
var oneIn = sync.OnceValue(func() uint64 {
	text := cmp.Or(os.Getenv(oneInVariable), "61")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		panic(oneInVariable + "=" + text + ": use a number from 1 on")
	}
	return n
})

func testContext(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// mishap is something that goes wrong at a point.
type mishap struct {
	name string
	// down is how long the operator is away if it is killed.
	down  time.Duration
	times int
	fault func(w *world) fault.Fault
}

func before(w *world) fault.Fault { return fault.Before(w.link.Sever) }
func after(w *world) fault.Fault  { return fault.After(w.link.Sever) }

func always(f fault.Fault) func(*world) fault.Fault { return func(*world) fault.Fault { return f } }

// deaths are the ways to be killed.
var deaths = []mishap{
	{"killed before", 5 * time.Second, 1, before},
	{"killed after", 5 * time.Second, 1, after},
	{"killed before and away for long", 10 * time.Minute, 1, before},
	{"killed after and away for long", 10 * time.Minute, 1, after},
}

// failures are what becomes of a call although nobody dies.
var failures = []mishap{
	{"unsent", 0, 1, always(fault.Unsent)},
	{"answer lost", 0, 1, always(fault.Lost)},
	{"late", 0, 1, func(w *world) fault.Fault { return w.link.Late() }},
	{"slow", 0, 1, func(w *world) fault.Fault {
		return fault.Slow(func() { w.clock.SetTime(w.clock.Now().Add(3 * time.Second)) })
	}},
	{"500", 0, 1, always(fault.Instead(500, -1))},
	{"500 although done", 0, 1, always(fault.Although(500))},
	{"503", 0, 1, always(fault.Instead(503, -1))},
	{"429", 0, 1, always(fault.Instead(429, -1))},
	{"429 come again", 0, 1, always(fault.Instead(429, 0))},
	{"409", 0, 1, always(fault.Instead(409, -1))},
	{"409 five times", 0, 5, always(fault.Instead(409, -1))},
	{"500 five times", 0, 5, always(fault.Instead(500, -1))},
	{"answer lost five times", 0, 5, always(fault.Lost)},
}

// TestKilledEverywhere tells every story with the operator killed before and after every call to the API
// server that it takes, and with every call failing in every way: it ends as it does without.
func TestKilledEverywhere(t *testing.T) {
	eachStory(t, func(t *testing.T, b telling) {
		b.eachPoint(t)
		b.twice(t)
		b.againAndAgain(t)
	})
}

// eachStory is told without trouble first. The log says how they all ended.
func eachStory(t *testing.T, with func(*testing.T, telling)) {
	var tally tally
	t.Cleanup(func() { t.Log(tally.table()) })
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calm := s.tell(t, nil)
			require.ElementsMatch(t, s.results, calm.ending.Results)
			with(t, telling{s, calm, &tally})
		})
	}
}

// telling is a story to be told with trouble.
type telling struct {
	story
	calm  chronicle
	tally *tally
}

// tell has the trouble befall the story; it ends as it should, with no more resizes sent again than times.
func (b telling) tell(t *testing.T, name, what string, times int, befall trouble) {
	t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
		t.Parallel()
		told := b.story.tell(t, befall)
		same(t, b.calm, told, times)
		b.tally.add(b.name, what, told.ending.Results)
	})
}

func (b telling) eachPoint(t *testing.T) {
	for i, at := range pointsOf(b.calm.calls) {
		for _, m := range slices.Concat(deaths, failures) {
			name := fmt.Sprintf("%02d %s %d %s", i+1, at.Kind, at.N, m.name)
			if hash(b.name+name)%oneIn() != 0 {
				continue
			}
			b.tell(t, name, m.name, m.times, func(w *world) {
				w.down = m.down
				w.link.Strike(at, m.times, m.fault(w))
			})
		}
	}
}

// twice kills the operator at one call, and the one that takes its place at another.
func (b telling) twice(t *testing.T) {
	const pairs, seed = 60, 4
	points := pointsOf(b.calm.calls)
	dice := rand.New(rand.NewPCG(seed, hash(b.name)))
	for i := range max(1, pairs/oneIn()) {
		first, second := points[dice.IntN(len(points))], fault.Point{N: 1 + dice.IntN(len(points))}
		one, two := deaths[dice.IntN(len(deaths))], deaths[dice.IntN(len(deaths))]
		name := fmt.Sprintf("twice %02d %s %s %d, %s call %d", i+1, one.name, first.Kind, first.N, two.name, second.N)
		b.tell(t, name, "killed twice", 2, func(w *world) {
			w.down = max(one.down, two.down)
			w.link.Strike(first, 1, one.fault(w))
			w.link.Strike(second, 1, two.fault(w))
		})
	}
}

// againAndAgain lets no operator live longer than for a few calls.
func (b telling) againAndAgain(t *testing.T) {
	const lives, callsEach = 1000, 5
	b.tell(t, "again and again", "killed by every fifth call", lives, func(w *world) {
		w.down = 5 * time.Second
		w.link.Strike(fault.Point{N: 1}, lives*callsEach, everyNth(callsEach, after(w)))
	})
}

// everyNth has a fault strike every n-th call.
func everyNth(n int, f fault.Fault) fault.Fault {
	calls := 0
	return func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if calls++; calls%n == 0 {
			return f(r, send)
		}
		return send()
	}
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// same: the story ended as it does without trouble, and on the way asked for nothing else.
func same(t *testing.T, calm, told chronicle, times int) {
	t.Helper()
	assert.Equal(t, calm.ending, told.ending)
	for size := range told.sizes {
		assert.True(t, calm.sizes[size], "%s is half a change", size)
	}
	for _, patch := range told.patches {
		assert.Contains(t, calm.patches, patch, "another resize")
	}
	assert.LessOrEqual(t, len(told.patches), len(calm.patches)+times, "%s", told.patches)
	// Where the policy allows it (mayEvict), whatever the operator takes for a node's refusal would evict a pod:
	// TestLoopsEvictDeferredPods.
	for _, call := range told.calls {
		assert.NotEqual(t, "eviction", call.Subresource)
		assert.NotEqual(t, "delete", call.Verb, "%s", call)
	}
}

// pointsOf are the points that a story without trouble passes.
func pointsOf(calls []fault.Call) []fault.Point {
	seen := map[string]int{}
	var points []fault.Point
	for _, call := range calls {
		kind := call.Kind()
		seen[kind]++
		points = append(points, fault.Point{Kind: kind, N: seen[kind]})
	}
	return points
}

// tally counts endings.
type tally struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (c *tally) add(story, what string, results []string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[fmt.Sprintf("%-40s %-36s %s", story, what, strings.Join(results, ", "))]++
}

// table is one line for each kind of trouble, and the sum.
func (c *tally) table() string {
	lines, sum := []string{""}, 0
	for what, n := range c.counts {
		lines = append(lines, fmt.Sprintf("%-100s %5d", what, n))
		sum += n
	}
	slices.Sort(lines)
	return strings.Join(append(lines, fmt.Sprintf("%-100s %5d", "all", sum)), "\n")
}
