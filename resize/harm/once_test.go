package harm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// fleet returns replicas with containers of 512Mi. Each container was OOM killed once, at 512Mi, some seconds apart.
func fleet(replicas, containers int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range replicas {
		pod := &corev1.Pod{}
		pod.Name, pod.UID, pod.Generation = fmt.Sprint("web-", i), types.UID(fmt.Sprint("web-", i)), 1
		for c := range containers {
			name := fmt.Sprint("app-", c)
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: podview.ToRequirements(size(0, 0, 512, 512))})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: name, RestartCount: 1, ContainerID: "containerd://now", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "OOMKilled", ExitCode: 137, ContainerID: fmt.Sprintf("containerd://%d-%d", i, c), FinishedAt: metav1.NewTime(noon.Add(time.Duration(i) * time.Second)),
				}},
			})
		}
		pods = append(pods, pod)
	}
	return pods
}

// raised sets a memory limit on all containers of the pods, as the resize after their kills does.
func raised(pods []*corev1.Pod, limit recommender.Amount, at time.Time) {
	for _, pod := range pods {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources = podview.ToRequirements(recommender.Size{recommender.Memory: {Request: limit, Limit: limit}})
		}
		pod.Generation++
		pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry(podview.FieldManager, at)}
	}
}

var halfGi = map[string]recommender.Size{"app-0": size(0, 0, 512, 512), "app-1": size(0, 0, 512, 512)}

func TestKillsAreLearnedOnceHoweverManyContainersWereKilled(t *testing.T) {
	for _, of := range []struct{ replicas, containers int }{{32, 1}, {33, 1}, {40, 1}, {17, 2}, {100, 2}} {
		pods, floors, at := fleet(of.replicas, of.containers), []v1alpha1.Floor(nil), noon.Add(time.Hour)
		for pass := range 20 {
			for _, pod := range pods {
				floors = LearnKills(floors, pod, nil, halfGi, at)
			}
			assert.LessOrEqual(t, len(floors), mostFloors)
			for c := range of.containers {
				name := fmt.Sprint("app-", c)
				assert.LessOrEqual(t, resize.OOMFloorOf(floors, name, at), 666*mi, "%d × %d, pass %d", of.replicas, of.containers, pass)
				assert.Greater(t, resize.OOMFloorOf(floors, name, at), 664*mi, "%d × %d, pass %d", of.replicas, of.containers, pass)
			}
			raised(pods, resize.OOMFloorOf(floors, "app-0", at), at)
			at = at.Add(time.Minute)
		}
	}
}

// Pods that admission lowered are killed below the template's limit. A kill that was dropped from the list must not be
// learned again at the raised limit.
func TestDroppedKillsOfLoweredPodsStayDropped(t *testing.T) {
	pods, floors, at := fleet(50, 1), []v1alpha1.Floor(nil), noon.Add(time.Hour)
	template := map[string]recommender.Size{"app-0": size(0, 0, 4096, 4096)}
	for range 20 {
		for _, pod := range pods {
			floors = LearnKills(floors, pod, nil, template, at)
		}
		raised(pods, resize.OOMFloorOf(floors, "app-0", at), at)
		at = at.Add(time.Minute)
	}
	assert.LessOrEqual(t, resize.OOMFloorOf(floors, "app-0", at), 666*mi)
}

func TestALostRecommendationTeachesNoMoreThanTheTemplate(t *testing.T) {
	pods, at := fleet(2, 1), noon.Add(time.Hour)
	raised(pods, 2458*mi, at)
	for loss := range 4 {
		var floors []v1alpha1.Floor
		at = at.Add(time.Hour)
		for _, pod := range pods {
			floors = LearnKills(floors, pod, nil, halfGi, at)
		}
		assert.LessOrEqual(t, resize.OOMFloorOf(floors, "app-0", at), 666*mi, "loss %d", loss)
		raised(pods, 2458*mi, at)
	}
	assert.Empty(t, LearnKills(nil, pods[0], nil, nil, at), "without the original, nothing is known of the limit")
}

