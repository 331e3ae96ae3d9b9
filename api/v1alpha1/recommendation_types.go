package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits of the lists in an AttuneRecommendation. Every list that grows with the number of pods has one.
const (
	MaxRecords   = 50
	MaxOriginals = 5
	MaxHistory   = 20
	MaxLimits    = 3
	MaxBadSeeds  = 20
	MaxTries     = 32
	// MaxFailedStarts bounds status.failedStarts.
	MaxFailedStarts = 20
	// MaxHPABindings bounds spec.hpaBindings.
	MaxHPABindings = 8
)

// AttuneRecommendationSpec holds what attune recommends for a workload. Only the policy loop writes it.
type AttuneRecommendationSpec struct {
	// Workload that attune sizes.
	Workload WorkloadRef `json:"workload"`

	// Identity of the workload, from the label attune.io/identity of its pod template. Workloads of the namespace with
	// the same identity, kind, policy and container names share their usage history. Not set: the workload shares none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Identity string `json:"identity,omitempty"`

	// Policy that sizes the workload.
	Policy PolicyRef `json:"policy"`

	// Mode is the effective updateStrategy.type of the policy.
	Mode UpdateType `json:"mode"`

	// Strategy that computed the targets. Not set: Workload.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`

	// EvictionRanking of the workload's pods under the strategy Node. Never if evictions are disabled.
	// +optional
	EvictionRanking EvictionRanking `json:"evictionRanking,omitempty"`

	// NodeGroup is the policy's node.group: pods of the namespace that spike together (strategy Node). Not set: the
	// pods of the workload.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeGroup string `json:"nodeGroup,omitempty"`

	// PolicySource: the usage behind the targets comes from a server that a policy or the defaults of a namespace name.
	// Then, under the strategy Node, the pods claim no more of their node than they have or than the operator's own
	// source measures.
	// +optional
	PolicySource bool `json:"policySource,omitempty"`

	// SettingsDigest changes with any setting that affects the targets.
	// +optional
	SettingsDigest string `json:"settingsDigest,omitempty"`

	// Containers lists the targets, in the order of the pod template.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerTarget `json:"containers,omitempty"`

	// Seed holds the admission resources, which the webhook sets in new pods. Not set: the webhook does not change
	// new pods.
	// +optional
	Seed *Seed `json:"seed,omitempty"`

	// SeedBlocked is the reason why there is no seed.
	// +optional
	SeedBlocked string `json:"seedBlocked,omitempty"`

	// DataUntil is the time of the newest usage sample behind the stored targets. While newer samples change no
	// target, it may be out of date by up to an hour and a queryStep.
	// +optional
	DataUntil *metav1.Time `json:"dataUntil,omitempty"`

	// Checkpoints hold the usage history of the containers in a compact form if no Prometheus stores it
	// (usage.source: embedded). After a restart, or on another replica, attune continues from there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`

	// LargestNode is the largest node seen within the history window on which the pods may run. It is stored so that
	// attune remembers, after a restart, a node pool that was scaled to zero. Not set: not known.
	// +optional
	LargestNode *LargestNode `json:"largestNode,omitempty"`

	// HPABindings lists the requests on which a HorizontalPodAutoscaler scales, or scaled less than 24 hours ago. attune
	// does not change these requests. They are stored so that an HPA that is deleted for a while, also while the operator
	// restarts, still blocks them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	HPABindings []HPABinding `json:"hpaBindings,omitempty"`
}

// HPABinding is a request on which a HorizontalPodAutoscaler scales by utilization.
type HPABinding struct {
	// HPA is the name of the HorizontalPodAutoscaler.
	HPA string `json:"hpa"`
	// Container of the request. Not set: every container of the pod.
	// +optional
	Container string `json:"container,omitempty"`
	// Resource of the request.
	// +kubebuilder:validation:Enum=cpu;memory
	Resource string `json:"resource"`
	// Percent is the target utilization in percent of the request. Not set: not known.
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// OriginalPercent is the target that a user wrote, if attune changed it (cpu.hpa: Retarget). Not set: it is percent.
	// +optional
	OriginalPercent int32 `json:"originalPercent,omitempty"`
	// OriginalRequest is the CPU request of a pod to which originalPercent belongs. Not set: not known.
	// +optional
	OriginalRequest *resource.Quantity `json:"originalRequest,omitempty"`
	// RecommendedPercent is the target that belongs to the recommended request (cpu.hpa: Retarget): in a manifest, change
	// both together. Not set: it is the one that a user wrote.
	// +optional
	RecommendedPercent int32 `json:"recommendedPercent,omitempty"`
	// MinReplicas of the HPA, if cpu.hpa or memory.hpa is Keep or Retarget.
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// MaxReplicas of the HPA, if cpu.hpa or memory.hpa is Keep or Retarget.
	// +optional
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// Earlier are the widest bounds that the HPA had in the last days, such as at night. A range of requests keeps the number
	// of replicas with these too. Not set: they were not wider than the present ones.
	// +optional
	Earlier *EarlierBounds `json:"earlier,omitempty"`
	// Gone is since when the HPA does not scale the workload: it was deleted, or its minReplicas and maxReplicas became
	// equal. Not set: it scales the workload. The binding is removed 24 hours later.
	// +optional
	Gone *metav1.Time `json:"gone,omitempty"`
}

