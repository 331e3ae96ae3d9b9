package lifecycle

import (
	"testing"

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
