package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// A size that a node refused starts no cooldown; every other end of a resize does.
func TestCoolsDown(t *testing.T) {
	up, down := size(1000, 2000, 512, 1024), size(250, 500, 512, 1024)
	recreate := auto()
	recreate.Method = v1alpha1.ResizeInPlaceOrRecreate
	for _, tc := range []struct {
		name   string
		to     recommender.Size
		result string
		reason string
		rules  Rules
		want   bool
	}{
		{"infeasible growth", up, ResultWithdrawn, ReasonInfeasible, auto(), false},
		{"an infeasible lowering", down, ResultWithdrawn, ReasonInfeasible, auto(), false},
		{"infeasible, and the pod was to go", up, ResultWithdrawn, ReasonInfeasible, recreate, true},
		{"infeasible, and nothing that a pod goes for", down, ResultWithdrawn, ReasonInfeasible, recreate, false},
		{"it went", up, ResultEvicted, ReasonInfeasible, recreate, true},
		{"deferred: it held room while it waited", up, ResultWithdrawn, ReasonDeferred, auto(), true},
		{"unobserved: the node may still have it", up, ResultWithdrawn, ReasonUnobserved, auto(), true},
		{"harm", down, ResultReverted, string(HarmOOM), auto(), true},
		{"success", down, ResultSuccess, "", auto(), true},
	} {
		action := Action{Kind: Forget, Result: tc.result, Reason: tc.reason}
		assert.Equal(t, tc.want, CoolsDown(refused(t, tc.to, tc.reason), action, tc.rules), tc.name)
	}
}

// The same size is not requested in a loop, and other sizes are not blocked.
func TestInfeasibleSizes(t *testing.T) {
	up, more, down := size(1000, 2000, 512, 1024), size(1100, 2200, 512, 1024), size(250, 500, 512, 1024)
	both := size(1000, 2000, 600, 1200)
	rows := func(to recommender.Size, reason string, since ...time.Duration) func(Rules) []v1alpha1.Try {
		return func(rules Rules) (all []v1alpha1.Try) {
			for _, d := range since {
				all = NotDone(all, refused(t, to, reason), reason, "", rules, noon.Add(-d))
			}
			return all
		}
	}
	for _, tc := range []struct {
		name   string
		tries  func(Rules) []v1alpha1.Try
		edit   func(*GateInput)
		wish   recommender.Size
		reason string
	}{
		{"the same", rows(up, ReasonInfeasible, 59*time.Minute), nil, up, ReasonInfeasible},
		{"the same, after a cooldown", rows(up, ReasonInfeasible, time.Hour), nil, up, ""},
		{"for the second time", rows(up, ReasonInfeasible, 3*time.Hour, 119*time.Minute), nil, up, ReasonInfeasible},
		{"for the second time, after two cooldowns", rows(up, ReasonInfeasible, 4*time.Hour, 2*time.Hour), nil, up, ""},
		{"without a cooldown", rows(up, ReasonInfeasible, 9*time.Minute), func(w *GateInput) { w.Rules.Cooldown = 0 }, up, ReasonInfeasible},
		{"without a cooldown, a while later", rows(up, ReasonInfeasible, 10*time.Minute), func(w *GateInput) { w.Rules.Cooldown = 0 }, up, ""},
		{"where the pod may go instead", rows(up, ReasonInfeasible, time.Minute), func(w *GateInput) { w.Rules.Method = v1alpha1.ResizeInPlaceOrRecreate }, up, ""},
		{"where no pod goes for it", rows(down, ReasonInfeasible, time.Minute), func(w *GateInput) { w.Rules.Method = v1alpha1.ResizeInPlaceOrRecreate }, down, ReasonInfeasible},
		{"another size", rows(up, ReasonInfeasible, time.Minute), nil, more, ""},
		{"a part of it", rows(both, ReasonInfeasible, time.Minute), nil, up, ""},
		{"more than that", rows(up, ReasonInfeasible, time.Minute), nil, both, ""},
		{"put off only", rows(up, ReasonDeferred, time.Minute), nil, up, ""},
		{"the first of two patches", rows(down, ReasonInfeasible, time.Minute), nil, size(250, 500, 256, 512), ReasonInfeasible},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := world(func(*GateInput) {})
			if tc.edit != nil {
				tc.edit(&w)
			}
			w.Status.Tries = tc.tries(w.Rules)
			pod := web()
			pod.CreationTimestamp = *ago(-time.Hour) // by another clock (case 16)
			_, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), w)
			check(t, tc.reason, refusal)
			if refusal != nil {
				assert.True(t, refusal.Until.After(noon), "it says when")
			}

			pod.Name = "web-2"
			_, refusal = Admit(pod, mustPlan(t, pod, wish(tc.wish)), w)
			check(t, "", refusal)
		})
	}
	grown := size(500, 1000, 600, 1200)
	killed := world(func(w *GateInput) { w.Status.Tries = rows(grown, ReasonInfeasible, time.Minute)(auto()) })
	plan := mustPlan(t, web(), wish(grown))
	_, refusal := Admit(web(), plan, killed)
	check(t, ReasonInfeasible, refusal)
	_, refusal = Admit(web(), plan.AsUrgent(), killed)
	check(t, "", refusal)
}
