package harm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

func TestGuardrails(t *testing.T) {
	rail := func(comparison, threshold string) v1alpha1.SLOGuardrail {
		return v1alpha1.SLOGuardrail{Name: "latency", Comparison: v1alpha1.Comparison(comparison), Threshold: v1alpha1.SignedDecimal(threshold)}
	}
	open := func(why string) resize.Verdict {
		return resize.Verdict{Inconclusive: true, Message: "SLO guardrail latency could not be checked: " + why}
	}
	broken := func(how string) resize.Verdict {
		return resize.Verdict{Harm: resize.HarmSLO, Message: "SLO guardrail latency is violated: latency: " + how}
	}
	tests := map[string]struct {
		rail   v1alpha1.SLOGuardrail
		answer Answer
		want   resize.Verdict
	}{
		"held":                 {rail("<", "0.5"), Answer{Value: 0.4}, resize.Verdict{}},
		"broken":               {rail("<", "0.5"), Answer{Value: 0.5}, broken("0.5, wanted < 0.5")},
		"equal is held":        {rail(">=", "-1"), Answer{Value: -1}, resize.Verdict{}},
		"no answer":            {rail(">", "0"), Answer{Failed: "down"}, open("down")},
		"not a number":         {rail("<=", "0"), Answer{Value: math.NaN()}, open("the answer is not a number")},
		"an invalid threshold": {rail("<=", "x"), Answer{Value: 1}, open(`strconv.ParseFloat: parsing "x": invalid syntax`)},
		"infinite breaks":      {rail("<", "1"), Answer{Value: math.Inf(1)}, broken("+Inf, wanted < 1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rules := resize.Rules{Guardrails: []v1alpha1.SLOGuardrail{test.rail}}
			asked := Questions(rules)
			assert.Equal(t, []Question{{Name: "latency"}}, asked)
			assert.Empty(t, QuestionsBefore(rules))
			assert.Equal(t, test.want, guardrails(Case{Rules: rules, Signals: Signals{Answers: map[Question]Answer{asked[0]: test.answer}}}))
			assert.Zero(t, guardrails(Case{Rules: rules}), "without a usage source it is not judged")
		})
	}
}
