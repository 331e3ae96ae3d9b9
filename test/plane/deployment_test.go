package plane

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"attune.io/attune/test/kubelet"
)

// A rollout never has more pods than the surge allows, nor fewer available than may be missing, and ends with new pods
// alone. The bounds are those of the API's documentation: a surge is rounded up, what may be missing down.
func TestRolloutKeepsItsBounds(t *testing.T) {
	for _, tc := range []struct {
		replicas           int32
		surge, unavailable string
		most, least        int32
	}{
		{replicas: 1, most: 2, least: 1},
		{replicas: 4, most: 5, least: 3},
		{replicas: 10, most: 13, least: 8},
		{replicas: 10, surge: "0", unavailable: "1", most: 10, least: 9},
		{replicas: 10, surge: "2", unavailable: "0", most: 12, least: 10},
		{replicas: 10, surge: "0%", unavailable: "0%", most: 10, least: 9},
		// All may be missing: the old ones are taken away in the step that makes the new ones.
		{replicas: 3, surge: "100%", unavailable: "100%", most: 3, least: 0},
	} {
		t.Run(fmt.Sprintf("%d replicas, %s and %s", tc.replicas, tc.surge, tc.unavailable), func(t *testing.T) {
			l := newLab(t, 3, kubelet.Options{StartAfter: 5 * time.Second})
			d := deployment("web", tc.replicas)
			if tc.surge != "" {
				surge, unavailable := intstr.Parse(tc.surge), intstr.Parse(tc.unavailable)
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
			}
			l.create(d)
			l.run(time.Minute)
			require.Equal(t, "True NewReplicaSetAvailable", conditionOf(read(l, d).Status.Conditions, appsv1.DeploymentProgressing))
			most, least, stages := int32(0), tc.replicas, map[int32]bool{}
			l.watched = func() {
				total, available := int32(0), int32(0)
				for _, pod := range l.pods("web-") {
					if active(&pod) {
						total++
					}
					if active(&pod) && ready(&pod) {
						available++
					}
				}
				most, least = max(most, total), min(least, available)
				stages[read(l, d).Status.UpdatedReplicas] = true
			}
			edit(l, d, image("2"))
			l.run(5 * time.Minute)
			assert.Equal(t, tc.most, most, "pods at once")
			assert.Equal(t, tc.least, least, "pods available")
			status := read(l, d).Status
			assert.Equal(t, tc.replicas, status.UpdatedReplicas)
			assert.Equal(t, tc.replicas, status.Replicas)
			assert.Equal(t, tc.replicas, status.AvailableReplicas)
			assert.Equal(t, "True NewReplicaSetAvailable", conditionOf(status.Conditions, appsv1.DeploymentProgressing))
			if tc.replicas >= 10 {
				assert.Greater(t, len(stages), 3, "it came in steps")
			}
		})
	}
}

