package resize

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

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

// Reasons of what is done, or not done, about a container that climbs towards its memory limit (package climb).
const (
	// ReasonClimb: it was raised before the kernel would have killed it. ReasonSpike: it is given its old size back, as
	// the growth was a spike.
	ReasonClimb = "MemoryClimb"
	ReasonSpike = "MemorySpike"
	// ReasonLeak: it was raised as often as a container is within a day. ReasonClimbRestarts: a raise would restart it.
	// ReasonClimbBound: its maxAllowed leaves no room. ReasonClimbLimits: the policy leaves limits alone.
	ReasonLeak          = "MemoryLeak"
	ReasonClimbRestarts = "RaiseRestarts"
	ReasonClimbBound    = "MaxAllowed"
	ReasonClimbLimits   = "LimitsLeftAlone"
	// ReasonFollowsLimit: usage that may follow its limit asks for more than recommender.MemoryCeiling.
	ReasonFollowsLimit = "FollowsItsLimit"
)

// ReasonBoost is the reason of plans and records that take a startup boost back.
const ReasonBoost = "StartupBoost"

// Lifter is a kind of object outside of a workload whose change may lift a refusal.
type Lifter string

// The objects that lift refusals: the pod's node with its pods, and those of the pod's namespace.
const (
	LifterNode    Lifter = "node"
	LifterQuotas  Lifter = "quotas"
	LifterLimits  Lifter = "limits"
	LifterBudgets Lifter = "budgets"
)

// LiftedBy returns what may lift a refusal for a reason; nil: only time, or the workload itself, whose events wake its
// loop anyway. A reason that is missing here is looked at again by time alone.
func LiftedBy(reason string) []Lifter {
	switch reason {
	case ReasonNoRoom, ReasonNodeBlocked, ReasonNodePressure, ReasonNodeNotReady, ReasonNodeCapacity, ReasonNodeWithoutResize,
		ReasonStaticCPU, ReasonStaticMemory, ReasonStaticPolicy, ReasonSwap, ReasonPodLevelResources, ReasonMemoryLimitDecrease,
		ReasonResizeNotSupported:
		return []Lifter{LifterNode}
	case ReasonQuota:
		return []Lifter{LifterQuotas}
	case ReasonDisruptionBudget:
		return []Lifter{LifterBudgets}
	case ReasonLimitRange, ReasonQOSClass:
		return []Lifter{LifterLimits}
	case ReasonRefused:
		return []Lifter{LifterQuotas, LifterLimits}
	}
	return nil
}

// Harm is a kind of harm that a resize did to a pod. The words also appear in floors, metrics and history rows.
type Harm string

const (
	// HarmOOM: a process of the container was OOM-killed.
	HarmOOM Harm = "oomkill"
	// HarmRestart: the container restarted repeatedly.
	HarmRestart Harm = "restart"
	// HarmThrottle: the container was throttled at its CPU limit, or lacked CPU beyond its request.
	HarmThrottle Harm = "throttle"
	// HarmNotReady: the pod was ready before and is not at the end of the watch.
	HarmNotReady Harm = "notready"
	// HarmSLO: an SLO guardrail of the policy is broken.
	HarmSLO Harm = "slo"
)

// Verdict is what is known about the harm that a resize did. The zero value: no harm is known. Package harm makes
// it.
type Verdict struct {
	// Harm is the kind; empty where none is known.
	Harm Harm
	// Container that was harmed; empty where the harm concerns the pod.
	Container string
	// Inconclusive is true where something other than the resize explains what is seen as well.
	Inconclusive bool
	// OtherKill is true where a container was OOM-killed whose memory the resize left alone.
	OtherKill bool
	// Message is one sentence with the figures.
	Message string
	// Evidence identifies the event, so that it is counted once.
	Evidence string
	// At is when it happened; zero where that is not known.
	At time.Time
	// Ceiling is the memory limit at which the container was killed, in bytes, or its request where it has no
	// limit.
	Ceiling recommender.Amount
	// NotJudged names what could not be judged for lack of measurements.
	NotJudged []string
}
