package resize_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

var (
	overQuota     = Outcome{Kind: OutcomePolicyRefusal, Reason: RefusedQuota, Message: "exceeded quota: q", RetryAfter: 10 * time.Minute}
	policySays    = Outcome{Kind: OutcomePolicyRefusal, Reason: "AdmissionPolicy", Message: "not here", RetryAfter: 10 * time.Minute}
	starting      = Outcome{Kind: OutcomeTransient, Reason: "NotReady", Message: "not yet ready", RetryAfter: 5 * time.Second}
	neverValid    = Outcome{Kind: OutcomeTerminal, Reason: "Invalid", Message: "spec: Forbidden"}
	met           = Outcome{Kind: OutcomeConflict, Reason: "Conflict", Message: "modified", RetryAfter: 5 * time.Second}
	notThere      = Outcome{Kind: OutcomeGone, Reason: "NotFound", Message: "could not find"}
	forbiddenToUs = Outcome{Kind: OutcomeRBAC, Reason: "Forbidden", Message: "cannot patch", RetryAfter: 10 * time.Minute}
	nodeRefuses   = Outcome{Kind: OutcomeInfeasible, Reason: "NodeCapacity", Message: "too big", RetryAfter: 10 * time.Minute}
)

func TestDeclinedResizeIsRetriedWhenItsCauseMayHaveChanged(t *testing.T) {
	// Cases 17, 26, 54, 56, 60.
	up, down := size(1000, 2000, 512, 1024), size(250, 500, 512, 1024)
	another := func(p *corev1.Pod) { p.UID = "other" }
	newer := func(p *corev1.Pod) { p.Generation++ }
	quota := func(version string) func(*GateInput) {
		return func(w *GateInput) {
			q := corev1.ResourceQuota{}
			q.Name, q.ResourceVersion = "q", version
			w.Namespace.Quotas = []corev1.ResourceQuota{q}
		}
	}
	for _, tc := range []struct {
		name    string
		outcome Outcome
		asked   recommender.Size
		pod     func(*corev1.Pod)
		wish    recommender.Size
		world   func(*GateInput)
		after   time.Duration
		stops   bool
	}{
		{name: "a policy, soon after", outcome: policySays, asked: up, wish: up, after: 9 * time.Minute, stops: true},
		{name: "a policy, another size and pod", outcome: policySays, asked: up, pod: another, wish: down, after: 9 * time.Minute, stops: true},
		{name: "a policy, later", outcome: policySays, asked: up, wish: up, after: 10 * time.Minute},
		{name: "a server that starts, at once", outcome: starting, asked: up, wish: up, after: 4 * time.Second, stops: true},
		{name: "a server that starts, soon", outcome: starting, asked: up, wish: up, after: 5 * time.Second},
		{name: "a quota, more again", outcome: overQuota, asked: up, wish: up, after: time.Minute, stops: true},
		{name: "a quota, more of another pod", outcome: overQuota, asked: up, pod: another, wish: up, after: time.Minute, stops: true},
		{name: "a quota, lowering", outcome: overQuota, asked: up, pod: another, wish: down, after: time.Minute},
		{name: "a quota that has changed", outcome: overQuota, asked: up, wish: up, world: quota("2"), after: 5 * time.Second},
		{name: "a quota that changes all the time", outcome: overQuota, asked: up, wish: up, world: quota("2"), after: 4 * time.Second, stops: true},
		{name: "a policy does not look at quotas", outcome: policySays, asked: up, wish: up, world: quota("2"), after: time.Minute, stops: true},
		{name: "never valid, a day later", outcome: neverValid, asked: up, wish: up, after: 47 * time.Hour, stops: true},
		{name: "never valid, two days later", outcome: neverValid, asked: up, wish: up, after: 48 * time.Hour},
		{name: "never valid, another size", outcome: neverValid, asked: up, wish: size(1100, 2000, 512, 1024)},
		{name: "never valid, another pod", outcome: neverValid, asked: up, pod: another, wish: up},
		{name: "never valid, the pod has changed", outcome: neverValid, asked: up, pod: newer, wish: up},
		{name: "the node refuses", outcome: nodeRefuses, asked: up, wish: up, after: 9 * time.Minute, stops: true},
		{name: "the node refuses, and another pod asks", outcome: nodeRefuses, asked: up, pod: another, wish: up, after: time.Minute},
		{name: "a conflict, at once", outcome: met, asked: up, wish: up, after: 4 * time.Second, stops: true},
		{name: "a conflict, another pod", outcome: met, asked: up, pod: another, wish: up},
		{name: "a conflict, soon", outcome: met, asked: up, wish: up, after: 5 * time.Second},
		{name: "not found, at once", outcome: notThere, asked: up, wish: up, after: 59 * time.Second, stops: true},
		{name: "not found, a minute later", outcome: notThere, asked: up, wish: up, after: time.Minute},
		{name: "no rights: that is known elsewhere", outcome: forbiddenToUs, asked: up, wish: up},
	} {
		t.Run(tc.name, func(t *testing.T) {
			then := world(quota("1"))
			then.Status.Tries = Declined(nil, tc.outcome, web(), mustPlan(t, web(), wish(tc.asked)), then)
			pod := web()
			if tc.pod != nil {
				tc.pod(pod)
				pod.Status.ObservedGeneration = pod.Generation
			}
			now := then
			if tc.world != nil {
				tc.world(&now)
			}
			now.Now = noon.Add(tc.after)
			now.Node.Room, now.Node.Capabilities = nil, able()
			_, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), now)
			if !tc.stops {
				require.Nil(t, refusal, "%v", refusal)
				return
			}
			check(t, ReasonRefused, refusal)
			assert.Contains(t, refusal.Message, tc.outcome.Message)
			assert.Equal(t, tc.outcome.Kind != OutcomeTerminal, refusal.Transient)
		})
	}
}

