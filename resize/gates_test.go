package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

func TestGates(t *testing.T) {
	lower, higher := size(250, 500, 512, 1024), size(1000, 2000, 512, 1024)
	skip := map[string]string{v1alpha1.SkipAnnotation: "true"}
	nights := Schedule{Windows: []Window{{Start: 22 * 60, End: 4 * 60}}}
	raised := v1alpha1.ResizeRecord{PodUID: "other", PodName: "web-2", Phase: v1alpha1.RecordReverting, Reason: "oomkill"}
	for _, tc := range []struct {
		name   string
		world  GateInput
		wish   recommender.Size
		reason string // empty: the gates are open
		urgent string // reason for an urgent plan; empty: the gates are open to it
	}{
		{"all open", open(), lower, "", ""},
		{"an empty world is closed: no mode is known", GateInput{Now: noon}, lower, ReasonMode, ReasonMode},
		{"kill switch", world(func(w *GateInput) { w.Rules.Paused = []string{"cluster"} }), lower, ReasonPaused, ReasonPaused},
		{"observe", world(func(w *GateInput) { w.Rules.Mode = v1alpha1.UpdateObserve }), lower, ReasonMode, ReasonMode},
		{"recommend", world(func(w *GateInput) { w.Rules.Mode = v1alpha1.UpdateRecommend }), lower, ReasonMode, ReasonMode},
		{"initial: an OOM kill raises the next seed, not the pod", world(func(w *GateInput) { w.Rules.Mode = v1alpha1.UpdateInitial }), lower, ReasonMode, ReasonMode},
		{"one shot", world(func(w *GateInput) { w.Rules.Mode = v1alpha1.UpdateOneShot }), lower, "", ""},
		{"workload paused by a person (65)", world(func(w *GateInput) {
			w.Workload.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
		}), lower, ReasonWorkloadPaused, ReasonWorkloadPaused},
		{"workload paused after two supersessions (19)", world(func(w *GateInput) {
			w.Status.Paused = &v1alpha1.PausedState{Since: *ago(time.Hour), Reason: "superseded twice"}
		}), lower, ReasonWorkloadPaused, ReasonWorkloadPaused},
		{"paused: false is not paused", world(func(w *GateInput) {
			w.Workload.Annotations = map[string]string{v1alpha1.PausedAnnotation: "false"}
		}), lower, "", ""},
		{"opt-out on the workload", world(func(w *GateInput) { w.Workload.Annotations = skip }), lower, ReasonSkipped, ReasonSkipped},
		{"opt-out on the template", world(func(w *GateInput) { w.Workload.TemplateAnnotations = skip }), lower, ReasonSkipped, ReasonSkipped},
		{"a workload that is too large", world(func(w *GateInput) { w.Workload.Annotations = map[string]string{workload.TooLargeAnnotation: "true"} }), lower, ReasonTooLarge, ReasonTooLarge},
		{"namespace terminating (59)", world(func(w *GateInput) { w.Namespace.Terminating = true }), lower, ReasonNamespaceTerminating, ReasonNamespaceTerminating},
		{"a VPA (63)", world(func(w *GateInput) { w.Workload.VPA = "web" }), lower, ReasonVPA, ReasonVPA},
		{"its own record is open (21)", world(func(w *GateInput) {
			w.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "uid-1", Phase: v1alpha1.RecordWatching}}
		}), lower, ReasonResizeUnderway, ReasonResizeUnderway},
		{"50 records are open", world(func(w *GateInput) {
			for i := range v1alpha1.MaxRecords {
				w.Status.Records = append(w.Status.Records, v1alpha1.ResizeRecord{PodUID: types.UID(rune('a' + i))})
			}
		}), lower, ReasonRecordsFull, ReasonRecordsFull},
		{"another pod is being put back (74)", world(func(w *GateInput) { w.Status.Records = []v1alpha1.ResizeRecord{raised} }), lower, ReasonReverting, ""},
		{"another pod is to be put back on a node that is down (75)", world(func(w *GateInput) {
			w.Status.Records, w.Unreachable = []v1alpha1.ResizeRecord{raised}, map[string]bool{raised.Node: true}
		}), lower, "", ""},
		{"outside the schedule", world(func(w *GateInput) { w.Rules.Schedule = nights }), lower, ReasonOutsideSchedule, ""},
		{"a schedule that never opens", world(func(w *GateInput) {
			w.Rules.Schedule = Schedule{Days: map[time.Weekday]bool{time.Sunday: false}}
		}), lower, ReasonOutsideSchedule, ""},
		{"stale data", world(func(w *GateInput) {
			w.Workload.DataUntil, w.Workload.StaleAfter = noon.Add(-21*time.Minute), 20*time.Minute
		}), lower, ReasonStaleData, ""},
		{"fresh data", world(func(w *GateInput) {
			w.Workload.DataUntil, w.Workload.StaleAfter = noon.Add(-20*time.Minute), 20*time.Minute
		}), lower, "", ""},
		{"memory that is being measured: lowered", world(func(w *GateInput) { w.MemorySoon = true }), size(250, 500, 256, 512), ReasonMemoryUnknown, ""},
		{"memory that is being measured: raised", world(func(w *GateInput) { w.MemorySoon = true }), higher, "", ""},
		{"a rollout (64)", world(func(w *GateInput) { w.Workload.Rollout = "2 of 5 replicas are updated" }), lower, ReasonRolloutInProgress, ""},
		{"an unavailable replica alone is no rollout", world(func(w *GateInput) { w.Workload.ReadyReplicas = 2 }), lower, "", ""},
		{"cooling down", world(func(w *GateInput) { w.Status.CooldownFrom = ago(59 * time.Minute) }), lower, ReasonCooldown, ""},
		{"cooled down", world(func(w *GateInput) { w.Status.CooldownFrom = ago(time.Hour) }), lower, "", ""},
		{"cooling down longer after a revert", world(func(w *GateInput) {
			w.Status.CooldownFrom, w.Status.Backoff = ago(119*time.Minute), &v1alpha1.Backoff{ConsecutiveReverts: 1}
		}), lower, ReasonCooldown, ""},
		{"four OOM kills in an hour (10)", world(func(w *GateInput) { w.Status.Tries = kills(t, 59*time.Minute, time.Minute, time.Minute, time.Minute) }), lower, "", ReasonTooManyOOMs},
		{"four OOM kills, the first an hour ago", world(func(w *GateInput) {
			w.Status.Tries = kills(t, time.Hour, time.Minute, time.Minute, time.Minute)
		}), lower, "", ""},
		{"disk pressure (29)", world(func(w *GateInput) { w.Node.Capabilities.Pressure = []string{"DiskPressure"} }), lower, ReasonNodePressure, ""},
		{"the node refused growth lately: growth (28)", world(func(w *GateInput) { w.Node.Block.Growth = noon.Add(time.Second) }), higher, ReasonNodeBlocked, ""},
		{"the node refused growth lately: lowering", world(func(w *GateInput) { w.Node.Block.Growth = noon.Add(time.Second) }), lower, "", ""},
		{"the node refused growth long ago", world(func(w *GateInput) { w.Node.Block.Growth = noon }), higher, "", ""},
		{"the node put even a lowering off (29)", world(func(w *GateInput) { w.Node.Block.All = noon.Add(time.Second) }), lower, ReasonNodeBlocked, ""},
		{"a neighbour's growth is deferred (28)", world(func(w *GateInput) {
			w.Node.Room = taken(deferredSince(time.Minute))
		}), higher, ReasonNodeBlocked, ""},
		{"a stranger's growth is deferred", world(func(w *GateInput) { w.Node.Room = taken(strangers(deferredSince(time.Minute))) }), higher, ReasonNodeBlocked, ""},
		{"a neighbour's growth has been deferred for long", world(func(w *GateInput) { w.Node.Room = taken(deferredSince(time.Hour)) }), higher, "", ""},
		{"a neighbour was turned away just now (83)", world(func(w *GateInput) { w.Node.Room = taken(outOfCPU(time.Minute)) }), higher, ReasonNodeBlocked, ""},
		{"a stranger was turned away just now", world(func(w *GateInput) { w.Node.Room = taken(strangers(outOfCPU(time.Minute))) }), higher, "", ""},
		{"a neighbour asked for more than the node has", world(func(w *GateInput) {
			w.Node.Room, w.Node.Capabilities.Allocatable = taken(outOfCPU(time.Minute)), [2]recommender.Amount{499, 0}
			w.Evictable = true // independent of the room
		}), higher, "", ""},
		{"a neighbour was turned away just now: lowering", world(func(w *GateInput) { w.Node.Room = taken(outOfCPU(time.Minute)) }), lower, "", ""},
		{"a pod that was turned away lingers (95)", world(func(w *GateInput) { w.Node.Room = taken(outOfCPU(time.Hour)) }), higher, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := web()
			_, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), tc.world)
			check(t, tc.reason, refusal)

			urgent := mustPlan(t, pod, wish(size(500, 1000, 600, 1200))).AsUrgent()
			_, refusal = Admit(pod, urgent, tc.world)
			check(t, tc.urgent, refusal)
		})
	}
}

