package replicas

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender/replicas"
)

// TestComparisonIsUpstreams: what kubectl attune backtest --hpa says of a history is what upstream asks for at each of
// its moments, with one request and with another: the counts, the examples, and the requests of all replicas.
func TestComparisonIsUpstreams(t *testing.T) {
	dice := rand.New(rand.NewPCG(5, 6))
	differing, same := 0, 0
	for n := range *fleets / 50 {
		s := anyScaler(dice)
		r, unit := corev1.ResourceCPU, int64(1)
		if dice.IntN(2) == 0 {
			r, unit = corev1.ResourceMemory, 1000
		}
		other := s
		if dice.IntN(3) == 0 {
			other.Target = 1 + int32(dice.IntN(100))
		}
		// Multiples of 100: upstream rounds what it assumes of missing pods (Desired).
		with, instead := 100*(1+dice.Int64N(30)), 100*(1+dice.Int64N(30))
		var moments []replicas.Moment
		var want replicas.Comparison
		for minute := range 1 + dice.IntN(8) {
			u, f := fleetWith(dice, s, r, unit, with)
			m := replicas.Moment{At: time.Unix(int64(60*minute), 0).UTC(), Fleet: f}
			moments = append(moments, m)
			if f.Ready == 0 || f.Current == 0 {
				continue
			}
			asked := u.desired(s, f.Current, r)
			for _, pod := range u.pods {
				setRequest(pod, r, instead*unit)
			}
			then := u.desired(other, f.Current, r)
			want.Moments++
			want.Asked += float64(int64(asked) * with)
			want.Instead += float64(int64(then) * instead)
			if asked != then {
				want.Differ++
				if then > asked {
					want.More++
				}
				if len(want.First) < 2 {
					want.First = append(want.First, replicas.Change{At: m.At, Asked: asked, Instead: then})
				}
			}
		}
		got := replicas.Compare(moments, replicas.Setting{Scaler: s, Request: float64(with)}, replicas.Setting{Scaler: other, Request: float64(instead)}, 2)
		if want.Moments > 0 {
			want.Asked, want.Instead = want.Asked/float64(want.Moments), want.Instead/float64(want.Moments)
		}
		require.Equal(t, want, got, "history %d: %+v, %d and %d of %s", n, s, with, instead, r)
		differing, same = differing+got.Differ, same+got.Moments-got.Differ
	}
	t.Logf("the number differs at %d moments, and is the same at %d", differing, same)
	assert.Greater(t, differing, *fleets/100)
	assert.Greater(t, same, *fleets/100)
}

// fleetWith is a fleet whose pods all request the same.
func fleetWith(dice *rand.Rand, s replicas.Scaler, r corev1.ResourceName, unit, request int64) (*upstream, replicas.Fleet) {
	u, f, used := &upstream{}, replicas.Fleet{}, int64(0)
	level := float64(request) * float64(s.Target) / 100 * pick(dice, 1, 0.9, 1.1, 3*dice.Float64())
	for range 1 + dice.IntN(12) {
		p := ready
		if dice.IntN(5) == 0 {
			p = phase(dice.IntN(int(phases)))
		}
		usage := int64(level * pick(dice, 1, 1, 2*dice.Float64()))
		u.add(p, r, request*unit, usage*unit)
		switch counts, unready, absent := p.counts(r); {
		case counts:
			f.Ready++
			used += usage
		case unready:
			f.Unready++
		case absent:
			f.Missing++
		}
	}
	f.Current = int32(max(0, len(u.pods)+pick(dice, 0, 0, 0, -1, 1)))
	if f.Ready > 0 {
		f.Usage = float64(used) / float64(f.Ready)
	}
	return u, f
}
