package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ten replicas at the defaults finish a resize step of 50 % within 75 minutes, whatever happens in it.
func TestSteps(t *testing.T) {
	for name, p := range stepWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, 0, p)
			t.Logf("the step took %s", w.stepTook)
		})
	}
}

// Without the recent usage, no raise goes to its target at once, and the long run sees it.
func TestStarvedWithoutRecentUsage(t *testing.T) {
	for _, p := range []plan{starvedTwice(), needsMoreMemory(), oneOfTwoStarved()} {
		p.NoRecent = true
		said := newWorld(0, p).run()
		require.NotEmpty(t, said)
		assert.True(t, strings.Contains(said[0], " raises that are due: "), said[0])
	}
}
