package harm

import (
	"fmt"
	"strconv"
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

// createdPod returns a pod that was created ten minutes before noon.
func createdPod(s recommender.Size) *corev1.Pod {
	pod := running(s)
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-10 * time.Minute))
	return pod
}

// endedEarly terminates the pod's container once, for a reason, five minutes before noon.
func endedEarly(pod *corev1.Pod, reason string, restarts int32) *corev1.Pod {
	s := &pod.Status.ContainerStatuses[0]
	s.RestartCount = restarts
	code := resizetest.ExitCode(reason)
	if reason == "Error" {
		code = 1
	}
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, ContainerID: "containerd://before", StartedAt: metav1.NewTime(noon.Add(-9 * time.Minute)), FinishedAt: metav1.NewTime(noon.Add(-5 * time.Minute)),
	}
	return pod
}

func TestAdmissionResourcesAreJudged(t *testing.T) {
	original := size(500, 1000, 512, 1024)
	less := size(200, 400, 200, 400)
	rollout := Signals{Rollout: true}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		signals Signals
		at      time.Time
		want    resize.Harm
	}{
		"killed with less memory":                    {endedEarly(createdPod(less), podview.OOMKilled, 1), Signals{}, noon, resize.HarmOOM},
		"killed with less memory in a rollout":       {endedEarly(createdPod(less), podview.OOMKilled, 1), rollout, noon, resize.HarmOOM},
		"killed weeks later":                         {endedEarly(createdPod(less), podview.OOMKilled, 1), Signals{}, noon.Add(500 * time.Hour), resize.HarmOOM},
		"killed with the memory of its template":     {endedEarly(createdPod(size(200, 400, 512, 1024)), podview.OOMKilled, 1), Signals{}, noon, ""},
		"crashing":                                   {endedEarly(createdPod(less), "Error", 2), Signals{}, noon, resize.HarmRestart},
		"crashing in a rollout":                      {endedEarly(createdPod(less), "Error", 2), rollout, noon, ""},
		"crashing hours later":                       {endedEarly(createdPod(less), "Error", 2), Signals{}, noon.Add(3 * time.Hour), ""},
		"restarted once":                             {endedEarly(createdPod(less), "Error", 1), Signals{}, noon, ""},
		"well":                                       {createdPod(less), Signals{}, noon, ""},
		"crashing with less CPU, and killed by that": {endedEarly(createdPod(size(200, 400, 512, 1024)), "Error", 2), Signals{}, noon, resize.HarmRestart},
	} {
		t.Run(name, func(t *testing.T) {
			birth, lowered := BirthRecord(c.pod, map[string]recommender.Size{"app": original})
			require.True(t, lowered)
			assert.Equal(t, c.want, JudgeBirth(c.pod, birth, c.at, auto(), c.signals).Harm)
		})
	}
}

// A crash loop with a rollout as a second possible cause is inconclusive. A crash with the template's size, or one long
// after the start, counts for nothing.
func TestACrashLoopInARolloutIsInconclusive(t *testing.T) {
	original := map[string]recommender.Size{"app": size(500, 1000, 512, 1024)}
	rollout := Signals{Rollout: true}
	birth, lowered := BirthRecord(createdPod(size(200, 400, 200, 400)), original)
	require.True(t, lowered)
	crashing := endedEarly(createdPod(size(200, 400, 200, 400)), "Error", 2)
	v := JudgeBirth(crashing, birth, noon, auto(), rollout)
	assert.True(t, v.Inconclusive)
	assert.Contains(t, v.Message, "the workload is rolling out: container app restarted 2 times")
	assert.False(t, JudgeBirth(crashing, birth, noon.Add(3*time.Hour), auto(), rollout).Inconclusive, "it started long ago")
	assert.False(t, JudgeBirth(createdPod(size(200, 400, 200, 400)), birth, noon, auto(), rollout).Inconclusive, "it does not crash")

	crashes, fresh := BlockLowering(nil, crashing, birth, never, noon)
	assert.True(t, fresh)
	assert.Equal(t, []v1alpha1.FailedStart{{Name: "app", TemplateHash: "abc", Since: metav1.NewTime(noon)}}, crashes)
	assert.True(t, LoweringBlocked(crashes, "app", "abc"))
	assert.False(t, LoweringBlocked(crashes, "app", "next"), "the next generation may be another program")
	assert.False(t, LoweringBlocked(crashes, "side", "abc"))
	_, fresh = BlockLowering(crashes, crashing, birth, never, noon.Add(time.Hour))
	assert.False(t, fresh, "it is known")
	_, fresh = BlockLowering(nil, with(crashing, func(p *corev1.Pod) { p.Labels = nil }), birth, never, noon)
	assert.False(t, fresh, "nothing names its generation")
}

