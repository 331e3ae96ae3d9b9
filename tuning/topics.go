package tuning

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
)

// Topic is something outside of a workload whose change may lift a refusal.
type Topic struct{ Kind, Name string }

// AboutNode names the topic.
func AboutNode(name string) Topic { return Topic{"node", name} }

// AboutQuotas names the topic.
func AboutQuotas(namespace string) Topic { return Topic{"quotas", namespace} }

// AboutLimits names the topic.
func AboutLimits(namespace string) Topic { return Topic{"limits", namespace} }

// AboutBudgets names the topic.
func AboutBudgets(namespace string) Topic { return Topic{"budgets", namespace} }

// topicsOf are what a refusal of a pod's resize waits for; time and what belongs to the workload itself are none.
func topicsOf(refusal *resize.Refusal, pod *corev1.Pod) []Topic {
	switch refusal.Reason {
	case resize.ReasonNoRoom, resize.ReasonNodeBlocked, resize.ReasonNodePressure, resize.ReasonNodeNotReady, resize.ReasonNodeCapacity,
		resize.ReasonNodeWithoutResize, resize.ReasonStaticCPU, resize.ReasonStaticMemory, resize.ReasonStaticPolicy, resize.ReasonSwap,
		resize.ReasonPodLevelResources, resize.ReasonMemoryLimitDecrease, resize.ReasonResizeNotSupported:
		return []Topic{AboutNode(pod.Spec.NodeName)}
	case resize.ReasonQuota:
		return []Topic{AboutQuotas(pod.Namespace)}
	case resize.ReasonDisruptionBudget:
		return []Topic{AboutBudgets(pod.Namespace)}
	case resize.ReasonLimitRange, resize.ReasonQOSClass:
		return []Topic{AboutLimits(pod.Namespace)}
	case resize.ReasonRefused:
		return []Topic{AboutQuotas(pod.Namespace), AboutLimits(pod.Namespace)}
	}
	return nil
}
