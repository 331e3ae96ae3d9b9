package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Kubelets, up to 1.37 at least, change the memory limit of a pod's own cgroup only along with that of a
// container that runs (kubernetes/kubernetes#138760). A container that waits to be started again when its
// resize is allocated starts with more, within a pod that has no more, and is killed there as before. All
// that tells is the pod's own resources in its status, from 1.36 on.

// catchUpBy is by how much CatchUp raises a container's memory limit, in bytes: the least change that makes the
// kubelet set the pod's limit again (any change does).
const catchUpBy = 1 << 20

// CatchUp returns the size that makes a pod's own memory limit follow those of its containers: the first running
// container with a memory limit gets catchUpBy more. It returns nil and nil where the pod is not behind
// (podview.PodLimitLags). A refusal means that nothing can be done while no container runs.
func CatchUp(pod *corev1.Pod) ([]podview.Container, *Refusal) {
	if !podview.PodLimitLags(pod) {
		return nil, nil
	}
	statuses := podview.Statuses(pod)
	for _, c := range podview.Read(pod) {
		memory := &c.Size[recommender.Memory]
		if status := statuses[c.Name]; memory.Limit == 0 || status == nil || status.State.Running == nil {
			continue
		}
		if memory.Request == memory.Limit {
			memory.Request += catchUpBy
		}
		memory.Limit += catchUpBy
		return []podview.Container{c}, nil
	}
	return nil, RefuseForNow(ReasonPodLimitBehind, "the kubelet raised the memory limits of the containers and left that of their pod at %s, "+
		"where they are killed; it follows when one of them runs for a moment, or when the pod is deleted and replaced",
		recommender.Format(recommender.Memory, podview.PodLimit(pod)))
}
