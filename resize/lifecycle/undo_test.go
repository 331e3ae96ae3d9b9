package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// undoOf returns a pod that attune has lowered, and the plan that restores it.
func undoOf(t *testing.T) (pod *corev1.Pod, plan Plan) {
	t.Helper()
	pod = running(size(200, 400, 256, 512))
	plan, refusal := PlanBack(pod, []podview.Container{{Name: "app", Size: size(500, 1000, 512, 1024)}}, able(), noon, WaveUndo, ReasonUndo)
	require.Nil(t, refusal, "%v", refusal)
	return pod, plan
}

// An undo restores exactly the template's resources: even below the least sizes, and with limits above the node's
// capacity.
func TestUndoRestoresTheExactOriginals(t *testing.T) {
	small := able()
	small.Allocatable = [2]recommender.Amount{1500, 2 * gi}
	for _, original := range []recommender.Size{
		{{Request: 1, Limit: 5}, {Request: 2 * mi, Limit: 8 * mi}},
		{{Request: 500, Limit: 64000}, {Request: 512 * mi, Limit: 256 * gi}},
	} {
		pod := running(size(200, 400, 256, 512))
		plan, refusal := PlanBack(pod, []podview.Container{{Name: "app", Size: original}}, small, noon, WaveUndo, ReasonUndo)
		require.Nil(t, refusal, "%v", refusal)
		assert.Equal(t, original, podview.Specs(plan.Apply(pod))["app"])
	}
}

// The gates that pace resize steps do not block an undo; users' settings and the platform's limits do.
func TestGatesOfUndo(t *testing.T) {
	pod, plan := undoOf(t)
	busy := GateInput{
		Now:   noon,
		Rules: auto(),
		Workload: WorkloadInput{
			Rollout:     "1 of 2",
			Replicas:    1,
			DataUntil:   noon.Add(-100 * time.Hour),
			StaleAfter:  time.Hour,
			Annotations: map[string]string{v1alpha1.PausedAnnotation: "true"},
		},
		Node: NodeInput{Block: NodeBlock{All: noon.Add(time.Hour)}},
	}
	busy.Rules.Paused, busy.Rules.Mode = []string{"cluster"}, v1alpha1.UpdateRecommend
	busy.Status.CooldownFrom = &metav1.Time{Time: noon}
	busy.Status.Paused = &v1alpha1.PausedState{}
	busy.Workload.HPA = map[string]Held{"app": {Of: [2]bool{true, true}, By: "web"}}
	admitted, refusal := Admit(pod, plan, busy)
	require.Nil(t, refusal, "%v", refusal)
	assert.Equal(t, plan.Moves, admitted.Moves)

	for reason, edit := range map[string]func(*GateInput){
		ReasonSkipped:              func(w *GateInput) { w.Workload.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"} },
		ReasonTooLarge:             func(w *GateInput) { w.Workload.Annotations = map[string]string{workload.TooLargeAnnotation: "true"} },
		ReasonVPA:                  func(w *GateInput) { w.Workload.VPA = "web" },
		ReasonNamespaceTerminating: func(w *GateInput) { w.Namespace.Terminating = true },
		ReasonRecordsFull:          func(w *GateInput) { w.Status.Records = make([]v1alpha1.ResizeRecord, v1alpha1.MaxRecords) },
		ReasonExcluded:             func(w *GateInput) { w.Rules.Excluded = map[string]bool{"app": true} },
	} {
		w := GateInput{Now: noon, Rules: auto()}
		edit(&w)
		_, refusal := Admit(pod, plan, w)
		require.NotNil(t, refusal, reason)
		assert.Equal(t, reason, refusal.Reason)
	}
}

func TestAnUndoThatIsDoneIsNoChange(t *testing.T) {
	_, refusal := PlanBack(running(size(500, 1000, 512, 1024)), []podview.Container{{Name: "app", Size: size(500, 1000, 512, 1024)}}, able(), noon, WaveUndo, ReasonUndo)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonNoChange, refusal.Reason)
}

