package harm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/resizetest"
)

func TestOOMIsLinkedToTheResize(t *testing.T) {
	// Case 37: both places where a kill appears. Case 16: independent of the node's clock.
	baseline := func(id string, number int32) func(*v1alpha1.ResizeRecord) {
		return func(r *v1alpha1.ResizeRecord) {
			r.Baseline[0].ContainerID, r.Baseline[0].RestartCount = id, number
		}
	}
	crashed := func(r *v1alpha1.ResizeRecord) { r.Baseline[0].StartedAt = nil } // not running when the record was written
	never := func(r *v1alpha1.ResizeRecord) { r.Baseline[0] = v1alpha1.ContainerBaseline{Name: "app"} }
	waits := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	const killed, second = "OOMKilled", "containerd://app-1"
	for _, tc := range []struct {
		name   string
		record v1alpha1.ResizeRecord
		pod    []func(*corev1.Pod)
		want   resize.Harm
	}{
		{"in state.terminated", recorded(desired), edits(now(ended(killed, "app-0", -time.Hour, time.Second))), resize.HarmOOM},
		{"in lastState.terminated", recorded(desired), edits(last(ended(killed, "app-0", -time.Hour, time.Second)), restarts(1)), resize.HarmOOM},
		{"of a container that started since", recorded(desired), edits(last(ended(killed, "app-1", time.Second, 9*time.Second)), restarts(2)), resize.HarmOOM},
		{"of one that started since, and waits to be started again", recorded(desired),
			edits(last(ended(killed, "app-1", time.Second, 9*time.Second)), restarts(1), waits), resize.HarmOOM},
		{"another end", recorded(desired), edits(last(ended("Error", "app-0", -time.Hour, time.Second)), restarts(1)), ""},
		{"before the resize", recorded(desired, baseline(second, 1)), edits(last(ended(killed, "app-0", -2*time.Hour, -time.Hour-time.Second)), restarts(1)), ""},
		{"all in the record's own second: one died, the next one started, the record was written", recorded(desired, baseline(second, 1),
			func(r *v1alpha1.ResizeRecord) { r.Baseline[0].StartedAt = r.WrittenAt.DeepCopy() }),
			edits(last(ended(killed, "app-0", -2*time.Hour, 0)), restarts(1)), ""},
		{"the one that ran died in the record's own second", recorded(desired), edits(last(ended(killed, "app-0", -time.Hour, 0)), restarts(1)), resize.HarmOOM},
		{"the crash that the resize answers", recorded(desired, crashed), edits(last(ended(killed, "app-0", -time.Hour, 0)), waits), ""},
		{"the next crash after it", recorded(desired, crashed), edits(last(ended(killed, "app-1", time.Second, 2*time.Second)), restarts(1), waits), resize.HarmOOM},
		{"a crash before the one it answers", recorded(desired, crashed, baseline(second, 1)), edits(last(ended(killed, "app-0", -time.Hour, -time.Second)), restarts(1)), ""},
		{"the first container of a pod that had none", recorded(desired, never), edits(now(ended(killed, "app-0", 0, time.Second))), resize.HarmOOM},
		{"no id at all", recorded(desired),
			edits(last(&corev1.ContainerStateTerminated{Reason: killed, ExitCode: 137, FinishedAt: metav1.NewTime(noon), StartedAt: metav1.NewTime(noon)}), restarts(1)), resize.HarmOOM},
		{"the count began anew, a later container", recorded(desired, baseline("containerd://app-4", 4)),
			edits(last(ended(killed, "app-0", time.Minute, 2*time.Minute)), restarts(1)), resize.HarmOOM},
		{"the count began anew, an earlier container", recorded(desired, baseline("containerd://app-4", 4)),
			edits(last(ended(killed, "app-0", -3*time.Hour, -2*time.Hour)), restarts(1)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
				pod := resized(desired, append(edits(done(desired)), tc.pod...)...)
				record := *tc.record.DeepCopy()
				record.WrittenAt = metav1.NewTime(record.WrittenAt.Add(skew))
				ofMemory(&record)
				v := Judge(pod, record, noon.Add(skew), auto(), Signals{})
				assert.Equal(t, tc.want, v.Harm, "our clock is %s ahead of the node's", skew)
				if tc.want != "" {
					assert.Equal(t, "app", v.Container)
					assert.NotEmpty(t, v.Evidence)
					assert.Equal(t, 1024*mi, v.Ceiling)
				}
			}
		})
	}
}

