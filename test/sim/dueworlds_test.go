package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Without the recent usage, no raise goes to its target at once, and the long run sees it.
func TestStarvedWithoutRecentUsage(t *testing.T) {
	for _, p := range []plan{starvedTwice(), needsMoreMemory(), oneOfTwoStarved()} {
		p.NoRecent = true
		said := newWorld(0, p).run()
		require.NotEmpty(t, said)
		assert.True(t, strings.Contains(said[0], " raises that are due: "), said[0])
	}
}
