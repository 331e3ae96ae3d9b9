package resize

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
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

const (
	// harmfulRestarts since the record was written are a crash loop.
	harmfulRestarts = 2
	// harmfulThrottling is the fraction of its periods in which a container's CPU was throttled, or of the
	// time in which it waited for one.
	harmfulThrottling = 0.5
	// busyNode is the fraction of its CPU from which on a container on a node gets little beyond its request.
	busyNode = 0.9
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

// Judge says what harm a resize did. OOM kills and restarts are harm at once; throttling, readiness and
// guardrails are judged when the watch has ended, as they may be off for a moment while a process adjusts.
func Judge(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time, rules Rules, signals Signals) Verdict {
	if pod == nil || pod.UID != record.PodUID {
		return Verdict{}
	}
	changes := changesOf(record)
	for _, v := range []Verdict{earlyHarm(pod, record, changes), childKilled(pod, record, changes, signals)} {
		if v = excused(v, record, signals); v.Harm != "" || v.Inconclusive {
			return v
		}
	}
	if v := otherKill(pod, record, changes); v.OtherKill {
		return v
	}
	if record.WatchUntil == nil || now.Before(record.WatchUntil.Time) {
		return Verdict{}
	}
	var notJudged []string
	for _, judge := range []func(*corev1.Pod, []change, Signals) Verdict{throttled, unready, guardrails, leftOpen} {
		v := excused(judge(pod, changes, signals), record, signals)
		notJudged = append(notJudged, v.NotJudged...)
		if v.Harm != "" || v.Inconclusive {
			v.NotJudged = notJudged
			if v.Inconclusive && len(notJudged) > 0 {
				v.Message += "; " + unjudged(notJudged)
			}
			return v
		}
	}
	return Verdict{NotJudged: notJudged, Message: unjudged(notJudged)}
}

// earlyHarm is what warrants putting back before the watch has ended. An OOM kill is harm of a resize that moved the
// memory of the container, and of no other: neither are the restarts that such kills make. A pod that is given what its
// template says crashed before that, and may go on to.
func earlyHarm(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []change) Verdict {
	if record.Wave == WaveBirth {
		return Verdict{}
	}
	statuses, live := podview.Statuses(pod), byName(podview.Read(pod))
	for _, c := range changes {
		if t := podview.KilledSince(statuses[c.name], c.baseline); t != nil && movesMemory(record, c) {
			return Verdict{Harm: HarmOOM, Container: c.name, Evidence: podview.Evidence(t), At: t.FinishedAt.Time,
				Ceiling: podview.KillingLimit(pod, live[c.name].Size), Message: killMessage(c, t, record)}
		}
	}
	for _, c := range changes {
		if podview.KilledSince(statuses[c.name], c.baseline) != nil {
			continue
		}
		if n := restartsSince(pod, statuses[c.name], c); n >= harmfulRestarts {
			return Verdict{Harm: HarmRestart, Container: c.name, Message: fmt.Sprintf(
				"container %s restarted %d times since the resize of %s", c.name, n, record.WrittenAt.UTC().Format(time.RFC3339))}
		}
	}
	return Verdict{}
}

// otherKill is an OOM kill since the resize of a container whose memory it left alone. It proves nothing about the
// resize, and its answer is more memory, which waits for the end of the watch.
func otherKill(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []change) Verdict {
	statuses := podview.Statuses(pod)
	for _, c := range changes {
		if t := podview.KilledSince(statuses[c.name], c.baseline); t != nil && !movesMemory(record, c) {
			return Verdict{OtherKill: true, Container: c.name, Message: killMessage(c, t, record) + " that left its memory alone"}
		}
	}
	return Verdict{}
}

func killMessage(c change, t *corev1.ContainerStateTerminated, record v1alpha1.ResizeRecord) string {
	return fmt.Sprintf("container %s was OOM-killed at %s, after the resize of %s", c.name,
		t.FinishedAt.UTC().Format(time.RFC3339), record.WrittenAt.UTC().Format(time.RFC3339))
}

// movesMemory: the resize changed the memory of a container, or its second patch is going to.
func movesMemory(record v1alpha1.ResizeRecord, c change) bool {
	memory := c.prior[recommender.Memory]
	return c.desired[recommender.Memory] != memory || slices.ContainsFunc(record.Then, func(then v1alpha1.ContainerResources) bool {
		return then.Name == c.name && podview.FromResources(then.Resources)[recommender.Memory] != memory
	})
}

// childKilled is an OOM kill that the container survived.
func childKilled(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []change, signals Signals) Verdict {
	live := byName(podview.Read(pod))
	for _, c := range changes {
		if n := signals.OOMEvents[c.name]; n > 0 && movesMemory(record, c) {
			return Verdict{Harm: HarmOOM, Container: c.name, Evidence: resizeEvidence(record), Ceiling: podview.LimitOrRequest(live[c.name].Size[recommender.Memory]),
				Message: fmt.Sprintf("%.0f processes of container %s were OOM-killed since the resize of %s", n, c.name,
					record.WrittenAt.UTC().Format(time.RFC3339))}
		}
	}
	return Verdict{}
}

// excused: a node that is down or was, what made pods unready that were not resized, and a rollout explain restarts and a
// pod that is not ready as well as our resize does.
func excused(v Verdict, record v1alpha1.ResizeRecord, signals Signals) Verdict {
	if v.Harm != HarmRestart && v.Harm != HarmNotReady {
		return v
	}
	switch {
	case signals.NodeBooted.After(record.WrittenAt.Time):
		return Verdict{Inconclusive: true, Message: "the node started anew since the resize: " + v.Message}
	case signals.NodeNotReady:
		return Verdict{Inconclusive: true, Message: "the node is not ready: " + v.Message}
	case signals.SiblingsUnready:
		return Verdict{Inconclusive: true, Message: "pods of the workload that were not resized turned unready as well: " + v.Message}
	case signals.Rollout:
		return Verdict{Inconclusive: true, Message: "the workload is rolling out: " + v.Message}
	}
	return v
}

// throttled judges containers whose CPU was lowered: by throttling where they have a limit, else by how
// much they lack on a busy node.
func throttled(_ *corev1.Pod, changes []change, signals Signals) Verdict {
	var notJudged []string
	for _, c := range changes {
		from, to := c.prior[recommender.CPU], c.desired[recommender.CPU]
		var message string
		var known bool
		switch {
		case to.Limit > 0 && (to.Limit < from.Limit || from.Limit == 0):
			message, known = throttledAtLimit(c, signals)
		case to.Limit == 0 && to.Request < from.Request:
			message, known = starved(c, signals)
		default:
			continue
		}
		if message != "" {
			return Verdict{Harm: HarmThrottle, Container: c.name, Message: message}
		}
		if !known {
			notJudged = append(notJudged, "CPU of container "+c.name)
		}
	}
	return Verdict{NotJudged: notJudged}
}

func throttledAtLimit(c change, signals Signals) (message string, known bool) {
	ratio, known := signals.Throttle[c.name]
	if ratio > harmfulThrottling {
		message = fmt.Sprintf("container %s was throttled in %.0f %% of its periods at a CPU limit of %s", c.name, ratio*100,
			recommender.Format(recommender.CPU, c.desired[recommender.CPU].Limit))
	}
	return message, known
}

// starved: only who needs more than its request lacks anything, and only where there is little beyond it, so that
// either of the two tells of a pod that is well.
func starved(c change, signals Signals) (message string, known bool) {
	pressure, known := signals.CPUPressure[c.name]
	if pressure > harmfulThrottling {
		return fmt.Sprintf("container %s waited for CPU %.0f %% of the time", c.name, pressure*100), true
	}
	usage, measured := signals.CPUUsage[c.name]
	request, busy := c.desired[recommender.CPU].Request, signals.NodeBusy
	switch {
	case measured && usage <= request, busy > 0 && busy < busyNode:
		return "", true
	case measured && busy >= busyNode:
		return fmt.Sprintf("container %s needs %s of CPU, more than the %s it requests, on a node that is %.0f %% busy", c.name,
			recommender.Format(recommender.CPU, usage), recommender.Format(recommender.CPU, request), busy*100), true
	}
	return "", known
}

// unready judges pods that were ready before.
func unready(pod *corev1.Pod, changes []change, _ Signals) Verdict {
	for _, c := range changes {
		if !c.baseline.Ready {
			return Verdict{NotJudged: []string{"readiness, as container " + c.name + " was not ready before"}}
		}
	}
	switch {
	case podview.IsReady(pod):
		return Verdict{}
	case restartsAll(pod):
		return Verdict{Inconclusive: true, Message: "its own rules restart all containers of the pod"}
	}
	return Verdict{Harm: HarmNotReady, Message: "the pod was ready before the resize and is not at the end of its watch"}
}

// guardrails: one that is broken is harm; one that gave no answer leaves it open.
func guardrails(_ *corev1.Pod, _ []change, signals Signals) Verdict {
	var open Verdict
	for _, slo := range signals.SLO {
		switch {
		case slo.Failed != "":
			open = Verdict{Inconclusive: true, Message: fmt.Sprintf("guardrail %s gave no answer: %s", slo.Name, slo.Failed)}
		case !slo.Held:
			return Verdict{Harm: HarmSLO, Message: fmt.Sprintf("guardrail %s is broken: %s", slo.Name, slo.Message)}
		}
	}
	return open
}

// leftOpen: what only the source can tell of a size that gives less is asked for again, before that size is kept.
func leftOpen(_ *corev1.Pod, changes []change, signals Signals) Verdict {
	if signals.Unanswered == "" || !slices.ContainsFunc(changes, change.givesLess) {
		return Verdict{}
	}
	return Verdict{Inconclusive: true, Message: "the usage source gave no answer: " + signals.Unanswered}
}

// givesLess: the container has less CPU or memory than before, or a limit where it had none.
func (c change) givesLess() bool {
	for _, r := range recommender.Resources {
		from, to := c.prior[r], c.desired[r]
		if to.Request < from.Request || to.Limit > 0 && (from.Limit == 0 || to.Limit < from.Limit) {
			return true
		}
	}
	return false
}

func unjudged(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return "not judged: " + strings.Join(what, ", ")
}
