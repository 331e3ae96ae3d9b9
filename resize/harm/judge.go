// Package harm answers: what did a resize do to a pod, and what does that teach? It judges pods by what they show and by what
// was measured of them, turns harm into floors to stay above, and says which sizes were survived and which seeds harmed.
// It is pure, as resize is, which never imports it.
package harm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
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

// Assess says what a pod (nil: gone) shows of a record's resize, with the verdict on the harm that it did.
func Assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities, now time.Time, rules resize.Rules, signals Signals) resize.State {
	state := resize.Assess(pod, record, caps, now).Suffered(record, Shown(pod, record))
	return state.With(Judge(pod, record, now, rules, signals))
}

// Judge says what harm a resize did. OOM kills and restarts are harm at once; throttling, readiness and
// guardrails are judged when the watch has ended, as they may be off for a moment while a process adjusts.
func Judge(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time, rules resize.Rules, signals Signals) resize.Verdict {
	if pod == nil || pod.UID != record.PodUID {
		return resize.Verdict{}
	}
	changes := resize.Changes(record)
	for _, v := range []resize.Verdict{Shown(pod, record), childKilled(pod, record, changes, signals)} {
		if v = excused(v, record, signals); v.Harm != "" || v.Inconclusive {
			return v
		}
	}
	if v := otherKill(pod, record, changes); v.OtherKill {
		return v
	}
	if record.WatchUntil == nil || now.Before(record.WatchUntil.Time) {
		return resize.Verdict{}
	}
	var notJudged []string
	for _, judge := range []func(*corev1.Pod, []resize.Change, Signals) resize.Verdict{throttled, unready, guardrails, leftOpen} {
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
	return resize.Verdict{NotJudged: notJudged, Message: unjudged(notJudged)}
}

// Shown is the harm that a pod (nil: gone) shows by itself, which warrants putting back before the watch has ended. An OOM
// kill is harm of a resize that moved the memory of the container, and of no other: neither are the restarts that such
// kills make. A pod that is given what its template says crashed before that, and may go on to.
func Shown(pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Verdict {
	if pod == nil || pod.UID != record.PodUID || record.Wave == resize.WaveBirth {
		return resize.Verdict{}
	}
	changes, statuses, live := resize.Changes(record), podview.Statuses(pod), podview.ByName(podview.Read(pod))
	for _, c := range changes {
		if t := podview.KilledSince(statuses[c.Container], c.Baseline); t != nil && movesMemory(record, c) {
			return resize.Verdict{Harm: resize.HarmOOM, Container: c.Container, Evidence: podview.Evidence(t), At: t.FinishedAt.Time,
				Ceiling: podview.KillingLimit(pod, live[c.Container].Size), Message: killMessage(c, t, record)}
		}
	}
	for _, c := range changes {
		if podview.KilledSince(statuses[c.Container], c.Baseline) != nil {
			continue
		}
		if n := restartsSince(pod, statuses[c.Container], c); n >= harmfulRestarts {
			return resize.Verdict{Harm: resize.HarmRestart, Container: c.Container, Message: fmt.Sprintf(
				"container %s restarted %d times since the resize of %s", c.Container, n, record.WrittenAt.UTC().Format(time.RFC3339))}
		}
	}
	return resize.Verdict{}
}

// otherKill is an OOM kill since the resize of a container whose memory it left alone. It proves nothing about the
// resize, and its answer is more memory, which waits for the end of the watch.
func otherKill(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change) resize.Verdict {
	statuses := podview.Statuses(pod)
	for _, c := range changes {
		if t := podview.KilledSince(statuses[c.Container], c.Baseline); t != nil && !movesMemory(record, c) {
			return resize.Verdict{OtherKill: true, Container: c.Container, Message: killMessage(c, t, record) + " that left its memory alone"}
		}
	}
	return resize.Verdict{}
}

func killMessage(c resize.Change, t *corev1.ContainerStateTerminated, record v1alpha1.ResizeRecord) string {
	return fmt.Sprintf("container %s was OOM-killed at %s, after the resize of %s", c.Container,
		t.FinishedAt.UTC().Format(time.RFC3339), record.WrittenAt.UTC().Format(time.RFC3339))
}

// movesMemory: the resize changed the memory of a container, or its second patch is going to.
func movesMemory(record v1alpha1.ResizeRecord, c resize.Change) bool {
	memory := c.Prior[recommender.Memory]
	return c.Desired[recommender.Memory] != memory || slices.ContainsFunc(record.Then, func(then v1alpha1.ContainerResources) bool {
		return then.Name == c.Container && podview.FromResources(then.Resources)[recommender.Memory] != memory
	})
}

// childKilled is an OOM kill that the container survived.
func childKilled(pod *corev1.Pod, record v1alpha1.ResizeRecord, changes []resize.Change, signals Signals) resize.Verdict {
	live := podview.ByName(podview.Read(pod))
	for _, c := range changes {
		if n := signals.OOMEvents[c.Container]; n > 0 && movesMemory(record, c) {
			return resize.Verdict{Harm: resize.HarmOOM, Container: c.Container, Evidence: resizeEvidence(record), Ceiling: podview.LimitOrRequest(live[c.Container].Size[recommender.Memory]),
				Message: fmt.Sprintf("%.0f processes of container %s were OOM-killed since the resize of %s", n, c.Container,
					record.WrittenAt.UTC().Format(time.RFC3339))}
		}
	}
	return resize.Verdict{}
}

// excused: a node that is down or was, what made pods unready that were not resized, and a rollout explain restarts and a
// pod that is not ready as well as our resize does.
func excused(v resize.Verdict, record v1alpha1.ResizeRecord, signals Signals) resize.Verdict {
	if v.Harm != resize.HarmRestart && v.Harm != resize.HarmNotReady {
		return v
	}
	switch {
	case signals.NodeBooted.After(record.WrittenAt.Time):
		return resize.Verdict{Inconclusive: true, Message: "the node started anew since the resize: " + v.Message}
	case signals.NodeNotReady:
		return resize.Verdict{Inconclusive: true, Message: "the node is not ready: " + v.Message}
	case signals.SiblingsUnready:
		return resize.Verdict{Inconclusive: true, Message: "pods of the workload that were not resized turned unready as well: " + v.Message}
	case signals.Rollout:
		return resize.Verdict{Inconclusive: true, Message: "the workload is rolling out: " + v.Message}
	}
	return v
}

// throttled judges containers whose CPU was lowered: by throttling where they have a limit, else by how
// much they lack on a busy node.
func throttled(_ *corev1.Pod, changes []resize.Change, signals Signals) resize.Verdict {
	var notJudged []string
	for _, c := range changes {
		from, to := c.Prior[recommender.CPU], c.Desired[recommender.CPU]
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
			return resize.Verdict{Harm: resize.HarmThrottle, Container: c.Container, Message: message}
		}
		if !known {
			notJudged = append(notJudged, "CPU of container "+c.Container)
		}
	}
	return resize.Verdict{NotJudged: notJudged}
}

func throttledAtLimit(c resize.Change, signals Signals) (message string, known bool) {
	ratio, known := signals.Throttle[c.Container]
	if ratio > harmfulThrottling {
		message = fmt.Sprintf("container %s was throttled in %.0f %% of its periods at a CPU limit of %s", c.Container, ratio*100,
			recommender.Format(recommender.CPU, c.Desired[recommender.CPU].Limit))
	}
	return message, known
}

// starved: only who needs more than its request lacks anything, and only where there is little beyond it, so that
// either of the two tells of a pod that is well.
func starved(c resize.Change, signals Signals) (message string, known bool) {
	pressure, known := signals.CPUPressure[c.Container]
	if pressure > harmfulThrottling {
		return fmt.Sprintf("container %s waited for CPU %.0f %% of the time", c.Container, pressure*100), true
	}
	usage, measured := signals.CPUUsage[c.Container]
	request, busy := c.Desired[recommender.CPU].Request, signals.NodeBusy
	switch {
	case measured && usage <= request, busy > 0 && busy < busyNode:
		return "", true
	case measured && busy >= busyNode:
		return fmt.Sprintf("container %s needs %s of CPU, more than the %s it requests, on a node that is %.0f %% busy", c.Container,
			recommender.Format(recommender.CPU, usage), recommender.Format(recommender.CPU, request), busy*100), true
	}
	return "", known
}

// unready judges pods that were ready before.
func unready(pod *corev1.Pod, changes []resize.Change, _ Signals) resize.Verdict {
	for _, c := range changes {
		if !c.Baseline.Ready {
			return resize.Verdict{NotJudged: []string{"readiness, as container " + c.Container + " was not ready before"}}
		}
	}
	switch {
	case podview.IsReady(pod):
		return resize.Verdict{}
	case restartsAll(pod):
		return resize.Verdict{Inconclusive: true, Message: "its own rules restart all containers of the pod"}
	}
	return resize.Verdict{Harm: resize.HarmNotReady, Message: "the pod was ready before the resize and is not at the end of its watch"}
}

// guardrails: one that is broken is harm; one that gave no answer leaves it open.
func guardrails(_ *corev1.Pod, _ []resize.Change, signals Signals) resize.Verdict {
	var open resize.Verdict
	for _, slo := range signals.SLO {
		switch {
		case slo.Failed != "":
			open = resize.Verdict{Inconclusive: true, Message: fmt.Sprintf("guardrail %s gave no answer: %s", slo.Name, slo.Failed)}
		case !slo.Held:
			return resize.Verdict{Harm: resize.HarmSLO, Message: fmt.Sprintf("guardrail %s is broken: %s", slo.Name, slo.Message)}
		}
	}
	return open
}

// leftOpen: what only the source can tell of a size that gives less is asked for again, before that size is kept.
func leftOpen(_ *corev1.Pod, changes []resize.Change, signals Signals) resize.Verdict {
	if signals.Unanswered == "" || !slices.ContainsFunc(changes, givesLess) {
		return resize.Verdict{}
	}
	return resize.Verdict{Inconclusive: true, Message: "the usage source gave no answer: " + signals.Unanswered}
}

// givesLess: the container has less CPU or memory than before, or a limit where it had none.
func givesLess(c resize.Change) bool {
	for _, r := range recommender.Resources {
		from, to := c.Prior[r], c.Desired[r]
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
