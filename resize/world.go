package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// World is what the gates look at beside the pod: plain values that the caller fills. A zero value is
// "not known"; each field says what then happens.
type World struct {
	Now   time.Time
	Rules Rules

	// WorkloadAnnotations and TemplateAnnotations of the workload. Unknown ones opt nothing out.
	WorkloadAnnotations, TemplateAnnotations map[string]string
	// Status of the workload's AttuneRecommendation: open records, tries, back-off, cooldown, loop's own pause.
	Status v1alpha1.AttuneRecommendationStatus
	// OtherBytes is what the object takes without its open records.
	OtherBytes int
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

	// LimitRanges and Quotas of the pod's namespace. Without them only the API server checks.
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
	// Budgets are the PodDisruptionBudgets of the pod's namespace; they matter to changes that restart containers,
	// which the API server itself holds against none.
	Budgets []policyv1.PodDisruptionBudget
	// Promised is growth of other pods of the namespace, PromisedOnNode of other pods of the node, that was
	// decided in this pass and that no status shows yet (GrowthOf).
	Promised, PromisedOnNode recommender.Size

	// Room is what the pods of the pod's node take of it. Nil: not known, and not checked.
	Room *Room
	// Unreachable are the nodes of open records that are not ready. Unknown ones are taken for ready.
	Unreachable map[string]bool
	// NodeBlock: the node put off or refused resizes lately that concern the pod (BlockFor). Zero: it did not.
	NodeBlock NodeBlock
	// Capabilities of the pod's node. Unknown allocatable amounts are not checked.
	Capabilities Capabilities
	// MemorySoon: what the pod's containers hold is not known, and will be within seconds.
	MemorySoon bool
	// NoRights says why the operator may not resize any pod now, NoRightsUrgent why not even after an OOM kill; empty:
	// it may.
	NoRights, NoRightsUrgent string
	// Evictable: the pod may be evicted if its node refuses, so the node is asked although it seems to have
	// no room: its kubelet's answer decides.
	Evictable bool
	// NamespaceTerminating: the pod's namespace is being deleted.
	NamespaceTerminating bool
}

// Held says which resources are held, indexed by Resource, and by what.
type Held struct {
	Of [2]bool
	By string
}
