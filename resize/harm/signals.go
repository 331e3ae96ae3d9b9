package harm

import (
	"time"

	"attune.io/attune/recommender"
)

// Signals are the measurements of a pod during the observation period of its resize. A missing signal is not judged,
// and the verdict lists it. Maps are by container name; a missing key means "not measured". The workload loop fills
// them.
type Signals struct {
	// OOMEvents is how many processes of each container the kernel killed since the resize
	// (container_oom_events_total). A killed child process does not end its container, so the pod does not show it.
	OOMEvents map[string]float64
	// Throttle is the fraction (0 to 1) of the scheduler's periods in which each container was throttled, over the rate
	// window.
	Throttle map[string]float64
	// CPUUsage is in millicores, CPUPressure the fraction (0 to 1) of time in which a container waited for CPU. They
	// judge containers without a CPU limit, together with NodeBusy, the used fraction of the node's CPU (0: not known).
	CPUUsage    map[string]recommender.Amount
	NodeBusy    float64
	CPUPressure map[string]float64
	// Answers are the results of the triggers' queries (Questions). A query without an entry was not sent.
	Answers map[Question]Answer
	// Unanswered is why the usage source gave no answer, so that missing values prove nothing; empty: it answered.
	Unanswered string
	// NodeBooted is when the pod's node last started; zero: not known.
	NodeBooted time.Time
	// NodeNotReady is true if the pod's node is not ready: its kubelet reports nothing, and the pod's status is out of
	// date.
	NodeNotReady bool
	// SiblingsUnready is true if pods became not ready that were not resized (function SiblingsUnready).
	SiblingsUnready bool
	// Rollout is true while the workload rolls out.
	Rollout bool
	// Evicted is true while a pod of the workload is evicted or preempted, for example because its node is drained.
	Evicted bool
}
