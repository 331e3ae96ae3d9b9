package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// TestFootprintInTheMiddleOfAResize: while one container grows and another shrinks, a pod counts the greater of its
// summed requests and its summed actual resources. It does not count the sum of each container's maximum.
func TestFootprintInTheMiddleOfAResize(t *testing.T) {
	// Case 96.
	was, grown, shrunk := size(1000, 0, 512, 0), size(1500, 0, 512, 0), size(600, 0, 512, 0)
	pod := running(was, was)
	pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = podview.ToRequirements(grown), podview.ToRequirements(shrunk)
	assert.Equal(t, recommender.Amount(2100), podview.Reserved(pod)[recommender.CPU], "asked for")

	allocated := with(pod.DeepCopy(), func(p *corev1.Pod) {
		for i, s := range []recommender.Size{grown, shrunk} {
			p.Status.ContainerStatuses[i].AllocatedResources = podview.ToRequirements(s).Requests
		}
	})
	assert.Equal(t, recommender.Amount(2100), podview.Reserved(allocated)[recommender.CPU], "allocated, and not carried out")
	smaller := with(pod.DeepCopy(), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = podview.ToRequirements(size(1100, 0, 512, 0))
	})
	assert.Equal(t, recommender.Amount(2000), podview.Reserved(smaller)[recommender.CPU], "what it still has")
}
