package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

const (
	cpu    = recommender.CPU
	memory = recommender.Memory
)

// A move continues a step if it ends close to the step's size. A pod that has that size takes no second step in it.
func TestStepContinues(t *testing.T) {
	step := StepOf(v1alpha1.AttuneRecommendationStatus{Verified: keptAt(size(500, 1000, 512, 1024))}, "abc")
	for _, tc := range []struct {
		name             string
		from, to         recommender.Size
		ofCPU, ofMemory  bool
		withoutContainer bool
	}{
		{name: "the same move", from: size(1000, 2000, 512, 1024), to: size(500, 1000, 512, 1024), ofCPU: true},
		{name: "a target that changed a little: less", from: size(1000, 2000, 512, 1024), to: size(420, 840, 512, 1024), ofCPU: true},
		{name: "a target that changed a little: more", from: size(1000, 2000, 512, 1024), to: size(580, 1160, 512, 1024), ofCPU: true},
		{name: "a target that changed much", from: size(1000, 2000, 512, 1024), to: size(600, 1200, 512, 1024)},
		{name: "the second step of a pod", from: size(500, 1000, 512, 1024), to: size(250, 500, 512, 1024)},
		{name: "the second step of a pod, of 5 %", from: size(500, 1000, 512, 1024), to: size(475, 950, 512, 1024)},
		{name: "a pod that was larger, capped above the step", from: size(2000, 2000, 512, 1024), to: size(1000, 1000, 512, 1024)},
		{name: "up to the step", from: size(400, 800, 512, 1024), to: size(500, 1000, 512, 1024), ofCPU: true},
		{name: "up past the step", from: size(400, 800, 512, 1024), to: size(600, 1200, 512, 1024)},
		{name: "one resource continues, the other does not", from: size(1000, 2000, 1024, 1024), to: size(500, 1000, 768, 1024), ofCPU: true},
		{name: "only the limit moves", from: size(500, 1000, 512, 2048), to: size(500, 1000, 512, 1024), ofMemory: true},
		{name: "an unknown container", from: size(1000, 2000, 512, 1024), to: size(500, 1000, 512, 1024), withoutContainer: true},
	} {
		m := Move{Container: "app", From: tc.from, To: tc.to}
		if tc.withoutContainer {
			m.Container = "other"
		}
		assert.Equal(t, tc.ofCPU, step.Continues(m, cpu), "%s: cpu", tc.name)
		assert.Equal(t, tc.ofMemory, step.Continues(m, memory), "%s: memory", tc.name)
	}
}

// A step belongs to one template generation, and a regression ends it.
func TestStepOf(t *testing.T) {
	status := v1alpha1.AttuneRecommendationStatus{Verified: keptAt(size(500, 1000, 512, 1024))}
	assert.NotEmpty(t, StepOf(status, "abc"))
	assert.Empty(t, StepOf(status, "another"))
	status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 1}
	assert.Empty(t, StepOf(status, "abc"))
}

// The condition of a raise that is due: at least 10 samples, and their p95 above the live request, or throttled in more
// than a quarter of the periods.
func TestAbove(t *testing.T) {
	has := recommender.Allocation{Request: 10, Limit: 20}
	lately := func(p95 recommender.Usage, samples int, throttled float64) Lately {
		return Lately{P95: [2]recommender.Usage{p95, p95}, Samples: [2]int{samples, samples}, Throttled: throttled}
	}
	for _, tc := range []struct {
		name        string
		lately      Lately
		has         recommender.Allocation
		cpu, memory bool
	}{
		{"33m used, 10m requested", lately(33, 10, 0), has, true, true},
		{"nine samples", lately(33, 9, 1), has, false, false},
		{"exactly the request", lately(10, 20, 0), has, false, false},
		{"throttled by a limit equal to the request", lately(9.5, 20, 0.26), recommender.Allocation{Request: 10, Limit: 10}, true, false},
		{"throttled a quarter", lately(9.5, 20, 0.25), has, false, false},
		{"no request", lately(33, 20, 1), recommender.Allocation{}, false, false},
		{"nothing measured", Lately{Throttled: 1}, has, false, false},
	} {
		assert.Equal(t, tc.cpu, tc.lately.Above(cpu, tc.has), "%s: cpu", tc.name)
		assert.Equal(t, tc.memory, tc.lately.Above(memory, tc.has), "%s: memory", tc.name)
	}
}

