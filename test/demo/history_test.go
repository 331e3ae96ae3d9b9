package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A Friday.
var now = time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)

func TestLoadOfAShop(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want float64
	}{
		"noon on Wednesday": {time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC), 1},
		"noon on Sunday":    {time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), 0.4},
		"morning":           {time.Date(2026, 11, 18, 8, 0, 0, 0, time.UTC), 0.5},
		"dawn":              {time.Date(2026, 11, 18, 6, 0, 0, 0, time.UTC), 0},
		"night":             {time.Date(2026, 11, 18, 3, 0, 0, 0, time.UTC), 0},
		"in another zone":   {time.Date(2026, 11, 18, 13, 0, 0, 0, time.FixedZone("CET", 3600)), 1},
	} {
		assert.InDelta(t, c.want, load(c.at), 0.001, name)
	}
}

func TestUsageOfAHabit(t *testing.T) {
	h := habit{night: 0.1, noon: 0.3, idle: 50, busy: 20, burst: 2}
	incident := now.Add(-time.Hour)
	noon, night := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 18, 2, 0, 0, 0, time.UTC)
	assert.InEpsilon(t, 0.3, h.cpu(noon, incident), 0.09)
	assert.InEpsilon(t, 0.1, h.cpu(night, incident), 0.09)
	assert.Equal(t, 2.0, h.cpu(incident, incident))
	assert.Equal(t, 2.0, h.cpu(incident.Add(6*time.Minute-time.Second), incident))
	assert.Less(t, h.cpu(incident.Add(6*time.Minute), incident), 0.4)
	assert.Less(t, h.cpu(incident.Add(-time.Second), incident), 0.4)
	h.burst = 0
	assert.Less(t, h.cpu(incident, incident), 0.4, "no incident")
	assert.Equal(t, 70.0*mebibyte, h.memory(noon))
	assert.Equal(t, 50.0*mebibyte, h.memory(night))
}

func TestJitterIsTheSameInEveryRun(t *testing.T) {
	assert.Equal(t, jitter(now), jitter(now.Add(59*time.Minute)))
	assert.NotEqual(t, jitter(now), jitter(now.Add(time.Hour)))
	for at := now; at.Before(now.Add(day)); at = at.Add(time.Minute) {
		assert.InDelta(t, 1, jitter(at), 0.08)
	}
}
