package recommender_test

import (
	"fmt"
	"time"

	. "attune.io/attune/recommender"
)

// A container that uses 200m and requested 500m, after 5.6 days.
func Example() {
	var history []StepUsage
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for at := now.Add(-134*time.Hour - 24*time.Minute); at.Before(now); at = at.Add(4 * time.Minute) {
		history = append(history, StepUsage{At: at, CPUCores: 0.2, MemoryBytes: -1})
	}
	settings := Settings{HistoryWindow: 7 * 24 * time.Hour, QueryStep: 4 * time.Minute, MinimumDataPoints: 48}
	settings.Of[CPU] = ResourceSettings{Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1, MaxChangePercent: 50}

	r := Recommend(Input{Profile: NewProfile(history, settings.QueryStep), Settings: settings, Now: now})
	for _, step := range r.Steps {
		fmt.Printf("%s: %s, %s\n", step.Name, Format(CPU, step.After), step.Reason)
	}
	change := NextStep(Move{Target: r.Target, Live: Size{CPU: {Request: 500}}, Settings: settings})
	fmt.Printf("change: %s, %s\n", Format(CPU, change.Next[CPU].Request), change.Steps[0].Reason)
	// Output:
	// percentile: 200m, 95th percentile of 2016 samples; no hour of the day is higher
	// margin: 240m, 20 % headroom on 200m
	// burst: 240m, no burst: peak 200m is at most 3 × p95 200m
	// confidence: 250m, 5.6 days and 2016 samples: confidence 0.8, × 1.04 (1 + (1 − confidence)²)
	// floor: 250m, no minimum: no regression was observed
	// bounds: 250m, no bounds are set
	// change: 250m, 500m to 250m is -50 %, within the cap of 50 % per resize
}
