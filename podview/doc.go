// Package podview reads pods and turns what it finds into amounts: what containers are allocated, what they ask
// for, what the scheduler counts for them, and which OOM kills they show. It is the one place where Kubernetes
// quantities become amounts (millicores, bytes) and back.
//
// Its files, in the order to read them:
//   - allocation.go: quantities and amounts, containers and their statuses, Read.
//   - footprint.go: what the scheduler counts for a pod on its node.
//   - qos.go, tolerance.go: the class of a pod; how kernels and runtimes round what was asked for.
//   - least.go, memoryvolume.go: the smallest and largest sizes, and memory-backed volumes, for created and running pods.
//   - oom.go: OOM kills, and a pod's own memory limit that is behind those of its containers.
//   - template.go: which template a pod was made from, and a stable order of names.
//
// The package is pure: it never writes to a pod that it is given (Put changes only the list that is passed to it),
// holds no client and reads no clock.
package podview