// Names, owners and labels are as the real controllers make them (deployment/sync.go, controller_utils.go).
func TestPodsOfADeployment(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{})
	d := deployment("web", 2)
	l.create(d)
	l.run(time.Minute)
	rs := l.replicaSets()[0]
	hash := rs.Labels["pod-template-hash"]
	assert.Regexp(t, regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{6,10}$`), hash)
	assert.Equal(t, "web-"+hash, rs.Name)
	assert.Equal(t, map[string]string{"app": "web", "pod-template-hash": hash}, rs.Spec.Selector.MatchLabels)
	assert.Equal(t, map[string]string{
		"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
	}, rs.Annotations)
	for _, pod := range l.pods("web-") {
		assert.Regexp(t, regexp.MustCompile(`^web-`+hash+`-[bcdfghjklmnpqrstvwxz2456789]{5}$`), pod.Name)
		assert.Equal(t, map[string]string{"app": "web", "pod-template-hash": hash}, pod.Labels)
		owner := pod.OwnerReferences[0]
		assert.Equal(t, "apps/v1 ReplicaSet "+rs.Name, owner.APIVersion+" "+owner.Kind+" "+owner.Name)
		assert.Equal(t, rs.UID, owner.UID)
		assert.True(t, *owner.Controller)
		assert.Len(t, pod.Spec.Tolerations, 2)
		assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			if c := podCondition(&pod, kind); assert.NotNil(t, c, kind) {
				assert.Equal(t, corev1.ConditionTrue, c.Status, kind)
			}
		}
	}
}

// A rollout whose pods are never ready gets stuck with as many of them as its bounds allow, and is overdue after its
// deadline. A rollback takes the old ReplicaSet again, under a new revision.
func TestStuckRolloutAndRollback(t *testing.T) {
	bad := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image != "example.org/app:2" }
	l := newLab(t, 1, kubelet.Options{Ready: bad})
	d := deployment("web", 4)
	l.create(d)
	l.run(time.Minute)
	old := l.replicaSets()[0].Name
	edit(l, d, image("2"))
	l.run(9 * time.Minute)
	assert.Equal(t, "True ReplicaSetUpdated", conditionOf(read(l, d).Status.Conditions, appsv1.DeploymentProgressing))
	l.run(2 * time.Minute)
	status := read(l, d).Status
	assert.Equal(t, "False ProgressDeadlineExceeded", conditionOf(status.Conditions, appsv1.DeploymentProgressing))
	assert.Equal(t, "True MinimumReplicasAvailable", conditionOf(status.Conditions, appsv1.DeploymentAvailable))
	assert.Equal(t, int32(2), status.UpdatedReplicas)
	assert.Equal(t, int32(5), status.Replicas)
	assert.Equal(t, int32(3), status.AvailableReplicas)
	l.run(24 * time.Hour)
	assert.Equal(t, status, read(l, d).Status, "it stays as it is")

	edit(l, d, image("1"))
	l.run(5 * time.Minute)
	sets := l.replicaSets()
	require.Len(t, sets, 2)
	assert.Equal(t, old, sets[1].Name)
	assert.Equal(t, "3", sets[1].Annotations[annotationRevision])
	assert.Equal(t, int32(4), *sets[1].Spec.Replicas)
	assert.Zero(t, *sets[0].Spec.Replicas)
	assert.Equal(t, "True NewReplicaSetAvailable", conditionOf(read(l, d).Status.Conditions, appsv1.DeploymentProgressing))
}

// While it is paused a new template does nothing, and scaling goes on. Scaling in the middle of a rollout keeps the
// shares of old and new.
func TestPausedAndScaled(t *testing.T) {
	slow := false
	l := newLab(t, 2, kubelet.Options{Ready: func(pod *corev1.Pod) bool { return !slow || pod.Spec.Containers[0].Image == "example.org/app:1" }})
	d := deployment("web", 10)
	l.create(d)
	l.run(time.Minute)
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Paused = true; image("2")(d) })
	l.run(time.Minute)
	require.Len(t, l.replicaSets(), 1)
	assert.Equal(t, "Unknown DeploymentPaused", conditionOf(read(l, d).Status.Conditions, appsv1.DeploymentProgressing))
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](8) })
	l.run(time.Minute)
	assert.Len(t, l.pods("web-"), 8)
	slow = true
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Paused = false })
	l.run(time.Minute)
	// Of 8 replicas at most 10 are there and at least 6 available: the old ones came down to 6, so that 4 are new.
	sets := l.replicaSets()
	require.Len(t, sets, 2)
	assert.Equal(t, []int32{6, 4}, []int32{*sets[0].Spec.Replicas, *sets[1].Spec.Replicas})
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](16) })
	l.settle()
	// 20 may be there now: each set has twice as many.
	sets = l.replicaSets()
	assert.Equal(t, []int32{12, 8}, []int32{*sets[0].Spec.Replicas, *sets[1].Spec.Replicas})
	slow = false
	l.run(5 * time.Minute)
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
	l.run(time.Minute)
	assert.Empty(t, l.pods("web-"))
	edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })
	l.run(time.Minute)
	assert.Len(t, l.pods("web-"), 3)
}

// Old ReplicaSets are kept for rollbacks, as many as the history may have; Recreate has no two templates at once.
func TestHistoryAndRecreate(t *testing.T) {
	l := newLab(t, 1, kubelet.Options{})
	d := deployment("web", 2)
	d.Spec.RevisionHistoryLimit = ptr.To[int32](2)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	l.create(d)
	l.run(time.Minute)
	l.watched = func() {
		images := map[string]bool{}
		for _, pod := range l.pods("web-") {
			images[pod.Spec.Containers[0].Image] = true
		}
		assert.LessOrEqual(t, len(images), 1, "two templates at once")
	}
	for version := range 5 {
		edit(l, d, image(fmt.Sprint(version+2)))
		l.run(time.Minute)
	}
	sets := l.replicaSets()
	require.Len(t, sets, 3)
	assert.Equal(t, "6", sets[2].Annotations[annotationRevision])
	assert.Len(t, l.pods("web-"), 2)
}

// What is deleted first: not ready, doubled on a node, and what costs least.
func TestScaleDownChoosesItsPods(t *testing.T) {
	scaled := func(t *testing.T, change func(l *lab, pods []corev1.Pod)) (left []corev1.Pod, before []corev1.Pod) {
		l := newLab(t, 2, kubelet.Options{Ready: func(pod *corev1.Pod) bool { return pod.Annotations["bad"] == "" }})
		d := deployment("web", 3)
		l.create(d)
		l.run(time.Minute)
		before = l.pods("web-")
		change(l, before)
		l.run(time.Minute)
		edit(l, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) })
		l.run(time.Minute)
		return l.pods("web-"), before
	}
	annotate := func(key, value string) func(l *lab, pods []corev1.Pod) {
		return func(l *lab, pods []corev1.Pod) {
			edit(l, &pods[1], func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} })
		}
	}
	t.Run("doubled", func(t *testing.T) {
		left, _ := scaled(t, func(*lab, []corev1.Pod) {})
		require.Len(t, left, 2)
		assert.NotEqual(t, left[0].Spec.NodeName, left[1].Spec.NodeName, "one on each node")
	})
	for name, change := range map[string]func(*lab, []corev1.Pod){
		"not ready": annotate("bad", "yes"), "cheap": annotate(corev1.PodDeletionCost, "-1"),
	} {
		t.Run(name, func(t *testing.T) {
			left, before := scaled(t, change)
			require.Len(t, left, 2)
			assert.Equal(t, []string{before[0].Name, before[2].Name}, []string{left[0].Name, left[1].Name})
		})
	}
}

// A ReplicaSet that a Deployment selects is adopted. If it has the Deployment's template, it is its newest one, whatever its
// name, and keeps its pods until the next rollout.
func TestDeploymentAdoptsReplicaSets(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{})
	d := deployment("web", 2)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "legacy", Labels: d.Spec.Selector.MatchLabels}}
	rs.Spec = appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Selector: d.Spec.Selector, Template: *d.Spec.Template.DeepCopy()}
	l.create(rs)
	l.run(time.Minute)
	l.create(d)
	l.run(time.Minute)
	assert.Len(t, l.pods("legacy-"), 2)
	assert.Empty(t, l.pods("web-"))
	assert.True(t, metav1.IsControlledBy(read(l, rs), read(l, d)))
	edit(l, d, image("2"))
	l.run(5 * time.Minute)
	assert.Empty(t, l.pods("legacy-"))
	assert.Len(t, l.pods("web-"), 2)
}