// The use of a quota changes with every pod of its namespace: after several refusals in a row attune retries less
// often, even if the quota changes all the time.
func TestAQuotaThatChangesAllTheTimeIsAskedLessOften(t *testing.T) {
	version := 0
	changing := func(w *GateInput) {
		version++
		q := corev1.ResourceQuota{}
		q.Name, q.ResourceVersion = "q", fmt.Sprint(version)
		w.Namespace.Quotas = []corev1.ResourceQuota{q}
	}
	w := open()
	w.Now, w.Node.Room, w.Node.Capabilities = noon, nil, able()
	plan := mustPlan(t, web(), wish(size(1000, 2000, 512, 1024)))
	var waits []time.Duration
	for range 7 {
		w.Status.Tries = Declined(w.Status.Tries, overQuota, web(), plan, w)
		since := w.Now
		for {
			changing(&w)
			if _, refusal := Admit(web(), plan, w); refusal == nil {
				break
			}
			w.Now = w.Now.Add(time.Second)
		}
		waits = append(waits, w.Now.Sub(since))
	}
	const s = time.Second
	assert.Equal(t, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 80 * s, 80 * s}, waits)
}

func TestRepeatedFailuresBackOff(t *testing.T) {
	plan, w := mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), open()
	var known []v1alpha1.Try
	var waits []time.Duration
	for range 6 {
		known = Declined(known, policySays, web(), plan, w)
		require.Len(t, known, 1, "one row for the same")
		waits = append(waits, known[0].Until.Sub(w.Now))
		w.Now = known[0].Until.Time
	}
	const m = time.Minute
	assert.Equal(t, []time.Duration{10 * m, 20 * m, 40 * m, 80 * m, 160 * m, 160 * m}, waits)
	assert.EqualValues(t, 6, known[0].Times)
	known = Declined(known, starting, web(), plan, w)
	require.Len(t, known, 2)
	assert.Equal(t, 5*time.Second, known[1].Until.Sub(w.Now), "another reason begins anew")
	assert.Len(t, Remembered(known, known[0].Until.Add(159*m)), 1)
	assert.Empty(t, Remembered(known, known[0].Until.Add(160*m)), "every row is forgotten")
	w.Now = w.Now.Add(24 * time.Hour)
	known = Declined(known, policySays, web(), plan, w)
	require.Len(t, known, 1)
	assert.Equal(t, 10*m, known[0].Until.Sub(w.Now), "what comes much later begins anew")

	taken := Accepted(known, v1alpha1.ResizeRecord{PodUID: "other"})
	assert.Empty(t, taken, "a resize was taken: what stopped all of the workload is over")
	known = Declined(known, neverValid, web(), plan, w)
	assert.Len(t, Accepted(known, v1alpha1.ResizeRecord{PodUID: "other"}), 1, "what will never be valid stays so")
}

