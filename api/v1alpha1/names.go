package v1alpha1

// Labels, annotations and finalizers that users and other programs depend on.
const (
	// InjectLabel on a namespace, with the value InjectEnabled, makes the webhook size the new pods of the namespace. With
	// the chart's webhook.namespaces: AllButDisabled, the webhook does so in all namespaces without the value InjectDisabled.
	InjectLabel    = "attune.io/inject"
	InjectEnabled  = "enabled"
	InjectDisabled = "disabled"

	// SkipAnnotation ("true") on a workload, its pod template or a pod: neither the webhook nor the controller
	// changes its pods.
	SkipAnnotation = "attune.io/skip"

	// IdentityLabel on a pod template: workloads of one namespace with the same value, kind, policy and container names
	// share their usage history and targets, such as one Job per run or one Deployment per release.
	IdentityLabel = "attune.io/identity"

	// UsageSourceAnnotation on a Secret, as an annotation or a label, names the host to which policies of the
	// Secret's namespace may send it, such as prometheus.monitoring:9090. The connection must be encrypted and verified,
	// unless the name begins with http://. Without it, no policy may use the Secret.
	UsageSourceAnnotation = "attune.io/usage-source"

	// SeededAnnotation on a pod holds a Seeded as JSON. It is only a hint: namespaced users can write it, so callers
	// must check it against the objects that it refers to.
	SeededAnnotation = "attune.io/seeded"

	// PausedAnnotation ("true") and UndoAnnotation (RFC3339) on a workload are written by kubectl attune pause|undo
	// with the user's own permissions; the controller acts on them.
	PausedAnnotation = "attune.io/paused"
	UndoAnnotation   = "attune.io/undo"

	// PromoteAnnotation (RFC3339) on a workload is written by kubectl attune promote. With canary.autoPromote off, it
	// promotes the sizes that were verified at that time or before.
	PromoteAnnotation = "attune.io/promote"

	// ResumedAnnotation (RFC3339) on a workload is written by kubectl attune resume if attune itself paused the
	// workload. A value other than at the time of the pause ends the pause.
	ResumedAnnotation = "attune.io/resumed"

	// ProbeAnnotation (ProbeAsked) on a pod that kubectl attune doctor creates as a dry run: the webhook sets it to
	// ProbeAnswered. Without a dry run it has no effect.
	ProbeAnnotation = "attune.io/probe"
	ProbeAsked      = "asked"
	ProbeAnswered   = "answered"

	// FailurePolicyAnnotation on attune's webhook configurations is the chart's webhook.failurePolicy, if it is not Ignore.
	FailurePolicyAnnotation = "attune.io/failure-policy"

	// PublishedAnnotation on a VerticalPodAutoscaler that attune wrote is a digest of its content.
	PublishedAnnotation = "attune.io/published"

	// CleanupFinalizer keeps a policy while a resize that uses its settings is in flight or under observation.
	CleanupFinalizer = "attune.io/cleanup"

	// RecordsFinalizer keeps an AttuneRecommendation while it has records of in-flight resizes: a revert needs them.
	RecordsFinalizer = "attune.io/records"

	// WorkloadKindLabel and WorkloadNameLabel on an AttuneRecommendation name its workload. A name longer than 63
	// characters, the limit of a label, is cut; spec.workload has the full name.
	WorkloadKindLabel = "attune.io/workload-kind"
	WorkloadNameLabel = "attune.io/workload-name"

	// DefaultsName is the only object name that attune reads of AttuneDefaults and AttuneNamespaceDefaults.
	DefaultsName = "default"
)