// kills are answers to OOM kills at these times before now, each with a little more memory.
func kills(t *testing.T, since ...time.Duration) (tries []v1alpha1.Try) {
	for i, d := range since {
		more := mustPlan(t, web(), wish(size(500, 1000, 520, 1040+recommender.Amount(i)))).AsUrgent()
		tries = Begun(tries, more, noon.Add(-d))
	}
	return tries
}

func deferredSince(since time.Duration) *corev1.Pod {
	return with(web(), func(p *corev1.Pod) {
		p.UID = "other"
		setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
		p.Status.Conditions[len(p.Status.Conditions)-1].LastTransitionTime = *ago(since)
	})
}

// strangers moves a pod to another namespace.
func strangers(pod *corev1.Pod) *corev1.Pod {
	pod.Namespace, pod.Name = "other-tenant", "secret-project"
	return pod
}

func outOfCPU(since time.Duration) *corev1.Pod {
	return with(web(), func(p *corev1.Pod) {
		p.UID, p.CreationTimestamp = "other", *ago(since)
		p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu"
	})
}

func TestPodOptsOut(t *testing.T) {
	pod := with(web(), func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} })
	_, refusal := Admit(pod, mustPlan(t, pod, wish(size(250, 500, 512, 1024))), open())
	check(t, ReasonSkipped, refusal)
	assert.Contains(t, refusal.Message, "the pod has")
}