func TestLimitAtKill(t *testing.T) {
	at := noon.Add(10 * time.Minute)
	kill := func(ago time.Duration, edits ...func(*corev1.Pod)) *corev1.Pod {
		pod := fleet(1, 1)[0]
		raised([]*corev1.Pod{pod}, 900*mi, at.Add(-5*time.Minute))
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt = metav1.NewTime(at.Add(-ago))
		for _, edit := range edits {
			edit(pod)
		}
		return pod
	}
	ahead := func(by time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			bound := noon.Add(-time.Hour)
			pod.Status.StartTime = &metav1.Time{Time: bound.Add(by)}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}}
			ended := &pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt
			ended.Time = ended.Add(by)
		}
	}
	lost := func(pod *corev1.Pod) { pod.ManagedFields = nil }
	birth := func(pod *corev1.Pod) { pod.Generation = 1 }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want recommender.Amount
	}{
		"never resized":                                {kill(time.Minute, birth), 900 * mi},
		"after the resize":                             {kill(time.Minute), 900 * mi},
		"before the resize":                            {kill(6 * time.Minute), 512 * mi},
		"who resized it is lost":                       {kill(time.Minute, lost), 512 * mi},
		"after the resize, clock two hours ahead":      {kill(time.Minute, ahead(2*time.Hour)), 900 * mi},
		"before the resize, clock two hours ahead":     {kill(6*time.Minute, ahead(2*time.Hour)), 512 * mi},
		"in the future, unknown clock":                 {kill(-2 * time.Hour), 512 * mi},
		"after the resize, clock two hours behind":     {kill(time.Minute, ahead(-2*time.Hour)), 900 * mi},
		"before the resize, clock two hours behind":    {kill(6*time.Minute, ahead(-2*time.Hour)), 512 * mi},
		"before the resize, clock three minutes ahead": {kill(6*time.Minute, ahead(3*time.Minute)), 512 * mi},
	} {
		floors := LearnKills(nil, c.pod, nil, halfGi, at)
		if assert.Len(t, floors, 1, name) {
			assert.Equal(t, recommender.OOMFloor(c.want), podview.AmountOf(recommender.Memory, floors[0].Amount), name)
		}
	}
}

// Another writer raised the pod between the kill and the reconcile: the kill was at no more than the record's limits.
func TestARaiseBetweenKillAndLookIsNotTheCeiling(t *testing.T) {
	raised := size(500, 1000, 1024, 4096)
	lowered := size(500, 1000, 256, 512)
	watched := recorded(lowered, func(r *v1alpha1.ResizeRecord) { r.VerifiedOnce = ago(time.Minute) })
	killed := resized(raised, done(raised), last(ended("OOMKilled", "app-0", -time.Hour, 30*time.Second)))
	v := Judge(killed, watched, noon, auto(), Signals{})
	assert.Equal(t, prior[recommender.Memory].Limit, v.Ceiling)

	v = Judge(resized(raised, done(raised)), watched, noon, auto(), Signals{OOMEvents: map[string]float64{"app": 1}})
	assert.Equal(t, prior[recommender.Memory].Limit, v.Ceiling, "a child was killed")

	grown := recorded(raised)
	grown.VerifiedOnce, grown.WatchUntil = nil, nil
	v = Judge(resized(raised, done(raised), last(ended("OOMKilled", "app-0", -time.Hour, time.Second))), grown, noon, auto(), Signals{})
	assert.Equal(t, prior[recommender.Memory].Limit, v.Ceiling, "killed before the raise was seen as applied, in the run of the baseline")
}

// If a pod is killed again at each raised limit, a minimum is learned from each of these limits.
func TestKillsAtRisingLimitsTeachEachLimit(t *testing.T) {
	pods, floors, at, limit := fleet(1, 1), []v1alpha1.Floor(nil), noon.Add(time.Hour), 512*mi
	for n := range 4 {
		ended := pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated
		ended.ContainerID, ended.FinishedAt = fmt.Sprint("containerd://run-", n), metav1.NewTime(at)
		floors = LearnKills(floors, pods[0], nil, halfGi, at.Add(time.Second))
		limit = recommender.OOMFloor(limit)
		assert.Equal(t, limit, podview.AmountOf(recommender.Memory, floors[len(floors)-1].Amount), "kill %d", n)
		raised(pods, limit, at.Add(2*time.Second))
		at = at.Add(time.Minute)
	}
}
