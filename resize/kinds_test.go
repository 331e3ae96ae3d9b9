package resize_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/resize"
)

// TestTheOrderOfGates pins the gates, the narrowings and the last gates of each kind of resize, in order: the first gate
// that refuses gives the reason that users see.
func TestTheOrderOfGates(t *testing.T) {
	const (
		switches = "paused mode workloadPaused "
		open     = "optedOut incomplete namespaceTerminating verticalAutoscaler noRights recordOpen RecordsFull "
		own      = "paused mode workloadPaused optedOut tooLarge namespaceTerminating verticalAutoscaler noRights recordOpen "
		pace     = "reverting outsideSchedule staleData rollout cooldown nodePressure nodeBlocked neighboursWait "
	)
	for kind, want := range map[string][3]string{
		"step": {own + "RecordsFull " + pace, "withoutExcluded withoutHeld withoutFailedLimits withinLimitRanges",
			"memorySoon restartsLastReplica disruptionBudgets limitRange quota nodeRoom triedLately"},
		WaveUndo: {open, "withoutExcluded withoutFailedLimits withinLimitRanges",
			"memorySoon restartsLastReplica disruptionBudgets limitRange quota triedLately"},
		WaveBirth:   {open, "withoutExcluded withinLimitRanges", "limitRange quota triedLately"},
		WaveRestore: {"incomplete namespaceTerminating noRights recordOpen RecordsFull", "withinLimitRanges", "limitRange quota triedLately"},
		WaveBoost: {switches + open + "boostsFull reverting backedOff nodePressure", "withoutExcluded withinLimitRanges",
			"restartsLastReplica disruptionBudgets limitRange triedLately"},
		WaveSpike: {switches + open + "reverting nodePressure", "withoutExcluded withoutFailedLimits withinLimitRanges",
			"memorySoon restartsLastReplica disruptionBudgets limitRange triedLately"},
		"standing": {own + pace},
		"fits":     {"RecordsFull", "", "quota nodeRoom"},
	} {
		first, narrow, last := GatesOf(kind)
		assert.Equal(t, strings.Fields(want[0]), first, kind)
		assert.Equal(t, strings.Fields(want[1]), narrow, kind)
		assert.Equal(t, strings.Fields(want[2]), last, kind)
	}
}
