package harm

import (
	"time"

	"attune.io/attune/recommender"
)

// Signals are what is measured of a pod while its resize is watched. What is missing is not judged, and
// the verdict says so.
type Signals struct {
	// OOMEvents is how many processes of each container the kernel killed since the resize
	// (container_oom_events_total). A killed child does not end its container, so the pod does not show it.
	OOMEvents map[string]float64
	// Throttle is the fraction of periods in which each container was throttled, over the rate window.
	Throttle map[string]float64
	// CPUUsage of each container, in millicores, and NodeBusy, the used fraction of the node's CPU (0: not
	// known), judge containers without a CPU limit. CPUPressure is the fraction of time that each waited for CPU.
	CPUUsage    map[string]recommender.Amount
	NodeBusy    float64
	CPUPressure map[string]float64
	// SLO are the guardrails' answers.
	SLO []SLOResult
	// Unanswered says why the usage source gave no answer, so that what is missing may be there; empty: it answered.
	Unanswered string
	// NodeBooted is when the pod's node last started; zero is unknown.
	NodeBooted time.Time
	// NodeNotReady: the pod's node is not ready, so that its kubelet reports nothing and what is known of the pod is old.
	NodeNotReady bool
	// SiblingsUnready: pods that were not resized turned unready as well (SiblingsUnready).
	SiblingsUnready bool
	// Rollout: the workload is rolling out.
	Rollout bool
}

// SLOResult is one guardrail's answer.
type SLOResult struct {
	Name string
	// Held: the condition held. It means nothing where Failed is set.
	Held bool
	// Failed says why the query gave no answer.
	Failed string
	// Message has the figures.
	Message string
}