func TestOOMOfAContainerThatDidNotMove(t *testing.T) {
	pod := running(prior, prior)
	record := lifecycle.NewRecord(mustPlan(t, pod, wish(desired)), pod, noon.Add(-time.Minute), auto())
	record.Phase = v1alpha1.RecordApplied
	after := with(running(desired, prior), func(p *corev1.Pod) {
		p.Status.ContainerStatuses[1].LastTerminationState.Terminated = ended("OOMKilled", "side-1-0", -time.Hour, time.Second)
		p.Status.ContainerStatuses[1].RestartCount = 5
	})
	assert.Empty(t, Judge(after, record, noon, auto(), Signals{}).Harm)
	assert.Len(t, podview.OOMKills(after), 1, "it teaches all the same")
}

func TestRestarts(t *testing.T) {
	restartsMemory := func(p *corev1.Pod) { restarting(p, corev1.ResourceMemory) }
	memory := size(500, 1000, 600, 1024)
	for _, tc := range []struct {
		name    string
		record  v1alpha1.ResizeRecord
		to      recommender.Size
		edits   []func(*corev1.Pod)
		signals Signals
		want    resize.Verdict
	}{
		{name: "one", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(1)}},
		{name: "two since, of five", record: recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Baseline[0].RestartCount = 3 }), to: desired, edits: []func(*corev1.Pod){restarts(5)}, want: resize.Verdict{Harm: resize.HarmRestart}},
		{name: "one since, of four", record: recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Baseline[0].RestartCount = 3 }), to: desired, edits: []func(*corev1.Pod){restarts(4)}},
		{name: "two", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, want: resize.Verdict{Harm: resize.HarmRestart}},
		{name: "39 one of three is the resize's own", record: recorded(memory), to: memory, edits: []func(*corev1.Pod){restartsMemory, restarts(2)}},
		{name: "39 two beside the resize's own", record: recorded(memory), to: memory, edits: []func(*corev1.Pod){restartsMemory, restarts(3)}, want: resize.Verdict{Harm: resize.HarmRestart}},
		{name: "39 a policy for memory does not excuse a CPU resize", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restartsMemory, restarts(2)}, want: resize.Verdict{Harm: resize.HarmRestart}},
		{name: "75 one whose end nobody saw is a reboot's", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2), last(ended("ContainerStatusUnknown", "app-0", 0, 1))}},
		{name: "75 two after a node's reboot", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, signals: Signals{NodeBooted: noon}, want: resize.Verdict{Inconclusive: true}},
		{name: "75 two, and the node booted long before", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, signals: Signals{NodeBooted: noon.Add(-time.Hour)}, want: resize.Verdict{Harm: resize.HarmRestart}},
		{name: "75 two while the workload rolls out", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, signals: Signals{Rollout: true}, want: resize.Verdict{Inconclusive: true}},
		{name: "75 two, and the node is not ready", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, signals: Signals{NodeNotReady: true}, want: resize.Verdict{Inconclusive: true}},
		{name: "75 two, and siblings are unready too", record: recorded(desired), to: desired, edits: []func(*corev1.Pod){restarts(2)}, signals: Signals{SiblingsUnready: true}, want: resize.Verdict{Inconclusive: true}},
		{name: "75 an OOM kill is not excused", record: recorded(desired, ofMemory), to: desired, edits: []func(*corev1.Pod){restarts(2), last(ended("OOMKilled", "app-0", 0, 1))}, signals: Signals{Rollout: true, NodeBooted: noon, NodeNotReady: true, SiblingsUnready: true}, want: resize.Verdict{Harm: resize.HarmOOM}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := resized(tc.to, append([]func(*corev1.Pod){done(tc.to)}, tc.edits...)...)
			v := Judge(pod, tc.record, noon, auto(), tc.signals)
			assert.Equal(t, tc.want.Harm, v.Harm)
			assert.Equal(t, tc.want.Inconclusive, v.Inconclusive)
		})
	}
}

