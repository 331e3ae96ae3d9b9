package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"attune.io/attune/recommender/backtest"
)

// synthetic is a trace of the project's own: three days of containers of all sizes, steady, daily, bursting and leaking
// ones. It is the same each time.
func synthetic(n int) []backtest.Series {
	rng := rand.New(rand.NewPCG(2026, 11))
	all := make([]backtest.Series, n)
	for i := range all {
		all[i] = container(rng, fmt.Sprintf("container-%d", i))
	}
	return all
}

func container(rng *rand.Rand, name string) backtest.Series {
	const step = 5 * time.Minute
	cores, bytes := math.Exp2(rng.Float64()*9-7), math.Exp2(rng.Float64()*8+23)
	wave, burst, leak := rng.Float64()*0.8, rng.Float64()/50, rng.Float64()*rng.Float64()/500
	s := backtest.Series{ID: name}
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	held := bytes
	for i := range int(72 * time.Hour / step) {
		used := cores * (1 + wave*math.Sin(2*math.Pi*float64(i)/288)) * (0.9 + 0.2*rng.Float64())
		if rng.Float64() < burst {
			used *= 1 + 3*rng.Float64()
		}
		held *= 1 + leak*rng.Float64()
		if rng.IntN(400) == 0 {
			held = bytes // it starts anew
		}
		memory := held * (0.97 + 0.06*rng.Float64())
		if rng.IntN(600) == 0 {
			memory *= 1 + rng.Float64() // such as a large request
		}
		s.Samples = append(s.Samples, backtest.Sample{At: began.Add(time.Duration(i+1) * step).UnixMilli(), Used: [2]float64{used, memory}})
	}
	return s
}
