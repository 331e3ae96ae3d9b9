package podview

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// MemoryVolumes are the memory-backed volumes (emptyDir with medium Memory) that a container mounts, taken together. Their
// pages count as the container's memory and cannot be reclaimed, and each may fill up to its size limit. The zero value: it
// mounts none.
type MemoryVolumes struct {
	// Size is the sum of the size limits, in bytes.
	Size recommender.Amount
	// Unbounded is true where one of them has no size limit: it may fill up to the memory limit.
	Unbounded bool
}

// Add an emptyDir that the container mounts. One on disk or of huge pages is no memory of the container, and changes nothing.
func (v *MemoryVolumes) Add(medium corev1.StorageMedium, sizeLimit *resource.Quantity) {
	switch {
	case medium != corev1.StorageMediumMemory:
	case sizeLimit == nil || sizeLimit.Sign() <= 0:
		v.Unbounded = true
	default:
		v.Size = min(v.Size+AmountOf(recommender.Memory, *sizeLimit), recommender.MaxAmount)
	}
}

// Exceed reports whether a memory limit leaves no room for the volumes beside held, what the container needs itself; both in
// bytes. Such a limit must not be set where the container has a larger one. Created and running pods share this rule.
func (v MemoryVolumes) Exceed(limit, held recommender.Amount) bool {
	return v.Unbounded || v.Size > 0 && limit <= held+v.Size
}
