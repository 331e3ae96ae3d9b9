package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Caps of an AttuneRecommendation: nothing in it grows with the number of pods without one.
const (
	MaxRecords   = 50
	MaxOriginals = 5
	MaxHistory   = 20
	MaxBadSeeds  = 20
	MaxTries     = 32
	// MaxBirthCrashes bounds status.birthCrashes.
	MaxBirthCrashes = 20
)

// AttuneRecommendationSpec is written by the policy loop alone.
type AttuneRecommendationSpec struct {
	// Workload that is sized.
	Workload WorkloadRef `json:"workload"`

	// Policy that sizes it.
	Policy PolicyRef `json:"policy"`

	// Mode is the policy's effective update type.
	Mode UpdateType `json:"mode"`

	// Strategy that the targets come from; absent: Workload.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`

	// EvictionRanking of the workload's pods under the strategy Node; Never where evictions are off.
	// +optional
	EvictionRanking EvictionRanking `json:"evictionRanking,omitempty"`

	// NodeGroup is the policy's node.group: pods of the namespace that spike together (strategy Node). Empty: those of
	// the workload.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeGroup string `json:"nodeGroup,omitempty"`

	// SettingsDigest changes with any setting that the targets depend on.
	// +optional
	SettingsDigest string `json:"settingsDigest,omitempty"`

	// Containers hold the targets, in the order of the pod template.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerTarget `json:"containers,omitempty"`

	// Seed is what new pods are given at admission; absent: new pods stay as they are.
	// +optional
	Seed *Seed `json:"seed,omitempty"`

	// SeedWithheld says why there is no seed.
	// +optional
	SeedWithheld string `json:"seedWithheld,omitempty"`

	// DataUntil is the time of the newest usage sample that the targets rested on when they were stored. While newer
	// samples change no target it lags behind, by up to an hour and a step; the operator knows better meanwhile.
	// +optional
	DataUntil *metav1.Time `json:"dataUntil,omitempty"`

	// Checkpoints hold the containers' usage histories in a compact form, where no server keeps them
	// (usage.source: embedded): after a restart and on another replica, history goes on from here.
	// +optional
	// +listType=map
	// +listMapKey=name
	Checkpoints []Checkpoint `json:"checkpoints,omitempty"`

	// LargestNode is the largest node on which the pods may run, of those seen within the history window. It is stored so
	// that a node pool that scaled to zero is remembered after a restart. Absent: not known.
	// +optional
	LargestNode *LargestNode `json:"largestNode,omitempty"`
}

// LargestNode holds the greatest allocatable CPU and memory of the nodes on which a workload's pods may run. Of a
// DaemonSet it is the smallest node, less the requests of its other DaemonSet pods.
type LargestNode struct {
	// CPU that is allocatable; absent: not known.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory that is allocatable; absent: not known.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// SeenAt is when such a node was last seen. While it exists, the time lags by up to an hour and a step.
	SeenAt metav1.Time `json:"seenAt"`
}

// Checkpoint is one container's usage history in a compact form.
type Checkpoint struct {
	// Name of the container.
	Name string `json:"name"`
	// At is when the checkpoint was made.
	At metav1.Time `json:"at"`
	// Data is at most 2 KiB of packed history: what was used in each step, within a few percent.
	// +kubebuilder:validation:MaxLength=2732
	Data []byte `json:"data"`
}