// EarlierBounds are bounds of an HPA.
type EarlierBounds struct {
	// MinReplicas is the least.
	MinReplicas int32 `json:"minReplicas"`
	// MaxReplicas is the greatest.
	MaxReplicas int32 `json:"maxReplicas"`
	// Until is when they no longer count: 8 days after they last changed.
	Until metav1.Time `json:"until"`
}

// LargestNode holds the greatest allocatable CPU and memory of the nodes on which the pods of a workload may run. For
// a DaemonSet it is the smallest node, minus the requests of its other DaemonSet pods.
type LargestNode struct {
	// CPU that is allocatable, in cores, e.g. 3920m. Not set: not known.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory that is allocatable, in bytes, e.g. 15Gi. Not set: not known.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// SeenAt is when such a node was last seen. While the node exists, the time may be out of date by up to an hour
	// and a queryStep.
	SeenAt metav1.Time `json:"seenAt"`
	// Placement is a digest of the node selector, required node affinity and tolerations of the pod template. With other
	// ones, deleted nodes do not count. Not set: the template has none.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Placement string `json:"placement,omitempty"`
}

// Checkpoint is one container's usage history in a compact form.
type Checkpoint struct {
	// Name of the container.
	Name string `json:"name"`
	// At is when the checkpoint was created.
	At metav1.Time `json:"at"`
	// Data is at most 2 KiB of packed history: the usage in each queryStep, within a few percent.
	// +kubebuilder:validation:MaxLength=2732
	Data []byte `json:"data"`
	// Replicas is at most 12 KiB of packed history of the workload: the mean usage of its pods by their number, for
	// each container. Only the first checkpoint has it, if a HorizontalPodAutoscaler scales the workload and a policy
	// lets attune change requests that keep the number of replicas.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Replicas []byte `json:"replicas,omitempty"`
}

// WorkloadRef names a workload in the namespace of the object.
type WorkloadRef struct {
	// Kind of the workload.
	Kind WorkloadKind `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
	// UID of the workload when it was last seen.
	UID types.UID `json:"uid,omitempty"`
}

// PolicyRef names a policy: an AttunePolicy in the namespace of the object, or an AttuneClusterPolicy.
type PolicyRef struct {
	// Kind of the policy. Not set: AttunePolicy.
	// +optional
	Kind PolicyKind `json:"kind,omitempty"`
	// Name of the policy.
	Name string `json:"name"`
	// UID of the policy.
	UID types.UID `json:"uid,omitempty"`
	// Generation of the policy that the targets were computed with.
	Generation int64 `json:"generation,omitempty"`
}

// ContainerTarget holds the recommended resources of a container, and how they were computed.
type ContainerTarget struct {
	// Name of the container.
	Name string `json:"name"`

	// Target holds the recommended requests and limits, within minAllowed and maxAllowed. holds gives the reason if a
	// resource is not set.
	Target Resources `json:"target"`

	// MemoryLimitFloor is the smallest memory limit that attune sets: 1.1 times the peak usage, and not below the
	// minimum learned from OOM kills. Only that minimum raises a limit above the template's and above maxAllowed.
	// +optional
	MemoryLimitFloor *resource.Quantity `json:"memoryLimitFloor,omitempty"`
	// CPULimitFloor is the CPU limit below which attune lowers no limit, in cores: 1.1 times the peak usage, also of
	// starts. Not set if it is not above the limit that the target's ratio gives.
	// +optional
	CPULimitFloor *resource.Quantity `json:"cpuLimitFloor,omitempty"`

	// MemoryLimits are the last memory limits of the running pods, oldest first. They show whether usage follows its
	// limit.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	MemoryLimits []MemoryLimit `json:"memoryLimits,omitempty"`

	// Kept lists the ranges of requests with which HorizontalPodAutoscalers keep the number of replicas (cpu.hpa and
	// memory.hpa: Keep, cpu.hpa: Retarget). attune changes such a request only within its range.
	// +optional
	// +listType=map
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=2
	Kept []KeptRequest `json:"kept,omitempty"`

	// Demand is the input of the strategy Node, which divides a node's resources between its pods.
	// +optional
	Demand *ContainerDemand `json:"demand,omitempty"`

	// Confidence in the recommendation, from 0 to 1, e.g. "0.92".
	Confidence string `json:"confidence"`
	// DataPoints counts the samples with data in the history window.
	DataPoints int32 `json:"dataPoints"`

	// Holds lists the resources that have no target, or whose target is blocked, with the reason.
	// +optional
	// +listType=atomic
	Holds []Hold `json:"holds,omitempty"`

	// Steps lists the steps of the computation.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`
}

