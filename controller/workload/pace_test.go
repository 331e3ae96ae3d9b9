package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// Pods that share a node are written at once, but not forever: a workload and its node that do not settle keep the
// same pace as all others.
func TestPodsOfANodeAreFreeOfPaceForAWhile(t *testing.T) {
	var x pace
	web, at := types.NamespacedName{Namespace: "shop", Name: "web"}, now
	for range freeOfPace {
		assert.Zero(t, x.waitBeforeWrite(web, freeOfPace, at))
		x.wrote(web, v1alpha1.PhaseIdle, at)
		at = at.Add(25 * time.Millisecond)
	}
	wrote := 0
	for end := at.Add(time.Hour); at.Before(end); wrote++ {
		left := x.waitBeforeWrite(web, freeOfPace, at)
		assert.Positive(t, left)
		at = at.Add(left)
		x.wrote(web, v1alpha1.PhaseIdle, at)
	}
	assert.LessOrEqual(t, wrote, 62)
	at = at.Add(2 * paceLast)
	x.wrote(web, v1alpha1.PhaseIdle, at)
	assert.Zero(t, x.waitBeforeWrite(web, freeOfPace, at), "after a rest they are free of it again")
	assert.Positive(t, x.waitBeforeWrite(web, 0, at), "others are not")
}

// A clock that was ahead when a pass wrote delays the next pass only by their least distance, and only once.
func TestClockThatWasAheadBlocksNothing(t *testing.T) {
	var x pace
	web, at := types.NamespacedName{Namespace: "shop", Name: "web"}, now
	x.wrote(web, v1alpha1.PhaseIdle, at.Add(11*time.Hour))
	assert.Equal(t, paceFirst, x.waitBeforeWrite(web, 0, at))
	at = at.Add(paceFirst)
	assert.Zero(t, x.waitBeforeWrite(web, 0, at))
	x.wrote(web, v1alpha1.PhaseIdle, at.Add(11*time.Hour))
	x.wrote(web, v1alpha1.PhaseIdle, at)
	assert.Zero(t, x.waitBeforeWrite(web, 2, at), "the row begins anew")
	assert.Equal(t, paceFirst, x.waitBeforeWrite(web, 0, at))
}
