package harm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// The open record of a boost blocks the answer to a kill of any container of its pod.
func TestKillOfAnotherContainerEndsABoost(t *testing.T) {
	started := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		wave string
		at   time.Duration
		want bool
	}{
		"during the boost":      {resize.WaveReboost, time.Minute, true},
		"before the restart":    {resize.WaveReboost, -time.Minute, false},
		"during another resize": {resize.WaveNext, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "proxy"}}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}, {Name: "proxy", RestartCount: 1, LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.NewTime(started.Add(tc.at))}}}}
			c := caseOf(pod, v1alpha1.ResizeRecord{Wave: tc.wave})
			c.Changes = []resize.Change{{Container: "app", Baseline: v1alpha1.ContainerBaseline{StartedAt: &started}}}
			assert.Equal(t, tc.want, otherKill(c).OtherKill)
		})
	}
}
