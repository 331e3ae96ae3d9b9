package workload

import (
	"slices"

	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

// blockedOther stands for every reason that is not the operator's own.
const blockedOther = "Other"

// blockedReasons are the reasons of refusals that become values of a label.
var blockedReasons = []string{
	tuning.ReasonUndone, tuning.ReasonBadUndo, harm.ReasonBirthCrash, harm.ReasonBirthPending,
	resize.ReasonInfeasible, resize.ReasonDeferred, resize.ReasonUnobserved, resize.ReasonTimeout,
	resize.ReasonActuation, resize.ReasonTerminal, resize.ReasonSuperseded, resize.ReasonNotSent,
	resize.ReasonUnconcluded, resize.ReasonDrift, resize.ReasonReplaced, resize.ReasonNothingBack,
	resize.ReasonPodFinished, resize.ReasonPodDeleted, resize.ReasonNotScheduled, resize.ReasonNotStarted,
	resize.ReasonNotReady, resize.ReasonDoesNotFit, resize.ReasonNoChange, resize.ReasonBestEffort,
	resize.ReasonCriticalPriority, resize.ReasonMemoryInUse, resize.ReasonMemoryLimitDecrease,
	resize.ReasonMemoryUnknown, resize.ReasonMemoryVolume, resize.ReasonNodeCapacity, resize.ReasonNodeNotReady,
	resize.ReasonNodeWithoutResize, resize.ReasonPodLevelResources, resize.ReasonQOSClass,
	resize.ReasonResizeNotSupported, resize.ReasonResizeUnderway, resize.ReasonResourceClaims,
	resize.ReasonRestartedLately, resize.ReasonNotRunning, resize.ReasonStartedJustNow, resize.ReasonStaticCPU,
	resize.ReasonStaticMemory, resize.ReasonStaticPod, resize.ReasonStaticPolicy, resize.ReasonSwap,
	resize.ReasonWindows, resize.ReasonPaused, resize.ReasonWorkloadPaused, resize.ReasonMode, resize.ReasonSkipped,
	resize.ReasonTooLarge, resize.ReasonExcluded, resize.ReasonHPA, resize.ReasonVPA, resize.ReasonOutsideSchedule,
	resize.ReasonStaleData, resize.ReasonInsufficientData, resize.ReasonRolloutInProgress, resize.ReasonCooldown,
	resize.ReasonRecordsFull, resize.ReasonNamespaceTerminating, resize.ReasonReverting, resize.ReasonTooManyOOMs,
	resize.ReasonPodLimitBehind, resize.ReasonNodePressure, resize.ReasonNodeBlocked, resize.ReasonNoRoom,
	resize.ReasonSingleReplica, resize.ReasonReplicasNotReady, resize.ReasonDisruptionBudget, resize.ReasonLimitRange,
	resize.ReasonRefused, resize.ReasonNoRights, resize.ReasonQuota, resize.ReasonNotKnown, resize.ReasonUnsettled,
	resize.ReasonEvictionDenied, resize.ReasonEvictionOff, resize.ReasonNoController, resize.ReasonDaemonPod,
	resize.ReasonBatchPod, resize.ReasonDoNotDisrupt, resize.ReasonSuccessorNotSized, resize.ReasonNoOtherNode,
	resize.ReasonLastReplica, resize.ReasonNotWanted, resize.ReasonClimb, resize.ReasonSpike, resize.ReasonLeak,
	resize.ReasonClimbRestarts, resize.ReasonClimbBound, resize.ReasonClimbLimits, resize.ReasonFollowsLimit, resize.ReasonBoost,
}

// blockedReason is the value of the label for a reason. The reason of a refused resize may be a word of whoever refused
// it, and each new word would be a new series.
func blockedReason(reason string) string {
	if slices.Contains(blockedReasons, reason) {
		return reason
	}
	return blockedOther
}
