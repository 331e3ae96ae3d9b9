package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// What plans and gates read of open records.

// Change is what a record did, or is going to do, to one container.
type Change struct {
	// Container is its name.
	Container string
	// Prior is the size before the resize, Desired the size asked for; absent amounts are 0.
	Prior, Desired recommender.Size
	// Baseline is the container's state before the resize; the zero value where none was known.
	Baseline v1alpha1.ContainerBaseline
}

// Move is the move from the prior to the desired size.
func (c Change) Move() Move { return Move{Container: c.Container, From: c.Prior, To: c.Desired} }

// Changes pairs the lists of a record by container name, in the order of Desired. An entry without a prior size is
// left out.
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

// AnyChange reports whether one of the record's changes has a property.
func AnyChange(record v1alpha1.ResizeRecord, is func(Move) bool) bool {
	return slices.ContainsFunc(Changes(record), func(c Change) bool { return is(c.Move()) })
}

// PuttingBack reports whether the pod of the record is on its way back to its prior size. A record in one of these
// phases never goes forward again.
func PuttingBack(record v1alpha1.ResizeRecord) bool {
	switch record.Phase {
	case v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordLeaving, v1alpha1.RecordEvicting, v1alpha1.RecordEvictionDenied:
		return true
	}
	return false
}

// Unreachable reports whether the pod is on its way back and its node is not ready. No kubelet is there to carry
// it out or to do more harm, so the record holds up none of the workload's other pods.
func Unreachable(record v1alpha1.ResizeRecord, unreachable map[string]bool) bool {
	return PuttingBack(record) && unreachable[record.Node]
}

// steps counts the records that take part in waves. The ends of boosts do not, nor pods that no kubelet can put
// back at present.
func steps(records []v1alpha1.ResizeRecord, unreachable map[string]bool) (n int) {
	for _, r := range records {
		if r.Wave != WaveBoost && !Unreachable(r, unreachable) {
			n++
		}
	}
	return n
}

// ObjectBytes is about how much an AttuneRecommendation takes at most, as JSON and without its managed fields, and
// RecordsBytes what its open records take of it: where pods have many containers there are fewer than MaxRecords.
// StepsBytes is what the steps that explain its targets take; those of five containers always fit.
const (
	ObjectBytes  = 64 << 10
	RecordsBytes = 48 << 10
	StepsBytes   = 14 << 10
)

// What a record takes as JSON beside the names in it: itself, and each of its containers in its four lists.
const (
	recordBytes    = 400
	containerBytes = 480
)

// RecordsFull bounds how many records are open at once, by their number and by what they take of the object that
// every pass writes whole. One is always let in.
func RecordsFull(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	open := in.Status.Records
	if len(open) >= v1alpha1.MaxRecords {
		return RefuseForNow(ReasonRecordsFull, "%d pods of the workload are being resized or watched, which is the most there can be", v1alpha1.MaxRecords)
	}
	takes := recordBytes + len(pod.Name) + len(pod.Spec.NodeName)
	for _, m := range p.Moves {
		takes += containerBytes + 4*len(m.Container)
	}
	for _, r := range open {
		takes += recordBytes + len(r.PodName) + len(r.Node)
		for _, c := range r.Prior {
			takes += containerBytes + 4*len(c.Name)
		}
	}
	if len(open) > 0 && takes > min(RecordsBytes, ObjectBytes-in.OtherBytes) {
		return RefuseForNow(ReasonRecordsFull, "%d pods of the workload are being resized or watched, which is the most there can be with so many containers", len(open))
	}
	return nil
}
