package harm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/resizetest"
)

// A pod that was created without its template's CPU limit has not less than its template.
func TestARemovedCPULimitIsNoDecrease(t *testing.T) {
	original := map[string]recommender.Size{"app": resizetest.Size(480, 960, 512, 1024)}
	_, lowered := harm.BirthRecord(resizetest.Running(resizetest.Size(500, 0, 512, 1024)), original)
	assert.False(t, lowered)
	_, lowered = harm.BirthRecord(resizetest.Running(resizetest.Size(240, 0, 512, 1024)), original)
	assert.True(t, lowered, "the request is")
}
