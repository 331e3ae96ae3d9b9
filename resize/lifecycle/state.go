package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// StateKind is what became of a recorded resize.
type StateKind string

const (
	// Unsent: the record is written and the spec is as before; the resize may be on its way.
	Unsent StateKind = "Unsent"
	// Landed: the spec is as desired, and the record does not know it yet.
	Landed StateKind = "Landed"
	// Unobserved: the kubelet has not decided about our generation yet.
	Unobserved StateKind = "Unobserved"
	// Deferred: the node has no room now; the pod has what it had.
	Deferred StateKind = "Deferred"
	// Refused: the node will not do it; the pod has what it had.
	Refused StateKind = "Refused"
	// Actuating: allocated, and not yet carried out.
	Actuating StateKind = "Actuating"
	// Failed: allocated, and the runtime or the kubelet's memory check says no.
	Failed StateKind = "Failed"
	// Applied: spec, allocation and runtime agree.
	Applied StateKind = "Applied"
	// Watching: verified, and its watch has not ended.
	Watching StateKind = "Watching"
	// Settled: verified, and its watch has ended.
	Settled StateKind = "Settled"
	// Harmed: the pod suffered since.
	Harmed StateKind = "Harmed"
	// NotRestored: harm or a refusal was recorded, and the prior size is not back in the spec.
	NotRestored StateKind = "NotRestored"
	// Superseded: another writer resized the pod since.
	Superseded StateKind = "Superseded"
	// Replaced: the pod is gone, or another one has its name.
	Replaced StateKind = "Replaced"
	// Terminal: the pod has ended or is being deleted.
	Terminal StateKind = "Terminal"
)

// State is what a pod shows of a record's resize at one moment. Assess makes it, harm.Assess adds the verdict, and
// Next decides by it. Nothing of it is stored.
type State struct {
	// Kind of the state.
	Kind StateKind
	// Message is one sentence about it: the kubelet's own where there is one.
	Message string
	// Generation of the pod; set for Landed only.
	Generation int64
	// Drift is true where the size is applied only as far as the machine's rounding, or something that edits
	// containers, allows.
	Drift bool
	// Restored is true where at least one amount is back at its prior value.
	Restored bool
	// Verdict on the harm that is known so far.
	Verdict resize.Verdict
	// asFarAsItGoes is true where the node defers what can no longer be taken back, a memory limit that the API
	// server does not lower. Waiting for it would never end.
	asFarAsItGoes bool
	// calm is the kind without the harm; set for Harmed only.
	calm StateKind
	// idle holds the harms after which a revert would change nothing.
	idle map[resize.Harm]bool
}

// Assess returns what a pod shows of a record's resize, without harm; harm.Assess adds that. A nil pod is gone. It
// relies on values rather than on conditions, since kubelets now and then set and clear conditions at the wrong
// moment, and it never reads the times of conditions.
func Assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities, now time.Time) State {
	if pod == nil || pod.UID != record.PodUID {
		return State{Kind: Replaced, Message: "the pod is gone"}
	}
	changes := resize.Changes(record)
	state := assess(pod, record, changes, caps, now)
	state.Restored = restored(pod, changes)
	if state.allocated() {
		state.idle = idleReverts(pod, record, caps)
	}
	return state
}

// Suffered adds the harm that the pod itself shows. It counts only where the pod runs, or ran, with what the
// resize asked for. A pod that has ended or is already being put back does not become Harmed.
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

// With adds the verdict of harm.Judge, which knows more than the pod shows: it finds harm in a watched resize, and
// excuses harm that has another explanation.
func (s State) With(v resize.Verdict) State {
	switch {
	case s.Kind == Harmed && v.Inconclusive:
		s.Kind, s.Message = s.calm, v.Message
	case s.Kind != Watching && s.Kind != Settled:
		return s
	case v.Harm != "":
		s.calm, s.Kind, s.Message = s.Kind, Harmed, v.Message
	}
	s.Verdict = v
	return s
}

// allocated reports whether the pod runs, or ran, with what the resize asked for, so that the resize can have done
// harm.
func (s State) allocated() bool {
	switch s.Kind {
	case Actuating, Failed, Applied, Watching, Settled, Terminal:
		return true
	}
	return false
}

// assess applies the checks in an order that matters: the end of a pod comes before everything, then a cache that
// is older than the resize, then the phases in which the spec may differ from what is desired.
func assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change, caps resize.Capabilities, now time.Time) State {
	switch {
	case resize.Finished(pod):
		return State{Kind: Terminal, Message: "the pod has ended"}
	case pod.DeletionTimestamp != nil:
		return State{Kind: Terminal, Message: "the pod is being deleted"}
	case record.Generation != 0 && pod.Generation < record.Generation:
		return State{Kind: Unobserved, Message: "the pod as we see it is older than the resize"}
	case onTheWire(record):
		return assessWritten(pod, record, changes)
	case resize.PuttingBack(record):
		return assessPuttingBack(pod, record, changes, caps, now)
	case !asDesired(pod, changes):
		return superseded
	case record.Phase == v1alpha1.RecordWatching:
		return assessWatched(pod, record, now)
	}
	return kubeletSays(pod, record, now)
}

