package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// A restarted operator knows only the samples that were kept: the idle ones, if those above the limit were dropped. A
// block stays until it has its own answers of a day.
func TestARestartKeepsABlockByImplausibleSamples(t *testing.T) {
	v := sizing(t, nil)
	dropped := map[string][2]recommender.Implausible{"app": {recommender.CPU: {
		Dropped: 100, AboveLimit: 100, Of: 288, Highest: 4000, Most: 1500, Bound: recommender.OfLimit,
	}}}
	v.History.Implausible = dropped
	v.Stored = Desired(v)
	require.Equal(t, []string{"cpu UsageImplausible"}, reasons(v.Stored.Containers[0]))
	rec := &v1alpha1.AttuneRecommendation{Spec: v.Stored}
	rec.UID = "x"

	v.History.Implausible, v.History.Young = nil, true
	for _, complete := range []bool{false, true} {
		after := Wanted(rec, v, complete)
		assert.Equal(t, v.Stored.Containers[0].Holds, after.Containers[0].Holds)
		assert.Equal(t, v.Stored.Containers[0].Target, after.Containers[0].Target, "memory has a target, CPU none")
		require.NotNil(t, after.Seed)
		assert.Nil(t, after.Seed.Containers[0].CPURequest)
	}
	known := v.History.Profiles
	v.History.Profiles = nil
	assert.Equal(t, []string{"cpu NoData", "cpu UsageImplausible", "memory NoData"}, reasons(Wanted(rec, v, true).Containers[0]), "nor does missing data lift it")
	v.History.Profiles = known

	v.History.Implausible = dropped
	assert.Equal(t, []string{"cpu UsageImplausible"}, reasons(Desired(v).Containers[0]), "once")

	v.History.Implausible, v.History.Young = nil, false
	after := Wanted(rec, v, true)
	assert.Empty(t, after.Containers[0].Holds)
	assert.Positive(t, podview.FromResources(after.Containers[0].Target)[recommender.CPU].Request)
}

// While the past is read, a new block of CPU does not size memory from what has been read.
func TestABlockByImplausibleSamplesKeepsOtherTargetsWhileThePastIsRead(t *testing.T) {
	v := sizing(t, nil)
	v.Stored = Desired(v)
	rec := &v1alpha1.AttuneRecommendation{Spec: v.Stored}
	rec.UID = "x"
	v.History.Implausible = map[string][2]recommender.Implausible{"app": {recommender.CPU: {Dropped: 200, Of: 288, Highest: 4000, Most: 1500}}}
	v.History.Profiles = nil
	assert.Equal(t, v.Stored.Containers, Wanted(rec, v, false).Containers)
	assert.Equal(t, []string{"cpu UsageImplausible", "memory NoData"}, reasons(Wanted(rec, v, true).Containers[0]))
}
