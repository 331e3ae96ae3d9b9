package resize

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Reasons why a record was reverted or closed, besides the regressions (Harm).
const (
	// ReasonInfeasible: the node refused the size.
	ReasonInfeasible = "Infeasible"
	// ReasonDeferred: the node had no room in time.
	ReasonDeferred = "Deferred"
	// ReasonUnobserved: the kubelet did not observe the resize in time.
	ReasonUnobserved = "Unobserved"
	// ReasonTimeout: the kubelet did not carry it out in time.
	ReasonTimeout = "Timeout"
	// ReasonActuation: the kubelet reported an error.
	ReasonActuation = "ActuationError"
	// ReasonTerminal: the pod has finished or is being deleted. ReasonSuperseded: another writer changed amounts of the
	// resize. ReasonNotSent: the resize never reached the API server. ReasonUnconcluded: the observation gave no clear
	// result.
	ReasonTerminal    = "Terminal"
	ReasonSuperseded  = "Superseded"
	ReasonNotSent     = "NotSent"
	ReasonUnconcluded = "Inconclusive"
	// ReasonDrift: the runtime reports other amounts than the pod's spec, so the resize cannot be verified.
	ReasonDrift = "Drift"
	// ReasonReplaced: the pod no longer exists, or another pod has its name. ReasonNothingBack: no amount remains that
	// may be restored.
	ReasonReplaced     = "Replaced"
	ReasonNothingBack  = "NothingToPutBack"
	ReasonPodFinished  = "PodFinished"
	ReasonPodDeleted   = "PodTerminating"
	ReasonNotScheduled = "NotScheduled"
	ReasonNotStarted   = "NotStarted"
	ReasonNotReady     = "NotReady"
	// ReasonDoesNotFit: the pods of its node do not fit together, and this pod was chosen for eviction (strategy Node).
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
	// ReasonNotKnown: attune could not read a fact that new decisions depend on.
	ReasonNotKnown = "NotKnown"
	// ReasonUnsettled: other workloads kept using the room that the plan needed.
	ReasonUnsettled = "Unsettled"
)

// Reasons why a pod is not evicted, besides the reasons of gates.
const (
	ReasonEvictionDenied    = "EvictionDenied"
	ReasonEvictionOff       = "EvictionNotAllowed"
	ReasonNoController      = "NoController"
	ReasonDaemonPod         = "DaemonSetPod"
	ReasonBatchPod          = "BatchPod"
	ReasonDoNotDisrupt      = "DoNotDisrupt"
	ReasonSuccessorNotSized = "SuccessorNotSized"
	ReasonLastSuccessor     = "LastSuccessorNotSized"
	ReasonNoOtherNode       = "NoOtherNode"
	ReasonLastReplica       = "LastReplica"
	ReasonNotWanted         = "NotWanted"
)

// Reasons of actions, or of missing actions, for a container that climbs towards its memory limit (package climb).
const (
	// ReasonClimb: attune raised it before the kernel would have killed it. ReasonSpike: attune restores its old size,
	// as the growth was a spike.
	ReasonClimb = "MemoryClimb"
	ReasonSpike = "MemorySpike"
	// ReasonLeak: it had the maximum number of raises within a day. ReasonClimbRestarts: a raise would restart it.
	// ReasonClimbBound: its maxAllowed leaves no room. ReasonClimbLimits: the policy does not change limits.
	ReasonLeak          = "MemoryLeak"
	ReasonClimbRestarts = "RaiseRestarts"
	ReasonClimbBound    = "MaxAllowed"
	ReasonClimbLimits   = "LimitsLeftAlone"
	// ReasonFollowsLimit: usage that may follow its limit would need more than recommender.MemoryCeiling.
	ReasonFollowsLimit = "FollowsItsLimit"
)

// ReasonBoost is the reason of plans and records that remove a startup boost.
const ReasonBoost = "StartupBoost"

// Lifter is a kind of object outside of a workload whose change may lift a refusal.
type Lifter string

// The objects that lift refusals: the pod's node with its pods, and objects of the pod's namespace.
const (
	LifterNode    Lifter = "node"
	LifterQuotas  Lifter = "quotas"
	LifterLimits  Lifter = "limits"
	LifterBudgets Lifter = "budgets"
)

// LiftedBy returns the objects that may lift a refusal for a reason. nil: only time, or the workload itself, whose
// events trigger a reconcile anyway. A refusal with an unlisted reason is checked again only after a delay.
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

// Harm is a kind of regression after a resize. The words also appear in floors, metrics and history rows.
type Harm string

const (
	// HarmOOM: a process of the container was OOM-killed.
	HarmOOM Harm = "oomkill"
	// HarmRestart: the container restarted repeatedly.
	HarmRestart Harm = "restart"
	// HarmThrottle: the container was throttled at its CPU limit, or lacked CPU beyond its request.
	HarmThrottle Harm = "throttle"
	// HarmNotReady: the pod was ready before and is not ready at the end of the observation period.
	HarmNotReady Harm = "notready"
	// HarmSLO: an SLO guardrail of the policy is violated.
	HarmSLO Harm = "slo"
)

// Verdict is the known regression after a resize. The zero value: no regression is known. Package harm creates it.
type Verdict struct {
	// Harm is the kind of regression; empty if none is known.
	Harm Harm
	// Container is the affected container; empty if the regression concerns the pod.
	Container string
	// Inconclusive is true if another cause than the resize also explains the symptoms.
	Inconclusive bool
	// OtherKill is true if a container was OOM killed whose memory the resize did not change.
	OtherKill bool
	// Message is one sentence with the figures.
	Message string
	// Evidence identifies the event, so that it is counted once.
	Evidence string
	// At is when it happened; zero if not known.
	At time.Time
	// Ceiling is the memory limit at which the container was killed, in bytes, or its request if no limit is set.
	Ceiling recommender.Amount
	// NotJudged lists the signals that could not be judged for lack of measurements.
	NotJudged []string
}
