package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// GateInput holds the facts that gates need about one pod in one reconcile, as plain values set by the caller. A zero
// field means "not known"; each field describes the consequence. Gates never change it.
type GateInput struct {
	// Now is the time of the reconcile.
	Now time.Time
	// Rules of the workload's policy.
	Rules Rules
	// Status of the workload's AttuneRecommendation: open records, tries, backoff, cooldown, attune's own pause.
	Status v1alpha1.AttuneRecommendationStatus
	// OtherBytes is the size of the AttuneRecommendation without its open records, in bytes; it limits how many records
	// fit.
	OtherBytes int
	// Workload, Namespace and Node of the pod.
	Workload  WorkloadInput
	Namespace NamespaceInput
	Node      NodeInput
	// Unreachable has the nodes of open records that are not ready. Unknown nodes count as ready.
	Unreachable map[string]bool
	// Due are the raises of the pod that do not wait for the cooldown.
	Due Due
	// MemorySoon is true if the memory usage of the pod's containers is not known yet but will be within seconds.
	MemorySoon bool
	// NoRights is the reason why attune may not resize any pod now, NoRightsUrgent the reason why not even after an OOM
	// kill; empty: resizes are permitted.
	NoRights, NoRightsUrgent string
	// Evictable is true if the pod may be evicted when its node refuses. attune then sends the resize even if the node
	// seems to have no room, since its kubelet's answer decides.
	Evictable bool
}

// WorkloadInput has the facts about the pod's workload that gates check.
type WorkloadInput struct {
	// Annotations of the workload, TemplateAnnotations of its pod template. If they are not known, the pod is not
	// skipped.
	Annotations, TemplateAnnotations map[string]string
	// Replicas is the wanted number of replicas, ReadyReplicas the ready number; gates for restarts use them. If they
	// are not known (0), the workload counts as one replica that is not ready.
	Replicas, ReadyReplicas int
	// Rollout is the rollout's progress, such as "2 of 5 replicas are updated"; empty: no rollout is in progress, or it
	// makes no progress and the pod runs the newest template. An unavailable replica alone is not a rollout.
	Rollout string
	// DataUntil is the time of the newest usage sample behind the wish, StaleAfter its maximum age. If either is zero,
	// the gate is off; the recommender blocks stale targets too.
	DataUntil  time.Time
	StaleAfter time.Duration
	// HPA has the resources that a HorizontalPodAutoscaler scales on by utilization, by container; the name "" applies
	// to every container. Containers without an entry are not blocked.
	HPA map[string]Held
	// ScaledOn are the requests on which an HPA scales, or did within a day, whether or not they may change.
	ScaledOn ScaledRequests
	// VPA is the name of a VerticalPodAutoscaler of the workload in a mode other than Off; empty: there is no such VPA.
	VPA string
	// TargetSoon: what HPA says in Waits lasts for seconds.
	TargetSoon bool
}

// ScaledRequests are resources whose request an HPA divides by, by container; the name "" stands for every container.
type ScaledRequests map[string][2]bool

// Add adds a request.
func (s *ScaledRequests) Add(container string, r recommender.Resource) {
	of := (*s)[container]
	of[r] = true
	podview.SetIn((*map[string][2]bool)(s), container, of)
}

// Has reports whether an HPA scales on a request.
func (s ScaledRequests) Has(container string, r recommender.Resource) bool {
	return s[""][r] || s[container][r]
}

// NamespaceInput has the facts about the pod's namespace that gates check.
type NamespaceInput struct {
	// LimitRanges and Quotas of the namespace. If they are empty, only the API server checks.
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
	// Budgets are the PodDisruptionBudgets; gates for restarts use them. The API server does not check them for
	// resizes.
	Budgets []policyv1.PodDisruptionBudget
	// Reserved is the growth of other pods of the namespace that this reconcile has decided and no status shows yet
	// (GrowthOf).
	Reserved recommender.Size
	// Terminating is true while the namespace is being deleted.
	Terminating bool
	// NotSized is why new pods of the namespace are not sized at admission; empty: they are.
	NotSized string
}

// NodeInput has the facts about the pod's node that gates check.
type NodeInput struct {
	// Room is the sum of the pods' footprints on the node. Nil: not known, and not checked.
	Room *Room
	// Block is until when attune sends no resizes to the node, because the node deferred or refused resizes that
	// concern the pod (BlockFor). Zero: no block.
	Block NodeBlock
	// Capabilities of the node. Unknown allocatable amounts are not checked.
	Capabilities Capabilities
	// Karpenter: Karpenter starts and removes the node (OfKarpenter).
	Karpenter bool
	// Reserved is the growth of other pods of the node that this reconcile has decided and no status shows yet.
	Reserved recommender.Size
}

// Held has the resources of a container that an autoscaler blocks. The zero value blocks nothing.
type Held struct {
	// Of is true for each blocked resource, indexed by Resource.
	Of [2]bool
	// Kept are the ranges in which the requests of blocked resources may change all the same, or nil: none.
	Kept [2]*recommender.Kept
	// Waits says why blocked resources do not change at present; empty: Kept decides.
	Waits [2]string
	// By is the name of the autoscaler.
	By string
}
