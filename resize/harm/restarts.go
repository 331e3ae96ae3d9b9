package harm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// restartsSince counts the restarts of a container since the resize that the resize may have caused. It leaves out the
// restart that the resize requires, and a restart whose cause the kubelet did not see (as after a reboot of the node).
// It returns 0 if the pod's own rules required the last restart.
func restartsSince(pod *corev1.Pod, status *corev1.ContainerStatus, c resize.Change) int32 {
	if status == nil || byRule(pod, status, c.Container) {
		return 0
	}
	// Do not count a restart that the kubelet did not see, nor the restart that the resize requires.
	n := status.RestartCount - c.Baseline.RestartCount
	if t := status.LastTerminationState.Terminated; n > 0 && t != nil && unseenEnds[t.Reason] {
		n--
	}
	if container := podview.ContainerOf(pod, c.Container); container != nil && c.Move().RestartsContainer(container) {
		n--
	}
	return n
}

// byRule reports whether the pod's own rules require a restart after the container's last exit (ContainerRestartRules,
// on since Kubernetes 1.35; RestartAllContainersOnContainerExits, since 1.36). The program exits so on purpose. Earlier
// exits are not known; later ones count again.
func byRule(pod *corev1.Pod, status *corev1.ContainerStatus, name string) bool {
	end := status.LastTerminationState.Terminated
	if restartsAll(pod) {
		return true
	}
	if end == nil {
		return false
	}
	// The condition turns False when all containers have been restarted: an exit before that is part of it. If the
	// rules never restarted the pod, it has been False since the pod started.
	if c := podview.Condition(pod, corev1.AllContainersRestarting); c != nil && !end.FinishedAt.After(c.LastTransitionTime.Time) {
		return true
	}
	rules := ptr.Deref(podview.ContainerOf(pod, name), corev1.Container{}).RestartPolicyRules
	return slices.ContainsFunc(rules, func(r corev1.ContainerRestartRule) bool {
		// A rule with NotIn covers nearly every crash and explains none.
		return r.ExitCodes != nil && r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn && slices.Contains(r.ExitCodes.Values, end.ExitCode)
	})
}

// restartsAll reports whether all containers of the pod are being restarted because one of them exited as a rule of the
// pod says.
func restartsAll(pod *corev1.Pod) bool {
	c := podview.Condition(pod, corev1.AllContainersRestarting)
	return c != nil && c.Status == corev1.ConditionTrue
}

// unseenEnds are the reasons that a kubelet sets for a container whose exit it did not see.
var unseenEnds = map[string]bool{"ContainerStatusUnknown": true, "Unknown": true}