// WorkloadRef names a workload in the object's own namespace.
type WorkloadRef struct {
	// Kind of the workload.
	Kind WorkloadKind `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
	// UID of the workload that was seen last.
	UID types.UID `json:"uid,omitempty"`
}

// PolicyRef names a policy: an AttunePolicy in the object's own namespace, or an AttuneClusterPolicy.
type PolicyRef struct {
	// Kind of the policy; absent: AttunePolicy.
	// +optional
	Kind PolicyKind `json:"kind,omitempty"`
	// Name of the policy.
	Name string `json:"name"`
	// UID of the policy.
	UID types.UID `json:"uid,omitempty"`
	// Generation of the policy that the targets were computed by.
	Generation int64 `json:"generation,omitempty"`
}

// ContainerTarget is where a container is heading, and why.
type ContainerTarget struct {
	// Name of the container.
	Name string `json:"name"`

	// Target holds the sizes after the bounds; absent resources have none (see Holds).
	Target Resources `json:"target"`

	// MemoryLimitFloor is what no memory limit may be below: 1.1 times the peak and the learned floor.
	// +optional
	MemoryLimitFloor *resource.Quantity `json:"memoryLimitFloor,omitempty"`

	// Demand is what the Node strategy shares on a node.
	// +optional
	Demand *ContainerDemand `json:"demand,omitempty"`

	// Confidence from 0 to 1, such as "0.92".
	Confidence string `json:"confidence"`
	// DataPoints are the steps with data in the window.
	DataPoints int32 `json:"dataPoints"`

	// Holds say why a resource has no target, or why it is not applied.
	// +optional
	// +listType=atomic
	Holds []Hold `json:"holds,omitempty"`

	// Steps are the trace of the computation.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`
}

// ContainerDemand is what the strategy Node knows of a container's workload. A resource without a peak is
// left alone.
type ContainerDemand struct {
	// CPUPeak is the most CPU that a replica is forecast to use in the coming hour.
	// +optional
	CPUPeak *resource.Quantity `json:"cpuPeak,omitempty"`

	// CPUDay is the most CPU that a replica used in 24 h, which a new pod is given.
	// +optional
	CPUDay *resource.Quantity `json:"cpuDay,omitempty"`

	// MemoryPeak is the most memory that a replica used in 24 h.
	// +optional
	MemoryPeak *resource.Quantity `json:"memoryPeak,omitempty"`

	// MemoryMax7d is the most memory that a replica used in 7 days.
	// +optional
	MemoryMax7d *resource.Quantity `json:"memoryMax7d,omitempty"`

	// MemoryOOM is the memory that an OOM kill taught to need.
	// +optional
	MemoryOOM *resource.Quantity `json:"memoryOOM,omitempty"`

	// MemoryLimitMost is what no memory limit is raised above without an OOM kill: twice the template's limit, or twice
	// the first limit that new pods were given where the template has none.
	// +optional
	MemoryLimitMost *resource.Quantity `json:"memoryLimitMost,omitempty"`

	// Least holds the requests that no pod is to be lowered under: bounds, floors, what a person meant. What of it was
	// not measured is not demanded: no neighbour has to make room for it.
	// +optional
	Least Resources `json:"least,omitempty,omitzero"`

	// Most holds the requests that no pod is to be raised above.
	// +optional
	Most Resources `json:"most,omitempty,omitzero"`

	// AllowMemoryDecrease lets a pod's memory go under what it has.
	// +optional
	AllowMemoryDecrease bool `json:"allowMemoryDecrease,omitempty"`
}

// Hold says why a resource is left alone.
type Hold struct {
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Reason is a word such as InsufficientData, HPA or AllowDecrease.
	Reason string `json:"reason"`
	// Message is one sentence with the figures.
	// +optional
	Message string `json:"message,omitempty"`
}

// Step is one rule of the estimator chain at work.
type Step struct {
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Name: percentile, margin, burst, confidence, floor, bounds, change, or omitted where many containers leave no room for it.
	Name string `json:"name"`
	// Before is the amount before the rule.
	Before string `json:"before"`
	// After is the amount after it.
	After string `json:"after"`
	// Reason why the rule did what it did.
	Reason string `json:"reason"`
}

// Seed is what new pods are given at admission.
type Seed struct {
	// Revision changes with the seed's content; a pod remembers the one it was seeded with.
	Revision string `json:"revision"`
	// ValidUntil: after it new pods stay as they are.
	ValidUntil metav1.Time `json:"validUntil"`
	// RaiseOnly is raiseOnly of every container, for objects and webhooks that know no other.
	// +optional
	RaiseOnly bool `json:"raiseOnly,omitempty"`
	// Containers that are seeded; the others stay as they are.
	// +listType=map
	// +listMapKey=name
	Containers []ContainerSeed `json:"containers"`
	// LargestPod is what a created pod may request at most, and what its containers' limits are raised to at most: the allocatable
	// resources of the largest node on which the pod may run; of a DaemonSet those of the smallest, less its other
	// DaemonSet pods. Requests and limits of the template that are larger stay. Absent: not known.
	// +optional
	LargestPod Resources `json:"largestPod,omitempty,omitzero"`
}

