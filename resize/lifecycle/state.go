package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// StateKind is the progress of a recorded resize.
type StateKind string

const (
	// Unsent: the record is written and the spec is unchanged; the resize may be on its way.
	Unsent StateKind = "Unsent"
	// Landed: the spec is as desired, but the record does not show that yet.
	Landed StateKind = "Landed"
	// Unobserved: the kubelet has not yet processed the generation of the resize.
	Unobserved StateKind = "Unobserved"
	// Deferred: the node has no room now; the pod keeps its old size.
	Deferred StateKind = "Deferred"
	// Refused: the node rejected the resize; the pod keeps its old size.
	Refused StateKind = "Refused"
	// Actuating: allocated, but not yet carried out.
	Actuating StateKind = "Actuating"
	// Failed: allocated, but the runtime or the kubelet's memory check reported an error.
	Failed StateKind = "Failed"
	// Applied: spec, allocation and runtime agree.
	Applied StateKind = "Applied"
	// Watching: verified, and the observation period has not ended.
	Watching StateKind = "Watching"
	// Settled: verified, and the observation period has ended.
	Settled StateKind = "Settled"
	// Harmed: the pod has had a regression since.
	Harmed StateKind = "Harmed"
	// NotRestored: a regression or a refusal was recorded, and the spec does not have the prior size yet.
	NotRestored StateKind = "NotRestored"
	// Superseded: another writer resized the pod since.
	Superseded StateKind = "Superseded"
	// Replaced: the pod no longer exists, or another pod has its name.
	Replaced StateKind = "Replaced"
	// Terminal: the pod has finished or is being deleted.
	Terminal StateKind = "Terminal"
)

// State is a pod's progress in a record's resize at one time. Assess creates it, harm.Assess adds the verdict, and Next
// decides by it. It is never stored.
type State struct {
	// Kind of the state.
	Kind StateKind
	// Message is one sentence about it: the kubelet's message if there is one.
	Message string
	// Generation of the pod; set for Landed only.
	Generation int64
	// Drift is true if the size counts as applied although the runtime reports other amounts, because of the machine's
	// rounding or a program that edits containers.
	Drift bool
	// Restored is true if at least one amount has its prior value again.
	Restored bool
	// Verdict on the regression that is known so far.
	Verdict resize.Verdict
	// asFarAsItGoes is true if the node defers a memory limit that the API server does not lower. It cannot be
	// reverted, and waiting for it would never end.
	asFarAsItGoes bool
	// notReady is true if the pod is not ready.
	notReady bool
	// waitsForRun is true if the second patch waits until its container runs.
	waitsForRun bool
	// calm is the kind without the regression; set for Harmed only.
	calm StateKind
	// idle has the regressions (shortage) after which a revert would change nothing.
	idle map[resize.Harm]bool
}

// Assess returns a pod's progress in a record's resize, without regressions; harm.Assess adds them. A nil pod no longer
// exists. Assess relies on values rather than on conditions, since kubelets sometimes set and clear conditions at the
// wrong time, and it never reads the times of conditions.
func Assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities, now time.Time) State {
	if pod == nil || pod.UID != record.PodUID {
		return State{Kind: Replaced, Message: "the pod is deleted"}
	}
	changes := resize.Changes(record)
	state := assess(pod, record, changes, caps, now)
	state.Restored, state.waitsForRun, state.notReady = restored(pod, changes), waitsForRun(pod, record), !podview.IsReady(pod)
	if state.allocated() {
		state.idle = idleReverts(pod, record, caps)
	}
	return state
}

// Suffered adds the regression in the pod's own status. It counts only if the pod runs, or ran, with the amounts of the
// resize. A pod that has finished or is already being restored does not become Harmed.
func (s State) Suffered(record v1alpha1.ResizeRecord, v resize.Verdict) State {
	if !s.allocated() {
		return s
	}
	s.Verdict = v
	if v.Harm != "" && s.Kind != Terminal && !resize.PuttingBack(record) {
		s.calm, s.Kind, s.Message = s.Kind, Harmed, v.Message
	}
	return s
}

