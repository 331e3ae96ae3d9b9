package podview

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// MemoryVolumes are the memory-backed volumes (emptyDir with medium Memory) that a container mounts, taken together.
// Their pages count as the container's memory and cannot be reclaimed, and each may fill up to its size limit. The zero
// value has no volume.
type MemoryVolumes struct {
	// Size is the sum of the size limits, in bytes.
	Size recommender.Amount
	// Unbounded is true if a volume has no size limit: it may fill up to the memory limit.
	Unbounded bool
}

// Add adds an emptyDir that the container mounts. Volumes on disk or of huge pages are not memory of the container, and
// change nothing.
func (v *MemoryVolumes) Add(medium corev1.StorageMedium, sizeLimit *resource.Quantity) {
	switch {
	case medium != corev1.StorageMediumMemory:
	case sizeLimit == nil || sizeLimit.Sign() <= 0:
		v.Unbounded = true
	default:
		v.Size = min(v.Size+AmountOf(recommender.Memory, *sizeLimit), recommender.MaxAmount)
	}
}

// Exceed reports whether a memory limit leaves no room for the volumes in addition to held, the container's own need;
// both in bytes. Do not set such a limit if the container has a larger one. Created and running pods share this rule.
func (v MemoryVolumes) Exceed(limit, held recommender.Amount) bool {
	return v.Unbounded || v.Size > 0 && limit <= held+v.Size
}