// ContainerSeed is the seed of one container. An absent request leaves that resource alone.
type ContainerSeed struct {
	// Name of the container.
	Name string `json:"name"`
	// RaiseOnly: no size of the container is kept yet; it is raised to the seed but never lowered.
	// +optional
	RaiseOnly bool `json:"raiseOnly,omitempty"`
	// CPURequest to give.
	// +optional
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// MemoryRequest to give.
	// +optional
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// CPULimitFollows: the limit keeps the ratio to the request that the pod was created with; else it stays.
	// +optional
	CPULimitFollows bool `json:"cpuLimitFollows,omitempty"`
	// MemoryLimitFollows as CPULimitFollows does.
	// +optional
	MemoryLimitFollows bool `json:"memoryLimitFollows,omitempty"`
	// MemoryLimit is set as it is (strategy Node) rather than by ratio.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// MemoryLimitFloor is what the memory limit may not be below.
	// +optional
	MemoryLimitFloor *resource.Quantity `json:"memoryLimitFloor,omitempty"`
	// AllowMemoryDecrease lets memory go under the pod's own request.
	// +optional
	AllowMemoryDecrease bool `json:"allowMemoryDecrease,omitempty"`
	// CPUBoost gives the container more CPU to start with.
	// +optional
	CPUBoost *CPUBoost `json:"cpuBoost,omitempty"`
}

// CPUBoost multiplies the CPU that a container is born with.
type CPUBoost struct {
	// Multiplier of the CPU request, such as "2".
	Multiplier Decimal `json:"multiplier"`
	// Most is the greatest request that it makes.
	// +optional
	Most *resource.Quantity `json:"most,omitempty"`
}

// Seeded is the value of SeededAnnotation.
type Seeded struct {
	// Recommendation is the name of the AttuneRecommendation.
	Recommendation string `json:"recommendation"`
	// Revision of its seed.
	Revision string `json:"revision"`
	// Original resources of the pod as it was created.
	Original []ContainerResources `json:"original"`
	// Boosted containers were given more CPU to start with, which is taken back.
	Boosted []BoostedContainer `json:"boosted,omitempty"`
}

// BoostedContainer was given more CPU to start with.
type BoostedContainer struct {
	// Name of the container.
	Name string `json:"name"`
	// CPURequest that it was given.
	CPURequest resource.Quantity `json:"cpuRequest"`
	// BaseCPURequest and BaseCPULimit are what is left of it after the start.
	BaseCPURequest resource.Quantity  `json:"baseCPURequest"`
	BaseCPULimit   *resource.Quantity `json:"baseCPULimit,omitempty"`
}

// ContainerResources are the requests and limits of one container.
type ContainerResources struct {
	// Name of the container.
	Name      string `json:"name"`
	Resources `json:",inline"`
}

// RecommendationPhase says what the workload loop is doing.
type RecommendationPhase string

const (
	PhaseIdle      RecommendationPhase = "Idle"
	PhaseResizing  RecommendationPhase = "Resizing"
	PhaseWatching  RecommendationPhase = "Watching"
	PhaseReverting RecommendationPhase = "Reverting"
	PhaseCooldown  RecommendationPhase = "Cooldown"
	PhasePaused    RecommendationPhase = "Paused"
)

