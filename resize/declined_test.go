package resize

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

var (
	overQuota   = Outcome{Kind: OutcomePolicyRefusal, Reason: refusedQuota, Message: "exceeded quota: q", RetryAfter: 10 * time.Minute}
	policySays  = Outcome{Kind: OutcomePolicyRefusal, Reason: "AdmissionPolicy", Message: "not here", RetryAfter: 10 * time.Minute}
	starting    = Outcome{Kind: OutcomeTransient, Reason: "NotReady", Message: "not yet ready", RetryAfter: 5 * time.Second}
	neverValid  = Outcome{Kind: OutcomeTerminal, Reason: "Invalid", Message: "spec: Forbidden"}
	nodeRefuses = Outcome{Kind: OutcomeInfeasible, Reason: "NodeCapacity", Message: "too big", RetryAfter: 10 * time.Minute}
)

func TestWhatWasDeclinedIsAskedAgainWhenThatMayHaveChanged(t *testing.T) {
	// Cases 17, 26, 54, 56, 60.
	up, down := size(1000, 2000, 512, 1024), size(250, 500, 512, 1024)
	another := func(p *corev1.Pod) { p.UID = "other" }
	newer := func(p *corev1.Pod) { p.Generation++ }
	quota := func(version string) func(*World) {
		return func(w *World) {
			q := corev1.ResourceQuota{}
			q.Name, q.ResourceVersion = "q", version
			w.Quotas = []corev1.ResourceQuota{q}
		}
	}
	for _, tc := range []struct {
		name    string
		outcome Outcome
		asked   recommender.Size
		pod     func(*corev1.Pod)
		wish    recommender.Size
		world   func(*World)
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
		{name: "never valid, a day later", outcome: neverValid, asked: up, wish: up, after: 24 * time.Hour, stops: true},
		{name: "never valid, another size", outcome: neverValid, asked: up, wish: size(1100, 2000, 512, 1024)},
		{name: "never valid, another pod", outcome: neverValid, asked: up, pod: another, wish: up},
		{name: "never valid, the pod has changed", outcome: neverValid, asked: up, pod: newer, wish: up},
		{name: "the node refuses", outcome: nodeRefuses, asked: up, wish: up, after: 9 * time.Minute, stops: true},
		{name: "the node refuses, and another pod asks", outcome: nodeRefuses, asked: up, pod: another, wish: up, after: time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			then := world(quota("1"))
			known := []Declined{NewDeclined(nil, tc.outcome, web(), mustPlan(t, web(), wish(tc.asked)), then)}
			pod := web()
			if tc.pod != nil {
				tc.pod(pod)
				pod.Status.ObservedGeneration = pod.Generation
			}
			now := then
			if tc.world != nil {
				tc.world(&now)
			}
			now.Declined, now.Now = known, noon.Add(tc.after)
			now.Room, now.Capabilities = nil, able()
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

func TestRepeatedRefusalsAreAskedLessOften(t *testing.T) {
	plan, w := mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), open()
	var known []Declined
	var waits []time.Duration
	for range 6 {
		d := NewDeclined(known, policySays, web(), plan, w)
		known = Remember(known, d)
		waits = append(waits, d.wait())
		w.Now = d.until()
	}
	assert.Len(t, known, 1, "the last one of its kind")
	const m = time.Minute
	assert.Equal(t, []time.Duration{10 * m, 20 * m, 40 * m, 80 * m, 160 * m, 160 * m}, waits)
	known = Remember(known, NewDeclined(known, starting, web(), plan, w))
	assert.Len(t, known, 2)
	assert.Equal(t, 5*time.Second, known[1].wait(), "another reason begins anew")
	w.Now = w.Now.Add(24 * time.Hour)
	assert.Equal(t, 10*m, NewDeclined(known, policySays, web(), plan, w).wait(), "so does one that comes much later")
}

func TestWhatIsRememberedOfRefusalsIsBounded(t *testing.T) {
	plan := mustPlan(t, web(), wish(size(1000, 2000, 512, 1024)))
	var known []Declined
	for i := range 200 {
		pod := with(web(), func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint(i)) })
		for range 2 {
			known = Remember(known, NewDeclined(known, neverValid, pod, plan, open()))
		}
	}
	assert.Len(t, known, 50)
	assert.Equal(t, types.UID("199"), known[49].PodUID)
}
