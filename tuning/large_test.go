package tuning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/tuning"
)

// enlarged copies a pod's first container until the pod has the number of containers.
func enlarged(pod *corev1.Pod, containers int) *corev1.Pod {
	for i := len(pod.Spec.Containers); i < containers; i++ {
		c, s := *pod.Spec.Containers[0].DeepCopy(), *pod.Status.ContainerStatuses[0].DeepCopy()
		c.Name = fmt.Sprint("c-", i)
		s.Name = c.Name
		pod.Spec.Containers, pod.Status.ContainerStatuses = append(pod.Spec.Containers, c), append(pod.Status.ContainerStatuses, s)
	}
	return pod
}

// The status does not grow with a pod that has too many containers, such as one that a user added. Its record is
// finished like any other.
func TestAPodOfTooManyContainersTeachesNothing(t *testing.T) {
	for containers, learns := range map[int]bool{policy.MostContainers: true, policy.MostContainers + 1: false} {
		pod := enlarged(endedBefore(running("web-1", small), "OOMKilled", 1, time.Minute), containers)
		w := seen(t, small, pod)
		d := tuning.Decide(w)
		assert.Equal(t, learns, len(d.Status.Originals) > 0, "%d containers", containers)
		assert.Equal(t, learns, len(d.Status.Floors) > 0, "%d containers", containers)

		w.Rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: pod.UID, PodName: pod.Name}}
		pass := tuning.NewPass(w, *w.Rec.Status.DeepCopy())
		pass.Learn()
		assert.NotEmpty(t, pass.Status().Floors, "%d containers", containers)
	}
}