// AttuneRecommendationStatus is written by the workload loop alone.
type AttuneRecommendationStatus struct {
	// Phase says what the workload loop is doing.
	// +optional
	Phase RecommendationPhase `json:"phase,omitempty"`

	// Conditions: Resizing, Degraded, ResizeBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Records of open resizes; each is written before its resize and is all that is needed to put the
	// pod back.
	// +optional
	// +listType=map
	// +listMapKey=podUID
	// +kubebuilder:validation:MaxItems=50
	Records []ResizeRecord `json:"records,omitempty"`

	// Kept sizes: those that a watched pod survived.
	// +optional
	// +listType=map
	// +listMapKey=name
	Kept []KeptSize `json:"kept,omitempty"`

	// Originals per template hash, newest last: the sizes pods had before attune.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Originals []Originals `json:"originals,omitempty"`

	// Floors learned from harm; they decay by a fifth every 7 days.
	// +optional
	// +listType=atomic
	Floors []Floor `json:"floors,omitempty"`

	// Backoff lengthens the cooldown after reverts.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`

	// CooldownFrom is the end of the last wave's watch.
	// +optional
	CooldownFrom *metav1.Time `json:"cooldownFrom,omitempty"`

	// BadSeeds are revisions of seeds that harmed a pod; new pods are not given them again.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	BadSeeds []string `json:"badSeeds,omitempty"`

	// BirthCrashes are containers that restarted again and again after they were born below the size of their template,
	// while something else, such as the rollout itself, explains it as well. New pods of the same template generation
	// are raised to their seed but never lowered. The oldest are forgotten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	BirthCrashes []BirthCrash `json:"birthCrashes,omitempty"`

	// AdmissionWithdrawn is why new pods are created with the resources of their template for now; absent: they are not.
	// +optional
	AdmissionWithdrawn *AdmissionWithdrawn `json:"admissionWithdrawn,omitempty"`

	// History of finished resizes, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []HistoryEntry `json:"history,omitempty"`

	// Tries are what did not work and is not tried again before its time. Rows about many pods that were told the same
	// become one about the workload.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tries []Try `json:"tries,omitempty"`

	// Paused by the loop itself, such as after two supersessions.
	// +optional
	Paused *PausedState `json:"paused,omitempty"`

	// Operator is the namespace of the operator that looks after the workload. Another one that takes over is
	// a supersession, too.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Operator string `json:"operator,omitempty"`

	// Supersessions counts other writers' resizes over ours.
	// +optional
	Supersessions int32 `json:"supersessions,omitempty"`

	// LastSuperseded is when that happened last; it is counted for a week.
	// +optional
	LastSuperseded *metav1.Time `json:"lastSuperseded,omitempty"`

	// GoneSince is when the workload was first seen to be gone. Seven days later the object is deleted.
	// +optional
	GoneSince *metav1.Time `json:"goneSince,omitempty"`

	// UndoneAt is the time in the undo annotation that was carried out last.
	// +optional
	UndoneAt string `json:"undoneAt,omitempty"`

	// Pods counts what the loop sees.
	// +optional
	Pods *PodCounts `json:"pods,omitempty"`
}

// AdmissionWithdrawn says that new pods were rejected, or did not start, with the resources that admission gave them.
// Until a time they are created with the resources of their template; then one pod is tried with admission resources.
type AdmissionWithdrawn struct {
	// Since when admission gives no resources.
	Since metav1.Time `json:"since"`
	// Until is the earliest time at which the next pod is created with admission resources again. A new template
	// brings it forward.
	Until metav1.Time `json:"until"`
	// Reason is AdmissionRejected or PodsDoNotStart.
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`
	// Message is the API server's or the kubelet's answer, cut.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
	// Revision of the admission resources that failed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`
	// TemplateHash names the template of the workload at that time.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TemplateHash string `json:"templateHash,omitempty"`
	// TrialPod is the one pod that was created with admission resources after Until. Others are created without them
	// until it has started.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrialPod string `json:"trialPod,omitempty"`
	// RejectedWithout is true where pods were rejected without admission resources as well, so that these are not the
	// cause. They are given again after the next pod was created.
	// +optional
	RejectedWithout bool `json:"rejectedWithout,omitempty"`
}

// PodCounts counts a workload's live pods.
type PodCounts struct {
	// Total live pods.
	Total int32 `json:"total"`
	// AtTarget run at the target.
	AtTarget int32 `json:"atTarget"`
	// Open have an open record.
	Open int32 `json:"open"`
}

// RecordPhase says how far a record has come.
type RecordPhase string