// MemoryLimit is a memory limit that was in force, and the usage under it.
type MemoryLimit struct {
	// Limit is the highest limit of the running pods, in bytes.
	Limit resource.Quantity `json:"limit"`
	// Since is when the first pod had it.
	Since metav1.Time `json:"since"`
	// Usage is the highest usage under the limit, in bytes. Not set: the limit is in force.
	// +optional
	Usage *resource.Quantity `json:"usage,omitempty"`
}

// KeptRequest is a range of requests with which HorizontalPodAutoscalers keep the number of replicas: with any of them,
// they would have asked for the same number over the whole history, or attune changes their target with the request.
type KeptRequest struct {
	// Resource of the request.
	// +kubebuilder:validation:Enum=cpu;memory
	Resource string `json:"resource"`
	// Least is the smallest request, e.g. 640m.
	Least resource.Quantity `json:"least"`
	// Most is the largest request. Not set: there is none.
	// +optional
	Most *resource.Quantity `json:"most,omitempty"`
	// HPAs are the names of the HorizontalPodAutoscalers that scale on the request.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	HPAs []string `json:"hpas"`
	// By is what the history proves to keep the number of replicas within the range. Keep: the target of the HPA does not
	// change. Retarget: it changes together with the request. Not set: Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Retarget
	By HPAHandling `json:"by,omitempty"`
	// OriginalPercent is the target of the HPA that belongs to the original requests. Only set by Retarget.
	// +optional
	OriginalPercent int32 `json:"originalPercent,omitempty"`
	// Digest of minReplicas, maxReplicas, target and tolerance of the HPAs; by Retarget, of the original target and
	// of the original requests. With other ones, the range is void.
	// +kubebuilder:validation:MaxLength=32
	Digest string `json:"digest"`
	// Since is the beginning of the history behind the range.
	Since metav1.Time `json:"since"`
	// ValidUntil is when the range is void: a day after it was computed. While there are new samples, it is renewed every
	// hour.
	ValidUntil metav1.Time `json:"validUntil"`
}

// ContainerDemand is the demand of a container that the strategy Node uses. attune does not change a resource without
// a peak.
type ContainerDemand struct {
	// CPUPeak is the highest CPU usage that is forecast for a replica in the next hour, in cores.
	// +optional
	CPUPeak *resource.Quantity `json:"cpuPeak,omitempty"`

	// CPUDay is the highest CPU usage of a replica in 24 h, in cores. New pods get it.
	// +optional
	CPUDay *resource.Quantity `json:"cpuDay,omitempty"`

	// MemoryPeak is the highest memory usage of a replica in 24 h, in bytes.
	// +optional
	MemoryPeak *resource.Quantity `json:"memoryPeak,omitempty"`

	// MemoryMax7d is the highest memory usage of a replica in 7 days, in bytes.
	// +optional
	MemoryMax7d *resource.Quantity `json:"memoryMax7d,omitempty"`

	// MemoryOOM is the minimum learned from an OOM kill, in bytes.
	// +optional
	MemoryOOM *resource.Quantity `json:"memoryOOM,omitempty"`

	// MemoryLimitMost is the highest memory limit that attune sets without an OOM kill: twice the template's limit.
	// If the template has none, twice the first limit that new pods got.
	// +optional
	MemoryLimitMost *resource.Quantity `json:"memoryLimitMost,omitempty"`

	// Least holds the smallest requests that attune sets: minAllowed, learned minimums, and requests that a user has
	// set. The part that was not measured is not demand: no other pod has to make room for it.
	// +optional
	Least Resources `json:"least,omitempty,omitzero"`

	// Most holds the largest requests that attune sets.
	// +optional
	Most Resources `json:"most,omitempty,omitzero"`

	// AllowMemoryDecrease allows attune to lower the memory of running pods.
	// +optional
	AllowMemoryDecrease bool `json:"allowMemoryDecrease,omitempty"`
}

// Hold is the reason why a resource has no target, or why its target is blocked.
type Hold struct {
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Reason, e.g. InsufficientData, HPA or AllowDecrease.
	Reason string `json:"reason"`
	// Message is one sentence with the amounts.
	// +optional
	Message string `json:"message,omitempty"`
}

