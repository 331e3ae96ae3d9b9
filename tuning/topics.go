package tuning

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
)

// Topic is something outside of a workload whose change may lift a refusal: a kind of object, and the name
// of the node or of the namespace. It is comparable and used as a map key.
type Topic struct{ Kind, Name string }

// AboutNode is the topic of one node: its pods, its conditions, its capacity.
func AboutNode(name string) Topic { return Topic{"node", name} }

// AboutQuotas is the topic of all ResourceQuotas of a namespace.
func AboutQuotas(namespace string) Topic { return Topic{"quotas", namespace} }

// AboutLimits is the topic of all LimitRanges of a namespace.
func AboutLimits(namespace string) Topic { return Topic{"limits", namespace} }

// AboutBudgets is the topic of all PodDisruptionBudgets of a namespace.
func AboutBudgets(namespace string) Topic { return Topic{"budgets", namespace} }

// topicsOf returns what a refusal of a pod's resize waits for; nil: only for time, or for the workload
// itself, whose events wake the loop anyway.
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
