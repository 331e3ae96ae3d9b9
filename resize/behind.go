package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// startsWithin is how long after a resize a kubelet starts a container that waited for a restart.
const startsWithin = time.Minute

// CatchUp returns the size that makes the pod's own memory limit follow the limits of its containers: the first running
// container with a memory limit gets catchUpBy more. It returns nil and nil if the pod's limit does not lag
// (podview.PodLimitLags, mayLag). It returns a refusal while no such container runs. If it is not certain that the limit
// lags, it refuses only for a single container: others may have left room in the pod's cgroup.
func CatchUp(pod *corev1.Pod) ([]podview.Container, *Refusal) {
	lags := podview.PodLimitLags(pod)
	if !lags && !mayLag(pod) {
		return nil, nil
	}
	statuses := podview.Statuses(pod)
	containers := podview.Read(pod)
	for _, c := range containers {
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
	const action = "where the kernel kills them. attune fixes this as soon as one of them runs; or delete the pod"
	switch {
	case lags:
		return nil, RefuseForNow(ReasonPodLimitBehind, "the kubelet raised the memory limits of the containers, but the limit of the pod's cgroup is still %s, "+action,
			recommender.Format(recommender.Memory, podview.PodLimit(pod)))
	case len(containers) == 1:
		return nil, RefuseForNow(ReasonPodLimitBehind, "the kubelet raised the memory limits of the containers, but maybe not the limit of the pod's cgroup, "+action)
	}
	return nil, nil
}

// mayLag reports whether the limit of the pod's own cgroup may lag where the kubelet does not show it: a container that
// was OOM killed waited when attune resized the pod last. The kubelet starts such a container right after the resize.
// Pods with a container without a memory limit have no limit of their own. If the resize itself restarts a container, its
// start shows nothing.
func mayLag(pod *corev1.Pod) bool {
	at := podview.ResizedByAttune(pod)
	_, other := podview.ResizedBy(pod)
	if pod.Status.Resources != nil || pod.Spec.Resources != nil || pod.Status.Phase != corev1.PodRunning || podview.ResizeUnderway(pod) ||
		at.IsZero() || other.After(at) {
		return false
	}
	after := func(started metav1.Time) bool {
		return !started.Time.Before(at) && started.Sub(at) < startsWithin
	}
	waited := false
	statuses := podview.Statuses(pod)
	for _, c := range podview.Read(pod) {
		if c.Size[recommender.Memory].Limit == 0 || (situation{pod: pod}).restartsFor(c.Name, corev1.ResourceMemory) {
			return false
		}
		ends := podview.Terminations(statuses[c.Name])
		if !slices.ContainsFunc(ends, podview.Killed) {
			continue
		}
		running := statuses[c.Name].State.Running
		waited = waited || running != nil && after(running.StartedAt) ||
			slices.ContainsFunc(ends, func(t *corev1.ContainerStateTerminated) bool { return after(t.StartedAt) })
	}
	return waited
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
