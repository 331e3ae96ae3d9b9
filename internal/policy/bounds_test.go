package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Settings may also come from callers without a schema: messages about them stay short, and problems that a message
// leaves out still count.
func TestProblemsAreBounded(t *testing.T) {
	p := aPolicy(t, `updateStrategy: {schedule: {daysOfWeek: []}}`)
	for i := range 1000 {
		p.Spec.UpdateStrategy.Schedule.DaysOfWeek = append(p.Spec.UpdateStrategy.Schedule.DaysOfWeek, v1alpha1.Weekday(fmt.Sprint(i, strings.Repeat("é", 1000))))
		p.Spec.SLOGuardrails = append(p.Spec.SLOGuardrails, v1alpha1.SLOGuardrail{Name: strings.Repeat("é", 1000), Query: "up", Threshold: "x", Comparison: "<"})
	}
	s, err := policy.Resolve(nil, nil, p)
	found := problems(t, err)
	assert.Len(t, found, policy.MostProblems+1)
	assert.Empty(t, s.Resize.Guardrails, "a guardrail that is wrong is left out although its problem is one too many")
	for _, problem := range found {
		assert.True(t, utf8.ValidString(problem.Sentence))
		assert.LessOrEqual(t, len(problem.Sentence), 400)
		assert.Contains(t, problem.Sentence, "é…", "what was cut is marked")
	}
	assert.LessOrEqual(t, len(err.Error()), 4<<10)
	assert.Regexp(t, `; and more$`, err.Error())
	message, named := policy.Summary(found[:2])
	assert.Equal(t, found[0].Sentence+"; "+found[1].Sentence, message)
	assert.Len(t, named, 2)
}

// Problems of one level do not hide those of another: a webhook rejects an object for its own problems.
func TestProblemsOfOneLevelLeaveRoomForOthers(t *testing.T) {
	d := &v1alpha1.AttuneDefaults{}
	d.Name = v1alpha1.DefaultsName
	d.Spec.SLOGuardrails = make([]v1alpha1.SLOGuardrail, 100)
	_, err := policy.Resolve(d, nil, aPolicy(t, `updateStrategy: {schedule: {timezone: Mars}}`))
	var own []string
	for _, problem := range problems(t, err) {
		if problem.Levels[0] == policy.Policy {
			own = append(own, problem.Sentence)
		}
	}
	require.Len(t, own, 1)
	assert.Contains(t, own[0], "Mars")
}
