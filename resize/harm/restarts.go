package harm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// restartsSince counts the restarts of a container since the resize that may be its fault. It leaves out the
// restart that the resize itself asks for, one whose cause the kubelet did not see (as after a reboot of the
// node), and all of them where the pod's own rules asked for the last one.
func restartsSince(pod *corev1.Pod, status *corev1.ContainerStatus, c resize.Change) int32 {
	if status == nil || byRule(pod, status, c.Container) {
		return 0
	}
	// A restart that the kubelet did not see, and the one that the resize asked for, are taken off.
	n := status.RestartCount - c.Baseline.RestartCount
	if t := status.LastTerminationState.Terminated; n > 0 && t != nil && unseenEnds[t.Reason] {
		n--
	}
	if container := podview.ContainerOf(pod, c.Container); container != nil && c.Move().RestartsContainer(container) {
		n--
	}
	return n
}

// byRule reports whether the pod's own rules answer the container's last end with a restart
// (ContainerRestartRules, on since Kubernetes 1.35; RestartAllContainersOnContainerExits, since 1.36). The program
// ends so on purpose. Of earlier ends nothing is known; later ones count again.
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
	rules := ptr.Deref(podview.ContainerOf(pod, name), corev1.Container{}).RestartPolicyRules
	return slices.ContainsFunc(rules, func(r corev1.ContainerRestartRule) bool {
		// A rule with NotIn covers nearly every crash and explains none.
		return r.ExitCodes != nil && r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn && slices.Contains(r.ExitCodes.Values, end.ExitCode)
	})
}

// restartsAll reports whether all containers of the pod are being restarted because one of them exited as a rule
// of the pod says.
func restartsAll(pod *corev1.Pod) bool {
	c := podview.Condition(pod, corev1.AllContainersRestarting)
	return c != nil && c.Status == corev1.ConditionTrue
}

// unseenEnds are the reasons that a kubelet writes when it finds a container gone whose end it did not see.
var unseenEnds = map[string]bool{"ContainerStatusUnknown": true, "Unknown": true}
