package recommender_test

import (
	"math/rand/v2"
	"testing"
	"time"

	. "attune.io/attune/recommender"
)

// week is seven days in steps of five minutes, with a burst, so that every rule applies.
func week() Input {
	rng := rand.New(rand.NewPCG(13, 14))
	steps := flat(2016, 0.2, 5e8)
	for i := range steps {
		steps[i].CPUCores *= rng.Float64()
		steps[i].MemoryBytes *= 1 + rng.Float64()
	}
	steps[1000].CPUCores = 2
	in := input(steps)
	in.Original = Size{{Request: 500, Limit: 1000}, {Request: 512 * mi, Limit: 1024 * mi}}
	return in
}

func BenchmarkRecommend(b *testing.B) {
	in := week()
	b.Run("trace", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Recommend(in)
		}
	})
	b.Run("target", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Target(in)
		}
	})
}

func BenchmarkNextStep(b *testing.B) {
	in := week()
	m := Move{Target: Target(in).Target, Live: in.Original, Original: in.Original, Settings: in.Settings}
	b.ReportAllocs()
	for b.Loop() {
		NextStep(m)
	}
}

func BenchmarkNewProfile(b *testing.B) {
	steps := randomSteps(rand.New(rand.NewPCG(15, 16)), 5*time.Minute)
	for len(steps) < 2016 {
		steps = append(steps, steps...)
	}
	steps = steps[:2016]
	b.ReportAllocs()
	for b.Loop() {
		NewProfile(steps, 5*time.Minute)
	}
}
