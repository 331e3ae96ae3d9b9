package harm

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// Trigger is one reason to revert a resize. A new trigger needs a row in Triggers and nothing else: the loop sends its
// queries, tuning stores the results from before the resize in the record, and Judge calls it. Its functions are pure.
type Trigger struct {
	// Harm is the regression that it finds. The word appears in floors, metrics and history rows. Empty: it finds none,
	// and can only make the verdict inconclusive.
	Harm resize.Harm
	// When is the earliest time at which it is judged.
	When Moment
	// During: its queries are also sent during the observation period, and a regression is reverted then. Missing results
	// count at the end only.
	During bool
	// Excusable: the regression has causes other than the resize, such as a reboot of the node (excused).
	Excusable bool
	// Passing: such a cause excuses the regression only while it lasts, and at most for excusedFor (postponed).
	Passing bool
	// Asks returns the queries whose results it judges, from the policy's settings; nil: none. The measurements of
	// containers in Signals are always made.
	Asks func(resize.Rules) []Question
	// Judge returns the regression, or that it cannot decide. The zero Verdict: no regression.
	Judge func(Case) resize.Verdict
}

// Triggers are all triggers, in the order in which they are reported: the first that finds a regression, or cannot
// decide, gives the verdict.
var Triggers = []Trigger{
	{Harm: resize.HarmOOM, When: AtOnce, Judge: killed},
	{Harm: resize.HarmRestart, When: AtOnce, Excusable: true, Judge: restarted},
	{Harm: resize.HarmOOM, When: OnceMeasured, Judge: childKilled},
	{Judge: unseenKills},
	{Harm: resize.HarmThrottle, Judge: throttled},
	{Harm: resize.HarmNotReady, Excusable: true, Judge: unready},
	{Harm: resize.HarmSLO, During: true, Passing: true, Asks: guardrailQuestions, Judge: guardrails},
	{Judge: leftOpen},
}

// Moment is a time at which triggers are judged.
type Moment int

const (
	// AtEnd is the end of the observation period, for signals that can be bad for a moment while a process adjusts.
	AtEnd Moment = iota
	// AtOnce is every reconcile, by the pod's own status alone (Shown).
	AtOnce
	// OnceMeasured is every reconcile that has the measurements.
	OnceMeasured
)

// Question is a PromQL query with one number as the result. The loop sends it to the policy's usage source at the end
// of the observation period, once for all pods of a wave. Those of triggers with During are also sent every
// lifecycle.AskEvery until then.
type Question struct {
	// Name identifies the query in messages and records.
	Name string
	// Query is the PromQL.
	Query string
	// Before: it is also sent before the resize, and the record stores that result (Case.Before).
	Before bool
}

// Answer is the result of a question.
type Answer struct {
	// Value may be NaN, such as a ratio without requests. It is not valid if Failed is set.
	Value float64
	// Failed is why there is no result; empty: there is one.
	Failed string
}

// Questions returns the queries of all triggers.
func Questions(rules resize.Rules) []Question {
	var asked []Question
	for _, t := range Triggers {
		if t.Asks != nil {
			asked = append(asked, t.Asks(rules)...)
		}
	}
	return asked
}

// QuestionsDuring returns the queries to send during an observation period.
func QuestionsDuring(rules resize.Rules) []Question {
	var asked []Question
	for _, t := range Triggers {
		if t.During {
			asked = append(asked, t.Asks(rules)...)
		}
	}
	return asked
}

// QuestionsBefore returns the queries to send before a resize.
func QuestionsBefore(rules resize.Rules) []Question {
	return slices.DeleteFunc(Questions(rules), func(q Question) bool { return !q.Before })
}

// Measured returns the results from before a resize as its record stores them. It leaves out queries without a result.
func Measured(rules resize.Rules, answers map[Question]Answer) []v1alpha1.Measurement {
	var measured []v1alpha1.Measurement
	for _, q := range QuestionsBefore(rules) {
		if a, asked := answers[q]; asked && a.Failed == "" {
			measured = append(measured, v1alpha1.Measurement{Name: q.Name, Value: strconv.FormatFloat(a.Value, 'g', -1, 64)})
		}
	}
	return measured
}

// Case is a resize to be judged.
type Case struct {
	// Pod is the resized pod.
	Pod *corev1.Pod
	// Record of the resize, with Changes of its containers.
	Record  v1alpha1.ResizeRecord
	Changes []resize.Change
	// Rules are the policy's settings. They and Signals are zero for triggers that are judged AtOnce.
	Rules   resize.Rules
	Signals Signals

	// now is the time of the judgement; zero for triggers that are judged AtOnce.
	now time.Time
	// statuses are those of the pod's containers, by name.
	statuses map[string]*corev1.ContainerStatus
}

func caseOf(pod *corev1.Pod, record v1alpha1.ResizeRecord) Case {
	return Case{Pod: pod, Record: record, Changes: resize.Changes(record), statuses: podview.Statuses(pod)}
}

// Before returns the result of a query from before the resize; false: the record has none.
func (c Case) Before(q Question) (float64, bool) {
	measured := podview.First(c.Record.Measured, func(m v1alpha1.Measurement) bool { return m.Name == q.Name })
	value, err := strconv.ParseFloat(measured.Value, 64)
	return value, err == nil
}

// excused returns the verdict of a trigger, without a regression that has another possible cause.
func (c Case) excused(t Trigger) resize.Verdict {
	v := t.Judge(c)
	if t.Passing && v.Harm != "" {
		return c.postponed(v)
	}
	return excused(v, c.Record, c.Signals)
}

// during applies the triggers that are judged during the observation period. Without a regression it decides nothing
// but that they are judged again.
func (c Case) during() resize.Verdict {
	for _, t := range Triggers {
		if !t.During {
			continue
		}
		if v := c.excused(t); v.Harm != "" || v.Again {
			return v
		}
	}
	return resize.Verdict{}
}

// orDuring adds the triggers that are judged during the observation period to an inconclusive verdict: another signal
// that cannot be judged does not hide a regression.
func (c Case) orDuring(open resize.Verdict) resize.Verdict {
	if !open.Inconclusive || c.Record.WatchUntil == nil {
		return open
	}
	v := c.during()
	if v.Harm != "" {
		return v
	}
	open.Again = v.Again
	return open
}

// judge applies the triggers of a moment. The verdict also lists the signals that earlier triggers could not judge.
func (c Case) judge(when Moment) resize.Verdict {
	var notJudged []string
	for _, t := range Triggers {
		if t.When != when {
			continue
		}
		v := c.excused(t)
		notJudged = append(notJudged, v.NotJudged...)
		if v.Harm != "" || v.Inconclusive {
			v.NotJudged = notJudged
			if v.Inconclusive && len(notJudged) > 0 {
				v.Message += "; " + unjudged(notJudged)
			}
			return v
		}
	}
	return resize.Verdict{NotJudged: notJudged, Message: unjudged(notJudged)}
}