func TestTheFirstClosedGateGivesTheReason(t *testing.T) {
	w := world(func(w *GateInput) {
		w.Rules.Paused, w.Workload.VPA, w.Status.CooldownFrom = []string{"cluster", "policy"}, "web", ago(time.Minute)
	})
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(250, 500, 512, 1024))), w)
	check(t, ReasonPaused, refusal)
	assert.Equal(t, "paused by the cluster and policy settings; observation and reverts continue", refusal.Message)
}

func TestRestartsAreKeptFromTheLastReplica(t *testing.T) {
	// Cases 39, 67: the API server checks no PodDisruptionBudget for a restart by a resize.
	pod := restarting(web(), corev1.ResourceMemory)
	plan := mustPlan(t, pod, wish(size(500, 1000, 600, 1024)))
	for _, tc := range []struct {
		name            string
		replicas, ready int
		method          v1alpha1.ResizeMethod
		reason          string
	}{
		{"one of one", 1, 1, v1alpha1.ResizeInPlaceOnly, ReasonSingleReplica},
		{"nobody knows", 0, 0, v1alpha1.ResizeInPlaceOnly, ReasonSingleReplica},
		{"one of one, and the policy lets pods be recreated", 1, 1, v1alpha1.ResizeInPlaceOrRecreate, ""},
		{"three of three", 3, 3, v1alpha1.ResizeInPlaceOnly, ""},
		{"two of three", 3, 2, v1alpha1.ResizeInPlaceOnly, ReasonReplicasNotReady},
	} {
		_, refusal := Admit(pod, plan, world(func(w *GateInput) {
			w.Workload.Replicas, w.Workload.ReadyReplicas, w.Rules.Method = tc.replicas, tc.ready, tc.method
		}))
		check(t, tc.reason, refusal)
	}
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(500, 1000, 600, 1024))), world(func(w *GateInput) { w.Workload.Replicas, w.Workload.ReadyReplicas = 1, 0 }))
	check(t, "", refusal)
}

func TestBlockedAndExcludedResourcesAreLeftOut(t *testing.T) {
	pod := running(size(500, 1000, 512, 1024), size(500, 1000, 512, 1024))
	wished := []podview.Container{{Name: "app", Size: size(250, 500, 600, 1200)}, {Name: "side-1", Size: size(250, 500, 600, 1200)}}
	onCPU := Held{By: "web", Of: [2]bool{recommender.CPU: true}}
	onMemory := Held{By: "web", Of: [2]bool{recommender.Memory: true}}
	for _, tc := range []struct {
		name      string
		hpa       map[string]Held
		excluded  map[string]bool
		app, side recommender.Size
		left      []string
	}{
		{"nothing", nil, nil, size(250, 500, 600, 1200), size(250, 500, 600, 1200), nil},
		{"62: an HPA on CPU of every container", map[string]Held{"": onCPU}, nil, size(500, 1000, 600, 1200), size(500, 1000, 600, 1200),
			[]string{"app HPA", "side-1 HPA"}},
		{"62: an HPA on CPU of one container", map[string]Held{"app": onCPU}, nil, size(500, 1000, 600, 1200), size(250, 500, 600, 1200),
			[]string{"app HPA"}},
		{"62: an HPA on memory", map[string]Held{"": onMemory}, nil, size(250, 500, 512, 1024), size(250, 500, 512, 1024),
			[]string{"app HPA", "side-1 HPA"}},
		{"excluded", nil, map[string]bool{"side-1": true}, size(250, 500, 600, 1200), size(500, 1000, 512, 1024), []string{"side-1 Excluded"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := Admit(pod, mustPlan(t, pod, wished), world(func(w *GateInput) { w.Workload.HPA, w.Rules.Excluded = tc.hpa, tc.excluded }))
			require.Nil(t, refusal, "%v", refusal)
			after := specOf(plan.Apply(pod))
			assert.Equal(t, tc.app, after["app"])
			assert.Equal(t, tc.side, after["side-1"])
			assert.Equal(t, tc.left, leftOut(plan))
		})
	}
}