func TestJudgeAtTheEndOfTheWatch(t *testing.T) {
	noLimit, noLimitLess := size(500, 0, 512, 1024), size(250, 0, 512, 1024)
	unlimited := func(r *v1alpha1.ResizeRecord) {
		r.Prior[0].Resources, r.Desired[0].Resources = podview.ToResources(noLimit), podview.ToResources(noLimitLess)
	}
	wasNotReady := func(r *v1alpha1.ResizeRecord) { r.Baseline[0].Ready = false }
	up := size(1000, 2000, 512, 1024)
	quiet := map[string]float64{"app": 0}
	rules := auto()
	rules.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency", Comparison: "<", Threshold: "1"}, {Name: "errors", Comparison: "<", Threshold: "1"}}
	errors := func(a Answer) map[Question]Answer { return map[Question]Answer{{Name: "errors"}: a} }
	for _, tc := range []struct {
		name      string
		record    v1alpha1.ResizeRecord
		edit      func(*corev1.Pod)
		signals   Signals
		want      resize.Harm
		open      bool
		notJudged []string
	}{
		{name: "clean", record: recorded(desired), signals: Signals{Throttle: quiet}},
		{name: "not ready", record: recorded(desired), edit: unreadyNow, signals: Signals{Throttle: quiet}, want: resize.HarmNotReady},
		{name: "not ready before either", record: recorded(desired, wasNotReady), edit: unreadyNow, signals: Signals{Throttle: quiet},
			notJudged: []string{"readiness, because container app was not ready before the resize"}},
		{name: "75 not ready after a node's reboot", record: recorded(desired), edit: unreadyNow, signals: Signals{Throttle: quiet, NodeBooted: noon}, open: true},
		{name: "75 not ready, as its node is not", record: recorded(desired), edit: unreadyNow, signals: Signals{Throttle: quiet, NodeNotReady: true}, open: true},
		{name: "75 not ready, as its siblings are not", record: recorded(desired), edit: unreadyNow, signals: Signals{Throttle: quiet, SiblingsUnready: true}, open: true},
		{name: "75 a node that is not ready excuses no throttling", record: recorded(desired), signals: Signals{Throttle: map[string]float64{"app": 0.51}, NodeNotReady: true}, want: resize.HarmThrottle},
		{name: "throttled", record: recorded(desired), signals: Signals{Throttle: map[string]float64{"app": 0.51}}, want: resize.HarmThrottle},
		{name: "throttled half the time is still well", record: recorded(desired), signals: Signals{Throttle: map[string]float64{"app": 0.5}}},
		{name: "throttling nobody measured", record: recorded(desired), notJudged: []string{"CPU of container app (needs container_cpu_cfs_periods_total)"}},
		{name: "82 throttled after a raise is not the raise's harm", record: recorded(up), signals: Signals{Throttle: map[string]float64{"app": 0.9}}},
		{name: "throttled at a limit that did not move", record: recorded(size(250, 1000, 512, 1024)), signals: Signals{Throttle: map[string]float64{"app": 0.9}}},
		{name: "memory alone says nothing of CPU", record: recorded(size(500, 1000, 256, 1024)), signals: Signals{OOMEvents: quiet}},
		{name: "memory alone, without a CPU limit", record: recorded(desired, unlimited, func(r *v1alpha1.ResizeRecord) { r.Desired[0].Resources = podview.ToResources(size(500, 0, 256, 1024)) }),
			signals: Signals{OOMEvents: quiet}},
		{name: "memory moved, and the source has no OOM kills", record: recorded(size(500, 1000, 256, 1024)), signals: Signals{OOMEvents: map[string]float64{"side": 0}},
			notJudged: []string{"OOM kills of child processes of container app"}},
		{name: "memory and CPU moved, and nothing is measured", record: recorded(desired, ofMemory),
			notJudged: []string{"OOM kills of child processes of container app", "CPU of container app (needs container_cpu_cfs_periods_total)"}},
		{name: "a limit that was added throttles", record: recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(250, 0, 512, 1024)) }),
			signals: Signals{Throttle: map[string]float64{"app": 0.9}}, want: resize.HarmThrottle},
		{name: "no limit: it waits half the time", record: recorded(desired, unlimited), signals: Signals{CPUPressure: map[string]float64{"app": 0.5}}},
		{name: "another container is throttled", record: recorded(desired), signals: Signals{Throttle: map[string]float64{"app": 0, "side": 0.9}}},
		{name: "no limit: nothing measured", record: recorded(desired, unlimited), notJudged: []string{"CPU of container app (needs PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer)"}},
		{name: "no limit: over its request on a busy node", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 251}, NodeBusy: 0.9}, want: resize.HarmThrottle},
		{name: "no limit: at its request on a busy node", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 250}, NodeBusy: 0.95}},
		{name: "no limit: over its request on a node with room", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 400}, NodeBusy: 0.89}},
		{name: "no limit: over its request on a node nobody knows", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 400}}, notJudged: []string{"CPU of container app (needs PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer)"}},
		{name: "no limit: at its request on a node nobody knows", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 250}}},
		{name: "no limit: nobody knows what it uses, on a node with room", record: recorded(desired, unlimited), signals: Signals{NodeBusy: 0.89}},
		{name: "no limit: nobody knows what it uses, on a busy node", record: recorded(desired, unlimited),
			signals: Signals{NodeBusy: 0.95}, notJudged: []string{"CPU of container app (needs PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer)"}},
		{name: "no limit: another container uses more than it requests", record: recorded(desired, unlimited),
			signals: Signals{CPUUsage: map[string]recommender.Amount{"app": 250, "side": 900}, NodeBusy: 0.95}},
		{name: "no limit: it waits for CPU", record: recorded(desired, unlimited), signals: Signals{CPUPressure: map[string]float64{"app": 0.6}}, want: resize.HarmThrottle},
		{name: "no limit: it hardly waits", record: recorded(desired, unlimited), signals: Signals{CPUPressure: map[string]float64{"app": 0.1}}},
		{name: "a guardrail holds", record: recorded(desired), signals: Signals{Throttle: quiet, Answers: errors(Answer{Value: 0.5})}},
		{name: "a guardrail is broken", record: recorded(desired), signals: Signals{Throttle: quiet, Answers: errors(Answer{Value: 2})}, want: resize.HarmSLO},
		{name: "a guardrail gives no answer", record: recorded(desired), signals: Signals{Throttle: quiet, Answers: errors(Answer{Failed: "timeout"})}, open: true},
		{name: "one gives no answer, another is broken", record: recorded(desired),
			signals: Signals{Throttle: quiet, Answers: map[Question]Answer{{Name: "latency"}: {Failed: "timeout"}, {Name: "errors"}: {Value: 2}}}, want: resize.HarmSLO},
		{name: "the source gave no answer", record: recorded(desired), signals: Signals{Unanswered: "timeout"}, open: true, notJudged: []string{"CPU of container app (needs container_cpu_cfs_periods_total)"}},
		{name: "it gave one of two answers, which is harm", record: recorded(desired), signals: Signals{Unanswered: "timeout", Throttle: map[string]float64{"app": 0.9}}, want: resize.HarmThrottle},
		{name: "it gave no answer about a size that gives more", record: recorded(up), signals: Signals{Unanswered: "timeout"}},
		{name: "harm is found although something else is not judged", record: recorded(desired), edit: unreadyNow, want: resize.HarmNotReady, notJudged: []string{"CPU of container app (needs container_cpu_cfs_periods_total)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := resized(desired, done(desired))
			if tc.edit != nil {
				tc.edit(pod)
			}
			early := tc.record
			watchedUntil(time.Second)(&early)
			during := Judge(pod, early, noon, rules, tc.signals)
			if tc.want != resize.HarmSLO { // its query has a window of its own
				assert.Equal(t, resize.Verdict{}, during, "before the end it may be off for a moment")
			}

			watchedUntil(0)(&tc.record)
			v := Judge(pod, tc.record, noon, rules, tc.signals)
			assert.Equal(t, tc.want, v.Harm, v.Message)
			assert.Equal(t, tc.open, v.Inconclusive)
			assert.Equal(t, tc.notJudged, v.NotJudged)
			if tc.want == "" && !tc.open && len(tc.notJudged) == 0 {
				assert.Empty(t, v.Message)
			}
			for _, what := range tc.notJudged {
				if tc.want == "" {
					assert.Contains(t, v.Message, what, "it says so")
				}
			}
		})
	}
}

