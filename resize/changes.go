package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Plans and gates read open records with these functions.

// Change is the change of one container in a record, whether or not it was carried out yet.
type Change struct {
	// Container is the container's name.
	Container string
	// Prior is the size before the resize, Desired the requested size; absent amounts are 0.
	Prior, Desired recommender.Size
	// Baseline is the container's state before the resize; the zero value if it was not known.
	Baseline v1alpha1.ContainerBaseline
}

// Move returns the move from the prior to the desired size.
func (c Change) Move() Move { return Move{Container: c.Container, From: c.Prior, To: c.Desired} }

// Changes pairs the lists of a record by container name, in the order of Desired. It skips entries without a prior
// size.
func Changes(record v1alpha1.ResizeRecord) []Change {
	priors := podview.SizesOf(record.Prior)
	baselines := map[string]v1alpha1.ContainerBaseline{}
	for _, b := range record.Baseline {
		baselines[b.Name] = b
	}
	changes := make([]Change, 0, len(record.Desired))
	for _, c := range record.Desired {
		prior, ok := priors[c.Name]
		if !ok {
			continue
		}
		changes = append(changes, Change{
			Container: c.Name, Prior: prior, Desired: podview.FromResources(c.Resources), Baseline: baselines[c.Name],
		})
	}
	return changes
}

// AnyChange reports whether a change of the record satisfies is.
func AnyChange(record v1alpha1.ResizeRecord, is func(Move) bool) bool {
	return slices.ContainsFunc(Changes(record), func(c Change) bool { return is(c.Move()) })
}

// PuttingBack reports whether attune restores the prior size of the record's pod. A record in one of these phases never
// goes forward again.
func PuttingBack(record v1alpha1.ResizeRecord) bool {
	switch record.Phase {
	case v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordLeaving, v1alpha1.RecordEvicting, v1alpha1.RecordEvictionDenied:
		return true
	}
	return false
}

// Unreachable reports whether the pod is being restored and its node is not ready. No kubelet can carry out the restore
// or cause a further regression, so the record blocks none of the workload's other pods.
func Unreachable(record v1alpha1.ResizeRecord, unreachable map[string]bool) bool {
	return PuttingBack(record) && unreachable[record.Node]
}

// openSteps counts the records that take part in waves. It skips startup boosts, and pods that no kubelet can restore
// at present.
func openSteps(records []v1alpha1.ResizeRecord, unreachable map[string]bool) (n int) {
	for _, r := range records {
		if r.Wave != WaveBoost && r.Wave != WaveReboost && !Unreachable(r, unreachable) {
			n++
		}
	}
	return n
}

// ObjectBytes is about the maximum size of an AttuneRecommendation, as JSON without managed fields. RecordsBytes is the
// part for its open records: if pods have many containers, fewer than MaxRecords fit. StepsBytes is the part for the
// steps that explain its targets; the steps of five containers always fit.
const (
	ObjectBytes  = 64 << 10
	RecordsBytes = 48 << 10
	StepsBytes   = 14 << 10
)

// Sizes in bytes of a record as JSON without names: the record itself, each of its containers in its four lists, and
// each of its measurements.
const (
	recordBytes      = 400
	containerBytes   = 480
	measurementBytes = 60
)

// RecordsFull limits the open records, by number and by their size in the object, which every reconcile writes as a
// whole. It always allows the first record.
func RecordsFull(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	open := in.Status.Records
	if len(open) >= v1alpha1.MaxRecords {
		return RefuseForNow(ReasonRecordsFull, "%d pods of the workload are being resized or observed, which is the maximum", v1alpha1.MaxRecords)
	}
	takes := recordBytes + len(pod.Name) + len(pod.Spec.NodeName)
	for _, m := range p.Moves {
		takes += containerBytes + 4*len(m.Container)
	}
	most := 0 // measurements of the new record: as many as those of the open ones
	for _, r := range open {
		takes += recordBytes + len(r.PodName) + len(r.Node)
		for _, c := range r.Prior {
			takes += containerBytes + 4*len(c.Name)
		}
		measured := 0
		for _, m := range r.Measured {
			measured += measurementBytes + len(m.Name)
		}
		takes, most = takes+measured, max(most, measured)
	}
	takes += most
	if len(open) > 0 && takes > min(RecordsBytes, ObjectBytes-in.OtherBytes) {
		return RefuseForNow(ReasonRecordsFull, "%d pods of the workload are being resized or observed, which is the maximum for this number of containers", len(open))
	}
	return nil
}
