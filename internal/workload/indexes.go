package workload

// Indexes of pods that the loops share: by their workload and by their node.
const (
	PodsByWorkload = "attune.workload"
	PodsByNode     = "attune.node"
)
