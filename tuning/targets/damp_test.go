package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// A target that falls a little is kept, unless the stored one is not a whole amount.
func TestSteadyKeepsWholeTargets(t *testing.T) {
	const mi = 1 << 20
	target := func(memory recommender.Amount) v1alpha1.ContainerTarget {
		return v1alpha1.ContainerTarget{Name: "app", Target: podview.ToResources(recommender.Size{recommender.Memory: {Request: memory}})}
	}
	for name, c := range map[string]struct{ stored, now, want recommender.Amount }{
		"a little lower":        {300 * mi, 297 * mi, 300 * mi},
		"lower":                 {300 * mi, 290 * mi, 290 * mi},
		"higher":                {300 * mi, 301 * mi, 301 * mi},
		"stored was not whole":  {300*mi - 5, 299 * mi, 299 * mi},
		"whole KiB of a little": {3000 << 10, 2990 << 10, 3000 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := damp([]v1alpha1.ContainerTarget{target(c.stored)}, target(c.now))
			assert.Equal(t, c.want, podview.FromResources(got.Target)[recommender.Memory].Request)
			assert.Equal(t, c.want, damped(recommender.Memory, c.stored, c.now))
		})
	}
}

// The explanation of a kept target ends with that target.
func TestTheExplanationEndsAtTheTarget(t *testing.T) {
	const mi = 1 << 20
	target := func(memory recommender.Amount, steps ...v1alpha1.Step) v1alpha1.ContainerTarget {
		return v1alpha1.ContainerTarget{Name: "app", Target: podview.ToResources(recommender.Size{recommender.Memory: {Request: memory}}), Steps: steps}
	}
	bounds := v1alpha1.Step{Resource: "memory", Name: "bounds", Before: "297Mi", After: "297Mi", Reason: "no bounds are set"}
	for name, c := range map[string]struct {
		stored, now recommender.Amount
		want        []v1alpha1.Step
	}{
		"kept":   {300 * mi, 297 * mi, []v1alpha1.Step{bounds, {Resource: "memory", Name: "kept", Before: "297Mi", After: "300Mi", Reason: "the target does not change: it would fall by 2 % or less"}}},
		"equal":  {297 * mi, 297 * mi, []v1alpha1.Step{bounds}},
		"higher": {296 * mi, 297 * mi, []v1alpha1.Step{bounds}},
		"lower":  {400 * mi, 297 * mi, []v1alpha1.Step{bounds}},
	} {
		t.Run(name, func(t *testing.T) {
			got := damp([]v1alpha1.ContainerTarget{target(c.stored)}, target(c.now, bounds))
			assert.Equal(t, c.want, got.Steps)
			last := got.Steps[len(got.Steps)-1]
			assert.Equal(t, recommender.Format(recommender.Memory, podview.FromResources(got.Target)[recommender.Memory].Request), last.After)
		})
	}
	assert.Empty(t, damp([]v1alpha1.ContainerTarget{target(300 * mi)}, target(297*mi)).Steps, "nobody asked for an explanation")
}