// With adds the verdict of harm.Judge, which uses more facts than the pod's status: it finds regressions during
// observation, and excuses regressions with another explanation.
func (s State) With(v resize.Verdict) State {
	switch {
	case s.Kind == Harmed && v.Inconclusive:
		s.Kind, s.Message = s.calm, v.Message
	case s.Kind == Harmed && v.Harm != "": // another one, if what the pod shows is excused
		s.Message = v.Message
	case s.Kind != Watching && s.Kind != Settled:
		return s
	case v.Harm != "":
		s.calm, s.Kind, s.Message = s.Kind, Harmed, v.Message
	}
	s.Verdict = v
	return s
}

// allocated reports whether the pod runs, or ran, with the amounts of the resize, so that the resize can have caused a
// regression.
func (s State) allocated() bool {
	switch s.Kind {
	case Actuating, Failed, Applied, Watching, Settled, Terminal:
		return true
	}
	return false
}

// assess applies the checks in an order that matters: first the end of a pod, then a cache that is older than the
// resize, then the phases in which the spec may differ from the desired size.
func assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change, caps resize.Capabilities, now time.Time) State {
	switch {
	case resize.Finished(pod):
		return State{Kind: Terminal, Message: "the pod has finished"}
	case pod.DeletionTimestamp != nil:
		return State{Kind: Terminal, Message: "the pod is being deleted"}
	case record.Generation != 0 && pod.Generation < record.Generation:
		return State{Kind: Unobserved, Message: "the cached pod is older than the resize"}
	case onTheWire(record):
		return assessWritten(pod, record, changes)
	case resize.PuttingBack(record):
		return assessRestoring(pod, record, changes, caps, now)
	case !asDesired(pod, changes):
		return superseded
	case record.Phase == v1alpha1.RecordWatching:
		return assessWatched(pod, record, now)
	}
	return kubeletProgress(pod, record, now)
}

var superseded = State{Kind: Superseded, Message: "another field manager changed amounts that this resize set"}

// assessWritten decides whether a resize whose answer was lost reached the API server. Only the spec shows that.
func assessWritten(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change) State {
	switch {
	case asDesired(pod, changes):
		return State{Kind: Landed, Generation: pod.Generation}
	case asPrior(pod, changes), InSecondPatch(record) && (between(pod, changes) || record.Reason == resize.ReasonActuation):
		return State{Kind: Unsent}
	}
	return superseded
}

// assessRestoring compares the spec with the range between the prior and the desired size: a revert may take several
// patches.
func assessRestoring(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change, caps resize.Capabilities, now time.Time) State {
	if !between(pod, changes) {
		return superseded
	}
	if plan, _ := RevertPlan(pod, record, caps); !plan.Empty() {
		return State{Kind: NotRestored}
	}
	// The answer with the generation may have been lost; the kubelet must have observed the current spec.
	record.Generation = pod.Generation
	state := kubeletProgress(pod, record, now)
	state.asFarAsItGoes = state.Kind == Deferred && limitStays(pod, changes, caps)
	return state
}

// assessWatched tolerates conditions that come and go, as after a restart of the kubelet. It reports an error that
// lasts.
func assessWatched(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) State {
	state := kubeletProgress(pod, record, now)
	switch {
	case state.Kind == Failed:
		return state
	case record.WatchUntil == nil || now.Before(record.WatchUntil.Time) || state.Kind != Applied:
		return State{Kind: Watching}
	}
	return State{Kind: Settled, Drift: state.Drift, Message: state.Message}
}

