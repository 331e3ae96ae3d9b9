package harm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// restartsSince leaves out the restart that the resize itself asks for, one whose cause nobody saw, as after a node's
// reboot, and all of them where the pod's own rules asked for the last one.
func restartsSince(pod *corev1.Pod, status *corev1.ContainerStatus, c resize.Change) int32 {
	if status == nil || byRule(pod, status, c.Container) {
		return 0
	}
	n := status.RestartCount - c.Baseline.RestartCount
	if t := status.LastTerminationState.Terminated; n > 0 && t != nil && unseenEnds[t.Reason] {
		n--
	}
	for _, container := range podview.Resizable(pod) {
		if container.Name == c.Container && c.Move().RestartsContainer(container) {
			n--
		}
	}
	return n
}

// byRule: the container's last end is one that the pod's own rules answer with a restart (ContainerRestartRules, on
// since 1.35; RestartAllContainersOnContainerExits, since 1.36). A program that exits so was made to. Of the ends before
// it nothing is known; those after it count again.
func byRule(pod *corev1.Pod, status *corev1.ContainerStatus, name string) bool {
	end := status.LastTerminationState.Terminated
	if restartsAll(pod) {
		return true
	}
	if end == nil {
		return false
	}
	// The condition turns False when all containers are started again: an end before that is its doing. It has been
	// False since the pod began where nothing ever asked for it.
	if c := podview.Condition(pod, corev1.AllContainersRestarting); c != nil && !end.FinishedAt.After(c.LastTransitionTime.Time) {
		return true
	}
	return slices.ContainsFunc(podview.Resizable(pod), func(c *corev1.Container) bool {
		return c.Name == name && slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return named(r, end.ExitCode) })
	})
}

// restartsAll: all containers of the pod are being restarted because one of them exited as a rule of it says.
func restartsAll(pod *corev1.Pod) bool {
	c := podview.Condition(pod, corev1.AllContainersRestarting)
	return c != nil && c.Status == corev1.ConditionTrue
}

// named: a rule names the exit code. One that says which codes are not meant covers every crash, and explains none.
func named(rule corev1.ContainerRestartRule, code int32) bool {
	return rule.ExitCodes != nil && rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn && slices.Contains(rule.ExitCodes.Values, code)
}

// unseenEnds are what a kubelet writes when it finds a container gone without having seen it end.
var unseenEnds = map[string]bool{"ContainerStatusUnknown": true, "Unknown": true}
