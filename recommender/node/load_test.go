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

func TestLoadSignals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sample LoadSample
		signal Signal
		ratio  float64
	}{
		{"pressure is the best", LoadSample{0.05, 8, 4, 3, 4}, Pressure, 0.05},
		{"then the load average", LoadSample{missing, 8, 4, 3, 4}, LoadAverage, 2},
		{"of a node whose size is known", LoadSample{missing, 8, 0, 3, 4}, Busy, 0.75},
		{"then usage", LoadSample{missing, missing, 4, 3, 4}, Busy, 0.75},
		{"no pressure is a measurement", LoadSample{0, 8, 4, 3, 4}, Pressure, 0},
		{"a negative one is none", LoadSample{-1, missing, 4, 3, 4}, Busy, 0.75},
		{"nothing", LoadSample{missing, missing, missing, missing, missing}, NoSignal, missing},
		{"nothing can be made of it", LoadSample{missing, 0, 0, 1, 0}, NoSignal, missing},
	} {
		signal, ratio := tc.sample.Load()
		assert.Equal(t, tc.signal, signal, tc.name)
		if math.IsNaN(tc.ratio) {
			assert.True(t, math.IsNaN(ratio), tc.name)
		} else {
			assert.Equal(t, tc.ratio, ratio, tc.name)
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
		ratio float64
		want  bool
	}
	const s = time.Second
	for _, tc := range []struct {
		name   string
		signal Signal
		seen   []seen
	}{
		{"2 minutes above", LoadAverage, []seen{{0, 1.1, false}, {60 * s, 1.1, false}, {119 * s, 1.1, false}, {120 * s, 1.1, true}}},
		{"the threshold itself is not above", LoadAverage, []seen{{0, 1, false}, {60 * s, 1, false}, {120 * s, 1, false}, {180 * s, 1, false}}},
		{"usage: 0.95", Busy, []seen{{0, 0.96, false}, {60 * s, 0.96, false}, {120 * s, 0.96, true}}},
		{"usage: below", Busy, []seen{{0, 0.94, false}, {60 * s, 0.94, false}, {120 * s, 0.94, false}}},
		{"pressure: 10 %", Pressure, []seen{{0, 0.11, false}, {60 * s, 0.11, false}, {120 * s, 0.11, true}}},
		{"pressure: below", Pressure, []seen{{0, 0.09, false}, {60 * s, 0.09, false}, {120 * s, 0.09, false}}},
		{"a dip starts again", LoadAverage, []seen{{0, 2, false}, {60 * s, 0.99, false}, {120 * s, 2, false}, {180 * s, 2, false}, {240 * s, 2, true}}},
		{"back after 2 minutes below 0.9", LoadAverage, []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.89, true}, {240 * s, 0.89, true}, {300 * s, 0.89, false}}},
		{"0.9 is not below", LoadAverage, []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.9, true}, {240 * s, 0.95, true}, {300 * s, 0.9, true}}},
		{"a rise on the way back starts again", LoadAverage, []seen{
			{0, 2, false}, {60 * s, 2, false}, {120 * s, 2, true}, {180 * s, 0.5, true}, {240 * s, 0.95, true}, {300 * s, 0.5, true}, {360 * s, 0.5, true}, {420 * s, 0.5, false}}},
		{"missing data changes nothing", LoadAverage, []seen{
			{0, 2, false}, {60 * s, missing, false}, {110 * s, 2, false}, {120 * s, missing, false}, {130 * s, 2, true}, {600 * s, missing, true}, {9000 * s, missing, true}}},
		{"two sights far apart are not 2 minutes", LoadAverage, []seen{{0, 2, false}, {120 * s, 2, false}, {180 * s, 2, false}, {240 * s, 2, true}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var state LoadState
			for _, see := range tc.seen {
				signal := tc.signal
				if math.IsNaN(see.ratio) {
					signal = NoSignal
				}
				state = state.Next(signal, see.ratio, noon.Add(see.after))
				assert.Equal(t, see.want, state.Overloaded, "after %v", see.after)
			}
		})
	}
}

// What a node is judged by may change in between.
func TestLoadChangesItsSignal(t *testing.T) {
	state := LoadState{}.Next(Pressure, 0.2, noon).Next(Busy, 0.96, noon.Add(time.Minute)).Next(LoadAverage, 1.5, noon.Add(2*time.Minute))
	assert.True(t, state.Overloaded)
	assert.Equal(t, 1.5, state.Severity)
}

func TestTaints(t *testing.T) {
	cluster := func(size int, over ...LoadedNode) []LoadedNode {
		for i := len(over); i < size; i++ {
			over = append(over, LoadedNode{Name: fmt.Sprintf("well-%d", i)})
		}
		return over
	}
	overloaded := func(name string, severity float64, tainted bool) LoadedNode {
		return LoadedNode{Name: name, LoadState: LoadState{Overloaded: true, Severity: severity}, Tainted: tainted}
	}
	a, b, c := overloaded("a", 1.2, false), overloaded("b", 1.5, false), overloaded("c", 1.1, true)
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
		{"who is well again loses it", cluster(9, LoadedNode{Name: "a", Tainted: true}), nil},
	} {
		assert.Equal(t, tc.want, Taints(tc.nodes), tc.name)
	}
}
