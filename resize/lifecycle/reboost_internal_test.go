package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// A pod that is OOM-killed during its boost loses the boost: the next restart would multiply it.
func TestAnOOMKillDuringABoostEndsTheBoost(t *testing.T) {
	state := State{Verdict: resize.Verdict{OtherKill: true}}
	assert.Equal(t, Withdraw, endedByOtherKill(state, v1alpha1.ResizeRecord{Wave: resize.WaveReboost}).Kind)
	assert.Equal(t, Forget, endedByOtherKill(state, v1alpha1.ResizeRecord{Wave: resize.WaveNext}).Kind)
}

// The open record of a boost blocks an answer to an OOM kill of any container of its pod.
func TestABoostEndsForAnUrgentResize(t *testing.T) {
	record := v1alpha1.ResizeRecord{Wave: resize.WaveReboost, Phase: v1alpha1.RecordWatching}
	now := time.Now()
	raise := Circumstances{Climbs: "container app is about to be OOM-killed"}
	assert.Equal(t, Withdraw, Next(State{Kind: Watching}, record, resize.Rules{}, raise, now).Kind, "a raise before an OOM kill")
	assert.Equal(t, Wait, Next(State{Kind: Watching}, record, resize.Rules{}, Circumstances{}, now).Kind)
}
