package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// On the project's own trace, whatever the figures are: the order that has to hold between algorithms by their making.
func TestTheProjectsOwnTrace(t *testing.T) {
	b, err := newBoard("synthetic")
	require.NoError(t, err)
	for _, s := range synthetic(40) {
		b.play(s)
	}
	reports := map[string]backtest.Report{}
	for _, tally := range b.tallies {
		r := tally.Report()
		assert.Equal(t, 40, r.Series, r.Name)
		assert.InDelta(t, 80, r.ContainerDays, 2, r.Name)
		reports[r.Name] = r
	}
	assert.Len(t, reports, len(b.strategies), "each has a name of its own")
	slack := func(name string, r recommender.Resource) float64 { return reports[name].Of[r].FleetSlack }
	for _, r := range recommender.Resources {
		assert.Less(t, slack("oracle-1h", r), slack("oracle-static", r))
		assert.LessOrEqual(t, slack("vpa-nofloor", r), slack("vpa", r), "floors cost")
		assert.LessOrEqual(t, slack("krr-simple-nofloor", r), slack("krr-simple", r))
	}
	assert.Less(t, reports["static-max1.2"].StarvedMinutes, reports["krr-simple-nofloor"].StarvedMinutes, "a maximum starves less than a percentile")
	assert.Zero(t, reports["oracle-static"].OOMHours)
	assert.Positive(t, reports["krr-simple-nofloor"].OOMHours)
	assert.Zero(t, reports["oracle-1h"].StarvedMinutes)

	var text strings.Builder
	require.NoError(t, b.write(&text))
	assert.Contains(t, text.String(), "#### synthetic (40 series, 78 container-days, warm-up 24 h, a decision each 60 min)")
	for _, s := range b.strategies {
		assert.Contains(t, text.String(), "\n| "+s.Name+" | ")
	}
	assert.Contains(t, text.String(), "\n| vpa-nofloor | cpu | ")
	assert.Contains(t, text.String(), "on 2 nodes of at most 20 series")
	for _, name := range []string{"n-sigma", "rc-like", "max(n-sigma, rc-like)", "node strategy", "sum of attune", "sum of adaptive-1", "sum of vpa"} {
		assert.Contains(t, text.String(), "\n| "+name+" | ")
	}
	assert.NotContains(t, text.String(), "sum of oracle")
	assert.Contains(t, text.String(), "\n| 1 | cpu | ")
	assert.Contains(t, text.String(), "\n| all | memory | ")
	assert.Contains(t, text.String(), "\n| all | memory, together | ")
	assert.Contains(t, text.String(), "\n| node-alone | cpu | ")
	assert.NotContains(t, text.String(), "\n| node-alone | memory | ")
	for _, r := range recommender.Resources {
		one, all := b.atOne.Total(r), b.atAll.Total(r)
		assert.Positive(t, one.Observed)
		assert.Equal(t, 33*one.Time, all.Time, "every risk is judged on the same time")
	}
	for _, tally := range b.sweep {
		assert.Equal(t, 40, tally.Report().Series)
	}
}
