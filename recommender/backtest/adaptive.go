package backtest

import (
	"fmt"
	"math"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
)

// Adaptive is this project's strategy Adaptive at a risk. It has bounds of its own on what it changes, so that it has no
// dead band here.
func Adaptive(risk adaptive.Risk) Strategy {
	return Strategy{Name: fmt.Sprintf("adaptive-%g", risk), Exact: true, New: func(Series) Algorithm {
		return &estimated{of: [2]*adaptive.Estimator{adaptive.New(recommender.CPU, risk), adaptive.New(recommender.Memory, risk)}}
	}}
}

type estimated struct {
	of    [2]*adaptive.Estimator
	moves adaptive.Moves
	// promised by the last decision; see Promiser.
	promised [2]float64
}

// Promised implements Promiser. It is that of the pair of rule and margin; the size in force may be more, as it is held for
// a while when less is wanted.
func (e *estimated) Promised() [2]float64 { return e.promised }

// Observe implements Algorithm.
func (e *estimated) Observe(s Sample, _ Size) {
	for r, used := range s.Used {
		e.of[r].Observe(time.UnixMilli(s.At).UTC(), used)
	}
}

// OOM implements Algorithm.
func (e *estimated) OOM(at int64, limit float64) bool {
	e.of[recommender.Memory].Killed(time.UnixMilli(at).UTC(), limit)
	return true
}

// Decide implements Algorithm.
func (e *estimated) Decide(at int64) Size {
	now, size, moved := time.UnixMilli(at).UTC(), nothing, false
	for r := range e.of {
		had := e.of[r].InForce()
		want, choice := e.of[r].Decide(now, &e.moves)
		e.promised[r] = math.NaN()
		if want > 0 {
			size[r], e.promised[r] = math.Max(want, least[r]), choice.Short
			moved = moved || had > 0 && want != had
		}
	}
	if moved {
		e.moves.Moved(now)
	}
	return size
}
