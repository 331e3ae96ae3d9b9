package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Run is one container as it runs.
type Run struct {
	Pod       *corev1.Pod
	Container string
	// StartedAt is when it was started last, Restarts how often it was started again.
	StartedAt time.Time
	Restarts  int32
	// Actual is what its cgroup grants it.
	Actual corev1.ResourceRequirements
}

// Processes are what runs in the containers of a node. Equal questions have equal answers.
type Processes interface {
	// Memory in bytes: what the processes need, which kills them where it is more than the limit, and what the
	// container's cgroup holds, page cache included, which is never more than the limit.
	Memory(run Run, now time.Time) (needs, holds int64)
	// Healthy: the liveness probe and the readiness probe succeed.
	Healthy(run Run, now time.Time) (alive, ready bool)
	// Ends is when the main process ends by itself, and with which exit code. Zero: it runs on.
	Ends(run Run) (at time.Time, code int32)
	// Next is the earliest time after now at which one of the answers above may be another one, or the memory needed
	// more than the limit. Zero: not for an hour.
	Next(run Run, now time.Time) time.Time
}

// simple are processes that two functions describe; nothing is known of their future.
type simple struct{ n *Node }

func (s simple) Memory(run Run, now time.Time) (needs, holds int64) {
	holds = s.n.options.Usage(run.Pod, run.Container)
	if now.Sub(run.StartedAt) >= oomAfter {
		needs = holds
	}
	return needs, holds
}

func (s simple) Healthy(run Run, _ time.Time) (alive, ready bool) {
	return true, s.n.options.Ready(run.Pod)
}
func (simple) Ends(Run) (time.Time, int32)   { return time.Time{}, 0 }
func (simple) Next(Run, time.Time) time.Time { return time.Time{} }