// In a cooldown only raises that are due and moves that continue the step go. Everything else of the plan waits, and
// after a regression all of it.
func TestWithinCooldown(t *testing.T) {
	cooling := func(edit func(*GateInput)) GateInput {
		in := world(func(w *GateInput) { w.Status.CooldownFrom = ago(time.Minute) })
		if edit != nil {
			edit(&in)
		}
		return in
	}
	due := Due{"app": {true, true}}
	for _, tc := range []struct {
		name   string
		in     GateInput
		wish   recommender.Size
		want   recommender.Size
		reason string
		left   int
	}{
		{name: "nothing goes", in: cooling(nil), wish: size(1000, 2000, 512, 1024), reason: ReasonCooldown},
		{name: "a raise that is due", in: cooling(func(w *GateInput) { w.Due = due }), wish: size(800, 1600, 512, 1024), want: size(800, 1600, 512, 1024)},
		{name: "a decrease is never due", in: cooling(func(w *GateInput) { w.Due = due }), wish: size(250, 500, 512, 1024), reason: ReasonCooldown},
		{
			name: "a raise that is due takes no memory decrease along", in: cooling(func(w *GateInput) { w.Due = due }),
			wish: size(800, 1600, 256, 1024), want: size(800, 1600, 512, 1024), left: 1,
		},
		{
			name: "the raise of another container is due", in: cooling(func(w *GateInput) { w.Due = Due{"side": {true, true}} }),
			wish: size(800, 1600, 512, 1024), reason: ReasonCooldown,
		},
		{
			name: "due, after a regression", in: cooling(func(w *GateInput) { w.Due, w.Status.Backoff = due, &v1alpha1.Backoff{ConsecutiveReverts: 1} }),
			wish: size(800, 1600, 512, 1024), reason: ReasonCooldown,
		},
		{
			name: "the next wave of the step", in: cooling(func(w *GateInput) { w.Status.Verified = keptAt(size(250, 500, 512, 1024)) }),
			wish: size(250, 500, 512, 1024), want: size(250, 500, 512, 1024),
		},
		{
			name: "the next wave of the step, outside of the schedule",
			in: cooling(func(w *GateInput) {
				w.Status.Verified, w.Rules.Schedule = keptAt(size(250, 500, 512, 1024)), Schedule{Windows: []Window{{Start: 60, End: 120}}}
			}),
			wish: size(250, 500, 512, 1024), reason: ReasonOutsideSchedule,
		},
		{
			name: "due, and an HPA scales on it", in: cooling(func(w *GateInput) {
				w.Due, w.Workload.HPA = due, map[string]Held{"app": {Of: [2]bool{true, false}, By: "web"}}
			}),
			wish: size(800, 1600, 512, 1024), reason: ReasonHPA,
		},
		{
			name: "due, in a rollout", in: cooling(func(w *GateInput) { w.Due, w.Workload.Rollout = due, "1 of 2" }),
			wish: size(800, 1600, 512, 1024), reason: ReasonRolloutInProgress,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := web()
			plan, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), tc.in)
			if tc.reason != "" {
				require.NotNil(t, refusal)
				assert.Equal(t, tc.reason, refusal.Reason)
				return
			}
			require.Nil(t, refusal, "%v", refusal)
			assert.Equal(t, tc.want, specOf(plan.Apply(pod))["app"])
			assert.Len(t, plan.LeftOut, tc.left)
		})
	}
}