// It waits for room without a limit, ends when it is verified, and is never reverted.
func TestHowAnUndoGoesOn(t *testing.T) {
	pod, plan := undoOf(t)
	record := NewRecord(plan, pod, noon, auto())
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	late := noon.Add(24 * time.Hour)
	for _, kind := range []StateKind{Deferred, Unobserved, Actuating} {
		next := Next(State{Kind: kind, Message: "no room"}, record, auto(), Circumstances{Undo: true}, late)
		assert.Equal(t, Wait, next.Kind, "%s", kind)
		assert.Contains(t, next.Message, "no room")
	}
	assert.Equal(t, Withdraw, Next(State{Kind: Refused}, record, auto(), Circumstances{Undo: true}, late).Kind, "that node never will")
	assert.Equal(t, MarkVerified, Next(State{Kind: Applied}, record, auto(), Circumstances{Undo: true}, noon).Kind)
	record.VerifiedOnce = &metav1.Time{Time: noon}
	done := Next(State{Kind: Applied}, record, auto(), Circumstances{Undo: true}, noon.Add(SyncPeriod))
	assert.Equal(t, Action{Kind: Forget, Result: ResultUndone, Reason: ReasonUndo}, done, "no watch, and no size that is kept")

	harmed := Next(State{Kind: Harmed, Verdict: Verdict{Harm: HarmOOM}}, record, auto(), Circumstances{Undo: true}, noon)
	assert.Equal(t, Forget, harmed.Kind)
}

// Every resize under way is withdrawn first, except for one that may still be on its way.
func TestAnUndoOverrulesWhatIsUnderWay(t *testing.T) {
	open := v1alpha1.ResizeRecord{Phase: v1alpha1.RecordApplied}
	wait := Action{Kind: Wait}
	for _, kind := range []StateKind{Unobserved, Deferred, Refused, Actuating, Failed, Applied, Watching} {
		next := NextUndoing(State{Kind: kind}, open, wait)
		assert.Equal(t, Withdraw, next.Kind, "%s", kind)
		assert.Equal(t, ReasonUndo, next.Reason)
	}
	for _, kind := range []StateKind{Unsent, Landed, Replaced, Terminal, Superseded, Harmed} {
		assert.Equal(t, wait, NextUndoing(State{Kind: kind}, open, wait), "%s", kind)
	}
	settled := Action{Kind: Forget, Keep: true}
	assert.Equal(t, settled, NextUndoing(State{Kind: Settled}, open, settled))
	for _, record := range []v1alpha1.ResizeRecord{{Phase: v1alpha1.RecordReverting}, {Phase: v1alpha1.RecordWithdrawing}, {Phase: v1alpha1.RecordApplied, Wave: WaveUndo}} {
		assert.Equal(t, wait, NextUndoing(State{Kind: Deferred}, record, wait), "it is being put back already")
	}

	undo := v1alpha1.ResizeRecord{Phase: v1alpha1.RecordApplied, Wave: WaveUndo}
	assert.Equal(t, Withdraw, NextResumed(State{Kind: Deferred}, undo, wait).Kind, "nobody wants it any more")
	assert.Equal(t, wait, NextResumed(State{Kind: Deferred}, open, wait))
	assert.Equal(t, settled, NextResumed(State{Kind: Applied}, undo, settled))
}

// The rule about undos comes before the rule that gives up: an undo that is no longer wanted is withdrawn once, if that
// was not tried since attune started, before attune gives up.
func TestUndoIsWithdrawnBeforeGivingUp(t *testing.T) {
	undo := v1alpha1.ResizeRecord{PodUID: "uid-1", Phase: v1alpha1.RecordWithdrawing, Wave: WaveUndo, WrittenAt: metav1.NewTime(noon.Add(-25 * time.Hour))}
	row := v1alpha1.Try{What: v1alpha1.TryRestore, PodUID: "uid-1", Since: undo.WrittenAt, Until: metav1.NewTime(noon.Add(-time.Hour))}
	for untried, want := range map[bool]ActionKind{true: Withdraw, false: Forget} {
		next := Next(State{Kind: Deferred}, undo, auto(), Circumstances{Tries: []v1alpha1.Try{row}, Untried: untried}, noon)
		assert.Equal(t, want, next.Kind, "not tried since the operator started: %v", untried)
	}
}
