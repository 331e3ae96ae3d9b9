package podview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
)

func TestWhichForeignResizesBelongToAStart(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		manager string
		after   time.Duration
		change  func(*corev1.Pod)
		want    bool
	}{
		"a booster":                     {"kube-startup-cpu-boost", 40 * time.Second, nil, true},
		"Kyverno":                       {"kyverno-background-controller", 2 * time.Minute, nil, true},
		"VPA's own boost":               {"vpa-updater", 5 * time.Minute, nil, true},
		"a user with kubectl edit":      {"kubectl-edit", 40 * time.Second, nil, false},
		"a controller, an hour later":   {"vpa-updater", time.Hour, nil, false},
		"a slow pod that has got ready": {"kube-startup-cpu-boost", time.Hour, ready(created.Add(time.Hour-30*time.Second), 0), true},
		"the same, after restarts":      {"kube-startup-cpu-boost", time.Hour, ready(created.Add(time.Hour-30*time.Second), 1), false},
		"long after it got ready":       {"kube-startup-cpu-boost", time.Hour, ready(created.Add(30*time.Minute), 0), false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry(c.manager, created.Add(c.after))}
		if c.change != nil {
			c.change(pod)
		}
		assert.Equal(t, c.want, podview.ResizedAtStart(pod), name)
	}
	assert.False(t, podview.ResizedAtStart(&corev1.Pod{}))
}

func ready(since time.Time, restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restarts}}
	}
}
