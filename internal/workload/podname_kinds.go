package workload

import (
	"math/bits"

	"attune.io/attune/api/v1alpha1"
)

// kindSet is a set of kinds, one bit each.
type kindSet uint8

const (
	deployment kindSet = 1 << iota
	statefulSet
	daemonSet
	replicaSet
	job
	cronJob
)

// kinds are those of the bits, in their order.
var kinds = [...]v1alpha1.WorkloadKind{
	v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet,
	v1alpha1.KindReplicaSet, v1alpha1.KindJob, v1alpha1.KindCronJob,
}

// bitOf is a kind's bit, 0 for a kind that is not known.
func bitOf(kind v1alpha1.WorkloadKind) kindSet {
	for i, k := range kinds {
		if k == kind {
			return 1 << i
		}
	}
	return 0
}

// kind is the one kind of the set; false if there are several or none.
func (s kindSet) kind() (v1alpha1.WorkloadKind, bool) {
	if bits.OnesCount8(uint8(s)) != 1 {
		return "", false
	}
	return kinds[bits.TrailingZeros8(uint8(s))], true
}