// Condition types of AttunePolicy and AttuneRecommendation. Ready is derived from the others.
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
	// ReasonUsageImplausible: most usage samples of the last day are implausible.
	ReasonUsageImplausible        = "UsageImplausible"
	ReasonNoWorkloadsFound        = "NoWorkloadsFound"
	ReasonPrometheusUnavailable   = "PrometheusUnavailable"
	ReasonInvalidConfig           = "InvalidConfig"
	ReasonWorkloadDiscoveryFailed = "WorkloadDiscoveryFailed"
	ReasonRecommendationRefused   = "RecommendationRefused"
	ReasonPaused                  = "Paused"
	ReasonConflict                = "Conflict"
	// ReasonTooManyPolicies: the namespace has more policies than attune uses, and this is one of the newest.
	ReasonTooManyPolicies = "TooManyPolicies"
	// ReasonTooManyContainers: a workload has more containers than attune sizes, so it sizes none of them. The
	// recommendation then has no seed either, for the same reason.
	ReasonTooManyContainers = "TooManyContainers"
	// ReasonTooManyWorkloads: the policies of the namespace select more workloads than attune sizes, and some of this
	// policy's are among the youngest. Their recommendations then have no seed either, for the same reason.
	ReasonTooManyWorkloads = "TooManyWorkloads"

	// ReasonIdentityConflict: different policies size Jobs with the same identity (IdentityLabel), so none of these is
	// sized. Their recommendation then has no seed either, for the same reason.
	ReasonIdentityConflict = "IdentityConflict"

	ReasonInProgress     = "InProgress"
	ReasonObservation    = "Observation"
	ReasonIdle           = "Idle"
	ReasonCooldownActive = "CooldownActive"

	ReasonHighRevertRate = "HighRevertRate"
	ReasonHealthy        = "Healthy"

	// ReasonBelowOriginal of Degraded: a pod that attune lowered below its original resources was OOM-killed or is in
	// a crash loop, and its original resources are not restored yet. It is also the reason of the resize that
	// restores them.
	ReasonBelowOriginal = "BelowOriginal"
	// ReasonRevertPending of Degraded: attune could not restore the previous resources of a pod yet.
	ReasonRevertPending = "RevertPending"

	// ReasonAdmissionRejected of Degraded: the API server rejected pods with admission resources. New pods keep the
	// resources of their template for now. The missing seed and the event have the same reason.
	ReasonAdmissionRejected = "AdmissionRejected"
	// ReasonPodsDoNotStart of Degraded: pods with admission resources did not start.
	ReasonPodsDoNotStart = "PodsDoNotStart"

	// ReasonAdmissionDisabled is why a recommendation has no seed: the setting admission is Disabled.
	ReasonAdmissionDisabled = "AdmissionDisabled"

	// ReasonNotBlocked is the reason of ResizeBlocked=False. ResizeBlocked=True has the reason of the block.
	ReasonNotBlocked = "NotBlocked"
)

// OverloadedTaint is the key of the taint on nodes whose CPU is overloaded. Its value is "true", its effect
// NoSchedule.
const OverloadedTaint = "attune.io/overloaded"

// Reasons of events.
const (
	// EventNodeTainted and EventNodeTaintRemoved report OverloadedTaint.
	EventNodeTainted      = "NodeTainted"
	EventNodeTaintRemoved = "NodeTaintRemoved"

	// EventInvalidConfig, on a policy: its settings contradict each other, so attune does not apply them.
	EventInvalidConfig = ReasonInvalidConfig

	EventResized      = "Resized"
	EventResizeFailed = "ResizeFailed"
	// EventTargetChanged and EventTargetNotChanged are about the target of an HPA (cpu.hpa: Retarget).
	EventTargetChanged    = "TargetChanged"
	EventTargetNotChanged = "TargetNotChanged"
	EventResizeSkipped    = "ResizeSkipped"
	EventReverted         = "Reverted"
	// EventNodeOOM: the pod's node ran out of memory, and the kernel killed a container far below its limit.
	EventNodeOOM       = "NodeOOM"
	EventSeedMarkedBad = "SeedMarkedBad"
	EventUndone        = "Undone"
	// EventLoweringBlocked: the webhook no longer lowers new pods of a template generation.
	EventLoweringBlocked = "LoweringBlocked"
	EventRevertPending   = "RevertPending"
	// EventAdmissionResumed: the webhook sets the resources of new pods again.
	EventAdmissionResumed = "AdmissionResumed"

	// EventEvicting: a pod does not fit on its node together with the other pods, and attune evicts it (strategy
	// Node).
	EventEvicting       = "Evicting"
	EventEvicted        = "Evicted"
	EventEvictionDenied = "EvictionDenied"
)