// Pods with the same answer become one row about their workload; the number of rows and their bytes are always bounded.
func TestTriesAreBounded(t *testing.T) {
	plan := mustPlan(t, web(), wish(size(1000, 2000, 512, 1024)))
	numbered := func(i int) *corev1.Pod {
		return with(web(), func(p *corev1.Pod) {
			p.Name, p.UID, p.Spec.NodeName = fmt.Sprint("web-", i), types.UID(fmt.Sprint(i)), fmt.Sprint("node-", i)
		})
	}
	for _, outcome := range []Outcome{neverValid, met, notThere} {
		var known []v1alpha1.Try
		for i := range 200 {
			known = Declined(known, outcome, numbered(i), plan, open())
			if i < MostAlike-1 {
				require.Len(t, known, i+1, "each pod has its own row")
				_, refusal := Admit(numbered(100), mustPlan(t, numbered(100), wish(size(1000, 2000, 512, 1024))), world(func(w *GateInput) { w.Status.Tries = known }))
				check(t, "", refusal)
			}
		}
		require.Len(t, known, 1, "it is about the workload")
		assert.Empty(t, known[0].Pod)
		_, refusal := Admit(numbered(300), mustPlan(t, numbered(300), wish(size(1000, 2000, 512, 1024))), world(func(w *GateInput) { w.Status.Tries = known }))
		check(t, ReasonRefused, refusal)
	}
	long := nodeRefuses
	long.Message = strings.Repeat("é", 10_000)
	var known []v1alpha1.Try
	for i := range 200 {
		long.Reason = fmt.Sprint("Why", i%7)
		known = Declined(known, long, numbered(i), plan, open())
		known = NotDone(known, refused(t, size(1000+recommender.Amount(i), 2000, 512, 1024), ReasonInfeasible), ReasonInfeasible, "no", auto(), noon)
		require.LessOrEqual(t, len(known), v1alpha1.MaxTries)
	}
	for _, row := range known {
		assert.LessOrEqual(t, len(row.Message), 256)
		assert.True(t, utf8.ValidString(row.Message))
		assert.True(t, row.Until.After(noon), "every row ends")
	}
}

// A replica whose clock is ahead wrote a row: it is active for the intended time only.
func TestTriesOfAClockThatIsAhead(t *testing.T) {
	w := open()
	w.Now = noon.Add(3 * time.Hour)
	known := TriesInOurTime(Declined(nil, policySays, web(), mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), w), noon)
	assert.True(t, known[0].Since.Time.Equal(noon))
	assert.True(t, known[0].Until.Time.Equal(noon.Add(10*time.Minute)))
}

