package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// The pod's own memory limit stayed below the sum of its containers' limits. It is raised as soon as a container
// runs, also in a cooldown. Until then ResizeBlocked names the limit that kills, and the containers get no further
// memory.
func TestAPodThatIsBehindIsMadeToFollow(t *testing.T) {
	was := sizeOf(200, 0, 512, 1024)
	behind := func() *corev1.Pod {
		pod := endedBefore(running("web-1", was), "OOMKilled", 3, 0)
		pod.Status.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("600Mi")}}
		return pod
	}
	greater := sizeOf(200, 0, 1024, 2048)
	w := heading(seen(t, was, behind()), greater)
	w.Rec.Status.CooldownFrom = &metav1.Time{Time: now}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, sizeOf(200, 0, 512, 1025), d.Writes[0].Plan.Moves[0].To, "nothing else first")
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, resize.ReasonPodLimitBehind, d.Status.Records[0].Reason)
	require.Len(t, d.Status.Floors, 1)
	assert.Equal(t, recommender.OOMFloor(600*mi), podview.AmountOf(recommender.Memory, d.Status.Floors[0].Amount), "the pod's limit killed")

	waiting := behind()
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	d = tuning.Decide(heading(seen(t, was, waiting), greater))
	assert.Empty(t, d.Writes)
	assert.Equal(t, resize.ReasonPodLimitBehind, condition(t, d).Reason)
	assert.Contains(t, condition(t, d).Message, "600Mi")
}

// notStarting returns a pod that attune resized, whose container does not start and whose cgroup has these limits.
func notStarting(size recommender.Size, generation int64, limits corev1.ResourceList) *corev1.Pod {
	pod := ourSize(endedBefore(running("web-1", size), "StartError", 4, 0))
	pod.Generation, pod.Status.ObservedGeneration = generation, generation
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	pod.Status.Resources = &corev1.ResourceRequirements{Limits: limits}
	return pod
}

// A container ended between attune's patch and the kubelet's work. Its CPU limit is now above its pod's, and it cannot
// start. It gets the pod's limit, and its own size again while it runs.
func TestAContainerThatCannotStartIsStarted(t *testing.T) {
	was, startable := sizeOf(60, 120, 160, 320), sizeOf(60, 60, 160, 319)
	low := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60m"), corev1.ResourceMemory: resource.MustParse("130Mi")}
	w := heading(seen(t, was, notStarting(was, 2, low)), sizeOf(30, 60, 65, 130))
	w.Policy.Settings.Resize.Paused = []string{"cluster"}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", d.Status.Conditions)
	assert.Equal(t, startable, d.Writes[0].Plan.Moves[0].To)
	require.Len(t, told(d), 1)
	assert.Equal(t, "Warning Reverted Lowering the CPU limit of pod web-1 until its containers run: the runtime could not start them, "+
		"and their CPU limit is above the limit of the pod's cgroup", told(d)[0])
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(was)}}, d.Status.Records[0].Then)

	lowered := notStarting(startable, 3, low)
	record := lifecycle.RecordReturned(d.Status.Records[0], lowered)
	record.VerifiedOnce = &metav1.Time{Time: now.Add(-time.Minute)}
	w.Pods, w.Rec.Status = []*corev1.Pod{lowered}, d.Status
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes, "a second patch now would keep it from starting again")
	assert.Equal(t, []v1alpha1.ResizeRecord{record}, d.Status.Records)

	lowered.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	w.Looked.Live[lowered.UID] = true
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, was, d.Writes[0].Plan.Moves[0].To)

	refused := w
	refused.Rec = w.Rec.DeepCopy()
	refused.Rec.Status = *d.Status.DeepCopy()
	tuning.Answer(&refused.Rec.Status, refused, d.Writes[0], nil, resize.Outcome{Kind: resize.OutcomePolicyRefusal, Reason: "QuotaExceeded", Message: "exceeded quota"}, now)
	require.Len(t, refused.Rec.Status.Records, 1)
	restored := tuning.Decide(refused)
	require.Len(t, restored.Writes, 1, "a quota refused the second patch: the pod does not stay lowered")
	assert.Equal(t, was, restored.Writes[0].Plan.Moves[0].To)

	again := notStarting(was, 4, low)
	record = lifecycle.RecordReturned(d.Status.Records[0], again)
	assert.Equal(t, startable, podview.FromResources(record.Prior[0].Resources))
	record.VerifiedOnce = &metav1.Time{Time: now.Add(-time.Minute)}
	w.Pods, w.Rec.Status = []*corev1.Pod{again}, d.Status
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d = tuning.Decide(w)
	require.NotEmpty(t, d.Status.History)
	assert.Equal(t, lifecycle.ResultUndone, d.Status.History[0].Result)
	assert.Equal(t, resize.ReasonNotRunning, d.Status.History[0].Reason)
	assert.Empty(t, d.Writes, "it ended too early once more: not at once again")
	assert.Empty(t, d.Status.Records)
	assert.Nil(t, d.Status.CooldownFrom, "other pods do not wait")
	rows := len(d.Status.History)
	w.Rec.Status = d.Status
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d = tuning.Decide(w)
	assert.Len(t, d.Status.History, rows, "the same row once")
	w.Rec.Status, w.Now = d.Status, now.Add(time.Minute)
	require.Len(t, tuning.Decide(w).Writes, 1)
}

// If a user's setting blocks the start of a container, attune still restores the pod's original resources or explains why
// not.
func TestABlockedStartIsExplained(t *testing.T) {
	for how, c := range map[string]struct {
		block func(*tuning.View)
		says  string
	}{
		"autoRevert: false": {func(w *tuning.View) { w.Policy.Settings.Resize.AutoRevert = false }, "not restored, because autoRevert is false"},
		"attune.io/skip":    {stops["pod skipped"], "attune requested its original resources"},
		"VPA":               {stops["VPA"], "attune requested its original resources"},
	} {
		t.Run(how, func(t *testing.T) {
			pod := notStarting(sizeOf(60, 120, 160, 320), 2, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60m"), corev1.ResourceMemory: resource.MustParse("320Mi")})
			ended := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
			ended.ExitCode, ended.StartedAt = 128, metav1.NewTime(now.Add(-time.Minute))
			w := stoppedBy(t, "kill switch", pod)
			w.Rec.Status.Originals[0].Containers[0].Resources = podview.ToResources(sizeOf(500, 1000, 512, 1024))
			require.Len(t, tuning.Decide(w).Writes, 1)
			c.block(&w)
			d := tuning.Decide(w)
			for _, write := range d.Writes {
				assert.Equal(t, resize.WaveRestore, write.Plan.Wave)
			}
			assert.Equal(t, v1alpha1.ReasonBelowOriginal, degraded(d).Reason)
			assert.Contains(t, degraded(d).Message, c.says)
		})
	}
}
