package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
)

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
		takes += bytesOf(r)
	}
	if len(open) > 0 && takes > min(RecordsBytes, ObjectBytes-in.OtherBytes) {
		return RefuseForNow(ReasonRecordsFull, "%d pods of the workload are being resized or watched, which is the most there can be with so many containers", len(open))
	}
	return nil
}

// bytesOf is about how much a record takes as JSON.
func bytesOf(r v1alpha1.ResizeRecord) int {
	n := recordBytes + len(r.PodName) + len(r.Node)
	for _, c := range r.Prior {
		n += containerBytes + 4*len(c.Name)
	}
	return n
}
