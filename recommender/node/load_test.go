package node_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender/node"
)

var missing = math.NaN()

// A load of 1 is the threshold for every signal.
func TestLoadSignals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sample LoadSample
		load   float64
	}{
		{"pressure and use", LoadSample{0.2, 8, 4, 3.2, 4}, 1},
		{"pressure on an idle node", LoadSample{0.9, 8, 4, 0.2, 4}, 0.0625},
		{"use that nobody waits for", LoadSample{0.05, 8, 4, 4, 4}, 0.5},
		{"no pressure is a measurement", LoadSample{0, 8, 4, 4, 4}, 0},
		{"no use is one too", LoadSample{0.9, 8, 4, 0, 4}, 0},
		{"pressure alone says nothing, and nothing takes the place of usage", LoadSample{0.9, 8, 4, missing, 4}, missing},
		{"nor does no pressure", LoadSample{0, 8, 4, missing, 4}, missing},
		{"nor pressure where the node's size is not known", LoadSample{0.9, 8, 4, 3, 0}, missing},
		{"of usage that cannot be", LoadSample{0.9, 8, 4, -3, 4}, missing},
		{"without pressure the load average", LoadSample{missing, 8, 4, 3, 4}, 2},
		{"of a node whose size is known", LoadSample{missing, 8, 0, 3.8, 4}, 1},
		{"then usage", LoadSample{missing, missing, 4, 3.8, 4}, 1},
		{"a negative pressure is none", LoadSample{-1, missing, 4, 3.8, 4}, 1},
		{"nor an endless one", LoadSample{math.Inf(1), 8, 4, 3.8, 4}, 2},
		{"nothing", LoadSample{missing, missing, missing, missing, missing}, missing},
		{"nothing can be made of it", LoadSample{missing, 0, 0, 1, 0}, missing},
	} {
		if got := tc.sample.Load(); math.IsNaN(tc.load) {
			assert.True(t, math.IsNaN(got), "%s: %v", tc.name, got)
		} else {
			assert.InDelta(t, tc.load, got, 1e-9, tc.name)
		}
	}
}

func TestInUse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sample LoadSample
		want   float64
	}{
		{"usage, of all there is", LoadSample{0.5, 8, 4, 3, 3.5}, 0.75},
		{"else the load average", LoadSample{0.5, 3, 4, missing, 3.5}, 0.75},
		{"pressure says nothing of it", LoadSample{0.5, missing, 4, missing, 3.5}, missing},
		{"a node whose size is not known", LoadSample{missing, 3, 0, 3, 0}, missing},
	} {
		if got := tc.sample.InUse(); math.IsNaN(tc.want) {
			assert.True(t, math.IsNaN(got), tc.name)
		} else {
			assert.Equal(t, tc.want, got, tc.name)
		}
	}
}

func TestLoadTurns(t *testing.T) {
	type seen struct {
		after time.Duration
		load  float64
		want  bool
	}
	const s = time.Second
	for _, tc := range []struct {
		name string
		seen []seen
	}{
		{"2 minutes above", []seen{{0, 1.1, false}, {60 * s, 1.1, false}, {119 * s, 1.1, false}, {120 * s, 1.1, true}}},
		{"the threshold itself is not above", []seen{{0, 1, false}, {60 * s, 1, false}, {120 * s, 1, false}, {180 * s, 1, false}}},
		{"a dip starts again", []seen{{0, 2, false}, {60 * s, 0.99, false}, {120 * s, 2, false}, {180 * s, 2, false}, {240 * s, 2, true}}},
		{"back after 2 minutes below 0.9", []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.89, true}, {240 * s, 0.89, true}, {300 * s, 0.89, false}}},
		{"0.9 is not below", []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.9, true}, {240 * s, 0.95, true}, {300 * s, 0.9, true}}},
		{"a rise on the way back starts again", []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.5, true}, {240 * s, 0.95, true}, {300 * s, 0.5, true}, {360 * s, 0.5, true}, {420 * s, 0.5, false}}},
		{"missing data changes nothing", []seen{
			{0, 2, false}, {60 * s, missing, false}, {110 * s, 2, false}, {120 * s, missing, false}, {130 * s, 2, true}, {600 * s, missing, true}, {9000 * s, missing, true}}},
		{"two sights far apart are not 2 minutes", []seen{{0, 2, false}, {120 * s, 2, false}, {180 * s, 2, false}, {240 * s, 2, true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var state LoadState
			for _, see := range tc.seen {
				state = state.Next(see.load, noon.Add(see.after))
				assert.Equal(t, see.want, state.Overloaded, "after %v", see.after)
			}
		})
	}
}

// The signal of a node may change in between.
func TestLoadChangesItsSignal(t *testing.T) {
	var state LoadState
	for i, sample := range []LoadSample{{0.2, missing, 4, 4, 4}, {missing, missing, 4, 4, 4}, {missing, 6, 4, missing, 4}} {
		state = state.Next(sample.Load(), noon.Add(time.Duration(i)*time.Minute))
	}
	assert.True(t, state.Overloaded)
	assert.Equal(t, 1.5, state.Load)
}

func TestTaints(t *testing.T) {
	cluster := func(size int, over ...LoadedNode) []LoadedNode {
		for i := len(over); i < size; i++ {
			over = append(over, LoadedNode{Name: fmt.Sprintf("well-%d", i), Open: true, Measured: true})
		}
		return over
	}
	overloaded := func(name string, load float64, tainted bool) LoadedNode {
		return LoadedNode{Name: name, LoadState: LoadState{Overloaded: true, Load: load}, Tainted: tainted, Open: true, Measured: true}
	}
	a, b, c := overloaded("a", 1.2, false), overloaded("b", 1.5, false), overloaded("c", 1.1, true)
	closed := func(n LoadedNode) LoadedNode { n.Open = false; return n }
	unknown := func(n LoadedNode) LoadedNode { n.Measured = false; return n }
	for _, tc := range []struct {
		name  string
		nodes []LoadedNode
		want  []string
	}{
		{"none", cluster(9), nil},
		{"all that are overloaded", cluster(9, b, a), []string{"a", "b"}},
		{"a third", cluster(8, a, b, c), []string{"b", "c"}},
		{"who has it keeps it", cluster(5, a, b, c), []string{"c"}},
		{"else the most overloaded", cluster(5, a, b), []string{"b"}},
		{"of equal ones by name", cluster(3, overloaded("z", 2, false), overloaded("y", 2, false)), []string{"y"}},
		{"one of two", cluster(2, a, b), []string{"b"}},
		{"never the only one", cluster(1, a), nil},
		{"who is well again loses it", cluster(9, LoadedNode{Name: "a", Tainted: true, Open: true}), nil},
		{"closed or not", cluster(9, LoadedNode{Name: "a", Tainted: true}), nil},
		{"who is closed is not tainted", cluster(9, closed(a), b), []string{"b"}},
		{"but keeps it", cluster(9, closed(c), b), []string{"b", "c"}},
		{"and is not among the third", cluster(4, closed(c), a, b), []string{"b", "c"}},
		{"of the open ones", cluster(5, closed(c), closed(a), b), []string{"b", "c"}},
		{"of no open ones", cluster(3, closed(a), closed(b), closed(c)), []string{"c"}},
		{"missing data taints nobody", cluster(9, unknown(b), a), []string{"a"}},
		{"and takes it away from nobody", cluster(9, unknown(c), closed(unknown(overloaded("d", 1, true)))), []string{"c", "d"}},
	} {
		assert.Equal(t, tc.want, Taints(tc.nodes), tc.name)
	}
}
