package resize

import "attune.io/attune/api/v1alpha1"

// Reasons why a record was put back or closed, beside the harms.
const (
	// ReasonInfeasible: the node will not have the size.
	ReasonInfeasible = "Infeasible"
	// ReasonDeferred: the node found no room in time.
	ReasonDeferred = "Deferred"
	// ReasonUnobserved: the kubelet did not see the resize in time.
	ReasonUnobserved = "Unobserved"
	// ReasonTimeout: it did not carry it out in time.
	ReasonTimeout = "Timeout"
	// ReasonActuation: it reported an error.
	ReasonActuation = "ActuationError"
	// ReasonTerminal: the pod has ended or is being deleted. ReasonSuperseded: another writer changed amounts of
	// the resize. ReasonNotSent: the resize never reached the API server. ReasonUnconcluded: the watch gave no
	// clear result.
	ReasonTerminal    = "Terminal"
	ReasonSuperseded  = "Superseded"
	ReasonNotSent     = "NotSent"
	ReasonUnconcluded = "Inconclusive"
	// ReasonDrift: the runtime reports other amounts than the pod asks for, so nothing proves those good.
	ReasonDrift = "Drift"
	// ReasonReplaced: the pod is gone, or another one has its name. ReasonNothingBack: no amount is left that may
	// be put back.
	ReasonReplaced     = "Replaced"
	ReasonNothingBack  = "NothingToPutBack"
	ReasonPodFinished  = "PodFinished"
	ReasonPodDeleted   = "PodTerminating"
	ReasonNotScheduled = "NotScheduled"
	ReasonNotStarted   = "NotStarted"
	ReasonNotReady     = "NotReady"
	// ReasonDoesNotFit: the pods of its node do not fit together, and this one is to go (strategy Node).
	ReasonDoesNotFit = "DoesNotFit"
)

// Reasons of refusals by the platform.
const (
	ReasonNoChange            = "NoChange"
	ReasonBestEffort          = "BestEffort"
	ReasonCriticalPriority    = "CriticalPriority"
	ReasonMemoryInUse         = "MemoryInUse"
	ReasonMemoryLimitDecrease = "MemoryLimitDecrease"
	ReasonMemoryUnknown       = "MemoryUsageUnknown"
	ReasonMemoryVolume        = "MemoryVolume"
	ReasonNodeCapacity        = "NodeCapacity"
	ReasonNodeNotReady        = "NodeNotReady"
	ReasonNodeWithoutResize   = "NodeWithoutResize"
	ReasonPodLevelResources   = "PodLevelResources"
	ReasonQOSClass            = "QOSClass"
	ReasonResizeNotSupported  = "ResizeNotSupported"
	ReasonResizeUnderway      = "ResizeUnderway"
	ReasonResourceClaims      = "ResourceClaims"
	ReasonRestartedLately     = "RestartedLately"
	ReasonNotRunning          = "ContainerNotRunning"
	ReasonStartedJustNow      = "StartedJustNow"
	ReasonStaticCPU           = "StaticCPUManager"
	ReasonStaticMemory        = "StaticMemoryManager"
	ReasonStaticPod           = "StaticPod"
	ReasonStaticPolicy        = "StaticPolicy"
	ReasonSwap                = "Swap"
	ReasonWindows             = "Windows"
)

// Reasons of closed gates.
const (
	ReasonPaused               = v1alpha1.ReasonPaused
	ReasonWorkloadPaused       = "WorkloadPaused"
	ReasonMode                 = "Mode"
	ReasonSkipped              = "Skipped"
	ReasonTooLarge             = "TooLarge"
	ReasonExcluded             = "Excluded"
	ReasonHPA                  = "HPA"
	ReasonVPA                  = "VPA"
	ReasonOutsideSchedule      = "OutsideSchedule"
	ReasonStaleData            = v1alpha1.ReasonStaleData
	ReasonInsufficientData     = v1alpha1.ReasonInsufficientData
	ReasonRolloutInProgress    = "RolloutInProgress"
	ReasonCooldown             = v1alpha1.ReasonCooldownActive
	ReasonRecordsFull          = "RecordsFull"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonReverting            = "Reverting"
	ReasonTooManyOOMs          = "TooManyOOMs"
	ReasonPodLimitBehind       = "PodLimitBehind"
	ReasonNodePressure         = "NodePressure"
	ReasonNodeBlocked          = "NodeBlocked"
	ReasonNoRoom               = "NoRoom"
	ReasonSingleReplica        = "SingleReplica"
	ReasonReplicasNotReady     = "ReplicasNotReady"
	ReasonDisruptionBudget     = "DisruptionBudget"
	ReasonLimitRange           = "LimitRange"
	ReasonRefused              = "RefusedByAPIServer"
	ReasonNoRights             = "NoRights"
	ReasonQuota                = "Quota"
	// ReasonNotKnown: something that a decision about anything new rests on could not be read.
	ReasonNotKnown = "NotKnown"
	// ReasonUnsettled: other workloads kept taking the room that was counted on.
	ReasonUnsettled = "Unsettled"
)

// Reasons why a pod is not evicted, beside those of gates.
const (
	ReasonEvictionDenied    = "EvictionDenied"
	ReasonEvictionOff       = "EvictionNotAllowed"
	ReasonNoController      = "NoController"
	ReasonDaemonPod         = "DaemonSetPod"
	ReasonBatchPod          = "BatchPod"
	ReasonDoNotDisrupt      = "DoNotDisrupt"
	ReasonSuccessorNotSized = "SuccessorNotSized"
	ReasonNoOtherNode       = "NoOtherNode"
	ReasonLastReplica       = "LastReplica"
	ReasonNotWanted         = "NotWanted"
)

// ReasonBoost is the reason of plans and records that take a startup boost back.
const ReasonBoost = "StartupBoost"
