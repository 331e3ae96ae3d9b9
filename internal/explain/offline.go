package explain

import (
	"math"

	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
)

// Offline explains a container without a cluster. It computes the recommendation; the next step starts from
// in.Original.
func Offline(in recommender.Input) Container {
	rec := recommender.Recommend(in)
	// The target comes from the recommender; the step towards it from the same function as for a running pod.
	to := heading{
		container:        in.Container,
		target:           rec.Target,
		memoryLimitFloor: rec.MemoryLimitFloor,
		holds:            holdsOf(rec.Holds),
		settings:         in.Settings,
	}
	// The container runs nowhere, so its original size is its present one too.
	change := to.from(in.Original, in.Original)
	return Container{
		Name:       in.Container,
		Confidence: rounded(rec.Confidence),
		DataPoints: rec.DataPoints,
		Current:    display.AmountsOf(in.Original),
		Target:     display.AmountsOf(rec.Target),
		Next:       to.next(change),
		Holds:      joinHolds(to.holds, holdsOf(change.Holds)),
		Steps:      joinSteps(stepsOf(rec.Steps), stepsOf(change.Steps)),
	}
}

// rounded removes the noise of floating-point arithmetic: 0.8 in the place of 0.7999999999999999.
func rounded(confidence float64) float64 { return math.Round(confidence*1e6) / 1e6 }