// Case 38: after a runtime failed to carry out growth, no pod of the workload retries soon on that node.
func TestARuntimeThatRefusesGrowthIsRemembered(t *testing.T) {
	up, down, bigger := size(1000, 2000, 512, 1024), size(250, 500, 512, 1024), size(1200, 2400, 512, 1024)
	record := lifecycle.NewRecord(mustPlan(t, web(), wish(up)), web(), noon, auto())
	action := lifecycle.Next(lifecycle.State{Kind: lifecycle.Failed, Message: "NRI says no"}, record, auto(), lifecycle.Circumstances{}, noon.Add(time.Hour))
	require.Equal(t, lifecycle.Revert, action.Kind)
	assert.Equal(t, NodeBlock{Growth: noon.Add(10 * time.Minute)}, BlockOf(record, action.Reason, noon), "other workloads wait, too")
	known := NotDone(nil, record, action.Reason, "NRI says no", auto(), noon)
	for _, tc := range []struct {
		name   string
		wish   recommender.Size
		after  time.Duration
		node   string
		reason string
	}{
		{"the same growth", up, 59 * time.Minute, "node-1", ReasonNodeBlocked},
		{"other growth", bigger, 59 * time.Minute, "node-1", ReasonNodeBlocked},
		{"lowering", down, time.Minute, "node-1", ""},
		{"on another node", up, time.Minute, "node-2", ""},
		{"later", up, time.Hour, "node-1", ""},
	} {
		pod := with(web(), func(p *corev1.Pod) { p.Name, p.UID, p.Spec.NodeName = "web-2", "other", tc.node })
		_, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), world(func(w *GateInput) { w.Status.Tries, w.Now, w.Node.Room = known, noon.Add(tc.after), nil }))
		check(t, tc.reason, refusal)
		if refusal != nil {
			assert.Contains(t, refusal.Message, "NRI says no", tc.name)
		}
	}
	known = NotDone(known, record, action.Reason, "NRI says no", auto(), noon.Add(time.Hour))
	require.Len(t, known, 1)
	assert.True(t, known[0].Until.Time.Equal(noon.Add(3*time.Hour)), "less and less often: %s", known[0].Until)
	assert.Empty(t, NotDone(nil, record, string(HarmOOM), "", auto(), noon), "harm says nothing of the node")
}

// A leaking container gets more memory four times an hour, counted over all pods, and not for ever.
func TestAnswersToOOMKillsAreCounted(t *testing.T) {
	limit, at := recommender.Amount(1024), noon
	var known []v1alpha1.Try
	asking := func(memory recommender.Amount) Plan {
		return mustPlan(t, web(), wish(size(500, 1000, 512, memory))).AsUrgent()
	}
	for n := range 200 {
		limit += 100
		pod, plan := web(), asking(limit)
		pod.Name = fmt.Sprint("web-", n%20) // in turns
		_, refusal := Admit(pod, plan, world(func(w *GateInput) { w.Status.Tries, w.Now = known, at }))
		switch {
		case refusal != nil:
			require.Equal(t, ReasonTooManyOOMs, refusal.Reason)
			at = refusal.Until
			limit -= 100
		default:
			known = Begun(known, plan, at)
		}
		if Leaks(known) != nil {
			break
		}
		at = at.Add(time.Second)
	}
	leak := Leaks(known)
	require.NotNil(t, leak)
	assert.EqualValues(t, 1024+16*100, limit)
	assert.Equal(t, at.Sub(noon).Truncate(time.Hour), 3*time.Hour, "four an hour")
	assert.Len(t, known, 2, "two rows, however many pods")
	assert.Empty(t, Forgiven(known))
	assert.Nil(t, Leaks(Remembered(known, at.Add(7*24*time.Hour+time.Second))), "a week without one ends it")

	again := Begun(known, asking(limit-50), at)
	assert.Equal(t, known, again, "others of its pods follow up to what was reached")
}

// Objects that were stored before tries existed still work.
func TestOldObjectsHaveNoTries(t *testing.T) {
	rows := lifecycle.HistoryRows("web", refused(t, size(1000, 2000, 512, 1024), ReasonInfeasible), lifecycle.ResultWithdrawn, ReasonInfeasible, noon.Add(-time.Minute))
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), world(func(w *GateInput) { w.Status.History = rows }))
	check(t, "", refusal)
}