func TestAChildThatWasKilledIsAnOOM(t *testing.T) {
	// Case 37: the kernel may kill one process of a container that keeps running; only the counter shows it.
	pod := resized(desired, done(desired))
	events := Signals{OOMEvents: map[string]float64{"app": 2, "side": 9}}
	assert.Empty(t, Judge(pod, recorded(desired), noon, auto(), events).Harm, "of a resize that left memory alone")
	v := Judge(pod, recorded(desired, ofMemory), noon, auto(), events)
	assert.Equal(t, resize.HarmOOM, v.Harm)
	assert.Equal(t, "app", v.Container)
	assert.Equal(t, 1024*mi, v.Ceiling)
	assert.Equal(t, "uid-1@2026-03-04T11:59:00Z", v.Evidence)
	assert.Equal(t, "2 processes of container app were OOM-killed since the resize of 2026-03-04T11:59:00Z", v.Message)
	assert.Empty(t, Judge(pod, recorded(desired), noon, auto(), Signals{OOMEvents: map[string]float64{"app": 0, "side": 9}}).Harm)
}

// A store that averages the series of two scrapers answers fractions of kills.
func TestAFractionOfAKillIsRounded(t *testing.T) {
	pod, record := resized(desired, done(desired)), recorded(desired, ofMemory)
	assert.Empty(t, Judge(pod, record, noon, auto(), Signals{OOMEvents: map[string]float64{"app": 0.004}}).Harm)
	v := Judge(pod, record, noon, auto(), Signals{OOMEvents: map[string]float64{"app": 0.5}})
	assert.Equal(t, "1 processes of container app were OOM-killed since the resize of 2026-03-04T11:59:00Z", v.Message)
	k := podview.OOM{Container: "app", Evidence: "containerd://app-0@2026-03-04T11:59:55Z"}
	for events, want := range map[float64]string{0.004: "Error", 0.5: podview.OOMKilled, 2: podview.OOMKilled} {
		reason, _, _ := Ends{Facts: map[string]KillFacts{k.Evidence: {Events: events}}}.explain(pod, k, "Error", "", nil, noon)
		assert.Equal(t, want, reason, "%g events", events)
	}
}