// Step is one step of the computation of a target.
type Step struct {
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Name is percentile, margin, burst, confidence, floor, bounds, hpa or change. It is omitted if too many containers
	// leave no room for the steps.
	Name string `json:"name"`
	// Before is the amount before the step.
	Before string `json:"before"`
	// After is the amount after the step.
	After string `json:"after"`
	// Reason for the change in this step.
	Reason string `json:"reason"`
}

// Seed holds the admission resources, which the webhook sets in new pods.
type Seed struct {
	// Revision changes with the content of the seed. The annotation attune.io/seeded of a pod holds the revision that
	// it got.
	Revision string `json:"revision"`
	// ValidUntil is when the seed ends. Later pods are created with the resources of their template.
	ValidUntil metav1.Time `json:"validUntil"`
	// RaiseOnly is true if raiseOnly is true for every container. It is for older objects and webhooks without a
	// raiseOnly per container.
	// +optional
	RaiseOnly bool `json:"raiseOnly,omitempty"`
	// Containers that get admission resources. The webhook does not change other containers.
	// +listType=map
	// +listMapKey=name
	Containers []ContainerSeed `json:"containers"`
	// LargestPod is the most that a new pod may request, and the most that the limits of its containers are raised
	// to: the allocatable resources of the largest node on which the pod may run, minus its DaemonSet pods. For a
	// DaemonSet: the smallest node, minus its other DaemonSet pods. Limits are not raised above maxAllowed either. Larger requests and limits of the
	// template stay, and limits may be as high as their minimum. Not set: not known.
	// +optional
	LargestPod Resources `json:"largestPod,omitempty,omitzero"`
}

// ContainerSeed holds the admission resources of one container. The webhook does not change a resource whose request
// is not set.
type ContainerSeed struct {
	// Name of the container.
	Name string `json:"name"`
	// RaiseOnly: no size of the container is verified yet, so the webhook raises it to the seed but never lowers it.
	// +optional
	RaiseOnly bool `json:"raiseOnly,omitempty"`
	// CPURequest to set, in cores.
	// +optional
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// MemoryRequest to set, in bytes.
	// +optional
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPULimitFollows: the CPU limit keeps the ratio to the request that the pod was created with. If false, the
	// limit is not changed.
	// +optional
	CPULimitFollows bool `json:"cpuLimitFollows,omitempty"`
	// CPULimitRule replaces the ratio of the CPU limit (cpu.limits). Not set: the ratio counts.
	// +optional
	CPULimitRule *CPULimitRule `json:"cpuLimitRule,omitempty"`
	// MemoryLimitFollows: the memory limit keeps the ratio to the request that the pod was created with. If false,
	// the limit is not changed.
	// +optional
	MemoryLimitFollows bool `json:"memoryLimitFollows,omitempty"`
	// MemoryLimit to set, in bytes (strategy Node, or with memoryLimitFollows). It replaces the ratio.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// CPULimitFloor is the CPU limit below which the webhook lowers no limit, in cores: 1.1 times the peak usage. Not
	// set: the ratio decides.
	// +optional
	CPULimitFloor *resource.Quantity `json:"cpuLimitFloor,omitempty"`
	// MemoryLimitFloor is the smallest memory limit that the webhook sets, in bytes.
	// +optional
	MemoryLimitFloor *resource.Quantity `json:"memoryLimitFloor,omitempty"`
	// CPULimitMost is the CPU limit to which the webhook raises at most, in cores: the container's maxAllowed, if that of
	// another container is higher. Not set: largestPod.
	// +optional
	CPULimitMost *resource.Quantity `json:"cpuLimitMost,omitempty"`
	// MemoryLimitMost is the memory limit to which the webhook raises at most, in bytes, as cpuLimitMost.
	// +optional
	MemoryLimitMost *resource.Quantity `json:"memoryLimitMost,omitempty"`
	// AllowMemoryDecrease allows a memory request below the template's.
	// +optional
	AllowMemoryDecrease bool `json:"allowMemoryDecrease,omitempty"`
	// CPUBoost gives the container more CPU while it starts.
	// +optional
	CPUBoost *CPUBoost `json:"cpuBoost,omitempty"`
}

// CPULimitRule is the rule for the CPU limit of a container at admission (cpu.limits).
type CPULimitRule struct {
	// Remove the CPU limit, unless the pod is Guaranteed or its namespace requires CPU limits.
	// +optional
	Remove bool `json:"remove,omitempty"`
	// RatioThousandths is the ratio of limit to request, times 1000. Not set: the ratio with which the pod is created.
	// +optional
	RatioThousandths int64 `json:"ratioThousandths,omitempty"`
	// Min is the smallest limit, in cores.
	// +optional
	Min *resource.Quantity `json:"min,omitempty"`
	// Max is the largest limit, in cores.
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
}