// kubeletProgress reads the kubelet's progress for a resize whose spec is as requested: pending, allocated, in progress,
// applied. Each check excludes the stage before it, so the order follows the stages of a resize.
func kubeletProgress(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) State {
	pending, progress := podview.Condition(pod, corev1.PodResizePending), podview.Condition(pod, corev1.PodResizeInProgress)
	observed := pod.Status.ObservedGeneration
	switch {
	case pod.Spec.NodeName == "":
		return State{Kind: Applied, Message: "the pod has no node yet; it will start with these resources"}
	case pending != nil && pending.ObservedGeneration != 0 && pending.ObservedGeneration < record.Generation:
		return State{Kind: Unobserved, Message: "the kubelet has not decided about this resize yet"}
	case pending != nil && pending.Reason == corev1.PodReasonInfeasible:
		return State{Kind: Refused, Message: pending.Message}
	case pending != nil:
		return State{Kind: Deferred, Message: pending.Message}
	case observed != 0 && observed < record.Generation:
		return State{Kind: Unobserved, Message: "the kubelet has not observed the resize yet"}
	case !podview.IsAllocated(pod):
		return State{Kind: Unobserved, Message: "the kubelet has not allocated the resize yet"}
	case progress != nil && progress.Reason == corev1.PodReasonError:
		return State{Kind: Failed, Message: progress.Message}
	case progress != nil:
		return State{Kind: Actuating, Message: progress.Message}
	case !isActual(pod):
		return drifted(record, now)
	}
	return State{Kind: Applied}
}

// drifted decides about amounts that differ although no resize is under way: until the deadline the resize may still be
// carried out, after it they count as rounded by the machine.
func drifted(record v1alpha1.ResizeRecord, now time.Time) State {
	if record.Phase == v1alpha1.RecordApplied && record.Deadline != nil && now.Before(record.Deadline.Time) {
		return State{Kind: Actuating, Message: "the container runtime does not report the new resources yet"}
	}
	return State{Kind: Applied, Drift: true, Message: "the container runtime reports amounts that differ from the pod's spec"}
}

// isActual reports whether the runtime reports the amounts of the spec, for every running container with reported
// resources.
func isActual(pod *corev1.Pod) bool {
	statuses := podview.Statuses(pod)
	for _, c := range podview.Resizable(pod) {
		status := statuses[c.Name]
		if status == nil || status.State.Running == nil || status.Resources == nil {
			continue
		}
		if !podview.NearSize(podview.ReadSpec(*status.Resources), podview.ReadSpec(c.Resources)) {
			return false
		}
	}
	return true
}

// asDesired reports whether every amount that the record set has its desired value.
func asDesired(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, _, desired recommender.Amount) bool { return spec == desired })
}

func asPrior(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, prior, _ recommender.Amount) bool { return spec == prior })
}

// between reports whether every amount lies between prior and desired. A restore requests no other amounts, except for
// limits that the resize added, which only go up.
func between(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, prior, desired recommender.Amount) bool {
		return min(prior, desired) <= spec && (spec <= max(prior, desired) || prior == 0)
	})
}

// eachOwned applies a check to every amount that the record set. Other writers may change the other amounts.
func eachOwned(pod *corev1.Pod, changes []resize.Change, holds func(spec, prior, desired recommender.Amount) bool) bool {
	specs := podview.Specs(pod)
	for _, c := range changes {
		spec, ok := specs[c.Container]
		if !ok {
			return false
		}
		for _, r := range recommender.Resources {
			prior, desired := c.Prior[r], c.Desired[r]
			if desired.Request > 0 && !holds(spec[r].Request, prior.Request, desired.Request) ||
				desired.Limit > 0 && !holds(spec[r].Limit, prior.Limit, desired.Limit) {
				return false
			}
		}
	}
	return true
}

// restored reports whether an amount that the resize changed has its prior value.
func restored(pod *corev1.Pod, changes []resize.Change) bool {
	specs := podview.Specs(pod)
	for _, c := range changes {
		for _, r := range recommender.Resources {
			spec, prior, desired := specs[c.Container][r], c.Prior[r], c.Desired[r]
			if prior.Request != desired.Request && spec.Request == prior.Request ||
				prior.Limit != desired.Limit && spec.Limit == prior.Limit {
				return true
			}
		}
	}
	return false
}
