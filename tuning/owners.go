package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/lifecycle"
)

// records own status.records: the resizes in flight, at most one per pod. A second resize of a pod begins only after
// the first record is closed.
type records struct{ open []v1alpha1.ResizeRecord }

// of returns the record of a pod; nil: the pod has none. The pointer becomes invalid when a record is added or removed.
func (r *records) of(pod *corev1.Pod) *v1alpha1.ResizeRecord {
	return podview.FirstIn(r.open, func(r *v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

func (r *records) has(pod *corev1.Pod) bool { return recordAt(r.open, pod) >= 0 }

func (r *records) add(record v1alpha1.ResizeRecord) { r.open = append(r.open, record) }

// takeAll returns the records and empties the list.
func (r *records) takeAll() (all []v1alpha1.ResizeRecord) {
	all, r.open = r.open, nil
	return all
}

// tooLarge reports whether a pod without a record has more containers than policy.MostContainers, or containers that
// the cache does not keep. Users of the namespace can add such pods to a workload, and they must not make its status
// grow. A pod with a record is never skipped, because the record has to be finished.
func (r *records) tooLarge(pod *corev1.Pod) bool {
	return (policy.TooManyContainers(&pod.Spec) || workload.Incomplete(pod.Annotations)) && !r.has(pod)
}

// writes own Decision.Writes.
type writes struct{ list []Write }

func (w *writes) add(write Write) { w.list = append(w.list, write) }

// tries own status.tries: what failed or was repeated, and when it may be tried again.
type tries struct {
	view *View
	list []v1alpha1.Try
}

func (t *tries) begin(plan resize.Plan) { t.list = resize.Begun(t.list, plan, t.view.Now) }

func (t *tries) accept(record v1alpha1.ResizeRecord) { t.list = resize.Accepted(t.list, record) }

// addFailure stores a failed attempt as soon as the record shows it, at the latest when the record closes. Otherwise
// the next reconcile would plan the same resize again.
func (t *tries) addFailure(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	if action.BelowHPA && fails(record, action) {
		t.list = resize.NotInSync(t.list, record, state.Message, t.view.Now)
	}
	switch {
	case fails(record, action), resize.PuttingBack(record) && action.Kind == lifecycle.Forget:
		t.list = resize.NotDone(t.list, record, action.Reason, state.Message, t.view.Policy.Settings.Resize, t.view.Now)
	case action.Kind == lifecycle.Forget && action.Reason == resize.ReasonNotSent:
		t.list = resize.Unheard(t.list, record, t.view.Now)
	}
}

// addObstacle stores what a revert waits for. It returns the text to report.
func (t *tries) addObstacle(record v1alpha1.ResizeRecord, reason, why string) (text string) {
	t.list, text = lifecycle.Obstacle(t.list, record.PodUID, reason, why)
	return text
}

func (t *tries) giveUpRevert(record v1alpha1.ResizeRecord, why string) {
	t.list = lifecycle.NotPutBack(t.list, record, why, t.view.Now)
}

// storeReverts keeps exactly one try for each pod in a revert, and drops the tries of deleted pods.
func (t *tries) storeReverts(records []v1alpha1.ResizeRecord) {
	live := func(uid types.UID) bool { return t.view.Pod(uid) != nil }
	t.list = lifecycle.PutBacks(t.list, records, live, t.view.Now)
}

// addRaise stores a raise before an OOM kill, endRaises that its memory is lowered again.
func (t *tries) addRaise(pod *corev1.Pod, plan resize.Plan) {
	t.list = climb.Noted(climb.OfLive(t.list, t.view.Live()), pod, plan, t.view.Now)
}

func (t *tries) endRaises(pod *corev1.Pod) { t.list = climb.GivenBack(t.list, pod, t.view.Now) }

// judgeSuccessor stores whether the new pod of the last eviction was created with the admission resources.
func (t *tries) judgeSuccessor(soFar v1alpha1.AttuneRecommendationStatus) {
	t.list = lifecycle.JudgeSuccessor(&soFar, t.view.Pods, t.view.Rec.Spec.Seed, t.view.seededBy, t.view.Now)
}

func (t *tries) forgive() { t.list = resize.Forgiven(t.list) }
