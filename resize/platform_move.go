package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// unscheduledGrowth lets a pod that fits on no node shrink until it fits, but never grow.
func unscheduledGrowth(s situation, m Move) *Refusal {
	if s.pod.Spec.NodeName == "" && m.Raises() {
		return RefuseForNow(ReasonNotScheduled, "the pod fits no node, so it is not raised")
	}
	return nil
}

// notReady lowers nothing while the pod is not ready. A pod is also not ready before its startup probe passes.
func notReady(s situation, m Move) *Refusal {
	if s.pod.Spec.NodeName != "" && !podview.IsReady(s.pod) && m.Lowers() {
		return RefuseForNow(ReasonNotReady, "the pod is not ready; attune lowers only ready pods")
	}
	return nil
}

// restartedLately lowers nothing within restartRest of the container's last restart.
func restartedLately(s situation, m Move) *Refusal {
	restarted := lastRestart(s.statuses[m.Container])
	if !restarted.IsZero() && s.now.Sub(restarted) < restartRest && m.Lowers() {
		return waitUntil(restarted.Add(restartRest), ReasonRestartedLately, "the container restarted at %s; attune does not lower it within %s of a restart",
			restarted.UTC().Format(time.RFC3339), restartRest)
	}
	return nil
}

// oldStaticKubelet refuses every change of Guaranteed pods on kubelets of version 1.33 with a static policy: such a
// kubelet refuses it.
func oldStaticKubelet(s situation, m Move) *Refusal {
	if (s.caps.StaticCPU || s.caps.StaticMemory) && s.caps.KubeletMinor <= MinorResize && podview.Guaranteed(s.pod) {
		return Refuse(ReasonStaticPolicy, "the CPU or memory manager of the node has a static policy, and its kubelet then resizes no Guaranteed pod")
	}
	return nil
}

// staticCPU leaves the CPU of Guaranteed pods unchanged if the node assigns CPUs statically.
func staticCPU(s situation, m Move) *Refusal {
	if s.caps.StaticCPU && podview.Guaranteed(s.pod) && m.From[recommender.CPU] != m.To[recommender.CPU] {
		return Refuse(ReasonStaticCPU, "the CPU manager of the node has a static policy; only new pods get the new CPU")
	}
	return nil
}

func staticMemory(s situation, m Move) *Refusal {
	if s.caps.StaticMemory && podview.Guaranteed(s.pod) && m.From[recommender.Memory] != m.To[recommender.Memory] {
		return Refuse(ReasonStaticMemory, "the memory manager of the node has a static policy; only new pods get the new memory")
	}
	return nil
}

// notRunning refuses to raise the CPU limit of a container that does not run. Kubelets raise the quota of a pod's own
// cgroup only together with the quota of a running container. A waiting container would start with a quota above its
// pod's, which the kernel refuses with cgroup v1 ("cpu.cfs_quota_us: invalid argument"): it could not start until its
// limit is lowered (StartPlan) or the pod is deleted.
func notRunning(s situation, m Move) *Refusal {
	status, from, to := s.statuses[m.Container], m.From[recommender.CPU].Limit, m.To[recommender.CPU].Limit
	if status == nil || status.State.Running != nil || from == 0 || to <= from {
		return nil
	}
	return RefuseForNow(ReasonNotRunning, "container %s is not running, and a higher CPU limit could keep it from starting; attune raises it when it runs", m.Container)
}

// swap keeps the memory request on nodes with swap: the swap that a Burstable container may use depends on its request,
// and the kubelet cannot change it while the container runs.
func swap(s situation, m Move) *Refusal {
	from, to := m.From[recommender.Memory], m.To[recommender.Memory]
	if !s.caps.Swap || from.Request == to.Request || from.Request == from.Limit ||
		podview.ClassOf(s.pod) != corev1.PodQOSBurstable || s.restartsFor(m.Container, corev1.ResourceMemory) {
		return nil
	}
	return Refuse(ReasonSwap, "the node uses swap, so its kubelet cannot change a memory request in place")
}

// memoryLimitDecreaseUnsupported keeps a memory limit if the API server or the kubelet is older than 1.34, unless the
// change restarts the container anyway.
func memoryLimitDecreaseUnsupported(s situation, m Move) *Refusal {
	if !m.LowersMemoryLimit() || s.restartsFor(m.Container, corev1.ResourceMemory) {
		return nil
	}
	if s.caps.ServerMinor >= MinorMemoryLimitDecrease &&
		(s.caps.KubeletMinor >= MinorMemoryLimitDecrease || s.pod.Spec.NodeName == "") {
		return nil
	}
	return Refuse(ReasonMemoryLimitDecrease,
		"lowering a memory limit safely needs Kubernetes 1.34 or newer on the API server and the node; the limit stays")
}

// startedJustNow keeps a memory limit while the kubelet may not know the container's usage yet (statsDelay).
func startedJustNow(s situation, m Move) *Refusal {
	status := s.statuses[m.Container]
	if status == nil || status.State.Running == nil || !m.LowersMemoryLimit() || s.now.Sub(status.State.Running.StartedAt.Time) >= statsDelay {
		return nil
	}
	return RefuseForNow(ReasonStartedJustNow, "the container started less than %s ago, and its memory usage is not known yet; the limit stays", statsDelay)
}

// belowUsage keeps a memory limit that would fall to 1.1 times the container's usage or less. Page cache counts, as it
// does in the kubelet's own check, although the kernel could reclaim it. The message has the limit and not the usage,
// since the usage would change the message in every reconcile.
func belowUsage(s situation, m Move) *Refusal {
	usage := s.wished[m.Container].MemoryUsage
	switch limit := m.To[recommender.Memory].Limit; {
	case !m.LowersMemoryLimit():
		return nil
	case usage == 0 && m.From[recommender.Memory].Limit == 0:
		return Refuse(ReasonMemoryUnknown, "the memory usage is not known, and an added limit cannot be removed; attune adds no limit")
	case usage == 0 || limit > recommender.WithHeadroom(usage):
		return nil
	}
	return RefuseForNow(ReasonMemoryInUse, "the memory usage, including page cache, is too high for a limit of %s: below 1.1 times the usage, a limit could cause an OOM kill; the limit stays",
		recommender.Format(recommender.Memory, m.To[recommender.Memory].Limit))
}

// lastRestart returns the time of a container's last restart; zero if it never restarted or the time is not known.
func lastRestart(status *corev1.ContainerStatus) time.Time {
	switch {
	case status == nil || status.RestartCount == 0:
		return time.Time{}
	case status.State.Running != nil:
		return status.State.Running.StartedAt.Time
	case status.LastTerminationState.Terminated != nil:
		return status.LastTerminationState.Terminated.FinishedAt.Time
	}
	return time.Time{}
}

// memoryVolumes returns the memory-backed volumes that a container mounts.
func memoryVolumes(pod *corev1.Pod, container string) (volumes podview.MemoryVolumes) {
	mounts := ptr.Deref(podview.ContainerOf(pod, container), corev1.Container{}).VolumeMounts
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil && slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			volumes.Add(v.EmptyDir.Medium, v.EmptyDir.SizeLimit)
		}
	}
	return volumes
}