// A leaking container is OOM killed with any CPU: the CPU is not reverted for it, and the observation does not delay
// the answer.
func TestOOMKillIsNoRegressionOfCPU(t *testing.T) {
	pod := resized(desired, done(desired), restarts(3), last(ended("OOMKilled", "app-0", -time.Hour, time.Second)))
	for name, end := range map[string]time.Duration{"while it is watched": time.Minute, "at the end of the watch": 0} {
		record := recorded(desired, watchedUntil(end), reason("why"))
		state := Assess(pod, record, able(), noon, auto(), Signals{})
		assert.Empty(t, state.Verdict.Harm, name)
		action := lifecycle.Next(state, record, auto(), lifecycle.Circumstances{}, noon)
		assert.Equal(t, lifecycle.Forget, action.Kind, name)
		assert.Equal(t, "why", action.Reason, name)
		assert.False(t, action.Keep, name)
		assert.Contains(t, action.Message, "container app was OOM-killed at", name)
	}
	soon := recorded(desired, func(r *v1alpha1.ResizeRecord) {
		r.Then = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(250, 500, 512, 600))}}
	})
	assert.Equal(t, resize.HarmOOM, Judge(pod, soon, noon, auto(), Signals{}).Harm, "its second patch is to lower memory")
}

func TestJudgeOfAnotherPodIsNothing(t *testing.T) {
	assert.Equal(t, resize.Verdict{}, Judge(nil, recorded(desired), noon, auto(), Signals{}))
	other := resized(desired, func(p *corev1.Pod) { p.UID = "uid-2" }, restarts(9))
	assert.Equal(t, resize.Verdict{}, Judge(other, recorded(desired), noon, auto(), Signals{}))
}

