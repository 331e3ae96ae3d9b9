package resize

import (
	"time"

	"attune.io/attune/recommender"
)

// Harm is a kind of harm that a resize did to a pod. The words also appear in floors, metrics and history rows.
type Harm string

const (
	// HarmOOM: a process of the container was OOM-killed.
	HarmOOM Harm = "oomkill"
	// HarmRestart: the container restarted repeatedly.
	HarmRestart Harm = "restart"
	// HarmThrottle: the container was throttled at its CPU limit, or lacked CPU beyond its request.
	HarmThrottle Harm = "throttle"
	// HarmNotReady: the pod was ready before and is not at the end of the watch.
	HarmNotReady Harm = "notready"
	// HarmSLO: an SLO guardrail of the policy is broken.
	HarmSLO Harm = "slo"
)

// Verdict is what is known about the harm that a resize did. The zero value: no harm is known. Package harm makes
// it.
type Verdict struct {
	// Harm is the kind; empty where none is known.
	Harm Harm
	// Container that was harmed; empty where the harm concerns the pod.
	Container string
	// Inconclusive is true where something other than the resize explains what is seen as well.
	Inconclusive bool
	// OtherKill is true where a container was OOM-killed whose memory the resize left alone.
	OtherKill bool
	// Message is one sentence with the figures.
	Message string
	// Evidence identifies the event, so that it is counted once.
	Evidence string
	// At is when it happened; zero where that is not known.
	At time.Time
	// Ceiling is the memory limit at which the container was killed, in bytes, or its request where it has no
	// limit.
	Ceiling recommender.Amount
	// NotJudged names what could not be judged for lack of measurements.
	NotJudged []string
}
