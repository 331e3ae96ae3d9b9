package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// fewRetargets are played by default.
const fewRetargets = 2

var retargets = flag.Int("sim.retargets", fewRetargets, "how many worlds TestRetargetUnderAttack plays, from -sim.seed on")

// TestRetargetUnderAttack plays worlds in which attune changes the targets of HPAs, which are edited, deleted, created again
// and fixed meanwhile, and whose changes are rejected, amid kills of the operator, clocks that jump, storms and LimitRanges.
// In worlds of odd seeds nobody but attune changes the target. If more than a few worlds are played, each of these is compared
// with the same world without attune, but for the times after an HPA was created with its original target when attune could
// not change it.
func TestRetargetUnderAttack(t *testing.T) {
	for i := range uint64(*retargets) {
		seed := *first + i
		t.Run("", func(t *testing.T) {
			t.Parallel()
			edits := seed%2 == 0
			w, counts := playScaled(t, seed, attackedTarget(seed, edits))
			if !edits && !t.Failed() && *retargets > fewRetargets {
				assertAsWithoutAttune(t, seed, attackedTarget(seed, edits), counts, w.follows.unwritten...)
			}
			t.Logf("seed %d: %s, requests %v, replicas %v", seed, w.follows, w.cpuRequests(), counts)
		})
	}
}

// TestRetargetIsAsWithoutAttune: a world of TestHazards in which requests are lowered, and one in which they are raised, have
// the same replicas at the same times without attune.
func TestRetargetIsAsWithoutAttune(t *testing.T) {
	for _, name := range []string{"an HPA with Retarget", "an HPA with Retarget of raised requests"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := retargetWorlds()[name]
			_, counts := playScaled(t, 0, p)
			assertAsWithoutAttune(t, 0, p, counts)
		})
	}
}

// What happens outside of the times that are left out still counts, and so do the replicas at their end.
func TestOutsideKeepsOtherChanges(t *testing.T) {
	at := func(hours int) time.Time { return beginning.Add(time.Duration(hours) * time.Hour) }
	times := []span{{at(2), at(5)}}
	without := outside([]scaledTo{{0, 4}, {8 * time.Hour, 5}}, times)
	assert.Equal(t, []scaledTo{{0, 4}, {5 * time.Hour, 4}, {8 * time.Hour, 5}}, without)
	assert.Equal(t, without, outside([]scaledTo{{0, 4}, {3 * time.Hour, 6}, {4 * time.Hour, 4}, {8 * time.Hour, 5}}, times))
	assert.NotEqual(t, without, outside([]scaledTo{{0, 4}, {3 * time.Hour, 6}, {6 * time.Hour, 4}, {8 * time.Hour, 5}}, times), "6 replicas at the end")
	assert.NotEqual(t, without, outside([]scaledTo{{0, 4}, {time.Hour, 5}, {3 * time.Hour, 4}, {8 * time.Hour, 5}}, times), "5 replicas before")
}
