package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

// A kill of the node raises nothing, reverts nothing, and is reported once. Others are answered at once, also where it
// is not sure yet that they are the node's.
func TestAKillOfTheNodeChangesNothing(t *testing.T) {
	has := sizeOf(200, 0, 512, 1024)
	pod := endedBefore(running("web-1", has), "OOMKilled", 1, 5*time.Second)
	w := eager(heading(seen(t, has, pod), has))
	w.Rec.Spec.Containers[0].MemoryLimitFloor = ptr.To(killedAt(1024)[0].Amount) // the policy loop has it from status.floors
	evidence := podview.OOMKills(pod)[0].Evidence
	w.Usage.Ends = map[string]harm.KillFacts{evidence: {Used: 90 * mi, Workloads: 1}}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, recommender.Amount(1332*mi), d.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit)
	assert.Positive(t, d.After)
	assert.LessOrEqual(t, d.After, harm.NodeKillWithin)

	w.Rec.Status.Floors, w.Rec.Spec.Containers[0].MemoryLimitFloor = d.Status.Floors, nil
	w.Usage.Ends = map[string]harm.KillFacts{evidence: {Used: 90 * mi, Workloads: 3}}
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Zero(t, resize.OOMFloorOf(d.Status.Floors, "app", now))
	assert.Equal(t, []string{"Warning NodeOOM Node node-1 ran out of memory: container app was OOM-killed at 2026-03-01T11:59:55Z, when it used 90Mi of its limit 1Gi. " +
		"Its limit stays. Raise the memory requests of the pods on the node"}, told(d))
	assert.Len(t, podview.OOMKills(pod), 1, "the view keeps its pods")

	w.Rec.Status, w.Usage.Ends = d.Status, nil
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Empty(t, told(d))
	assert.Equal(t, w.Rec.Status.Floors, d.Status.Floors)
}

// A pod with less than its original resources is not restored for a kill of the node.
func TestAKillOfTheNodeRestoresNothing(t *testing.T) {
	w := eager(seen(t, template, endedBefore(ourSize(running("web-1", seedSize)), "OOMKilled", 1, time.Minute)))
	w.Policy.Usable = false
	require.NotEmpty(t, tuning.Decide(w).Writes)
	w.Nodes["node-1"].Node.Status.Conditions = append(w.Nodes["node-1"].Node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
	w.Usage.Ends = map[string]harm.KillFacts{podview.OOMKills(w.Pods[0])[0].Evidence: {Used: 90 * mi}}
	assert.Empty(t, tuning.Decide(w).Writes)
}

func TestExitCode137WithAnEventIsLearned(t *testing.T) {
	has := sizeOf(200, 0, 512, 1024)
	pod := endedBefore(running("web-1", has), "Error", 1, 5*time.Second)
	end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	end.ExitCode = 137
	w := eager(heading(seen(t, has, pod), has))
	assert.Empty(t, tuning.Decide(w).Status.Floors)
	w.Usage.Ends = map[string]harm.KillFacts{podview.Evidence(end): {}}
	d := tuning.Decide(w)
	assert.Empty(t, d.Status.Floors)
	assert.Positive(t, d.After)
	assert.LessOrEqual(t, d.After, 30*time.Second, "the event comes with the next scrape")
	w.Usage.Ends = map[string]harm.KillFacts{podview.Evidence(end): {Events: 1}}
	d = tuning.Decide(w)
	assert.Equal(t, recommender.Amount(1332*mi), resize.OOMFloorOf(d.Status.Floors, "app", now))
	w.Rec.Status.Floors, w.Rec.Spec.Containers[0].MemoryLimitFloor = d.Status.Floors, ptr.To(killedAt(1024)[0].Amount)
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.True(t, d.Writes[0].Plan.Urgent)

	w.Usage.Ends = nil
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1, "the source forgets the event, the status does not")
	assert.True(t, d.Writes[0].Plan.Urgent)
	assert.Equal(t, w.Rec.Status.Floors, d.Status.Floors)
}
