package resize_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/resize"
)

// TestEveryReasonSaysWhatLiftsIt: a new reason fails here until LiftedBy has its objects, or this list says that only
// time or the workload itself lifts it.
func TestEveryReasonSaysWhatLiftsIt(t *testing.T) {
	byTime := []string{
		"ReasonInfeasible", "ReasonDeferred", "ReasonUnobserved", "ReasonTimeout", "ReasonActuation", "ReasonTerminal",
		"ReasonSuperseded", "ReasonNotSent", "ReasonUnconcluded", "ReasonDrift", "ReasonReplaced", "ReasonNothingBack",
		"ReasonPodFinished", "ReasonPodDeleted", "ReasonNotScheduled", "ReasonNotStarted", "ReasonNotReady",
		"ReasonDoesNotFit", "ReasonNoChange", "ReasonBestEffort", "ReasonCriticalPriority", "ReasonMemoryInUse",
		"ReasonMemoryUnknown", "ReasonMemoryVolume", "ReasonResizeUnderway", "ReasonResourceClaims",
		"ReasonRestartedLately", "ReasonNotRunning", "ReasonStartedJustNow", "ReasonStaticPod", "ReasonWindows",
		"ReasonPaused", "ReasonWorkloadPaused", "ReasonMode", "ReasonSkipped", "ReasonTooLarge", "ReasonExcluded",
		"ReasonHPA", "ReasonVPA", "ReasonOutsideSchedule", "ReasonStaleData", "ReasonInsufficientData",
		"ReasonRolloutInProgress", "ReasonCooldown", "ReasonRecordsFull", "ReasonNamespaceTerminating",
		"ReasonReverting", "ReasonTooManyOOMs", "ReasonPodLimitBehind", "ReasonSingleReplica",
		"ReasonReplicasNotReady", "ReasonNoRights", "ReasonNotKnown", "ReasonUnsettled", "ReasonEvictionDenied",
		"ReasonEvictionOff", "ReasonNoController", "ReasonDaemonPod", "ReasonBatchPod", "ReasonDoNotDisrupt",
		"ReasonSuccessorNotSized", "ReasonLastSuccessor", "ReasonNoOtherNode", "ReasonLastReplica", "ReasonNotWanted", "ReasonBoost",
		"ReasonClimb", "ReasonSpike", "ReasonLeak", "ReasonClimbRestarts", "ReasonClimbBound", "ReasonClimbLimits", "ReasonFollowsLimit",
	}
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		of, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(of.Names[0].Name, "Reason") {
			return true
		}
		seen++
		name, lifted := of.Names[0].Name, false
		if value, ok := of.Values[0].(*ast.BasicLit); ok {
			reason, err := strconv.Unquote(value.Value)
			require.NoError(t, err)
			lifted = len(LiftedBy(reason)) > 0
		}
		assert.NotEqual(t, lifted, slices.Contains(byTime, name), name)
		return true
	})
	assert.Greater(t, seen, 60)
}