// CPUBoost multiplies the CPU of a container at admission.
type CPUBoost struct {
	// Multiplier of the CPU request, e.g. "2".
	Multiplier Decimal `json:"multiplier"`
	// Most is the highest request that the boost may set, in cores.
	// +optional
	Most *resource.Quantity `json:"most,omitempty"`
}

// Seeded is the value of SeededAnnotation.
type Seeded struct {
	// Recommendation is the name of the AttuneRecommendation.
	Recommendation string `json:"recommendation"`
	// Revision of the seed that the pod got.
	Revision string `json:"revision"`
	// Original resources of the pod as it was created, before the webhook changed them.
	Original []ContainerResources `json:"original"`
	// Boosted lists the containers that got more CPU to start with. The boost ends with a resize.
	Boosted []BoostedContainer `json:"boosted,omitempty"`
}

// BoostedContainer is a container that got more CPU to start with.
type BoostedContainer struct {
	// Name of the container.
	Name string `json:"name"`
	// CPURequest that the container got.
	CPURequest resource.Quantity `json:"cpuRequest"`
	// BaseCPURequest and BaseCPULimit are the resources after the boost.
	BaseCPURequest resource.Quantity  `json:"baseCPURequest"`
	BaseCPULimit   *resource.Quantity `json:"baseCPULimit,omitempty"`
}

// ContainerResources are the requests and limits of one container.
type ContainerResources struct {
	// Name of the container.
	Name      string `json:"name"`
	Resources `json:",inline"`
}

// RecommendationPhase is the present activity of the workload loop.
type RecommendationPhase string

const (
	PhaseIdle      RecommendationPhase = "Idle"
	PhaseResizing  RecommendationPhase = "Resizing"
	PhaseWatching  RecommendationPhase = "Watching"
	PhaseReverting RecommendationPhase = "Reverting"
	PhaseCooldown  RecommendationPhase = "Cooldown"
	PhasePaused    RecommendationPhase = "Paused"
)

// AttuneRecommendationStatus reports on the workload and its pods. Only the workload loop writes it.
type AttuneRecommendationStatus struct {
	// Phase is the present activity of the workload loop.
	// +optional
	Phase RecommendationPhase `json:"phase,omitempty"`

	// Conditions: Resizing, Degraded, ResizeBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Records lists the resizes that are in flight or under observation. A record is written before its resize and
	// holds all that a revert needs.
	// +optional
	// +listType=map
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=50
	Records []ResizeRecord `json:"records,omitempty"`

	// Verified lists the verified resources of the containers: pods ran with them through an observation period without
	// a regression.
	// +optional
	// +listType=map
	// +listMapKey=name
	Verified []VerifiedResources `json:"verified,omitempty"`

	// Originals lists the resources of pods before attune changed them, per template hash, newest last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Originals []Originals `json:"originals,omitempty"`

	// Floors lists minimums learned from regressions. They decay by a fifth every 7 days.
	// +optional
	// +listType=atomic
	Floors []Floor `json:"floors,omitempty"`

	// Backoff lengthens the cooldown after reverts.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`

	// CooldownFrom is when the observation period of the last wave ended. The next resize step waits for the policy's
	// cooldown from then on; further waves of the same step do not.
	// +optional
	CooldownFrom *metav1.Time `json:"cooldownFrom,omitempty"`

	// NextResize says when the next resize of a running pod may start; not set: all pods are at their targets, or no
	// resize is planned. For example {at: 2026-03-01T12:00:00Z, reason: CooldownActive}.
	// +optional
	NextResize *NextResize `json:"nextResize,omitempty"`

	// BadSeeds lists revisions of seeds that caused a regression. New pods do not get them again.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	BadSeeds []string `json:"badSeeds,omitempty"`

	// FailedStarts lists containers that restarted repeatedly after they were created below their template's
	// resources, while another cause, such as the rollout itself, is possible as well. The webhook raises new pods of
	// the same template generation to their seed but never lowers them. The oldest entries are dropped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	FailedStarts []FailedStart `json:"failedStarts,omitempty"`

	// AdmissionWithdrawn is set while new pods are created with the resources of their template, and gives the
	// reason.
	// +optional
	AdmissionWithdrawn *AdmissionWithdrawn `json:"admissionWithdrawn,omitempty"`

	// History lists finished resizes, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []HistoryEntry `json:"history,omitempty"`

	// Tries lists attempts that failed, with the time of the next attempt. Entries for many pods with the same
	// failure are merged into one for the workload.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tries []Try `json:"tries,omitempty"`

	// Paused is set while attune itself has paused the workload, such as after two supersessions.
	// +optional
	Paused *PausedState `json:"paused,omitempty"`

	// Operator is the namespace of the attune installation that manages the workload. If two
	// installations take the workload from each other, each turn counts as a supersession.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Operator string `json:"operator,omitempty"`

	// Supersessions counts resizes by other field managers that replaced attune's.
	// +optional
	Supersessions int32 `json:"supersessions,omitempty"`

	// LastSuperseded is when the last supersession happened. It counts for a week.
	// +optional
	LastSuperseded *metav1.Time `json:"lastSuperseded,omitempty"`

	// GoneSince is when the workload was first found to be deleted. The object is deleted seven days later.
	// +optional
	GoneSince *metav1.Time `json:"goneSince,omitempty"`

	// UndoneAt is the value of the last undo annotation that was carried out.
	// +optional
	UndoneAt string `json:"undoneAt,omitempty"`

	// Pods counts the pods of the workload.
	// +optional
	Pods *PodCounts `json:"pods,omitempty"`
}