func leftOut(p Plan) []string {
	var left []string
	for _, r := range p.LeftOut {
		left = append(left, r.Container+" "+r.Reason)
	}
	return left
}

func TestMemoryLimitThatCouldNotBeLoweredStaysForADay(t *testing.T) {
	// Case 34: no retry before usage has dropped, which may take a day.
	plan := mustPlan(t, web(), wish(size(250, 500, 256, 512)))
	failed := lifecycle.NewRecord(plan, web(), noon, auto())
	for hours, want := range map[int]recommender.Size{23: size(250, 500, 256, 1024), 24: size(250, 500, 256, 512)} {
		got, refusal := Admit(web(), plan, world(func(w *GateInput) {
			w.Status.Tries = NotDone(nil, failed, ReasonActuation, "", auto(), noon.Add(-time.Duration(hours)*time.Hour))
		}))
		require.Nil(t, refusal)
		assert.Equal(t, want, specOf(got.Apply(web()))["app"], "after %d hours", hours)
	}
	got, refusal := Admit(web(), mustPlan(t, web(), wish(size(500, 1000, 600, 2048))), world(func(w *GateInput) {
		w.Status.Tries = NotDone(nil, failed, ReasonActuation, "", auto(), noon.Add(-time.Hour))
	}))
	require.Nil(t, refusal)
	assert.Equal(t, size(500, 1000, 600, 2048), specOf(got.Apply(web()))["app"], "raises go on")
}

func TestMemoryStaysForADayAfterAChildWasKilled(t *testing.T) {
	plan := mustPlan(t, web(), wish(size(250, 500, 256, 512)))
	for _, tc := range []struct {
		code int32
		ago  time.Duration
		want recommender.Size
	}{
		{143, 23 * time.Hour, size(250, 500, 512, 1024)},
		{0, time.Hour, size(250, 500, 512, 1024)},
		{143, 24 * time.Hour, size(250, 500, 256, 512)},
		{137, time.Hour, size(250, 500, 256, 512)},
	} {
		pod, end := web(), ended("OOMKilled", "app-0", -48*time.Hour, time.Minute-tc.ago)
		end.ExitCode = tc.code
		last(end)(pod)
		got, refusal := Admit(pod, plan, open())
		require.Nil(t, refusal)
		assert.Equal(t, tc.want, specOf(got.Apply(pod))["app"], "exit code %d, %s ago", tc.code, tc.ago)
		if tc.want[recommender.Memory].Limit == 1024*mi {
			require.Len(t, got.LeftOut, 1)
			check(t, ReasonChildKilled, &got.LeftOut[0])
			assert.Equal(t, end.FinishedAt.Add(24*time.Hour), got.LeftOut[0].Until)
		}
		raise, refusal := Admit(pod, mustPlan(t, web(), wish(size(500, 1000, 600, 2048))), open())
		require.Nil(t, refusal)
		assert.Equal(t, size(500, 1000, 600, 2048), specOf(raise.Apply(pod))["app"], "raises go on")
	}
	pod, end := web(), ended("OOMKilled", "app-0", -48*time.Hour, -time.Hour)
	end.ExitCode = 0
	last(end)(pod)
	_, refusal := Admit(pod, mustPlan(t, web(), wish(size(0, 0, 256, 512))), open())
	check(t, ReasonChildKilled, refusal)
	assert.Equal(t, "the memory of container app is not lowered before 2026-03-05T10:59:00Z: a child process was OOM-killed in the run that ended at 2026-03-04T10:59:00Z. Check the memory of the child processes", refusal.Message)
}

