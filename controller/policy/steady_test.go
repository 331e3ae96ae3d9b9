package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// A target that falls a little is kept, unless it is of a time when targets were not whole.
func TestSteadyKeepsWholeTargets(t *testing.T) {
	const mi = 1 << 20
	target := func(memory recommender.Amount) v1alpha1.ContainerTarget {
		return v1alpha1.ContainerTarget{Name: "app", Target: resize.ToResources(recommender.Size{recommender.Memory: {Request: memory}})}
	}
	for name, c := range map[string]struct{ stored, now, want recommender.Amount }{
		"a little lower":        {300 * mi, 297 * mi, 300 * mi},
		"lower":                 {300 * mi, 290 * mi, 290 * mi},
		"higher":                {300 * mi, 301 * mi, 301 * mi},
		"stored was not whole":  {300*mi - 5, 299 * mi, 299 * mi},
		"whole KiB of a little": {3000 << 10, 2990 << 10, 3000 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := steady([]v1alpha1.ContainerTarget{target(c.stored)}, target(c.now))
			assert.Equal(t, c.want, resize.FromResources(got.Target)[recommender.Memory].Request)
			assert.Equal(t, c.want, settled(recommender.Memory, c.stored, c.now))
		})
	}
}
