package replicas

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender/replicas"
)

var fleets = flag.Int("fleets", 100_000, "how many random fleets, and waves over fleets, upstream judges")

// TestDesiredIsUpstreams: the formula asks for what upstream asks for, with pods in each phase.
func TestDesiredIsUpstreams(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	scaled, stayed, differ := 0, 0, 0
	for n := range *fleets {
		s := anyScaler(dice)
		r := pick(dice, corev1.ResourceCPU, corev1.ResourceMemory)
		u, f, request := anyFleet(dice, s, r)
		want, got := u.desired(s, f.Current, r), s.Desired(f, request)
		if want == f.Current {
			stayed++
		} else {
			scaled++
		}
		if want != got {
			if differ++; differ < 10 {
				assert.Equal(t, want, got, "fleet %d: %+v %+v, request %v, %s", n, s, f, request, r)
			}
		}
	}
	t.Logf("%d fleets were scaled, %d stayed", scaled, stayed)
	assert.Zero(t, differ)
	assert.Greater(t, scaled, *fleets/5)
	assert.Greater(t, stayed, *fleets/5)
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

func anyScaler(dice *rand.Rand) replicas.Scaler {
	s := replicas.Scaler{Min: 1 + int32(dice.IntN(5)), Target: pick(dice, 1, 50, 60, 70, 75, 80, 100, 101, 150, 300, 1+int32(dice.IntN(200)))}
	s.Max = s.Min + int32(dice.IntN(20))
	s.Up = pick(dice, replicas.DefaultTolerance, replicas.DefaultTolerance, 0, 0.05, dice.Float64()/2)
	s.Down = pick(dice, replicas.DefaultTolerance, s.Up, 0, 0.05, dice.Float64()/2)
	return s
}

// anyFleet is a fleet as upstream sees it and as attune does. Pods have different sizes where only those with a usage count.
func anyFleet(dice *rand.Rand, s replicas.Scaler, r corev1.ResourceName) (u *upstream, f replicas.Fleet, request float64) {
	u = &upstream{}
	unit := int64(1) // of upstream's integers in attune's unit
	base := 1 + dice.Int64N(pick[int64](dice, 20, 4000))
	if r == corev1.ResourceMemory {
		unit, base = 1000, 1+dice.Int64N(pick[int64](dice, 1<<20, 1<<34))
	}
	odd := 0.2 // of pods that are not just ready
	if dice.IntN(2) == 0 {
		odd = 0
	}
	if odd > 0 && s.Target > 100 && r == corev1.ResourceCPU {
		base *= 100 // see Desired: what upstream assumes of missing pods is rounded
	}
	level := float64(base) * float64(s.Target) / 100 * pick(dice, 1, 1, 0.9, 1.1, 0, 2*dice.Float64(), 10*dice.Float64())
	pods := 1 + dice.IntN(pick(dice, 1, 3, 12, 40))
	requested, used, sized := int64(0), int64(0), 0
	for range pods {
		p := ready
		if dice.Float64() < odd {
			p = phase(dice.IntN(int(phases)))
		}
		size := base
		if odd == 0 && dice.IntN(3) == 0 {
			size = 1 + dice.Int64N(2*base)
		}
		usage := int64(level * pick(dice, 1, 1, 2*dice.Float64()))
		u.add(p, r, size*unit, usage*unit)
		counts, unready, absent := p.counts(r)
		switch {
		case counts:
			f.Ready++
			requested, used, sized = requested+size, used+usage, sized+1
		case unready:
			f.Unready++
		case absent:
			f.Missing++
		}
	}
	f.Current = int32(max(0, pods+pick(dice, 0, 0, 0, -1, 1, 3)))
	if sized > 0 {
		f.Usage, request = float64(used)/float64(sized), float64(requested)/float64(sized)
	}
	return u, f, request
}
