package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
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
	// Superseded: somebody else resized the pod since.
	Superseded StateKind = "Superseded"
	// Replaced: the pod is gone, or another one has its name.
	Replaced StateKind = "Replaced"
	// Terminal: the pod has ended or is being deleted.
	Terminal StateKind = "Terminal"
)

// State is what a pod shows of a record's resize.
type State struct {
	Kind StateKind
	// Message is the kubelet's or our own word for it.
	Message string
	// Generation of the pod, where it was landed.
	Generation int64
	// Drift: applied as far as the machine's rounding, or something that edits containers, lets it.
	Drift bool
	// Restored: at least one amount is back at the record's prior size.
	Restored bool
	// Verdict on the harm so far.
	Verdict Verdict
	// asFarAsItGoes: the node puts off what cannot be taken back any more, a memory limit that the API server lets
	// nobody lower. Waiting for it has no end.
	asFarAsItGoes bool
	// calm is the state but for the harm.
	calm StateKind
	// idle: putting the pod back after such harm would put nothing back.
	idle map[Harm]bool
}

// Assess says what a pod (nil: gone) shows of a record's resize, but for harm: harm.Assess adds that. It trusts values over
// conditions, since conditions are set and cleared at the wrong moment now and then, and never reads their times.
func Assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps Capabilities, now time.Time) State {
	if pod == nil || pod.UID != record.PodUID {
		return State{Kind: Replaced, Message: "the pod is gone"}
	}
	changes := Changes(record)
	state := assess(pod, record, changes, caps, now)
	state.Restored = restored(pod, changes)
	if state.allocated() {
		state.idle = idleReverts(pod, record, caps)
	}
	return state
}

// Suffered adds the harm that the pod itself shows. It counts where the pod runs, or ran, with what the resize asked for; a
// pod that has ended, or that is being put back already, is not put back for it.
func (s State) Suffered(record v1alpha1.ResizeRecord, v Verdict) State {
	if !s.allocated() {
		return s
	}
	s.Verdict = v
	if v.Harm != "" && s.Kind != Terminal && !PuttingBack(record) {
		s.calm, s.Kind, s.Message = s.Kind, Harmed, v.Message
	}
	return s
}

// With adds the verdict of harm.Judge, which knows more than the pod shows: it finds harm in a resize that is
// watched, and excuses harm that something else explains.
func (s State) With(v Verdict) State {
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

// allocated: the pod runs, or ran, with what the resize asked for, so that harm can come from it.
func (s State) allocated() bool {
	switch s.Kind {
	case Actuating, Failed, Applied, Watching, Settled, Terminal:
		return true
	}
	return false
}

func assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []Change, caps Capabilities, now time.Time) State {
	switch {
	case finished(situation{pod: pod}) != nil:
		return State{Kind: Terminal, Message: "the pod has ended"}
	case pod.DeletionTimestamp != nil:
		return State{Kind: Terminal, Message: "the pod is being deleted"}
	case record.Generation != 0 && pod.Generation < record.Generation:
		return State{Kind: Unobserved, Message: "the pod as we see it is older than the resize"}
	case onTheWire(record):
		return assessWritten(pod, record, changes)
	case PuttingBack(record):
		return assessPuttingBack(pod, record, changes, caps, now)
	case !asDesired(pod, changes):
		return superseded
	case record.Phase == v1alpha1.RecordWatching:
		return assessWatched(pod, record, now)
	}
	return kubeletSays(pod, record, now)
}

var superseded = State{Kind: Superseded, Message: "somebody else changed amounts that this resize set"}

// assessWritten: only the spec tells whether a resize reached the API server whose answer was lost.
func assessWritten(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []Change) State {
	switch {
	case asDesired(pod, changes):
		return State{Kind: Landed, Generation: pod.Generation}
	case asPrior(pod, changes), InSecondPatch(record) && (between(pod, changes) || record.Reason == ReasonActuation):
		return State{Kind: Unsent}
	}
	return superseded
}

func assessPuttingBack(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []Change, caps Capabilities, now time.Time) State {
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

// assessWatched tolerates conditions that come and go, as they do when a kubelet restarts; an error
// that stays is none of those.
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

// kubeletSays reads the node's side of a resize whose spec is as asked.
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

// drifted: amounts that differ although no resize is under way are on their way until the deadline;
// after it they are what this machine makes of them.
func drifted(record v1alpha1.ResizeRecord, now time.Time) State {
	if record.Phase == v1alpha1.RecordApplied && record.Deadline != nil && now.Before(record.Deadline.Time) {
		return State{Kind: Actuating, Message: "the runtime does not report the new size yet"}
	}
	return State{Kind: Applied, Drift: true, Message: "the runtime reports amounts that differ from the spec"}
}

// isActual: the runtime reports what the spec asks for, for every running container that it reports.
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

// PuttingBack: the pod is on its way back to its prior size.
func PuttingBack(record v1alpha1.ResizeRecord) bool {
	switch record.Phase {
	case v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordLeaving, v1alpha1.RecordEvicting, v1alpha1.RecordEvictionDenied:
		return true
	}
	return false
}

// Unreachable: the pod is on its way back to its prior size, and its node is not ready. No kubelet is there to carry it
// out or to do more harm, so it holds nothing of the workload's other pods.
func Unreachable(record v1alpha1.ResizeRecord, unreachable map[string]bool) bool {
	return PuttingBack(record) && unreachable[record.Node]
}

func asDesired(pod *corev1.Pod, changes []Change) bool {
	return eachOwned(pod, changes, func(spec, _, desired recommender.Amount) bool { return spec == desired })
}

func asPrior(pod *corev1.Pod, changes []Change) bool {
	return eachOwned(pod, changes, func(spec, prior, _ recommender.Amount) bool { return spec == prior })
}

// between: every amount lies between prior and desired. Putting a pod back asks for nothing else, but for
// limits that the resize added, which only go up.
func between(pod *corev1.Pod, changes []Change) bool {
	return eachOwned(pod, changes, func(spec, prior, desired recommender.Amount) bool {
		return min(prior, desired) <= spec && (spec <= max(prior, desired) || prior == 0)
	})
}

// eachOwned asks about every amount that a record set, as the spec, its prior and its desired size have
// it. Amounts that the record did not set are nobody's business here.
func eachOwned(pod *corev1.Pod, changes []Change, holds func(spec, prior, desired recommender.Amount) bool) bool {
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

// restored: something that the resize changed is as it was before.
func restored(pod *corev1.Pod, changes []Change) bool {
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
