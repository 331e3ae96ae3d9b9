package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// A pod that is OOM-killed during its boost loses the boost: the next restart would multiply it.
func TestAnOOMKillDuringABoostEndsTheBoost(t *testing.T) {
	state := State{Verdict: resize.Verdict{OtherKill: true}}
	assert.Equal(t, Withdraw, endedByOtherKill(state, v1alpha1.ResizeRecord{Wave: resize.WaveReboost}).Kind)
	assert.Equal(t, Forget, endedByOtherKill(state, v1alpha1.ResizeRecord{Wave: resize.WaveNext}).Kind)
}

// The open record of a boost blocks an answer to an OOM kill of any container of its pod.
func TestABoostEndsForAnUrgentResize(t *testing.T) {
	record := v1alpha1.ResizeRecord{Wave: resize.WaveReboost, Phase: v1alpha1.RecordWatching}
	now := time.Now()
	raise := Circumstances{Climbs: "container app is about to be OOM-killed"}
	assert.Equal(t, Withdraw, Next(State{Kind: Watching}, record, resize.Rules{}, raise, now).Kind, "a raise before an OOM kill")
	assert.Equal(t, Wait, Next(State{Kind: Watching}, record, resize.Rules{}, Circumstances{}, now).Kind)
}

// A startup boost after a restart raises no CPU limit above the maximum of cpu.limits.
func TestABoostAfterARestartStaysWithinTheMaximumOfCPULimits(t *testing.T) {
	now := time.Now()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("200m")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("400m")},
	}}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}},
	}}
	for most, want := range map[recommender.Amount]recommender.Allocation{
		0: {Request: 600, Limit: 1200}, 900: {Request: 600, Limit: 900}, 500: {Request: 499, Limit: 500}, 401: {Request: 400, Limit: 401},
	} {
		of := func(string) *Reboost {
			return &Reboost{Multiplier: 3, Duration: time.Minute, LimitsFollow: true, Limits: recommender.LimitRule{Max: most}}
		}
		boosted := Restarted(pod, v1alpha1.Seeded{Boosted: []v1alpha1.BoostedContainer{{Name: "app"}}}, now, of)
		require.Len(t, boosted, 1)
		assert.Equal(t, want, boosted[0].Size[recommender.CPU], most)
	}
}
