package harm

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// guardrailQuestions returns the SLO queries of the policy.
func guardrailQuestions(rules resize.Rules) []Question {
	asked := make([]Question, 0, len(rules.Guardrails))
	for _, g := range rules.Guardrails {
		asked = append(asked, questionOf(g))
	}
	return asked
}

func questionOf(g v1alpha1.SLOGuardrail) Question { return Question{Name: g.Name, Query: g.Query} }

// guardrails judges the policy's SLO queries: a violated SLO is a regression; a query without an answer makes the
// verdict inconclusive. A resize that lowers nothing did not cause a violation, and less would not end it: the container
// may have been raised because of an OOM kill, or because it starves as the other pods still do.
func guardrails(c Case) resize.Verdict {
	var open resize.Verdict
	if !slices.ContainsFunc(c.Changes, func(c resize.Change) bool { return c.Move().Lowers() }) {
		return open
	}
	for _, g := range c.Rules.Guardrails {
		answer, asked := c.Signals.Answers[questionOf(g)]
		if !asked {
			continue
		}
		switch broken, failed := compare(g, answer); {
		case failed != "":
			open = resize.Verdict{Inconclusive: true, Message: fmt.Sprintf("SLO guardrail %s could not be checked: %s", g.Name, failed)}
		case broken != "":
			return resize.Verdict{Harm: resize.HarmSLO, Message: fmt.Sprintf("SLO guardrail %s is violated: %s", g.Name, broken)}
		}
	}
	return open
}

// compare returns how a result breaks its guardrail, or why it could not be compared; both empty: the guardrail holds.
// NaN, for example a ratio without requests, and an invalid threshold are never a regression.
func compare(g v1alpha1.SLOGuardrail, a Answer) (broken, failed string) {
	threshold, err := strconv.ParseFloat(string(g.Threshold), 64)
	switch {
	case a.Failed != "":
		return "", a.Failed
	case err != nil:
		return "", err.Error()
	case math.IsNaN(a.Value):
		return "", "the answer is not a number"
	}
	held := map[v1alpha1.Comparison]bool{
		"<": a.Value < threshold, "<=": a.Value <= threshold, ">": a.Value > threshold, ">=": a.Value >= threshold,
	}[g.Comparison]
	if held {
		return "", ""
	}
	return fmt.Sprintf("%s: %g, wanted %s %s", g.Name, a.Value, g.Comparison, g.Threshold), ""
}
