package resize

import (
	"fmt"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Reasons why a record was reverted or closed, besides the regressions (Harm). The comment on a reason is its text in
// docs/reasons.md.
const (
	ReasonInfeasible    = "Infeasible"       // The node refused the size.
	ReasonDeferred      = "Deferred"         // The node had no room in time.
	ReasonHPASync       = "HPASyncPeriod"    // The node did not carry out a raise within the sync period of HPAs, and an HPA scales on the request.
	ReasonRequestsWait  = "RequestsWait"     // The previous requests wait for room on the node, because an HPA scales on them.
	ReasonUnobserved    = "Unobserved"       // The kubelet did not observe the resize in time.
	ReasonTimeout       = "Timeout"          // The kubelet did not carry out the resize in time.
	ReasonActuation     = "ActuationError"   // The kubelet reported an error when it carried out the resize.
	ReasonTerminal      = "Terminal"         // The pod has finished or is being deleted.
	ReasonSuperseded    = "Superseded"       // Another writer changed amounts of the resize.
	ReasonNotSent       = "NotSent"          // The resize never reached the API server.
	ReasonUnconcluded   = "Inconclusive"     // The observation gave no clear result.
	ReasonDrift         = "Drift"            // The runtime reports other amounts than the pod's spec, so attune cannot verify the resize.
	ReasonReplaced      = "Replaced"         // The pod no longer exists, or another pod has its name.
	ReasonNothingBack   = "NothingToPutBack" // No amount remains that attune may restore.
	ReasonPodFinished   = "PodFinished"      // The pod has finished.
	ReasonPodDeleted    = "PodTerminating"   // The pod is being deleted.
	ReasonNotScheduled  = "NotScheduled"     // The pod has no node yet, or fits on no node.
	ReasonNotStarted    = "NotStarted"       // The containers of the pod have not started yet.
	ReasonNotReady      = "NotReady"         // The pod is not ready, so attune does not lower its resources.
	ReasonDoesNotFit    = "DoesNotFit"       // The pods of the node do not fit together, and attune chose this one for eviction (strategy Node).
	ReasonFailedStart   = "FailedStart"      // The pod has crashed since it was created with less than its template's resources.
	ReasonUnschedulable = "Unschedulable"    // The pod fits on no node with its admission resources.
)

// Reasons of refusals by the platform.
const (
	ReasonNoChange            = "NoChange"                 // The pod already has the wanted resources.
	ReasonBestEffort          = "BestEffort"               // Kubernetes cannot resize a pod without requests and limits.
	ReasonChildKilled         = "ChildOOMKilled"           // A child process of the container was OOM-killed in the last 24 hours, so attune does not lower its memory.
	ReasonCriticalPriority    = "CriticalPriority"         // The kubelet may evict other pods so that a pod of this priority can grow.
	ReasonMemoryInUse         = "MemoryInUse"              // The container uses too much memory for a lower limit.
	ReasonMemoryLimitDecrease = "MemoryLimitDecrease"      // This version of Kubernetes cannot lower a memory limit without a restart.
	ReasonMemoryUnknown       = "MemoryUsageUnknown"       // attune does not know the memory usage yet, so it lowers no memory limit.
	ReasonMemoryVolume        = "MemoryVolume"             // A memory-backed volume may fill up to the memory limit.
	ReasonNodeCapacity        = "NodeCapacity"             // The pod would request more than its node has in total.
	ReasonNodeNotReady        = "NodeNotReady"             // The node is not ready or not known.
	ReasonNodeWithoutResize   = "NodeWithoutResize"        // The node does not report the resources of running containers.
	ReasonPodLevelResources   = "PodLevelResources"        // Resources of the pod itself (pod-level resources) do not allow the resize.
	ReasonQOSClass            = "QOSClass"                 // The QoS class of the pod would change.
	ReasonResizeNotSupported  = "ResizeNotSupported"       // The API server or the kubelet does not support the resize of running pods.
	ReasonResizeUnderway      = "ResizeUnderway"           // Another resize of the pod is in progress.
	ReasonResourceClaims      = "ResourceClaims"           // Kubernetes before 1.37 does not resize pods with resource claims.
	ReasonRestartedLately     = "RestartedLately"          // The container restarted in the last 10 minutes, so attune does not lower its resources.
	ReasonNotRunning          = "ContainerNotRunning"      // The container does not run, and a higher CPU limit could keep it from starting.
	ReasonStartedJustNow      = "StartedJustNow"           // The container started in the last 30 seconds, and its memory usage is not known yet.
	ReasonStaticCPU           = "StaticCPUManager"         // The node assigns CPUs statically.
	ReasonStaticMemory        = "StaticMemoryManager"      // The node assigns memory statically.
	ReasonStaticPod           = "StaticPod"                // The manifest on the node determines the resources of a static pod.
	ReasonStaticPolicy        = "StaticPolicy"             // The node assigns CPUs or memory statically, and its kubelet resizes no Guaranteed pod.
	ReasonSwap                = "Swap"                     // The node uses swap, and its kubelet cannot change a memory request in place.
	ReasonWindows             = "Windows"                  // Kubernetes resizes pods on Linux nodes only.
	ReasonFixedLimit          = "FixedLimit"               // The limit of the resource is 0, so Kubernetes accepts no request above 0.
	ReasonMemoryLimitKnown    = "MemoryLimitInEnvironment" // The environment or arguments of the container let its process use more memory than a lower limit.
	ReasonQueue               = "Queued"                   // A queue or scheduler reserved room for the requests of the pod template.
)

// Reasons of closed gates.
const (
	ReasonPaused               = v1alpha1.ReasonPaused           // The settings of the policy, the namespace or the cluster pause resizes.
	ReasonWorkloadPaused       = "WorkloadPaused"                // A user or attune has paused the workload.
	ReasonMode                 = "Mode"                          // The mode of the policy does not resize running pods.
	ReasonSkipped              = "Skipped"                       // The workload, its pod template or the pod has the annotation attune.io/skip.
	ReasonTooLarge             = "TooLarge"                      // The workload or the pod is larger than attune can keep in its caches.
	ReasonExcluded             = "Excluded"                      // The policy excludes the container.
	ReasonNotControlled        = "NotControlled"                 // The policy does not size the resource of the container (controlledResources).
	ReasonNewPodsNotSized      = "NewPodsNotSized"               // Karpenter replaces pods of the node, and new pods of the namespace have the size of their template.
	ReasonHPA                  = "HPA"                           // A HorizontalPodAutoscaler scales on the utilization of the resource.
	ReasonVPA                  = "VPA"                           // A VerticalPodAutoscaler sizes the workload.
	ReasonOutsideSchedule      = "OutsideSchedule"               // The schedule of the policy allows no resizes now.
	ReasonStaleData            = v1alpha1.ReasonStaleData        // The newest usage data is too old.
	ReasonInsufficientData     = v1alpha1.ReasonInsufficientData // There is not enough usage data yet.
	ReasonRolloutInProgress    = "RolloutInProgress"             // A rollout of the workload is in progress, or it makes no progress and the pod runs an older template.
	ReasonCooldown             = v1alpha1.ReasonCooldownActive   // The cooldown of the workload has not ended.
	ReasonRecordsFull          = "RecordsFull"                   // The workload has the maximum number of resizes in progress.
	ReasonNamespaceTerminating = "NamespaceTerminating"          // The namespace is being deleted.
	ReasonReverting            = "Reverting"                     // A pod of the workload is being restored after a regression.
	ReasonTooManyOOMs          = "TooManyOOMs"                   // The container got more memory 4 times within an hour, and was OOM-killed each time.
	ReasonPodLimitBehind       = "PodLimitBehind"                // The kubelet raised the memory limits of the containers, but not the limit of their pod.
	ReasonNodePressure         = "NodePressure"                  // The node reports pressure, such as DiskPressure, and defers resizes.
	ReasonNodeBlocked          = "NodeBlocked"                   // The node recently deferred, refused or failed a resize, or another pod waits for its room.
	ReasonNoRoom               = "NoRoom"                        // The node has no room for the growth.
	ReasonSingleReplica        = "SingleReplica"                 // The resize restarts a container of the only replica.
	ReasonReplicasNotReady     = "ReplicasNotReady"              // Replicas of the workload are not ready, or attune may evict another of its pods first.
	ReasonDisruptionBudget     = "DisruptionBudget"              // The resize restarts a container, and a PodDisruptionBudget allows no disruption.
	ReasonLimitRange           = "LimitRange"                    // A LimitRange of the namespace does not allow the resize.
	ReasonRefused              = "RefusedByAPIServer"            // The API server refused the last resize.
	ReasonNoRights             = "NoRights"                      // attune has no permission to resize the pod.
	ReasonQuota                = "Quota"                         // A ResourceQuota of the namespace does not allow the growth.
	ReasonNotKnown             = "NotKnown"                      // attune could not read a fact that new resizes depend on.
	ReasonAwaitsPromotion      = "AwaitsPromotion"               // The first wave runs with the new size, and canary.autoPromote is off. kubectl attune promote continues.
	ReasonUnsettled            = "Unsettled"                     // Other workloads kept using the room that the resize needed.
	ReasonUndone               = "Undone"                        // A user requested an undo of the workload's resizes.
	ReasonBadUndo              = "InvalidUndo"                   // The annotation that requests an undo has an invalid value.
)

// Reasons why a pod is not evicted, besides the reasons of gates.
const (
	ReasonEvictionDenied    = "EvictionDenied"        // A PodDisruptionBudget or a missing permission prevents the eviction.
	ReasonEvictionOff       = "EvictionNotAllowed"    // The chart does not allow attune to evict pods (node.eviction.enabled).
	ReasonNoController      = "NoController"          // No controller would create a replacement of the pod.
	ReasonDaemonPod         = "DaemonSetPod"          // The replacement of a DaemonSet's pod would run on the same node.
	ReasonBatchPod          = "BatchPod"              // The pod of a Job would lose its work.
	ReasonDoNotDisrupt      = "DoNotDisrupt"          // An annotation of the pod forbids its eviction.
	ReasonSuccessorNotSized = "SuccessorNotSized"     // The replacement of the pod would not get the resources that the pod needs.
	ReasonLastSuccessor     = "LastSuccessorNotSized" // The replacement of the last evicted pod was not sized at admission.
	ReasonNoOtherNode       = "NoOtherNode"           // No other node on which the pod may run is large enough.
	ReasonLastReplica       = "LastReplica"           // The eviction would leave no replica of the workload.
	ReasonNotWanted         = "NotWanted"             // The policy does not allow the eviction, or the node does not require it.
)

// Reasons of actions, or of missing actions, for a container that climbs towards its memory limit (package climb), and
// of the end of a startup boost.
const (
	ReasonClimb         = "MemoryClimb"     // attune raises memory before an OOM kill.
	ReasonSpike         = "MemorySpike"     // attune restores the memory from before a raise, because the growth was a spike.
	ReasonLeak          = "MemoryLeak"      // The container had the maximum number of raises, and its usage still grows.
	ReasonClimbRestarts = "RaiseRestarts"   // A raise would restart the container.
	ReasonClimbBound    = "MaxAllowed"      // The policy's maxAllowed leaves no room for a raise.
	ReasonClimbLimits   = "LimitsLeftAlone" // The policy does not change limits.
	ReasonFollowsLimit  = "FollowsItsLimit" // Usage that may follow its limit would need a limit above the maximum without an OOM kill.
	ReasonBoost         = "StartupBoost"    // A startup CPU boost: attune removes it, or gives it to a container again that restarted.
)

// Lifter is a kind of object outside of a workload whose change may lift a refusal.
type Lifter string

// The objects that lift refusals: the pod's node with its pods, and objects of the pod's namespace.
const (
	LifterNode    Lifter = "node"
	LifterQuotas  Lifter = "quotas"
	LifterLimits  Lifter = "limits"
	LifterBudgets Lifter = "budgets"
)

// Reasons has every reason with the objects whose change may lift a refusal for it. nil: only time lifts it, or the
// workload itself, whose events trigger a reconcile anyway. A refusal is then checked again only after a delay.
var Reasons = map[string][]Lifter{
	ReasonNoRoom: {LifterNode}, ReasonNodeBlocked: {LifterNode}, ReasonNodePressure: {LifterNode}, ReasonNodeNotReady: {LifterNode},
	ReasonNodeCapacity: {LifterNode}, ReasonNodeWithoutResize: {LifterNode}, ReasonStaticCPU: {LifterNode}, ReasonStaticMemory: {LifterNode},
	ReasonStaticPolicy: {LifterNode}, ReasonSwap: {LifterNode}, ReasonPodLevelResources: {LifterNode}, ReasonMemoryLimitDecrease: {LifterNode},
	ReasonResizeNotSupported: {LifterNode}, ReasonQuota: {LifterQuotas}, ReasonDisruptionBudget: {LifterBudgets}, ReasonLimitRange: {LifterLimits},
	ReasonQOSClass: {LifterLimits}, ReasonRefused: {LifterQuotas, LifterLimits},

	ReasonInfeasible: nil, ReasonDeferred: nil, ReasonHPASync: nil, ReasonRequestsWait: nil, ReasonUnobserved: nil, ReasonTimeout: nil, ReasonActuation: nil, ReasonTerminal: nil,
	ReasonSuperseded: nil, ReasonNotSent: nil, ReasonUnconcluded: nil, ReasonDrift: nil, ReasonReplaced: nil, ReasonNothingBack: nil,
	ReasonPodFinished: nil, ReasonPodDeleted: nil, ReasonNotScheduled: nil, ReasonNotStarted: nil, ReasonNotReady: nil, ReasonDoesNotFit: nil,
	ReasonFailedStart: nil, ReasonUnschedulable: nil, ReasonNoChange: nil, ReasonBestEffort: nil, ReasonChildKilled: nil, ReasonCriticalPriority: nil, ReasonMemoryInUse: nil,
	ReasonMemoryUnknown: nil, ReasonMemoryVolume: nil, ReasonResizeUnderway: nil, ReasonResourceClaims: nil, ReasonRestartedLately: nil,
	ReasonNotRunning: nil, ReasonStartedJustNow: nil, ReasonStaticPod: nil, ReasonWindows: nil, ReasonPaused: nil, ReasonWorkloadPaused: nil,
	ReasonMode: nil, ReasonSkipped: nil, ReasonTooLarge: nil, ReasonExcluded: nil, ReasonNotControlled: nil, ReasonHPA: nil, ReasonVPA: nil, ReasonNewPodsNotSized: nil, ReasonOutsideSchedule: nil,
	ReasonStaleData: nil, ReasonInsufficientData: nil, ReasonRolloutInProgress: nil, ReasonCooldown: nil, ReasonRecordsFull: nil,
	ReasonNamespaceTerminating: nil, ReasonReverting: nil, ReasonTooManyOOMs: nil, ReasonPodLimitBehind: nil, ReasonSingleReplica: nil,
	ReasonReplicasNotReady: nil, ReasonNoRights: nil, ReasonNotKnown: nil, ReasonUnsettled: nil, ReasonUndone: nil, ReasonBadUndo: nil, ReasonAwaitsPromotion: nil,
	ReasonEvictionDenied: nil, ReasonEvictionOff: nil, ReasonNoController: nil, ReasonDaemonPod: nil, ReasonBatchPod: nil, ReasonDoNotDisrupt: nil,
	ReasonSuccessorNotSized: nil, ReasonLastSuccessor: nil, ReasonNoOtherNode: nil, ReasonLastReplica: nil, ReasonNotWanted: nil, ReasonClimb: nil, ReasonSpike: nil,
	ReasonFixedLimit: nil, ReasonMemoryLimitKnown: nil, ReasonQueue: nil, ReasonLeak: nil, ReasonClimbRestarts: nil, ReasonClimbBound: nil, ReasonClimbLimits: nil, ReasonFollowsLimit: nil, ReasonBoost: nil,
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
	// Again is true if an inconclusive verdict is to be judged again, however often the observation was extended: the
	// other cause passes.
	Again bool
	// Measured is true if only the usage source shows the regression, and not the pod's status.
	Measured bool
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

// Refusal is the reason why a change is not made. It is a result and not an error.
type Refusal struct {
	// Reason is one word for conditions, events and metrics (reasons.go).
	Reason string
	// Message is one sentence with the reason, the figures and the change that would lift the refusal.
	Message string
	// Container is the container without the change; empty if the refusal concerns the pod.
	Container string
	// Transient is true if the refusal lifts by itself, without a change of a spec or a setting.
	Transient bool
	// Until is when a transient refusal lifts by time alone; zero: an event lifts it.
	Until time.Time
}

// Refuse blocks a plan, or one container of it, until a spec or a setting changes. A rule that refuses a container's
// move does not set the container: its caller does (permitted, narrowed).
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RefuseForNow is Refuse with a transient refusal.
func RefuseForNow(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), Transient: true}
}

// waitUntil is RefuseForNow with the time at which the refusal lifts.
func waitUntil(until time.Time, reason, format string, args ...any) *Refusal {
	refusal := RefuseForNow(reason, format, args...)
	refusal.Until = until
	return refusal
}
