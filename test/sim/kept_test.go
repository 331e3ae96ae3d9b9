package sim

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"

	"attune.io/attune/test/sim/api"
)

var attacks = flag.Int("sim.keeps", 4, "how many worlds TestKeepUnderAttack plays, from -sim.seed on")

// TestKeepUnderAttack plays worlds in which HPAs are edited, deleted, created again and fixed while their workloads are
// resized, amid kills of the operator, clocks that jump, storms and LimitRanges. Where nobody changes the target of an HPA, the
// same world without attune has the same replicas at the same times, within a sync of the HPA.
func TestKeepUnderAttack(t *testing.T) {
	for i := range uint64(*attacks) {
		seed := *first + i
		t.Run("", func(t *testing.T) {
			t.Parallel()
			targets := seed%2 == 0
			w, counts := playScaled(t, seed, attackedKeep(seed, targets))
			t.Logf("seed %d: requests %v, replicas %v", seed, w.cpuRequests(), counts)
			if !targets && !t.Failed() {
				assertAsWithoutAttune(t, seed, attackedKeep(seed, targets), counts)
			}
		})
	}
}

// TestKeepIsAsWithoutAttune: the worlds of TestHazards in which the target of an HPA stays have the same replicas at the same
// times without attune.
func TestKeepIsAsWithoutAttune(t *testing.T) {
	for name, p := range keptWorlds() {
		if name == "an HPA with Keep is edited in a wave" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, counts := playScaled(t, 0, p)
			assertAsWithoutAttune(t, 0, p, counts)
		})
	}
}

func assertAsWithoutAttune(t *testing.T, seed uint64, p plan, counts []scaledTo, but ...span) {
	t.Helper()
	p.Policies, p.Seeds = nil, false
	if p.Script != nil {
		script := p.Script
		p.Script = func(w *world) {
			w.watching.invariants = nil
			script(w)
		}
	}
	_, without := playScaled(t, seed, p)
	counts, without = outside(counts, but), outside(without, but)
	if !assert.Len(t, counts, len(without), "seed %d: %v, and without attune %v", seed, counts, without) {
		return
	}
	for i, with := range counts {
		assert.Equal(t, without[i].Replicas, with.Replicas, "seed %d: %v, and without attune %v", seed, counts, without)
		assert.WithinDuration(t, beginning.Add(without[i].Since), beginning.Add(with.Since), syncsWithin, "seed %d: %v, and without attune %v", seed, counts, without)
	}
}

// outside leaves out what happens in some times. At the end of each there is the number of replicas then.
func outside(counts []scaledTo, times []span) []scaledTo {
	for _, s := range times {
		from, to := s.from.Sub(beginning), s.to.Sub(beginning)
		last := 0
		for last+1 < len(counts) && counts[last+1].Since <= to {
			last++
		}
		first := slices.IndexFunc(counts, func(c scaledTo) bool { return c.Since >= from })
		end := scaledTo{to, counts[last].Replicas}
		if first < 0 || first > last {
			first = last + 1
		}
		counts = slices.Concat(counts[:first], []scaledTo{end}, counts[last+1:])
	}
	return counts
}

// syncsWithin is how far apart the syncs of an HPA may be: resizes wake the control plane a moment earlier.
const syncsWithin = 15 * time.Second

// scaledTo is a number of replicas, and since when in a world.
type scaledTo struct {
	Since    time.Duration
	Replicas int32
}

// playScaled plays a world, and returns the replicas of its Deployment over time.
func playScaled(t *testing.T, seed uint64, p plan) (*world, []scaledTo) {
	t.Helper()
	var counts []scaledTo
	script := p.Script
	p.Script = func(w *world) {
		w.server.Watch(func(e api.Event) {
			if d, is := e.Object.(*appsv1.Deployment); is && (len(counts) == 0 || counts[len(counts)-1].Replicas != *d.Spec.Replicas) {
				counts = append(counts, scaledTo{w.time.now.Sub(beginning), *d.Spec.Replicas})
			}
		})
		if script != nil {
			script(w)
		}
	}
	w := play(t, seed, p)
	return w, slices.Clone(counts)
}
