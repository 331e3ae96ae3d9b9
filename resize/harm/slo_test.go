package harm

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/resizetest"
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
			assert.Equal(t, test.want, guardrails(Case{Rules: rules, Changes: []resize.Change{{Prior: resizetest.Prior, Desired: desired}}, Signals: Signals{Answers: map[Question]Answer{asked[0]: test.answer}}}))
			assert.Zero(t, guardrails(Case{Rules: rules, Changes: []resize.Change{{Prior: resizetest.Prior, Desired: desired}}}), "without a usage source it is not judged")
		})
	}
}

// A violated guardrail ends the observation at once. Missing answers are judged at its end only, and so are other signals.
func TestGuardrailsAreJudgedDuringTheObservation(t *testing.T) {
	rules := resizetest.Auto()
	rules.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency", Query: "a", Comparison: "<", Threshold: "1"}, {Name: "errors", Query: "b", Comparison: "<", Threshold: "1"}}
	asked := Questions(rules)
	assert.Equal(t, asked, QuestionsDuring(rules))
	const violated = "SLO guardrail errors is violated: errors: 3, wanted < 1"
	for name, test := range map[string]struct {
		answers map[Question]Answer
		after   time.Duration
		want    lifecycle.StateKind
		message string
	}{
		"both hold":                     {map[Question]Answer{asked[0]: {}, asked[1]: {}}, time.Minute, lifecycle.Watching, ""},
		"violated":                      {map[Question]Answer{asked[0]: {}, asked[1]: {Value: 3}}, time.Minute, lifecycle.Harmed, violated},
		"violated, the other is down":   {map[Question]Answer{asked[0]: {Failed: "down"}, asked[1]: {Value: 3}}, time.Minute, lifecycle.Harmed, violated},
		"the source is down":            {map[Question]Answer{asked[0]: {Failed: "down"}, asked[1]: {Failed: "down"}}, time.Minute, lifecycle.Watching, ""},
		"no traffic":                    {map[Question]Answer{asked[0]: {Value: math.NaN()}, asked[1]: {Value: math.NaN()}}, time.Minute, lifecycle.Watching, ""},
		"not asked":                     {nil, time.Minute, lifecycle.Watching, ""},
		"violated at the end":           {map[Question]Answer{asked[0]: {}, asked[1]: {Value: 3}}, 5 * time.Minute, lifecycle.Harmed, violated},
		"the source is down at the end": {map[Question]Answer{asked[0]: {}, asked[1]: {Failed: "down"}}, 5 * time.Minute, lifecycle.Settled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			record := recorded(desired, resizetest.WatchedUntil(5*time.Minute))
			pod := resizetest.Resized(desired, resizetest.Observed, resizetest.Done(desired))
			signals := Signals{Answers: test.answers, Throttle: map[string]float64{}}
			state := Assess(pod, record, resizetest.Able(), noon.Add(test.after), rules, signals)
			assert.Equal(t, test.want, state.Kind)
			assert.Equal(t, test.message, state.Message)
			if test.message != "" {
				assert.Equal(t, resize.HarmSLO, state.Verdict.Harm)
			}
		})
	}
}

// The condition was violated because the pods had too little, and the other pods still have: less would not fix it. A
// raise in answer to an OOM kill would be reverted to the size that killed the container.
func TestGuardrailsRevertNoResizeThatOnlyRaises(t *testing.T) {
	rules := resizetest.Auto()
	rules.Guardrails = []v1alpha1.SLOGuardrail{{Name: "errors", Query: "b", Comparison: "<", Threshold: "1"}}
	signals := Signals{Answers: map[Question]Answer{Questions(rules)[0]: {Value: 3}}, Throttle: map[string]float64{"app": 0}, OOMEvents: map[string]float64{"app": 0}}
	for name, test := range map[string]struct {
		to   recommender.Size
		want lifecycle.StateKind
	}{
		"CPU raised":                  {resizetest.Size(1000, 2000, 512, 1024), lifecycle.Watching},
		"memory raised":               {resizetest.Size(500, 1000, 1024, 2048), lifecycle.Watching},
		"CPU raised, memory lowered":  {resizetest.Size(1000, 2000, 256, 512), lifecycle.Harmed},
		"request raised, limit lower": {resizetest.Size(600, 800, 512, 1024), lifecycle.Harmed},
	} {
		for after, want := range map[time.Duration]lifecycle.StateKind{time.Minute: test.want, 5 * time.Minute: test.want} {
			if want == lifecycle.Watching && after == 5*time.Minute {
				want = lifecycle.Settled
			}
			record := recorded(test.to, resizetest.WatchedUntil(5*time.Minute))
			pod := resizetest.Resized(test.to, resizetest.Observed, resizetest.Done(test.to))
			state := Assess(pod, record, resizetest.Able(), noon.Add(after), rules, signals)
			assert.Equal(t, want, state.Kind, "%s after %s", name, after)
		}
	}
}