func TestPlanWithOnlyBlockedResourcesIsRefused(t *testing.T) {
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(250, 500, 0, 0))), world(func(w *GateInput) {
		w.Workload.HPA = map[string]Held{"": {By: "web", Of: [2]bool{true, false}}}
	}))
	check(t, ReasonHPA, refusal)
	assert.False(t, refusal.Transient)
}

// A raise that was withdrawn below an HPA is not tried again before its wait has ended: not of the request on which the HPA
// scales. Restores of original resources still raise the limits. The wait doubles.
func TestWithdrawnRaisesBelowAnHPAWait(t *testing.T) {
	pod, up := web(), size(1000, 2000, 1024, 2048)
	record := recorded(up)
	tries := NotInSync(nil, record, "Deferred: no room", noon)
	for _, tc := range []struct {
		name   string
		scaled ScaledRequests
		wave   string
		urgent bool
		after  time.Duration
		want   recommender.Size
	}{
		{"a step", ScaledRequests{"": {true, false}}, "", false, 0, size(500, 1000, 1024, 2048)},
		{"an answer to an OOM kill", ScaledRequests{"app": {false, true}}, "", true, 0, size(1000, 2000, 512, 1024)},
		{"an undo", ScaledRequests{"": {true, true}}, WaveUndo, false, 0, size(500, 2000, 512, 2048)},
		{"the end of a crash since creation", ScaledRequests{"": {true, true}}, WaveTemplate, false, 0, size(500, 2000, 512, 2048)},
		{"another container", ScaledRequests{"side-1": {true, true}}, "", false, 0, up},
		{"the HPA is gone", nil, "", false, 0, up},
		{"after the wait", ScaledRequests{"": {true, true}}, "", false, 10 * time.Minute, up},
	} {
		plan := mustPlan(t, pod, wish(up))
		plan.Wave, plan.Urgent = tc.wave, tc.urgent
		got, refusal := Admit(pod, plan, world(func(w *GateInput) {
			w.Now, w.Status.Tries, w.Workload.ScaledOn = noon.Add(tc.after), tries, tc.scaled
		}))
		require.Nil(t, refusal, tc.name)
		assert.Equal(t, tc.want, got.Moves[0].To, tc.name)
	}

	memory := mustPlan(t, pod, wish(size(0, 0, 1024, 2048)))
	_, refusal := Admit(pod, memory, world(func(w *GateInput) { w.Status.Tries, w.Workload.ScaledOn = tries, ScaledRequests{"": {false, true}} }))
	check(t, ReasonHPASync, refusal)
	assert.Equal(t, noon.Add(10*time.Minute), refusal.Until)

	// An accepted resize of the pod, such as the withdrawal itself, does not end the wait; each failure doubles it.
	tries = Accepted(tries, record)
	require.Len(t, tries, 1)
	for _, wait := range []time.Duration{20, 40, 80, 160, 160} {
		at := tries[0].Until.Time
		tries = NotInSync(tries, record, "Deferred: no room", at)
		require.Len(t, tries, 1)
		assert.Equal(t, wait*time.Minute, tries[0].Until.Sub(at))
	}
	assert.Equal(t, tries, NotInSync(tries, record, "", tries[0].Since.Add(time.Second)), "once for each wait")
}

// TestHPAKeepsTheRange: a request moves only within the range that keeps the number of replicas.
func TestHPAKeepsTheRange(t *testing.T) {
	within := func(least, most recommender.Amount) GateInput {
		return world(func(w *GateInput) {
			w.Workload.HPA = map[string]Held{"app": {By: "web", Of: [2]bool{true, false}, Kept: [2]*recommender.Kept{{Least: least, Most: most}}}}
		})
	}
	for _, tc := range []struct {
		what string
		in   GateInput
		want recommender.Size
		why  string
	}{
		{"within", within(250, 0), size(250, 500, 256, 512), ""},
		{"below", within(251, 0), size(500, 1000, 256, 512), "HorizontalPodAutoscaler web keeps the number of replicas only with a cpu request from 251m up, not with 250m"},
		{"above", within(100, 249), size(500, 1000, 256, 512), "HorizontalPodAutoscaler web keeps the number of replicas only with a cpu request from 100m to 249m, not with 250m"},
	} {
		plan, refusal := Admit(web(), mustPlan(t, web(), wish(size(250, 500, 256, 512))), tc.in)
		require.Nil(t, refusal, tc.what)
		assert.Equal(t, tc.want, specOf(plan.Apply(web()))["app"], "limits follow, and memory is not concerned: %s", tc.what)
		if tc.why == "" {
			assert.Empty(t, plan.LeftOut)
		} else if assert.Len(t, plan.LeftOut, 1, tc.what) {
			check(t, ReasonHPA, &plan.LeftOut[0])
			assert.Equal(t, tc.why, plan.LeftOut[0].Message)
		}
	}
	raised := within(400, 550)
	raised.Namespace.LimitRanges = []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{"cpu": resource.MustParse("600m")},
	}}}}}
	plan, refusal := Admit(web(), mustPlan(t, web(), wish(size(520, 1040, 256, 512))), raised)
	check(t, ReasonLimitRange, refusal)
	assert.Equal(t, size(500, 1000, 256, 512), specOf(plan.Apply(web()))["app"], "a LimitRange would raise it out of the range")

	undo := mustPlan(t, web(), wish(size(100, 200, 256, 512)))
	undo.Wave = WaveUndo
	plan, refusal = Admit(web(), undo, within(251, 0))
	require.Nil(t, refusal)
	assert.Equal(t, size(100, 200, 256, 512), specOf(plan.Apply(web()))["app"], "no range holds an undo")
}