// AdmissionWithdrawn is set after new pods with admission resources were rejected or did not start. Until a time,
// pods are created with the resources of their template. Then one trial pod gets admission resources.
type AdmissionWithdrawn struct {
	// Since is when the webhook stopped setting admission resources.
	Since metav1.Time `json:"since"`
	// Until is the earliest time at which the next pod gets admission resources again. A new template makes it
	// earlier.
	Until metav1.Time `json:"until"`
	// Reason is AdmissionRejected or PodsDoNotStart.
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`
	// Message is the answer of the API server or the kubelet, cut to 256 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
	// Revision of the admission resources that failed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`
	// TemplateHash of the workload's pod template at that time.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TemplateHash string `json:"templateHash,omitempty"`
	// TrialPod is the pod that got admission resources after Until. Other pods do not get them until it has started.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrialPod string `json:"trialPod,omitempty"`
	// RejectedWithout is true if pods without admission resources were rejected too, so that these are not the cause.
	// The webhook sets them again after the next pod was created.
	// +optional
	RejectedWithout bool `json:"rejectedWithout,omitempty"`
}

// NextResize says when the next resize of a running pod may start.
type NextResize struct {
	// At is the earliest time at which it may start, such as 2026-03-01T12:00:00Z; not set: it waits for an event, not
	// for a time. Raises that are due and answers to OOM kills may start earlier.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// Reason is what it waits for: Observation, or the reason of the condition ResizeBlocked, such as CooldownActive.
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
}

// PodCounts counts the running pods of a workload.
type PodCounts struct {
	// Total counts the pods that are not finished or being deleted.
	Total int32 `json:"total"`
	// AtTarget counts the pods that run at the target.
	AtTarget int32 `json:"atTarget"`
	// Open counts the pods with a record.
	Open int32 `json:"open"`
}

// RecordPhase is the phase of a resize.
type RecordPhase string

const (
	// RecordWritten: the record is stored. The resize may or may not have reached the API server.
	RecordWritten RecordPhase = "Written"
	// RecordSecondWritten: the first of two patches is verified. The second may or may not have reached the API
	// server.
	RecordSecondWritten RecordPhase = "SecondWritten"
	// RecordApplied: the API server accepted the resize. Generation is set.
	RecordApplied RecordPhase = "Applied"
	// RecordWatching: two reads verified the size on the pod. The observation period runs.
	RecordWatching RecordPhase = "Watching"
	// RecordReverting: a regression was found. The previous size is being restored.
	RecordReverting RecordPhase = "Reverting"
	// RecordWithdrawing: the resize was rejected or its deadline passed. The previous size is being restored.
	RecordWithdrawing RecordPhase = "Withdrawing"
	// RecordLeaving: the pod does not fit on its node together with the other pods and is to be evicted. Its
	// resources were not changed.
	RecordLeaving RecordPhase = "Leaving"
	// RecordEvictionDenied: the API server denied the eviction of a pod that has its previous size. attune tries
	// again.
	RecordEvictionDenied RecordPhase = "EvictionDenied"
	// RecordEvicting: the node rejected the size, the pod has its previous size, and attune evicts it.
	RecordEvicting RecordPhase = "Evicting"
)