func TestOOMKills(t *testing.T) {
	pod := withInit(withSidecar(running(prior, size(100, 0, 64, 0)), "proxy", size(100, 0, 32, 48)), "init", size(0, 0, 16, 16))
	both := &pod.Status.ContainerStatuses[0]
	both.State = corev1.ContainerState{Terminated: ended("OOMKilled", "app-1", 0, 2*time.Second)}
	both.LastTerminationState.Terminated = ended("OOMKilled", "app-0", 0, time.Second)
	pod.Status.ContainerStatuses[1].LastTerminationState.Terminated = ended("OOMKilled", "side-1-0", 0, time.Second)
	pod.Status.InitContainerStatuses[0].LastTerminationState.Terminated = ended("OOMKilled", "proxy-0", 0, time.Second)
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
		Name: "init", LastTerminationState: corev1.ContainerState{Terminated: ended("OOMKilled", "init-0", 0, time.Second)},
	})
	at := noon.Add(-time.Minute)
	assert.Equal(t, []podview.OOM{
		{Container: "app", ContainerID: "containerd://app-1", Started: at, At: at.Add(2 * time.Second), Limit: 1024 * mi, Evidence: "containerd://app-1@2026-03-04T11:59:02Z"},
		{Container: "app", ContainerID: "containerd://app-0", Started: at, At: at.Add(time.Second), Limit: 1024 * mi, Evidence: "containerd://app-0@2026-03-04T11:59:01Z"},
		{Container: "side-1", ContainerID: "containerd://side-1-0", Started: at, At: at.Add(time.Second), Limit: 64 * mi, Evidence: "containerd://side-1-0@2026-03-04T11:59:01Z"},
		{Container: "proxy", ContainerID: "containerd://proxy-0", Started: at, At: at.Add(time.Second), Limit: 48 * mi, Evidence: "containerd://proxy-0@2026-03-04T11:59:01Z"},
	}, podview.OOMKills(pod))
	assert.Empty(t, podview.OOMKills(web()))
}

func TestOOMKillsUseTheLimitThatWasThere(t *testing.T) {
	// Case 9: the resize is not allocated yet, so the kill was at the old limit.
	pod := resized(size(500, 1000, 1024, 2048), observed, func(p *corev1.Pod) {
		resizetest.SetCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "the kubelet's word", 2)
	}, last(ended("OOMKilled", "app-0", 0, time.Second)))
	require.Len(t, podview.OOMKills(pod), 1)
	assert.Equal(t, 1024*mi, podview.OOMKills(pod)[0].Limit)
}
