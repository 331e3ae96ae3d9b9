package workload

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// An API server that does not serve pods/resize, whatever its version, gets none, and that is reported. Once it
// serves them, resizes start. Without an answer, the previous result stays.
func TestAnAPIServerWithoutResizeIsSentNone(t *testing.T) {
	l := newLab(t, heading(seen(t, small), sizeOf(250, 0, 512, 0)).Rec, deploymentOf(small, 1), running("web-1", small))
	var served bool
	var unanswered error
	l.c.Served = &Served{Clock: l.clock, Ask: func(context.Context) (bool, error) { return served, unanswered }}
	l.c.Served.look(t.Context())
	l.wakeUps(5)
	assert.Equal(t, servedEvery, l.pass().RequeueAfter, "asked again soon")
	assert.Zero(t, l.patches)
	assert.LessOrEqual(t, l.status, 2)
	blocked := meta.FindStatusCondition(l.rec().Status.Conditions, v1alpha1.ConditionResizeBlocked)
	assert.Equal(t, resize.ReasonResizeNotSupported, blocked.Reason)

	served, unanswered = true, errors.New("cut off")
	l.c.Served.look(t.Context())
	l.clock.Step(servedEvery)
	l.pass()
	assert.Zero(t, l.patches)
	unanswered = nil
	l.c.Served.look(t.Context())
	l.pass()
	assert.Positive(t, l.patches)
}