const (
	// RecordWritten: the resize may or may not have reached the API server.
	RecordWritten RecordPhase = "Written"
	// RecordSecondWritten: the first of two patches is verified; the second may or may not have reached the API server.
	RecordSecondWritten RecordPhase = "SecondWritten"
	// RecordApplied: accepted by the API server; Generation is set.
	RecordApplied RecordPhase = "Applied"
	// RecordWatching: verified on the pod on two reads.
	RecordWatching RecordPhase = "Watching"
	// RecordReverting: harm was seen; the prior size is being put back.
	RecordReverting RecordPhase = "Reverting"
	// RecordWithdrawing: refused or past its deadline; the prior size is being put back.
	RecordWithdrawing RecordPhase = "Withdrawing"
	// RecordLeaving: the pod does not fit on its node beside the others and is to be evicted; nothing of it was changed.
	RecordLeaving RecordPhase = "Leaving"
	// RecordEvictionDenied: the API server denied the eviction of a pod that has its prior size; it is asked for again.
	RecordEvictionDenied RecordPhase = "EvictionDenied"
	// RecordEvicting: the node will not have the size, the pod has its prior one, and it is being evicted.
	RecordEvicting RecordPhase = "Evicting"
)

// ResizeRecord is what is needed to put a pod back.
type ResizeRecord struct {
	// PodUID of the pod; one that replaces it is another pod.
	PodUID types.UID `json:"podUID"`
	// PodName of the pod.
	PodName string `json:"podName"`
	// Node that the pod runs on.
	Node string `json:"node,omitempty"`
	// Phase says how far the resize has come.
	Phase RecordPhase `json:"phase"`

	// WrittenAt is when the record was written, before the resize.
	WrittenAt metav1.Time `json:"writtenAt"`
	// Begun is when the resize was decided, where its second patch made WrittenAt later.
	// +optional
	Begun *metav1.Time `json:"begun,omitempty"`
	// Deadline of the phase; a revert has none.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Generation of the pod that the resize made; 0 until it is known.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// VerifiedOnce is the first read that found the size applied; one is not enough.
	// +optional
	VerifiedOnce *metav1.Time `json:"verifiedOnce,omitempty"`
	// WatchUntil is when the watch ends.
	// +optional
	WatchUntil *metav1.Time `json:"watchUntil,omitempty"`
	// Extended: the watch was lengthened once, as nothing could be concluded at its end.
	// +optional
	Extended bool `json:"extended,omitempty"`

	// Prior sizes, of exactly the containers that move.
	// +listType=map
	// +listMapKey=name
	Prior []ContainerResources `json:"prior"`
	// Desired sizes of those containers.
	// +listType=map
	// +listMapKey=name
	Desired []ContainerResources `json:"desired"`
	// Then holds the sizes of a second patch, sent once the first is verified: memory limits that may
	// be refused go by themselves.
	// +optional
	// +listType=map
	// +listMapKey=name
	Then []ContainerResources `json:"then,omitempty"`
	// Baseline that harm is measured from.
	// +optional
	// +listType=map
	// +listMapKey=name
	Baseline []ContainerBaseline `json:"baseline,omitempty"`

	// TemplateHash of the pod.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
	// Wave that the record belongs to.
	// +optional
	Wave string `json:"wave,omitempty"`
	// Harm or refusal that ended the resize.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Attempts are the patches that were sent to put the pod back, or again for its second half; more than 10 are
	// not counted.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// ContainerBaseline is a container's state when its record was written.
type ContainerBaseline struct {
	// Name of the container.
	Name string `json:"name"`
	// ContainerID that ran then.
	ContainerID string `json:"containerID,omitempty"`
	// StartedAt is when that container started.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// RestartCount then.
	RestartCount int32 `json:"restartCount"`
	// Ready then.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// KeptSize is a size that a watched pod survived.
type KeptSize struct {
	// Name of the container.
	Name string `json:"name"`
	// Size that was kept.
	Size Resources `json:"size"`
	// Since is when its watch ended.
	Since metav1.Time `json:"since"`
	// TemplateHash of the pod that survived it.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
}

// Originals are the sizes that the pods of one template had before attune.
type Originals struct {
	// TemplateHash of the pods.
	TemplateHash string `json:"templateHash"`
	// Since is when a pod of the template was first seen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Containers and what they had.
	// +listType=map
	// +listMapKey=name
	Containers []ContainerResources `json:"containers"`
}

// Floor is the lowest amount that is known to be safe, learned from harm.
type Floor struct {
	// Container that was harmed.
	Container string `json:"container"`
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Amount to stay above.
	Amount resource.Quantity `json:"amount"`
	// Reason: oomkill, throttle, restart, notready or slo.
	Reason string `json:"reason"`
	// LearnedAt is when the harm was done.
	LearnedAt metav1.Time `json:"learnedAt"`
	// Evidence names the event that taught it, so that it is counted once.
	// +optional
	Evidence string `json:"evidence,omitempty"`
}

// BirthCrash is a container of one template generation that new pods are not lowered in.
type BirthCrash struct {
	// Name of the container.
	Name string `json:"name"`
	// TemplateHash of the generation.
	TemplateHash string `json:"templateHash"`
	// Since is when it was seen.
	Since metav1.Time `json:"since"`
}

// Backoff lengthens the cooldown after reverts: twice per consecutive one, at most 16 times.
type Backoff struct {
	// ConsecutiveReverts without a clean watch between them.
	ConsecutiveReverts int32 `json:"consecutiveReverts"`
	// Since is when the last revert was decided.
	Since metav1.Time `json:"since"`
}

// TryKind says what was tried.
type TryKind string

const (
	// TryResize: the API server or the pod's node refused a resize.
	TryResize TryKind = "Resize"
	// TryActuation: the runtime of a node did not carry out a resize that the node had allocated.
	TryActuation TryKind = "Actuation"
	// TryMemoryLimit: a memory limit could not be lowered, as the containers hold too much.
	TryMemoryLimit TryKind = "MemoryLimit"
	// TryOOMAnswer: a container was given more memory after OOM kills within the hour that began at Since, Times times.
	TryOOMAnswer TryKind = "OOMAnswer"
	// TryOOMChain: the same, without an end: Times times since, with less than a week between two of them.
	TryOOMChain TryKind = "OOMChain"
	// TryClimb: a container was raised before an OOM kill, Times times within the day that began at Since.
	TryClimb TryKind = "Climb"
	// TryCatchUp: a container was raised so that the memory limit of its pod follows.
	TryCatchUp TryKind = "CatchUp"
	// TryPutBack: a pod is being put back since Since, and that is given up at Until.
	TryPutBack TryKind = "PutBack"
	// TryGivenUp: a pod was to be put back, which was given up.
	TryGivenUp TryKind = "GivenUp"
)

// Try is something that did not work, and until when it is not tried again.
type Try struct {
	// What was tried.
	What TryKind `json:"what"`
	// Pod and PodUID that it was tried on; empty: it is about the workload.
	// +optional
	Pod string `json:"pod,omitempty"`
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Container that it was tried on; empty: it is about the pod.
	// +optional
	Container string `json:"container,omitempty"`
	// Node that it was tried on; empty: the node does not matter.
	// +optional
	Node string `json:"node,omitempty"`
	// Digest of the sizes that were asked for; empty: any.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Digest string `json:"digest,omitempty"`
	// Terms is a digest of the objects that the answer rests on, such as quotas; with others it may be another one.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Terms string `json:"terms,omitempty"`
	// Amount that was reached; of a refused resize the least memory that was asked for beyond what the pod has.
	// +optional
	Amount *resource.Quantity `json:"amount,omitempty"`
	// Before is the memory that a container had before it was raised; absent once it was given back.
	// +optional
	Before *Resources `json:"before,omitempty"`
	// Since is when it was tried last, or when it began where that is said of What.
	Since metav1.Time `json:"since"`
	// Until is when it may be tried again.
	Until metav1.Time `json:"until"`
	// Times that it was tried in a row.
	Times int32 `json:"times"`
	// Reason is a word such as QuotaExceeded.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// Message is what was answered, cut to 256 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// PausedState says why a workload is paused.
type PausedState struct {
	// Since is when it paused.
	Since metav1.Time `json:"since"`
	// Reason why it paused.
	Reason string `json:"reason"`
	// Resumed is what the workload's annotation attune.io/resumed was; another value ends the pause.
	// +optional
	Resumed string `json:"resumed,omitempty"`
}

// AttuneRecommendation is what the operator knows of one workload: where it is heading (spec, by the
// policy loop) and how its pods get there (status, by the workload loop). Users read it; only the
// operator writes it.
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