func TestHPANeverBlocksAnOOMFloor(t *testing.T) {
	plan := mustPlan(t, web(), wish(size(1000, 2000, 1024, 2048))).AsUrgent()
	plan, refusal := Admit(web(), plan, world(func(w *GateInput) { w.Workload.HPA = map[string]Held{"": {By: "web", Of: [2]bool{true, true}}} }))
	require.Nil(t, refusal)
	assert.Equal(t, size(500, 1000, 1024, 2048), specOf(plan.Apply(web()))["app"])
}

func TestAnUrgentPlanThatLowersIsCutToItsGrowth(t *testing.T) {
	// Case 64: growth after an OOM kill never waits; decreases do.
	plan := mustPlan(t, web(), wish(size(250, 500, 1024, 2048)))
	plan.Urgent = true
	plan, refusal := Admit(web(), plan, world(func(w *GateInput) { w.Workload.Rollout = "rolling" }))
	require.Nil(t, refusal)
	assert.Equal(t, size(500, 1000, 1024, 2048), specOf(plan.Apply(web()))["app"])
}

func TestBlockedResourceMustNotChangeTheQOSClass(t *testing.T) {
	// 500m/500m is blocked and stays; with memory alone the pod would become Guaranteed.
	pod := running(size(500, 500, 256, 512))
	plan := mustPlan(t, pod, wish(size(250, 300, 512, 512)))
	blocked := world(func(w *GateInput) { w.Workload.HPA = map[string]Held{"": {By: "web", Of: [2]bool{true, false}}} })
	admitted, refusal := Admit(pod, plan, blocked)
	check(t, "", refusal)
	assert.Equal(t, belowLimit(size(500, 500, 512, 512), recommender.Memory), specOf(admitted.Apply(pod))["app"])
	// An errand changes what it is to change, or nothing.
	plan.Wave = WaveReboost
	_, refusal = Admit(pod, plan, blocked)
	check(t, ReasonQOSClass, refusal)
	assert.NotContains(t, refusal.Message, "LimitRange")
}

func TestExcludedContainersRestartNothing(t *testing.T) {
	// Case 39: the policy excludes the container that would restart, so the only replica may be resized.
	pod := restarting(running(prior, prior), corev1.ResourceCPU)
	plan := mustPlan(t, pod, []podview.Container{{Name: "app", Size: desired}, {Name: "side-1", Size: desired}})
	require.True(t, plan.Restarts)
	plan, refusal := Admit(pod, plan, world(func(w *GateInput) { w.Workload.Replicas, w.Rules.Excluded = 1, map[string]bool{"app": true} }))
	require.Nil(t, refusal, "%v", refusal)
	assert.False(t, plan.Restarts)
}

func TestItsOwnDeferralIsNotANeighbours(t *testing.T) {
	self := with(web(), func(p *corev1.Pod) { setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1) })
	stranded := with(outOfCPU(time.Minute), func(p *corev1.Pod) { p.Status.Reason = "Evicted" })
	_, refusal := Admit(web(), mustPlan(t, web(), wish(size(1000, 2000, 0, 0))), world(func(w *GateInput) {
		w.Node.Room = taken(self, stranded)
	}))
	check(t, "", refusal)
}