// ResizeRecord is one resize in flight or under observation. It holds all that a revert needs.
type ResizeRecord struct {
	// PodUID of the pod. A replacement with the same name has another UID.
	PodUID types.UID `json:"podUID"`
	// PodName of the pod.
	PodName string `json:"podName"`
	// Node that the pod runs on.
	Node string `json:"node,omitempty"`
	// Phase of the resize.
	Phase RecordPhase `json:"phase"`

	// WrittenAt is when the record was written, before the resize.
	WrittenAt metav1.Time `json:"writtenAt"`
	// Begun is when the resize was decided, if a second patch made WrittenAt later.
	// +optional
	Begun *metav1.Time `json:"begun,omitempty"`
	// Deadline of the phase. A revert has none.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Generation of the pod after the resize. 0: not known yet.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// VerifiedOnce is the first read that found the size on the pod. A second one has to confirm it.
	// +optional
	VerifiedOnce *metav1.Time `json:"verifiedOnce,omitempty"`
	// WatchUntil is when the observation period ends.
	// +optional
	WatchUntil *metav1.Time `json:"watchUntil,omitempty"`
	// Extended: the observation period was extended, because there was no clear result at its end.
	// +optional
	Extended bool `json:"extended,omitempty"`

	// Prior sizes of the containers that the resize changes.
	// +listType=map
	// +listMapKey=name
	Prior []ContainerResources `json:"prior"`
	// Desired sizes of these containers.
	// +listType=map
	// +listMapKey=name
	Desired []ContainerResources `json:"desired"`
	// Then holds the sizes of a second patch, which is sent after the first is verified. Memory limits that the
	// kubelet may reject are sent separately.
	// +optional
	// +listType=map
	// +listMapKey=name
	Then []ContainerResources `json:"then,omitempty"`
	// Baseline to detect regressions against.
	// +optional
	// +listType=map
	// +listMapKey=name
	Baseline []ContainerBaseline `json:"baseline,omitempty"`
	// Measured holds the results of queries before the resize, to compare later results with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Measured []Measurement `json:"measured,omitempty"`

	// TemplateHash of the pod.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
	// Wave that the record belongs to.
	// +optional
	Wave string `json:"wave,omitempty"`
	// Reason why the resize ended: the regression, or the rejection.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Attempts counts the patches that were sent to restore the previous size, or again for the second patch. It
	// stops at 10.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// ContainerBaseline is the state of a container when its record was written.
type ContainerBaseline struct {
	// Name of the container.
	Name string `json:"name"`
	// ContainerID of the container that ran then.
	ContainerID string `json:"containerID,omitempty"`
	// StartedAt is when that container started.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// RestartCount at that time.
	RestartCount int32 `json:"restartCount"`
	// Ready at that time.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// Measurement is the result of a query.
type Measurement struct {
	// Name of the query.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Value is the result, as a decimal number.
	// +kubebuilder:validation:MaxLength=32
	Value string `json:"value"`
}

// VerifiedResources are the verified resources of one container: a pod ran with them through an observation period
// without a regression.
type VerifiedResources struct {
	// Name of the container.
	Name string `json:"name"`
	// Size holds the requests and limits that were verified.
	Size Resources `json:"size"`
	// Promoted is the last size that a user promoted with kubectl attune promote. With canary.autoPromote off, new pods
	// and pods after the first wave do not get less.
	// +optional
	Promoted *Resources `json:"promoted,omitempty"`
	// Since is when the observation period ended.
	Since metav1.Time `json:"since"`
	// TemplateHash of the pod that was observed.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
}

// Originals are the resources that the pods of one template had before attune changed them.
type Originals struct {
	// TemplateHash of the pods.
	TemplateHash string `json:"templateHash"`
	// Since is when a pod of the template was first seen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Containers with their original resources.
	// +listType=map
	// +listMapKey=name
	Containers []ContainerResources `json:"containers"`
	// Template lists the containers that the pod template sets otherwise: another webhook or the platform changed their
	// requests when the pods were created. Not set: the pods were created as the template says.
	// +optional
	// +listType=map
	// +listMapKey=name
	Template []ContainerResources `json:"template,omitempty"`
}

// Floor is a minimum learned from a regression: the lowest amount that is known to be safe.
type Floor struct {
	// Container that had the regression.
	Container string `json:"container"`
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Amount that attune does not go below.
	Amount resource.Quantity `json:"amount"`
	// Reason is oomkill, throttle, restart, notready or slo. A row with nodekill and the amount 0 is an OOM kill of the
	// node, from which attune learned no minimum.
	Reason string `json:"reason"`
	// LearnedAt is when the regression happened.
	LearnedAt metav1.Time `json:"learnedAt"`
	// Evidence identifies the event behind the floor, so that it counts only once.
	// +optional
	Evidence string `json:"evidence,omitempty"`
	// TemplateHash of the pod that was OOM-killed. If its template generation is rolled back within an hour, the floor is
	// dropped. Not set: not known.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
}

// FailedStart is a container of one template generation that the webhook does not lower in new pods.
type FailedStart struct {
	// Name of the container.
	Name string `json:"name"`
	// TemplateHash of the template generation.
	TemplateHash string `json:"templateHash"`
	// Since is when the restarts were found.
	Since metav1.Time `json:"since"`
}

// Backoff lengthens the cooldown after reverts: each consecutive revert doubles it, up to 16 times its length.
type Backoff struct {
	// ConsecutiveReverts counts reverts without a clean observation period between them.
	ConsecutiveReverts int32 `json:"consecutiveReverts"`
	// Since is when the last revert was decided.
	Since metav1.Time `json:"since"`
}

// TryKind is the kind of an attempt.
type TryKind string

const (
	// TryResize: the API server or the kubelet rejected a resize.
	TryResize TryKind = "Resize"
	// TryActuation: the container runtime did not carry out a resize that the kubelet had allocated.
	TryActuation TryKind = "Actuation"
	// TryMemoryLimit: a memory limit could not be lowered, because the containers use too much memory.
	TryMemoryLimit TryKind = "MemoryLimit"
	// TryOOMAnswer: a container got more memory after OOM kills, Times times within the hour that began at Since.
	TryOOMAnswer TryKind = "OOMAnswer"
	// TryOOMChain: a container got more memory after OOM kills, Times times since Since, with less than a week
	// between two of them.
	TryOOMChain TryKind = "OOMChain"
	// TryClimb: a container was raised before an OOM kill, Times times within the day that began at Since.
	TryClimb TryKind = "Climb"
	// TryCatchUp: a container was raised so that the memory limit of its pod follows.
	TryCatchUp TryKind = "CatchUp"
	// TryRestore: attune has been restoring the resources of a pod since Since, and gives up at Until.
	TryRestore TryKind = "Restore"
	// TryGivenUp: attune gave up restoring the resources of a pod.
	TryGivenUp TryKind = "GivenUp"
	// TryEviction: the pod that was created after an eviction did not get its admission resources.
	TryEviction TryKind = "Eviction"
	// TryTarget: a change of the target of an HPA was rejected, or another writer set it back.
	TryTarget TryKind = "Target"
)

// Try is an attempt that failed, and the time of the next attempt.
type Try struct {
	// What is the kind of the attempt.
	What TryKind `json:"what"`
	// Pod and PodUID of the attempt. Not set: it is about the workload.
	// +optional
	Pod string `json:"pod,omitempty"`
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Container of the attempt. Not set: it is about the pod.
	// +optional
	Container string `json:"container,omitempty"`
	// Node of the attempt. Not set: it holds for all nodes.
	// +optional
	Node string `json:"node,omitempty"`
	// Digest of the requested sizes. Not set: it holds for all sizes.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Digest string `json:"digest,omitempty"`
	// Terms is a digest of the objects that the answer depends on, such as quotas. If they change, the answer may
	// change.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Terms string `json:"terms,omitempty"`
	// Amount that was reached. For a rejected resize: the smallest request for memory beyond the pod's present
	// memory. For a rejected target of an HPA: the target, in percent.
	// +optional
	Amount *resource.Quantity `json:"amount,omitempty"`
	// Before is the memory that the container had before it was raised. Not set once it was restored.
	// +optional
	Before *Resources `json:"before,omitempty"`
	// Since is the time of the last attempt, or of the first one for the kinds that say so.
	Since metav1.Time `json:"since"`
	// Until is the time of the next attempt.
	Until metav1.Time `json:"until"`
	// Times counts attempts in a row.
	Times int32 `json:"times"`
	// Reason, e.g. QuotaExceeded.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// Message is the answer, cut to 256 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// PausedState is why attune paused a workload.
type PausedState struct {
	// Since is when attune paused it.
	Since metav1.Time `json:"since"`
	// Reason for the pause.
	Reason string `json:"reason"`
	// Resumed is the value of the workload's annotation attune.io/resumed at the time of the pause. Another value
	// ends the pause.
	// +optional
	Resumed string `json:"resumed,omitempty"`
}

// AttuneRecommendation holds what attune knows about one workload: the recommended resources (spec, from the policy
// loop) and the resizes of its pods (status, from the workload loop). It is read-only for users; only attune writes
// it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ar,categories=attune
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.workload.kind`
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.workload.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.containers[0].target.cpuRequest`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.containers[0].target.memoryRequest`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy.name`,priority=1
type AttuneRecommendation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AttuneRecommendationSpec   `json:"spec"`
	Status AttuneRecommendationStatus `json:"status,omitempty"`
}

// AttuneRecommendationList is a list of recommendations.
// +kubebuilder:object:root=true
type AttuneRecommendationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttuneRecommendation `json:"items"`
}
