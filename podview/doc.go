// Package podview reads pods and converts their fields to amounts: allocated and specified resources, the footprint
// that the scheduler counts, and OOM kills. It is the only place where Kubernetes quantities become amounts
// (millicores, bytes) and the reverse.
//
// Its files, in the order to read them:
//   - allocation.go: quantities and amounts, containers and their statuses, Read.
//   - footprint.go: what the scheduler counts for a pod on its node.
//   - qos.go, tolerance.go: the QoS class of a pod; how kernels and runtimes round amounts.
//   - least.go, memoryvolume.go: the smallest and largest sizes, and memory-backed volumes, for created and running pods.
//   - oom.go: OOM kills, and a memory limit of the pod's cgroup that lags its containers' limits.
//   - template.go: the template that a pod was made from, and a stable order of names.
//
// The package is pure: it never changes a pod that it is given (Put changes only the list that is passed to it), holds
// no client and reads no clock.
package podview
