package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Kubelets, up to 1.37 at least, change the memory limit of a pod's own cgroup only together with the limit of a
// running container (kubernetes/kubernetes#138760). If a container waits for a restart when the kubelet allocates its
// resize, it starts with a higher limit inside a pod with the old limit. It is then OOM killed as before. Only the
// pod-level resources in the status show this, from 1.36 on.

// catchUpBy is the amount in bytes by which CatchUp raises a container's memory limit. Any change makes the kubelet set
// the pod's limit again; this is a small one.
const catchUpBy = 1 << 20

// CatchUp returns the size that makes the pod's own memory limit follow the limits of its containers: the first running
// container with a memory limit gets catchUpBy more. It returns nil and nil if the pod's limit does not lag
// (podview.PodLimitLags). It returns a refusal while no such container runs.
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
	return nil, RefuseForNow(ReasonPodLimitBehind, "the kubelet raised the memory limits of the containers, but the limit of the pod's cgroup is still %s, "+
		"where the kernel kills them. attune fixes this as soon as one of them runs; or delete the pod",
		recommender.Format(recommender.Memory, podview.PodLimit(pod)))
}