func TestScheduleRefusalsSayWhen(t *testing.T) {
	never := world(func(w *GateInput) { w.Rules.Schedule = Schedule{Days: map[time.Weekday]bool{time.Sunday: false}} })
	_, refusal := Admit(web(), mustPlan(t, web(), wish(desired)), never)
	assert.Equal(t, "the schedule has no window in the next 7 days. Change updateStrategy.schedule", refusal.Message)
	nights := world(func(w *GateInput) { w.Rules.Schedule = Schedule{Windows: []Window{{Start: 22 * 60, End: 4 * 60}}} })
	_, refusal = Admit(web(), mustPlan(t, web(), wish(desired)), nights)
	assert.Equal(t, "the schedule next opens at 2026-03-04T22:00:00Z. Reverts do not wait for it, nor do memory raises before or after an OOM kill", refusal.Message)
}

func TestNodeRoom(t *testing.T) {
	neighbour := func(s recommender.Size) *corev1.Pod { return with(running(s), func(p *corev1.Pod) { p.UID = "other" }) }
	lowering := with(neighbour(size(1000, 0, 512, 0)), func(p *corev1.Pod) {
		actual := podview.ToRequirements(size(3000, 0, 512, 0))
		p.Status.ContainerStatuses[0].Resources = &actual
	})
	ended := with(neighbour(size(3000, 0, 512, 0)), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	for _, tc := range []struct {
		name       string
		neighbours []*corev1.Pod
		wish       recommender.Size
		promised   recommender.Size
		reason     string
	}{
		{"room for all of it", []*corev1.Pod{neighbour(size(2000, 0, 512, 0))}, size(2000, 2000, 512, 1024), recommender.Size{}, ""},
		{"a millicore too much", []*corev1.Pod{neighbour(size(2001, 0, 512, 0))}, size(2000, 2000, 512, 1024), recommender.Size{}, ReasonNoRoom},
		{"memory too", []*corev1.Pod{neighbour(size(100, 0, 3500, 0))}, size(500, 1000, 600, 1024), recommender.Size{}, ReasonNoRoom},
		{"lowering always fits", []*corev1.Pod{neighbour(size(3900, 0, 4000, 0))}, size(250, 500, 512, 1024), recommender.Size{}, ""},
		{"14: what a neighbour still has counts, not what it asks for", []*corev1.Pod{lowering}, size(2000, 2000, 512, 1024), recommender.Size{}, ReasonNoRoom},
		{"what has ended takes nothing", []*corev1.Pod{ended}, size(2000, 2000, 512, 1024), recommender.Size{}, ""},
		{"31: growth promised to another pod in the same pass", nil, size(2000, 2000, 512, 1024), size(2001, 0, 0, 0), ReasonNoRoom},
		{"the pod itself among the neighbours", []*corev1.Pod{web()}, size(4000, 4000, 512, 1024), recommender.Size{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := world(func(w *GateInput) {
				w.Node.Room, w.Node.Reserved = taken(tc.neighbours...), tc.promised
				w.Node.Capabilities.Allocatable = [2]recommender.Amount{4000, 4 * gi}
			})
			_, refusal := Admit(web(), mustPlan(t, web(), wish(tc.wish)), w)
			check(t, tc.reason, refusal)
			w.Node.Room = nil
			_, refusal = Admit(web(), mustPlan(t, web(), wish(tc.wish)), w)
			check(t, "", refusal)
		})
	}
}

// A message names a waiting pod only in that pod's own namespace.
func TestWaitingPodIsNamedOnlyInItsNamespace(t *testing.T) {
	for _, tc := range []struct {
		who  *corev1.Pod
		said string
	}{
		{deferredSince(time.Minute), "pod web-1 waits for room on node node-1"},
		{strangers(deferredSince(time.Minute)), "another pod waits for room on node node-1"},
	} {
		w := world(func(w *GateInput) { w.Node.Room = taken(tc.who) })
		_, refusal := Admit(web(), mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), w)
		check(t, ReasonNodeBlocked, refusal)
		assert.Equal(t, tc.said, refusal.Message)
	}
}

// A deferred resize reserves the scheduler's room, but the kubelet grants the room to the first resize that fits. So an
// answer to an OOM kill does not wait for a deferred resize that requests the whole node.
func TestAnAnswerToAnOOMKillNeedsNoRoomThatIsOnlyAskedFor(t *testing.T) {
	greedy := with(running(size(3000, 0, 3*1024, 0)), func(p *corev1.Pod) {
		p.UID = "other"
		held := &p.Status.ContainerStatuses[0]
		held.AllocatedResources = corev1.ResourceList{corev1.ResourceCPU: quantity("100m"), corev1.ResourceMemory: quantity("64Mi")}
		held.Resources = &corev1.ResourceRequirements{Requests: held.AllocatedResources}
		setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
	})
	w := world(func(w *GateInput) {
		w.Node.Room = RoomOf([]*corev1.Pod{strangers(greedy), web()}, map[types.UID][2]recommender.Amount{"other": {3500, 3 * gi}}, noon)
		w.Node.Capabilities.Allocatable = [2]recommender.Amount{4000, 3*gi + 600*mi}
	})
	plan := mustPlan(t, web(), wish(size(500, 1000, 700, 2048)))
	_, refusal := Admit(web(), plan, w)
	check(t, ReasonNoRoom, refusal)
	_, refusal = Admit(web(), plan.AsUrgent(), w)
	check(t, "", refusal)
	w.Node.Capabilities.Allocatable[recommender.Memory] = 64*mi + 600*mi
	_, refusal = Admit(web(), plan.AsUrgent(), w)
	check(t, ReasonNoRoom, refusal)
}

