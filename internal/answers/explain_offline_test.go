package answers_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
)

const gi = 1 << 30

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func settings() recommender.Settings {
	return recommender.Settings{
		HistoryWindow:     7 * 24 * time.Hour,
		QueryStep:         4 * time.Minute,
		MinimumDataPoints: 48,
		Of: [2]recommender.ResourceSettings{
			recommender.CPU: {Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1, MinAllowed: 1, MaxAllowed: 4000,
				MaxChangePercent: 50, LimitsFollow: true, AllowDecrease: true},
			recommender.Memory: {Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1, MaxChangePercent: 30, LimitsFollow: true},
		},
	}
}

// steady returns a history of constant usage that ends now; NaN means not measured.
func steady(steps int, cores, bytes float64) recommender.Profile {
	step := settings().QueryStep
	history := make([]recommender.StepUsage, steps)
	for i := range history {
		history[i] = recommender.StepUsage{At: now.Add(-time.Duration(steps-1-i) * step), CPUCores: cores, MemoryBytes: bytes}
	}
	return recommender.NewProfile(history, step)
}

func size(cpuRequest, cpuLimit, memoryRequest, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{{Request: cpuRequest, Limit: cpuLimit}, {Request: memoryRequest, Limit: memoryLimit}}
}

// fiveDaysAndAHalf is 2016 samples of 4 minutes, 5.6 days: confidence 0.8.
const fiveDaysAndAHalf = 2016

func workedExample() answers.ExplainedContainer {
	return answers.ExplainOffline(recommender.Input{
		Container: "app",
		Profile:   steady(fiveDaysAndAHalf, 0.2, math.NaN()),
		Settings:  settings(),
		Original:  size(500, 0, gi, 0),
		Now:       now,
	})
}

func asJSON(t *testing.T, value any) string {
	text, err := json.MarshalIndent(value, "", "  ")
	require.NoError(t, err)
	return string(text) + "\n"
}

func TestOfflineWorkedExample(t *testing.T) {
	answer := answers.Explanation{Containers: []answers.ExplainedContainer{workedExample()}}
	golden(t, "worked-example.json", asJSON(t, answer))
	text, err := answer.Human(false)
	require.NoError(t, err)
	golden(t, "worked-example.txt", text)
}

func TestOfflineStepsAreInTheOrderOfTheChain(t *testing.T) {
	container := answers.ExplainOffline(recommender.Input{
		Profile:  steady(fiveDaysAndAHalf, 0.2, gi/2),
		Settings: settings(),
		Original: size(500, 1000, gi, 2*gi),
		Now:      now,
	})
	var names []string
	for _, step := range container.Steps {
		names = append(names, step.Resource+" "+step.Name)
	}
	assert.Equal(t, []string{
		"cpu percentile", "cpu margin", "cpu burst", "cpu confidence", "cpu floor", "cpu bounds", "cpu change",
		"memory percentile", "memory margin", "memory burst", "memory confidence", "memory floor", "memory bounds", "memory change",
	}, names)
}

func TestOfflineNextKeepsBlockedResources(t *testing.T) {
	cases := map[string]struct {
		now           time.Time
		steps         int
		reason        string
		target, nextR string
	}{
		"stale: the target is known and not applied": {now.Add(time.Hour), fiveDaysAndAHalf, "StaleData", "250m", "500m"},
		"too little data: there is no target":        {now, 47, "InsufficientData", "", "500m"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			container := answers.ExplainOffline(recommender.Input{
				Profile: steady(c.steps, 0.2, gi/2), Settings: settings(), Original: size(500, 0, gi, 0), Now: c.now,
			})
			require.NotEmpty(t, container.Holds)
			assert.Equal(t, "cpu", container.Holds[0].Resource)
			assert.Equal(t, c.reason, container.Holds[0].Reason)
			assert.NotEmpty(t, container.Holds[0].Message)
			assert.Equal(t, c.target, deref(container.Target.CPURequest))
			assert.Equal(t, c.nextR, deref(container.Next.CPURequest))
		})
	}
}

func TestOfflineLimitsKeepTheirRatio(t *testing.T) {
	s := settings()
	s.Of[recommender.Memory].AllowDecrease = true
	container := answers.ExplainOffline(recommender.Input{
		Profile:  steady(7*24*15, 0.2, gi/2),
		Settings: s,
		Original: size(500, 1000, 2*gi, 4*gi),
		Now:      now,
	})
	assert.Equal(t, `{"cpuRequest":"240m","cpuLimit":"480m","memoryRequest":"666Mi","memoryLimit":"1332Mi"}`, line(t, container.Target))
	assert.Equal(t, `{"cpuRequest":"250m","cpuLimit":"500m","memoryRequest":"1434Mi","memoryLimit":"2868Mi"}`, line(t, container.Next))
}

func line(t *testing.T, value any) string {
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

func deref(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
