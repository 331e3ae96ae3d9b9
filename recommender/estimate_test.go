package recommender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

// adaptiveInput has a week in which the container used 200m and 300Mi, with an estimate of each resource.
func adaptiveInput(estimates *[2]Estimate) Input {
	var steps []StepUsage
	for i := range 7 * 288 {
		steps = append(steps, StepUsage{At: epoch.Add(time.Duration(i) * 5 * time.Minute), CPUCores: 0.2, MemoryBytes: 300 * (1 << 20)})
	}
	settings := builtIn()
	settings.Adaptive.Risk = 1
	return Input{Container: "app", Profile: NewProfile(steps, 5*time.Minute), Settings: settings, Now: steps[len(steps)-1].At, Estimates: estimates}
}

var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// With the strategy Adaptive the estimate replaces the first four rules; floors and bounds are the same.
func TestAdaptiveRules(t *testing.T) {
	in := adaptiveInput(&[2]Estimate{
		{Amount: 240, Wanted: 240, Rule: "max of 24 h", Value: 200, Margin: 1.2, Short: 0.0021, Hours: 71.4},
		{Amount: 290 << 20, Wanted: 280 << 20, Rule: "max of 14 d", Value: 275 << 20, Margin: 1.02, Short: 0.00002, Hours: 80},
	})
	in.Settings.Of[CPU].MaxAllowed = 230
	in.Original = Size{CPU: {Request: 500}, Memory: {Request: 500 << 20, Limit: 1000 << 20}}
	r := Recommend(in)
	require.Empty(t, r.Holds)
	var told []string
	for _, s := range r.Steps {
		told = append(told, s.Resource.String()+" "+s.Name+" "+Format(s.Resource, s.After)+": "+s.Reason)
	}
	assert.Equal(t, []string{
		"cpu adaptive 240m: max of 24 h 200m × 1.2 = 240m; usage exceeds that 0.21 % of the time, estimated from 71 h of this container and a prior from typical containers",
		"cpu floor 240m: no minimum: no regression was observed",
		"cpu bounds 230m: lowered to maxAllowed 230m",
		"memory adaptive 290Mi: max of 14 d 275Mi × 1.02 = 280Mi; usage exceeds that in less than 0.01 % of hours, estimated from 80 h of this container and a prior from typical containers; " +
			"stays at 290Mi: the estimate falls only after some hours, by more than 10 %, and at most twice a day",
		"memory floor 290Mi: no minimum: no regression was observed",
		"memory bounds 290Mi: no bounds are set",
	}, told, "the request may be below the peak of 300Mi")
	assert.Equal(t, Amount(580<<20), r.Target[Memory].Limit, "twice the request, which is above 1.1 times the peak")
	assert.Equal(t, Amount(330<<20), r.MemoryLimitFloor)

	in.Floors[Memory] = Floor{Amount: 400 << 20, Reason: "oomkill"}
	assert.Equal(t, Amount(400<<20), Target(in).Target[Memory].Request, "what killed is not tried again")
}

// If request and limit are equal, the request is the memory limit, which is never below 1.1 times the peak.
func TestAdaptiveKeepsAPinnedLimitAboveThePeak(t *testing.T) {
	in := adaptiveInput(&[2]Estimate{{Amount: 240, Rule: "max of 1 h"}, {Amount: 290 << 20, Rule: "max of 1 h"}})
	in.Original = Size{Memory: {Request: 500 << 20, Limit: 500 << 20}}
	assert.Equal(t, Allocation{Request: 330 << 20, Limit: 330 << 20}, Target(in).Target[Memory])
}

// Without an estimate there is no target, for any length of history.
func TestAdaptiveWithoutAnEstimate(t *testing.T) {
	for name, estimates := range map[string]*[2]Estimate{"none": nil, "empty": {}} {
		r := Recommend(adaptiveInput(estimates))
		assert.Equal(t, Size{}, r.Target, name)
		assert.Empty(t, r.Steps, name)
		require.Len(t, r.Holds, 2, name)
		assert.Equal(t, Hold{Resource: CPU, Reason: NoData, Message: "no cpu usage was measured recently, so strategy Adaptive has no estimate"}, r.Holds[0], name)
	}
}

// An estimate does not affect the strategy Workload.
func TestWorkloadIgnoresEstimates(t *testing.T) {
	in := adaptiveInput(&[2]Estimate{{Amount: 9000}, {Amount: 9 << 30}})
	in.Settings.Adaptive = AdaptiveSettings{}
	with := Recommend(in)
	in.Estimates = nil
	assert.Equal(t, Recommend(in), with)
}

// The dead band of raises is smaller than with the strategy Workload; the dead band of falls is the same.
func TestAdaptiveDeadBands(t *testing.T) {
	for name, c := range map[string]struct {
		risk   float64
		target Size
		cpu    Amount
		memory Amount
	}{
		"Workload, hardly more": {0, Size{{Request: 1060}, {Request: 1040 << 20}}, 1000, 1000 << 20},
		"Adaptive, hardly more": {1, Size{{Request: 1079}, {Request: 1029 << 20}}, 1000, 1000 << 20},
		"Adaptive, more":        {1, Size{{Request: 1080}, {Request: 1030 << 20}}, 1080, 1030 << 20},
		"Adaptive, less":        {1, Size{{Request: 910}, {Request: 910 << 20}}, 1000, 1000 << 20},
		"Adaptive, much less":   {1, Size{{Request: 900}, {Request: 900 << 20}}, 900, 900 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			settings := builtIn()
			settings.Adaptive.Risk = c.risk
			settings.Of[Memory].AllowDecrease = true
			change := NextStep(Move{Target: c.target, Live: Size{{Request: 1000}, {Request: 1000 << 20}}, Settings: settings})
			assert.Equal(t, c.cpu, change.Next[CPU].Request)
			assert.Equal(t, c.memory, change.Next[Memory].Request)
		})
	}
	settings := builtIn()
	settings.Adaptive.Risk = 1
	change := NextStep(Move{Target: Size{{Request: 1079}}, Live: Size{{Request: 1000}}, Settings: settings})
	assert.Equal(t, "1 to 1079m is +7.9 %, less than the dead band of 8 %", change.Steps[0].Reason)
}