// Answers for single pods of a workload block an answer to an OOM kill of another pod, and an undo, for a minute, and
// other sizes for ten.
func TestAnswersToOtherPodsBlockBriefly(t *testing.T) {
	w := GateInput{Now: noon}
	for name, outcome := range map[string]Outcome{
		"never valid": {Kind: OutcomeTerminal, Reason: "Invalid", Message: "memory limits cannot be decreased"},
		"gone":        {Kind: OutcomeGone, Reason: "NotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			var tries []v1alpha1.Try
			for i := range 5 {
				pod := running(prior)
				pod.UID, pod.Name, pod.Generation = types.UID(fmt.Sprint(i)), fmt.Sprint("web-", i), int64(i+1)
				to := prior
				to[recommender.Memory].Limit -= recommender.Amount(1<<20) * recommender.Amount(i+1)
				plan := PlanOf(pod)
				plan.Moves = []Move{{Container: "app", From: prior, To: to}}
				tries = Declined(tries, outcome, pod, plan, w)
			}
			other := running(prior)
			other.UID, other.Name = "other", "web-9"
			more := prior
			more[recommender.Memory].Limit *= 2
			at := func(after time.Duration, change func(*Plan)) *Refusal {
				plan := PlanOf(other)
				plan.Moves = []Move{{Container: "app", From: prior, To: more}}
				change(&plan)
				return TriedLately(other, plan, GateInput{Now: noon.Add(after), Status: v1alpha1.AttuneRecommendationStatus{Tries: tries}})
			}
			urgent, undo, step := func(p *Plan) { p.Urgent = true }, func(p *Plan) { p.Wave = WaveUndo }, func(*Plan) {}
			assert.NotNil(t, at(30*time.Second, step))
			assert.NotNil(t, at(30*time.Second, urgent), "one row for all: asked again once a minute at most")
			assert.Nil(t, at(time.Minute, urgent))
			assert.Nil(t, at(time.Minute, undo))
			assert.Nil(t, at(10*time.Minute, step))
		})
	}
}

// A quota's or node's refusal of a size does not cover less memory, which an answer to an OOM kill may request: each
// smaller size is requested once while the row is active, and the wait for the refused size stays the same.
func TestSmallerSizeAfterAnOOMKillIsRequestedOnce(t *testing.T) {
	for name, outcome := range map[string]Outcome{"quota": overQuota, "node": nodeRefuses, "policy": policySays} {
		t.Run(name, func(t *testing.T) {
			w := open()
			w.Node.Room, w.Node.Capabilities = nil, able()
			asking := func(memory recommender.Amount) Plan { return mustPlan(t, web(), wish(size(500, 1000, 512, memory))) }
			asks := func(p Plan) bool {
				_, refusal := Admit(web(), p, w)
				return refusal == nil
			}
			w.Status.Tries = Declined(nil, outcome, web(), asking(4096), w)
			refused := w.Status.Tries[0]
			w.Now = w.Now.Add(time.Minute)
			assert.False(t, asks(asking(1500)), "it can wait")
			assert.False(t, asks(asking(4096).AsUrgent()), "the same")
			assert.False(t, asks(asking(5000).AsUrgent()), "more than that")
			sent := 0
			for _, memory := range []recommender.Amount{3000, 3000, 3500, 3000, 1500, 2000, 1500} {
				p := asking(memory).AsUrgent()
				if asks(p) {
					sent++
					w.Status.Tries = Declined(w.Status.Tries, outcome, web(), p, w)
				}
				w.Now = w.Now.Add(time.Second)
			}
			assert.Equal(t, 2, sent, "3000 and 1500")
			require.Len(t, w.Status.Tries, 1)
			assert.Equal(t, refused.Until, w.Status.Tries[0].Until)
			assert.Equal(t, refused.Times, w.Status.Tries[0].Times)

			w.Now = refused.Until.Time
			require.True(t, asks(asking(4096)))
			w.Status.Tries = Declined(w.Status.Tries, outcome, web(), asking(4096), w)
			assert.EqualValues(t, 2, w.Status.Tries[0].Times)
			w.Now = w.Now.Add(time.Second)
			assert.True(t, asks(asking(1500).AsUrgent()), "once more, as the wait is twice as long")
		})
	}
	never := open()
	never.Status.Tries = Declined(nil, starting, web(), mustPlan(t, web(), wish(size(500, 1000, 512, 4096))), never)
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(500, 1000, 512, 1500))).AsUrgent(), never)
	check(t, ReasonRefused, refusal)
}
