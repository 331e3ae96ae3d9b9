package resize

import (
	"time"

	"attune.io/attune/recommender"
)

// Harm is what a resize did to a pod; its word is that of floors, metrics and history rows.
type Harm string

const (
	HarmOOM      Harm = "oomkill"
	HarmRestart  Harm = "restart"
	HarmThrottle Harm = "throttle"
	HarmNotReady Harm = "notready"
	HarmSLO      Harm = "slo"
)

// Verdict is what is known of the harm that a resize did.
type Verdict struct {
	// Harm is empty where none is known.
	Harm      Harm
	Container string
	// Inconclusive: something that is not our doing makes it impossible to tell.
	Inconclusive bool
	// OtherKill: the kernel killed a container for want of memory that the resize left alone.
	OtherKill bool
	// Message is one sentence with the figures.
	Message string
	// Evidence names the event, so that it is counted once.
	Evidence string
	// At is when it happened, where that is known.
	At time.Time
	// Ceiling is the memory limit that killed, or the request where there is no limit.
	Ceiling recommender.Amount
	// NotJudged names what could not be looked at.
	NotJudged []string
}
