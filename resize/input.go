package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// GateInput holds what the gates need to know besides the pod: plain values that the caller fills for one pod and one
// pass. A zero field means "not known"; each field describes what then happens. Gates change nothing of it.
type GateInput struct {
	// Now is the time of the pass.
	Now time.Time
	// Rules of the workload's policy.
	Rules Rules
	// Status of the workload's AttuneRecommendation: open records, tries, back-off, cooldown, loop's own pause.
	Status v1alpha1.AttuneRecommendationStatus
	// OtherBytes is the size of the AttuneRecommendation without its open records, in bytes; it bounds how many
	// records fit.
	OtherBytes int
	// Workload, Namespace and Node of the pod.
	Workload  WorkloadInput
	Namespace NamespaceInput
	Node      NodeInput
	// Unreachable are the nodes of open records that are not ready. Unknown ones are taken for ready.
	Unreachable map[string]bool
	// MemorySoon is true where the memory that the pod's containers hold is not known yet and will be within
	// seconds.
	MemorySoon bool
	// NoRights says why the operator may not resize any pod now, NoRightsUrgent why not even after an OOM kill; empty:
	// it may.
	NoRights, NoRightsUrgent string
	// Evictable is true where the pod may be evicted if its node refuses. The node is then asked even if it seems
	// to have no room, as its kubelet's answer decides.
	Evictable bool
}

// WorkloadInput is what the gates look at of the pod's workload.
type WorkloadInput struct {
	// Annotations of the workload, TemplateAnnotations of its pod template. Unknown ones opt nothing out.
	Annotations, TemplateAnnotations map[string]string
	// Replicas that the workload wants and that are ready; they matter to changes that restart containers.
	// Unknown ones (0) count as one replica, and as none that is ready.
	Replicas, ReadyReplicas int
	// Rollout is what the workload's rollout waits for, such as "2 of 5 replicas are updated"; empty: none
	// is in progress. An unavailable replica alone is none.
	Rollout string
	// DataUntil is the newest usage sample behind the wish, StaleAfter how old it may be. Either zero:
	// not checked here; the recommender holds stale targets too.
	DataUntil  time.Time
	StaleAfter time.Duration
	// HPA holds the resources that a HorizontalPodAutoscaler scales on by utilization, by container; the
	// name "" stands for every container. Missing ones are free.
	HPA map[string]Held
	// VPA names a VerticalPodAutoscaler of the workload in a mode other than Off; empty: none.
	VPA string
}

// NamespaceInput is what the gates look at of the pod's namespace.
type NamespaceInput struct {
	// LimitRanges and Quotas. Without them only the API server checks.
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
	// Budgets are the PodDisruptionBudgets; they matter to changes that restart containers, which the API server
	// itself holds against none.
	Budgets []policyv1.PodDisruptionBudget
	// Reserved is growth of other pods of the namespace that was decided in this pass and that no status shows yet
	// (GrowthOf).
	Reserved recommender.Size
	// Terminating is true while the namespace is being deleted.
	Terminating bool
}

// NodeInput is what the gates look at of the pod's node.
type NodeInput struct {
	// Room is what the node's pods take of it. Nil: not known, and not checked.
	Room *Room
	// Block is until when the node is left alone because it put off or refused resizes that concern the pod
	// (BlockFor). Zero: it is not.
	Block NodeBlock
	// Capabilities of the node. Unknown allocatable amounts are not checked.
	Capabilities Capabilities
	// Reserved is growth of other pods of the node that was decided in this pass and that no status shows yet.
	Reserved recommender.Size
}

// Held names the resources of a container that an autoscaler holds. The zero value holds nothing.
type Held struct {
	// Of is true for each held resource, indexed by Resource.
	Of [2]bool
	// By is the name of the autoscaler.
	By string
}
