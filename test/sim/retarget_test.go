package sim

import (
	"flag"
	"testing"
)

var retargets = flag.Int("sim.retargets", 4, "how many worlds TestRetargetUnderAttack plays, from -sim.seed on")

// TestRetargetUnderAttack plays worlds in which attune changes the targets of HPAs, which are edited, deleted, created again
// and fixed meanwhile, and whose changes are rejected, amid kills of the operator, clocks that jump, storms and LimitRanges.
func TestRetargetUnderAttack(t *testing.T) {
	for i := range uint64(*retargets) {
		seed := *first + i
		t.Run("", func(t *testing.T) {
			t.Parallel()
			edits := seed%2 == 0
			w, counts := playScaled(t, seed, attackedTarget(seed, edits))
			t.Logf("seed %d: %s, requests %v, replicas %v", seed, w.follows, w.cpuRequests(), counts)
		})
	}
}
