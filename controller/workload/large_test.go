package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// enlarged gives a pod so many containers as its first.
func enlarged(pod *corev1.Pod, containers int) *corev1.Pod {
	for i := len(pod.Spec.Containers); i < containers; i++ {
		c, s := *pod.Spec.Containers[0].DeepCopy(), *pod.Status.ContainerStatuses[0].DeepCopy()
		c.Name = fmt.Sprint("c-", i)
		s.Name = c.Name
		pod.Spec.Containers, pod.Status.ContainerStatuses = append(pod.Spec.Containers, c), append(pod.Status.ContainerStatuses, s)
	}
	return pod
}

// What is kept of a workload does not grow with a pod of too many containers, such as one that somebody made for it. One
// that is being resized is finished as any other.
func TestAPodOfTooManyContainersTeachesNothing(t *testing.T) {
	for containers, learns := range map[int]bool{policy.MostContainers: true, policy.MostContainers + 1: false} {
		pod := enlarged(endedBefore(running("web-1", small), "OOMKilled", 1, time.Minute), containers)
		w := seen(t, small, pod)
		d := decide(w)
		assert.Equal(t, learns, len(d.status.Originals) > 0, "%d containers", containers)
		assert.Equal(t, learns, len(d.status.Floors) > 0, "%d containers", containers)

		w.rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: pod.UID, PodName: pod.Name}}
		d = decision{status: *w.rec.Status.DeepCopy()}
		d.learn(w)
		assert.NotEmpty(t, d.status.Floors, "%d containers", containers)
	}
}
