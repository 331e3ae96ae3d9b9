package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

func ofJob(w tuning.View) tuning.View {
	w.Rec.Spec.Workload.Kind, w.Workload.Kind = v1alpha1.KindJob, v1alpha1.KindJob
	return w
}

// failed returns a pod whose only container was OOM-killed and is not restarted.
func failed(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "OOMKilled", ExitCode: 137, ContainerID: "containerd://" + pod.Name, FinishedAt: metav1.NewTime(now.Add(-time.Second)),
	}}
	return pod
}

func TestAFailedAttemptTeaches(t *testing.T) {
	w := ofJob(seen(t, template, failed(running("load-1", template))))
	d := tuning.Decide(w)
	floor := resize.FloorsOf(d.Status.Floors, "app", now)[recommender.Memory]
	assert.InDelta(t, 1.3*1024*mi, float64(floor.Amount), 1<<20)
	assert.Equal(t, int32(0), d.Status.Pods.Total, "it has ended")
}

func TestPodsOfJobsAreSizedAtBirthAlone(t *testing.T) {
	w := heading(ofJob(seen(t, template, running("load-1", template))), sizeOf(2000, 0, 512, 1024))
	assert.Empty(t, tuning.Decide(w).Writes, "neither raised")
	assert.Empty(t, tuning.Decide(heading(w, sizeOf(100, 0, 512, 1024))).Writes, "nor lowered")

	// The container restarts in the same pod (restartPolicy OnFailure), and its next attempt gets more memory.
	killed := endedBefore(running("load-1", template), "OOMKilled", 1, time.Second)
	w = heading(ofJob(seen(t, template, killed)), sizeOf(100, 0, 700, 1400))
	writes := tuning.Decide(w).Writes
	require.Len(t, writes, 1)
	require.Len(t, writes[0].Plan.Moves, 1)
	move := writes[0].Plan.Moves[0]
	assert.Greater(t, move.To[recommender.Memory].Limit, move.From[recommender.Memory].Limit)
	assert.Equal(t, move.From[recommender.CPU], move.To[recommender.CPU], "what it was not killed for stays")
}

func TestPodsThatEndedHoldNothingUp(t *testing.T) {
	gone := running("web-0", template)
	gone.Status.Phase = corev1.PodFailed
	w := heading(seen(t, template, gone, running("web-1", template)), template)
	d := tuning.Decide(w)
	assert.Equal(t, v1alpha1.PodCounts{Total: 1, AtTarget: 1}, *d.Status.Pods)
	assert.Empty(t, d.Writes)
}