func TestFailedStartsAreBounded(t *testing.T) {
	var crashes []v1alpha1.FailedStart
	pod := createdPod(size(200, 400, 200, 400))
	for i := range v1alpha1.MaxFailedStarts + 5 {
		birth, _ := BirthRecord(with(pod, func(p *corev1.Pod) { p.Labels["pod-template-hash"] = fmt.Sprint(i) }),
			map[string]recommender.Size{"app": size(500, 1000, 512, 1024)})
		var fresh bool
		crashes, fresh = BlockLowering(crashes, pod, birth, numbered, noon)
		require.True(t, fresh)
	}
	require.Len(t, crashes, v1alpha1.MaxFailedStarts)
	assert.Equal(t, "24", crashes[len(crashes)-1].TemplateHash)
}

func TestOnlyLoweredAdmissionResourcesAreBlamed(t *testing.T) {
	original := map[string]recommender.Size{"app": size(500, 1000, 512, 1024)}
	_, raised := BirthRecord(createdPod(size(600, 1200, 512, 1024)), original)
	assert.False(t, raised, "it has more than its template gives")
	_, same := BirthRecord(createdPod(size(500, 1000, 512, 1024)), original)
	assert.False(t, same)
	_, unknown := BirthRecord(createdPod(size(100, 0, 100, 100)), nil)
	assert.False(t, unknown, "nobody knows its originals")
	_, resized := BirthRecord(with(createdPod(size(200, 400, 200, 400)), func(p *corev1.Pod) { p.Generation = 2 }), original)
	assert.False(t, resized, "a resize since has a record of its own")
	_, without := BirthRecord(createdPod(size(200, 0, 200, 0)), map[string]recommender.Size{"app": {}})
	assert.False(t, without, "requests where there were none lower nothing")
}

func TestSeedIsBadUpToTheSizeOfARegression(t *testing.T) {
	harmful := v1alpha1.ResizeRecord{
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(500, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(size(600, 0, 200, 400))}},
	}
	seed := func(cpu, memory recommender.Amount) *v1alpha1.Seed {
		return &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{
			Name: "app", CPURequest: podview.ToPointer(recommender.CPU, cpu), MemoryRequest: podview.ToPointer(recommender.Memory, memory*mi),
		}}}
	}
	assert.True(t, HarmsNewborn(seed(0, 200), harmful), "the same memory")
	assert.True(t, HarmsNewborn(seed(900, 150), harmful), "less")
	assert.False(t, HarmsNewborn(seed(600, 201), harmful), "more; CPU was raised and is not to blame")
	assert.False(t, HarmsNewborn(seed(100, 0), harmful), "memory is left alone")
	assert.False(t, HarmsNewborn(nil, harmful))
	other := seed(0, 200)
	other.Containers[0].Name = "other"
	assert.False(t, HarmsNewborn(other, harmful))
	raising := seed(0, 200)
	raising.RaiseOnly = true // as an earlier version stored it
	assert.False(t, HarmsNewborn(raising, harmful), "it never lowers a template")
	raising = seed(0, 200)
	raising.Containers[0].RaiseOnly = true
	assert.False(t, HarmsNewborn(raising, harmful), "it never lowers a template")
}

func TestBadSeedsAreBounded(t *testing.T) {
	var bad []string
	for i := range v1alpha1.MaxBadSeeds + 5 {
		marked, fresh := MarkBad(bad, fmt.Sprint(i), numbered)
		require.True(t, fresh)
		bad = marked
	}
	require.Len(t, bad, v1alpha1.MaxBadSeeds)
	assert.Equal(t, "24", bad[len(bad)-1])
	same, fresh := MarkBad(bad, "24", numbered)
	assert.False(t, fresh)
	assert.Equal(t, bad, same)
}

// numbered returns creation times in the order of the numbers; never returns no known time.
func numbered(name string) time.Time {
	n, err := strconv.Atoi(name)
	if err != nil {
		panic(err)
	}
	return noon.Add(time.Duration(n) * time.Minute)
}

func never(string) time.Time { return time.Time{} }