var superseded = State{Kind: Superseded, Message: "another writer changed amounts that this resize set"}

// assessWritten finds out whether a resize whose answer was lost reached the API server. Only the spec shows that.
func assessWritten(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change) State {
	switch {
	case asDesired(pod, changes):
		return State{Kind: Landed, Generation: pod.Generation}
	case asPrior(pod, changes), InSecondPatch(record) && (between(pod, changes) || record.Reason == resize.ReasonActuation):
		return State{Kind: Unsent}
	}
	return superseded
}

// assessPuttingBack compares the spec with the range between the prior and the desired size: a revert may go back
// step by step.
func assessPuttingBack(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change, caps resize.Capabilities, now time.Time) State {
	if !between(pod, changes) {
		return superseded
	}
	if plan, _ := RevertPlan(pod, record, caps); !plan.Empty() {
		return State{Kind: NotRestored}
	}
	// The answer that told the generation may have been lost; the spec as it is must have been seen.
	record.Generation = pod.Generation
	state := kubeletSays(pod, record, now)
	state.asFarAsItGoes = state.Kind == Deferred && limitStays(pod, changes, caps)
	return state
}

// assessWatched tolerates conditions that come and go, as after a restart of the kubelet. An error that stays is
// reported.
func assessWatched(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) State {
	state := kubeletSays(pod, record, now)
	switch {
	case state.Kind == Failed:
		return state
	case record.WatchUntil == nil || now.Before(record.WatchUntil.Time) || state.Kind != Applied:
		return State{Kind: Watching}
	}
	return State{Kind: Settled, Drift: state.Drift, Message: state.Message}
}

// kubeletSays reads the kubelet's side of a resize whose spec is as asked for: pending, allocated, in progress,
// applied. Each check excludes the stage before it, so the order follows the stages of a resize.
func kubeletSays(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time) State {
	pending, progress := podview.Condition(pod, corev1.PodResizePending), podview.Condition(pod, corev1.PodResizeInProgress)
	observed := pod.Status.ObservedGeneration
	switch {
	case pod.Spec.NodeName == "":
		return State{Kind: Applied, Message: "the pod has no node yet; it will start with this size"}
	case pending != nil && pending.ObservedGeneration != 0 && pending.ObservedGeneration < record.Generation:
		return State{Kind: Unobserved, Message: "the kubelet has decided about an older resize only"}
	case pending != nil && pending.Reason == corev1.PodReasonInfeasible:
		return State{Kind: Refused, Message: pending.Message}
	case pending != nil:
		return State{Kind: Deferred, Message: pending.Message}
	case observed != 0 && observed < record.Generation:
		return State{Kind: Unobserved, Message: "the kubelet has not seen the resize"}
	case !podview.IsAllocated(pod):
		return State{Kind: Unobserved, Message: "the kubelet has not allocated the resize"}
	case progress != nil && progress.Reason == corev1.PodReasonError:
		return State{Kind: Failed, Message: progress.Message}
	case progress != nil:
		return State{Kind: Actuating, Message: progress.Message}
	case !isActual(pod):
		return drifted(record, now)
	}
	return State{Kind: Applied}
}

// drifted decides about amounts that differ although no resize is under way: until the deadline they are still on
// their way, after it they count as what the machine makes of them.
func drifted(record v1alpha1.ResizeRecord, now time.Time) State {
	if record.Phase == v1alpha1.RecordApplied && record.Deadline != nil && now.Before(record.Deadline.Time) {
		return State{Kind: Actuating, Message: "the runtime does not report the new size yet"}
	}
	return State{Kind: Applied, Drift: true, Message: "the runtime reports amounts that differ from the spec"}
}

// isActual reports whether the runtime reports what the spec asks for, for every running container that it
// reports.
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

// asDesired and asPrior report whether every amount that the record set has its desired or its prior value.
func asDesired(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, _, desired recommender.Amount) bool { return spec == desired })
}

func asPrior(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, prior, _ recommender.Amount) bool { return spec == prior })
}

// between reports whether every amount lies between prior and desired. Putting a pod back asks for nothing else,
// except for limits that the resize added, which only go up.
func between(pod *corev1.Pod, changes []resize.Change) bool {
	return eachOwned(pod, changes, func(spec, prior, desired recommender.Amount) bool {
		return min(prior, desired) <= spec && (spec <= max(prior, desired) || prior == 0)
	})
}

// eachOwned applies a check to every amount that the record set. Amounts that it did not set may be changed by
// other writers.
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
