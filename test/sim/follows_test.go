package sim

import "testing"

// TestFollowing plays worlds in which usage follows its limit, and those in which it grows beyond it for good.
func TestFollowing(t *testing.T) {
	for name, p := range following() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, p)
		})
	}
}