// More seeds than are remembered had regressions, and all their pods exist: the youngest stay, in every order of
// reconciles.
func TestWhatIsSeenInEachPassComesToRest(t *testing.T) {
	var bad []string
	for pass := range 5 {
		before, fresh := bad, false
		for i := range v1alpha1.MaxBadSeeds + 5 {
			var marked bool
			bad, marked = MarkBad(bad, fmt.Sprint((i*7+pass)%(v1alpha1.MaxBadSeeds+5)), numbered)
			fresh = fresh || marked
		}
		assert.Equal(t, pass == 0, fresh)
		if pass > 0 {
			assert.Equal(t, before, bad)
		}
	}
	assert.Len(t, bad, v1alpha1.MaxBadSeeds)
	assert.NotContains(t, bad, "4")
	assert.Contains(t, bad, "5")

	var birth v1alpha1.ResizeRecord
	for i := range v1alpha1.MaxFailedStarts + 5 {
		birth.Desired = append(birth.Desired, v1alpha1.ContainerResources{Name: fmt.Sprint(i)})
	}
	crashes, fresh := BlockLowering(nil, createdPod(size(200, 400, 200, 400)), birth, never, noon)
	assert.True(t, fresh)
	assert.Len(t, crashes, v1alpha1.MaxFailedStarts)
	again, fresh := BlockLowering(crashes, createdPod(size(200, 400, 200, 400)), birth, never, noon.Add(time.Hour))
	assert.False(t, fresh)
	assert.Equal(t, crashes, again)
}

// A pod that has crashed since it was created gets back the resources that admission lowered, and keeps the raised
// ones.
func TestCrashingPodGetsTemplateResources(t *testing.T) {
	pod := endedEarly(createdPod(size(200, 400, 600, 1024)), "Error", 2)
	birth, lowered := BirthRecord(pod, map[string]recommender.Size{"app": size(500, 1000, 512, 1024)})
	require.True(t, lowered)
	plan, refusal := BirthPlan(pod, birth, able(), noon)
	require.Nil(t, refusal, "%v", refusal)
	busy := resize.GateInput{
		Now:   noon,
		Rules: auto(),
		Workload: resize.WorkloadInput{
			Rollout:     "1 of 2",
			Replicas:    2,
			DataUntil:   noon.Add(-100 * time.Hour),
			StaleAfter:  time.Hour,
			Annotations: map[string]string{v1alpha1.PausedAnnotation: "true"},
		},
		Node: resize.NodeInput{Block: resize.NodeBlock{All: noon.Add(time.Hour)}},
	}
	busy.Rules.Paused = []string{"cluster"}
	busy.Status.CooldownFrom = &metav1.Time{Time: noon}
	plan, refusal = resize.Admit(pod, plan, busy)
	require.Nil(t, refusal, "nothing that paces new steps holds it: %v", refusal)
	assert.Equal(t, []resize.Move{{Container: "app", From: size(200, 400, 600, 1024), To: size(500, 1000, 600, 1024)}}, plan.Moves)

	waiting := pod.DeepCopy()
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	_, refusal = BirthPlan(waiting, birth, able(), noon)
	require.NotNil(t, refusal, "it would be started with more than its pod's cgroup has")
	assert.Equal(t, resize.ReasonFailedStart, refusal.Reason)
	assert.True(t, refusal.Transient)

	w := resize.GateInput{Now: noon, Rules: auto(), Workload: resize.WorkloadInput{Annotations: map[string]string{v1alpha1.SkipAnnotation: "true"}}}
	_, refusal = resize.Admit(pod, plan, w)
	require.NotNil(t, refusal)
	assert.Equal(t, resize.ReasonSkipped, refusal.Reason)

	record := lifecycle.NewRecord(plan, pod, noon, auto())
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	pod.Status.ContainerStatuses[0].RestartCount += 5
	assert.Equal(t, resize.Verdict{}, Judge(pod, record, noon.Add(time.Minute), auto(), Signals{}), "it may go on to crash: that is not this size's doing")
	assert.NotEqual(t, lifecycle.Harmed, Assess(pod, record, able(), noon.Add(time.Minute), auto(), Signals{}).Kind)
	for _, kind := range []lifecycle.StateKind{lifecycle.Deferred, lifecycle.Unobserved, lifecycle.Actuating} {
		next := lifecycle.Next(lifecycle.State{Kind: kind, Message: "no room"}, record, auto(), lifecycle.Circumstances{}, noon.Add(12*time.Hour))
		assert.Equal(t, lifecycle.Wait, next.Kind, "%s: it waits for room as a revert does", kind)
		assert.Equal(t, resize.ReasonFailedStart, next.Reason)
	}
	record.VerifiedOnce = &metav1.Time{Time: noon}
	done := lifecycle.Next(lifecycle.State{Kind: lifecycle.Applied}, record, auto(), lifecycle.Circumstances{}, noon.Add(lifecycle.SyncPeriod))
	assert.Equal(t, lifecycle.Action{Kind: lifecycle.Forget, Result: lifecycle.ResultUndone, Reason: resize.ReasonFailedStart}, done, "no watch, and no size that is kept")

	pod.Generation = 2
	_, lowered = BirthRecord(pod, map[string]recommender.Size{"app": size(500, 1000, 512, 1024)})
	assert.False(t, lowered, "once for each pod")
}
