package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Kubelets up to 1.36 change the limits of a pod's own cgroup only together with the limits of a running container
// (kubernetes/kubernetes#138760). If a container waits for a restart when the kubelet allocates its resize, its limits
// are raised, and those of its pod are not. It is then OOM killed at the pod's old memory limit (CatchUp). With cgroup
// v1 it does not start at all if its CPU limit is above the pod's (StartPlan). Only the pod-level resources in the
// status show this, from 1.36 on.

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

// CannotStart reports whether containers cannot start because of a resize by attune: they ended between the patch and
// the kubelet's work, and their CPU limit is above the limit of the pod's cgroup. With cgroup v1 the runtime cannot
// start such a container ("cpu.cfs_quota_us: invalid argument"), and its kubelet never raises the pod's limit. It is
// false if another field manager resized the pod last.
func CannotStart(pod *corev1.Pod) bool {
	at := podview.ResizedByAttune(pod)
	_, other := podview.ResizedBy(pod)
	ours := !at.IsZero() && !other.After(at)
	return ours && !podview.HasPodLevelResources(pod) && !podview.ResizeUnderway(pod) && len(startable(pod, 0)) > 0
}

// StartPlan plans to start the containers of a pod that cannot start (CannotStart): it lowers their CPU limits to the
// pod's. Its second patch restores their size while they run (Split), and the pod's limits follow. If the pod's memory
// limit lags too, the plan also lowers memory by catchUpBy: only a change of memory makes the kubelet set that limit.
// The rules of PlanFor do not apply, since a container that cannot start loses nothing.
func StartPlan(pod *corev1.Pod) Plan {
	plan := PlanOf(pod)
	plan.Wave, plan.Reason = WaveTemplate, ReasonNotRunning
	for room := range recommender.Amount(2) {
		// A request that becomes equal to its limit can change the pod's QoS class.
		if plan.Moves = startable(pod, room); podview.QOSClass(plan.Apply(pod)) == podview.ClassOf(pod) {
			break
		}
	}
	return plan
}

// startable returns moves of the containers that cannot start to the CPU limit of their pod. Requests below their limits
// stay below the new limits by at least room millicores.
func startable(pod *corev1.Pod, room recommender.Amount) (moves []Move) {
	if pod.Status.Resources == nil {
		return nil
	}
	limit, statuses := podview.WholeLimit(recommender.CPU, pod.Status.Resources.Limits), podview.Statuses(pod)
	memoryLags := podview.PodLimitLags(pod)
	for _, c := range podview.Read(pod) {
		m := Move{Container: c.Name, Sidecar: c.Sidecar, From: c.Size, To: c.Size}
		cpu, memory := &m.To[recommender.CPU], &m.To[recommender.Memory]
		if limit == 0 || cpu.Limit <= limit || !podview.FailsToStart(statuses[c.Name]) {
			continue
		}
		if cpu.Request < cpu.Limit {
			cpu.Request = min(cpu.Request, limit-room)
		}
		cpu.Request, cpu.Limit = min(cpu.Request, limit), limit
		if memoryLags && memory.Limit > catchUpBy {
			memory.Limit -= catchUpBy
			memory.Request = min(memory.Request, memory.Limit)
		}
		moves = append(moves, m)
	}
	return moves
}
