package resize_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/resize"
)

// TestTheOrderOfGates pins the gates and the narrowings of each kind of resize, in order: the first gate that refuses
// gives the reason that users see.
func TestTheOrderOfGates(t *testing.T) {
	const (
		switches = "paused mode workloadPaused "
		open     = "optedOut incomplete namespaceTerminating verticalAutoscaler noRights recordOpen RecordsFull "
		own      = "paused mode workloadPaused optedOut tooLarge namespaceTerminating verticalAutoscaler noRights recordOpen "
		pace     = "reverting outsideSchedule staleData rollout cooldown nodePressure nodeBlocked neighboursWait "
	)
	for kind, want := range map[string]string{
		"step": own + "RecordsFull " + pace + "withoutExcluded withoutHeld withoutFailedLimits withinLimitRanges " +
			"memorySoon restartsLastReplica disruptionBudgets limitRange quota nodeRoom triedLately",
		// The gates of a step, without those that always let an urgent plan pass.
		"answer": switches + open + "withoutExcluded withoutHeld withoutFailedLimits withinLimitRanges " +
			"memorySoon limitRange quota nodeRoom triedLately",
		WaveUndo: open + "withoutExcluded withoutFailedLimits withinLimitRanges " +
			"memorySoon restartsLastReplica disruptionBudgets limitRange quota triedLately",
		WaveBirth:   open + "withoutExcluded withinLimitRanges limitRange quota triedLately",
		WaveRestore: "incomplete namespaceTerminating noRights recordOpen RecordsFull withinLimitRanges limitRange quota triedLately",
		WaveBoost: switches + open + "boostsFull reverting backedOff nodePressure withoutExcluded withinLimitRanges " +
			"restartsLastReplica disruptionBudgets limitRange triedLately",
		WaveSpike: switches + open + "reverting nodePressure withoutExcluded withoutFailedLimits withinLimitRanges " +
			"memorySoon restartsLastReplica disruptionBudgets limitRange triedLately",
		"begins":   "RecordsFull quota nodeRoom",
		"stopping": "paused mode workloadPaused optedOut verticalAutoscaler",
		"reverts":  "limitRange quota",
	} {
		assert.Equal(t, strings.Fields(want), gatesOf(kind, func(Gate) bool { return true }), kind)
	}
	last := slices.IndexFunc(Gates(), func(g Gate) bool { return g.Narrows })
	assert.Equal(t, strings.Fields(own+pace), gatesOf("standing", func(g Gate) bool { return slices.Contains(names(Gates()[:last]), g.Name) }))
}

func gatesOf(kind string, is func(Gate) bool) []string {
	return names(slices.DeleteFunc(Gates(), func(g Gate) bool { return !slices.Contains(g.Kinds, kind) || !is(g) }))
}

func names(gates []Gate) (all []string) {
	for _, g := range gates {
		all = append(all, g.Name)
	}
	return all
}
