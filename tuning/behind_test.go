package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
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