// A rollout, a drain or a reboot violates a guardrail too. The decrease is not reverted meanwhile, and it is not
// accepted either: it is judged again, and at the latest an hour after the observation period.
func TestGuardrailsWaitForOtherCausesToPass(t *testing.T) {
	rules := resizetest.Auto()
	rules.Guardrails = []v1alpha1.SLOGuardrail{{Name: "errors", Query: "b", Comparison: "<", Threshold: "1"}}
	broken := map[Question]Answer{Questions(rules)[0]: {Value: 3}}
	const violated = "SLO guardrail errors is violated: errors: 3, wanted < 1"
	again := func(why string) string { return why + ", so the guardrail is checked again: " + violated }
	for name, test := range map[string]struct {
		signals Signals
		after   time.Duration
		edit    func(*corev1.Pod)
		want    lifecycle.StateKind
		message string
	}{
		"a rollout":                         {Signals{Rollout: true}, time.Minute, nil, lifecycle.Watching, again("the workload is rolling out")},
		"a rollout, at the end":             {Signals{Rollout: true}, 5 * time.Minute, nil, lifecycle.Settled, again("the workload is rolling out")},
		"a drain":                           {Signals{Evicted: true}, time.Minute, nil, lifecycle.Watching, again("pods of the workload are being evicted")},
		"a node that is down":               {Signals{NodeNotReady: true}, time.Minute, nil, lifecycle.Watching, again("the node is not ready")},
		"a reboot":                          {Signals{NodeBooted: noon.Add(time.Minute)}, 5 * time.Minute, nil, lifecycle.Settled, again("the node has just restarted")},
		"a reboot before the resize":        {Signals{NodeBooted: noon.Add(-time.Hour)}, time.Minute, nil, lifecycle.Harmed, violated},
		"a reboot that is over":             {Signals{NodeBooted: noon.Add(time.Minute)}, 11 * time.Minute, nil, lifecycle.Harmed, violated},
		"a rollout that does not end":       {Signals{Rollout: true}, 65 * time.Minute, nil, lifecycle.Harmed, violated},
		"other pods are not ready":          {Signals{SiblingsUnready: true}, time.Minute, nil, lifecycle.Harmed, violated},
		"not ready after a reboot":          {Signals{NodeBooted: noon.Add(time.Minute)}, 5 * time.Minute, unreadyNow, lifecycle.Settled, ""},
		"not ready long after a reboot":     {Signals{NodeBooted: noon.Add(time.Minute)}, 11 * time.Minute, unreadyNow, lifecycle.Harmed, violated},
		"restarts after a reboot, violated": {Signals{NodeBooted: noon.Add(time.Minute)}, 11 * time.Minute, restarts(2), lifecycle.Harmed, violated},
	} {
		t.Run(name, func(t *testing.T) {
			record := recorded(desired, resizetest.WatchedUntil(5*time.Minute))
			pod := resizetest.Resized(desired, resizetest.Observed, resizetest.Done(desired))
			if test.edit != nil {
				test.edit(pod)
			}
			test.signals.Answers, test.signals.Throttle = broken, map[string]float64{}
			state := Assess(pod, record, resizetest.Able(), noon.Add(test.after), rules, test.signals)
			assert.Equal(t, test.want, state.Kind)
			if test.want == lifecycle.Harmed {
				assert.Equal(t, test.message, state.Message)
				return
			}
			assert.True(t, state.Verdict.Again)
			assert.Contains(t, state.Verdict.Message, test.message)
			if record.Extended = true; test.want == lifecycle.Settled {
				assert.Equal(t, lifecycle.ExtendWatch, lifecycle.Next(state, record, rules, lifecycle.Circumstances{}, noon.Add(test.after)).Kind)
			}
		})
	}
}
