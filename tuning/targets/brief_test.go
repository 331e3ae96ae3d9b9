package targets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/resize"
)

// targetsOf returns n containers with the recommender's explanations.
func targetsOf(n int) (targets []v1alpha1.ContainerTarget) {
	for i := range n {
		t := v1alpha1.ContainerTarget{Name: fmt.Sprintf("container-%02d", i), Confidence: "0.92"}
		for _, resource := range []string{"cpu", "memory"} {
			for j, name := range []string{"percentile", "margin", "burst", "confidence", "floor", "bounds"} {
				step := v1alpha1.Step{Resource: resource, Name: name, Before: "100m", After: "100m", Reason: strings.Repeat("because ", 12)}
				if j%2 == 0 {
					step.After = "130m"
				}
				t.Steps = append(t.Steps, step)
			}
		}
		targets = append(targets, t)
	}
	return targets
}

func TestStepsOfManyContainersAreBrief(t *testing.T) {
	for n, want := range map[int]struct{ whole, changing, omitted int }{
		1: {1, 0, 0}, 5: {5, 0, 0}, 8: {5, 3, 0}, 30: {0, 11, 19}, 100: {0, 1, 99},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			targets := targetsOf(n)
			Brief(targets)
			total := 0
			var got struct{ whole, changing, omitted int }
			for _, of := range targets {
				total += len(clip.JSON(of.Steps))
				switch {
				case len(of.Steps) == 12:
					got.whole++
				case len(of.Steps) == 6:
					got.changing++
				case len(of.Steps) == 1:
					got.omitted++
					assert.Equal(t, fmt.Sprintf("the steps are omitted: the workload has %d containers", n), of.Steps[0].Reason)
				}
			}
			assert.Equal(t, want, got)
			if n < 100 {
				assert.LessOrEqual(t, total, resize.StepsBytes)
			}
			again := targetsOf(n)
			Brief(again)
			Brief(again)
			assert.Equal(t, targets, again, "what is brief stays as it is")
		})
	}
}
