package v1alpha1

// Labels, annotations and finalizers that users and other programs rely on.
const (
	// InjectLabel on a namespace, with the value InjectEnabled, has its new pods sized at admission.
	InjectLabel   = "attune.io/inject"
	InjectEnabled = "enabled"

	// SkipAnnotation ("true") on a workload, its pod template or a pod: never touched, by either phase.
	SkipAnnotation = "attune.io/skip"

	// UsageSourceAnnotation, or label, of a Secret: the host of the one usage source that policies of the Secret's namespace
	// may have it sent to, such as prometheus.monitoring:9090. Without it no policy may.
	UsageSourceAnnotation = "attune.io/usage-source"

	// SeededAnnotation on a pod holds a Seeded as JSON. It is a hint: a namespaced user can write it,
	// so it must match the objects it speaks of before anything relies on it.
	SeededAnnotation = "attune.io/seeded"

	// PausedAnnotation ("true") and UndoAnnotation (RFC3339) on a workload are written by
	// kubectl attune pause|undo with the user's own rights; the operator acts on them.
	PausedAnnotation = "attune.io/paused"
	UndoAnnotation   = "attune.io/undo"

	// ResumedAnnotation (RFC3339) on a workload is written by kubectl attune resume where the operator
	// itself has paused the workload: another value than it had then ends that pause.
	ResumedAnnotation = "attune.io/resumed"

	// PublishedAnnotation of a VerticalPodAutoscaler of the operator's own is a digest of what it was written with.
	PublishedAnnotation = "attune.io/published"

	// CleanupFinalizer keeps a policy while a pod is resized or watched by its settings.
	CleanupFinalizer = "attune.io/cleanup"

	// RecordsFinalizer keeps an AttuneRecommendation while a record is open:
	// the record is what a pod is put back with.
	RecordsFinalizer = "attune.io/records"

	// WorkloadKindLabel and WorkloadNameLabel on an AttuneRecommendation name its workload.
	// A name longer than a label's 63 characters is cut there; spec.workload has it whole.
	WorkloadKindLabel = "attune.io/workload-kind"
	WorkloadNameLabel = "attune.io/workload-name"

	// DefaultsName is the one object name that is read of AttuneDefaults and AttuneNamespaceDefaults.
	DefaultsName = "default"
)

// Condition types of AttunePolicy and AttuneRecommendation. Ready is derived from the rest.
const (
	ConditionReady         = "Ready"
	ConditionResizing      = "Resizing"
	ConditionDegraded      = "Degraded"
	ConditionResizeBlocked = "ResizeBlocked"
)

// Reasons of conditions.
const (
	ReasonMonitoring       = "Monitoring"
	ReasonInsufficientData = "InsufficientData"
	ReasonStaleData        = "StaleData"
	// ReasonUsageImplausible: most usage samples of the last day cannot be true.
	ReasonUsageImplausible        = "UsageImplausible"
	ReasonNoWorkloadsFound        = "NoWorkloadsFound"
	ReasonPrometheusUnavailable   = "PrometheusUnavailable"
	ReasonInvalidConfig           = "InvalidConfig"
	ReasonWorkloadDiscoveryFailed = "WorkloadDiscoveryFailed"
	ReasonRecommendationRefused   = "RecommendationRefused"
	ReasonPaused                  = "Paused"
	ReasonConflict                = "Conflict"
	// ReasonTooManyPolicies: the namespace has more policies than are used, and this is one of the newest.
	ReasonTooManyPolicies = "TooManyPolicies"
	// ReasonTooManyContainers: a workload has more containers than are sized, and none of them is. It is also why its
	// recommendation has no seed.
	ReasonTooManyContainers = "TooManyContainers"
	// ReasonTooManyWorkloads: policies of the namespace select more workloads than are sized, and some of this policy's are
	// among the youngest. It is also why their recommendations have no seed.
	ReasonTooManyWorkloads = "TooManyWorkloads"

	ReasonInProgress     = "InProgress"
	ReasonIdle           = "Idle"
	ReasonCooldownActive = "CooldownActive"

	ReasonHighRevertRate = "HighRevertRate"
	ReasonHealthy        = "Healthy"

	// ReasonBelowOriginal of Degraded: a pod that has less than its original resources because of attune was OOM-killed or
	// crashes in a loop, and does not have them back yet. It is also the reason of the resize that restores them.
	ReasonBelowOriginal = "BelowOriginal"
	// ReasonRevertPending of Degraded: a pod is to have its old size back, and does not get it.
	ReasonRevertPending = "RevertPending"

	// ReasonAdmissionRejected of Degraded: the API server rejected pods with the resources that admission gave them.
	// Pods are created without these for now. It is also why the recommendation has no seed, and the reason of the
	// event.
	ReasonAdmissionRejected = "AdmissionRejected"
	// ReasonPodsDoNotStart of Degraded: pods did not start with the resources that admission gave them.
	ReasonPodsDoNotStart = "PodsDoNotStart"

	// ReasonNotBlocked is the reason of ResizeBlocked=False; a refusal's own reason is that of True.
	ReasonNotBlocked = "NotBlocked"
)

// OverloadedTaint is the key of the taint of nodes whose CPU is overloaded; its value is "true", its effect NoSchedule.
const OverloadedTaint = "attune.io/overloaded"

// Reasons of events.
const (
	// EventNodeTainted and EventNodeTaintRemoved tell of OverloadedTaint.
	EventNodeTainted      = "NodeTainted"
	EventNodeTaintRemoved = "NodeTaintRemoved"

	// EventInvalidConfig, on a policy: its settings do not hold together, and nothing is applied.
	EventInvalidConfig = ReasonInvalidConfig

	EventResized       = "Resized"
	EventResizeFailed  = "ResizeFailed"
	EventResizeSkipped = "ResizeSkipped"
	EventReverted      = "Reverted"
	EventSeedMarkedBad = "SeedMarkedBad"
	EventUndone        = "Undone"
	// EventLoweringWithheld: new pods of a template generation are no longer lowered at admission.
	EventLoweringWithheld = "LoweringWithheld"
	EventRevertPending    = "RevertPending"
	// EventAdmissionResumed: new pods are given their resources at admission again.
	EventAdmissionResumed = "AdmissionResumed"

	// EventEvicting: a pod does not fit on its node beside the others, and is asked to go (strategy Node).
	EventEvicting       = "Evicting"
	EventEvicted        = "Evicted"
	EventEvictionDenied = "EvictionDenied"
)