func TestBlockOf(t *testing.T) {
	up, down := size(1000, 2000, 512, 1024), size(250, 500, 512, 1024)
	until := noon.Add(10 * time.Minute)
	for _, tc := range []struct {
		name   string
		to     recommender.Size
		reason string
		want   NodeBlock
	}{
		{"growth deferred", up, ReasonDeferred, NodeBlock{Growth: until}},
		{"growth infeasible", up, ReasonInfeasible, NodeBlock{Growth: until}},
		{"29: a lowering deferred", down, ReasonDeferred, NodeBlock{All: until}},
		{"11: nobody saw it", up, ReasonUnobserved, NodeBlock{All: until}},
		{"38: nobody carried it out", up, ReasonTimeout, NodeBlock{All: until}},
		{"38: the runtime does not carry growth out", up, ReasonActuation, NodeBlock{Growth: until}},
		{"34: a memory limit could not be lowered", size(500, 1000, 256, 512), ReasonActuation, NodeBlock{}},
		{"harm says nothing of the node", down, string(HarmOOM), NodeBlock{}},
	} {
		record := lifecycle.NewRecord(mustPlan(t, web(), wish(tc.to)), web(), noon, auto())
		assert.Equal(t, tc.want, BlockOf(record, tc.reason, noon), tc.name)
	}
}

// Case B26: Karpenter removes a node whose pods request less. Where new pods have the template's size, it then starts a
// new one, so nothing is lowered there.
func TestPodsOfKarpenterAreLoweredOnlyWhereNewPodsAreSized(t *testing.T) {
	const unlabelled = "the namespace does not have the label attune.io/inject=enabled"
	for name, c := range map[string]struct {
		karpenter bool
		notSized  string
		want      recommender.Size
		left      []string
	}{
		"another node":                    {false, unlabelled, size(250, 500, 600, 1200), nil},
		"new pods are sized":              {true, "", size(250, 500, 600, 1200), nil},
		"new pods have the template size": {true, unlabelled, size(500, 1000, 600, 1200), []string{"app NewPodsNotSized"}},
	} {
		plan, refusal := Admit(web(), mustPlan(t, web(), wish(size(250, 500, 600, 1200))), world(func(w *GateInput) {
			w.Node.Karpenter, w.Namespace.NotSized = c.karpenter, c.notSized
		}))
		require.Nil(t, refusal, name)
		assert.Equal(t, c.want, specOf(plan.Apply(web()))["app"], name)
		assert.Equal(t, c.left, leftOut(plan), name)
	}
	assert.True(t, OfKarpenter(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"karpenter.sh/nodepool": "default"}}}))
	assert.False(t, OfKarpenter(nil))
}

func TestRefusalsSayWhatLiftsThem(t *testing.T) {
	said := func(change func(*GateInput), to recommender.Size) string {
		_, refusal := Admit(web(), mustPlan(t, web(), wish(to)), world(change))
		require.NotNil(t, refusal)
		return refusal.Message
	}
	assert.Equal(t, "cooldown until 2026-03-04T12:01:00Z. A container that uses more than it requests is raised before that",
		said(func(w *GateInput) { w.Status.CooldownFrom = ago(59 * time.Minute) }, desired))
	assert.Equal(t, "cooldown until 2026-03-04T13:01:00Z, longer after a revert. Reverts do not wait for it, nor do memory raises before or after an OOM kill",
		said(func(w *GateInput) {
			w.Status.CooldownFrom, w.Status.Backoff = ago(59*time.Minute), &v1alpha1.Backoff{ConsecutiveReverts: 1}
		}, desired))
	assert.Equal(t, "the pod's last resize of 2026-03-04T11:59:00Z is not complete yet. The next one follows after its observation",
		said(func(w *GateInput) {
			w.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "uid-1", Phase: v1alpha1.RecordWatching, WrittenAt: *ago(time.Minute)}}
		}, desired))
}
