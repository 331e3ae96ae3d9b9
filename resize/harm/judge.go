// Package harm judges whether a resize caused a regression, and stores the minimums learned from it. It is pure, as
// package resize is; it imports resize, which never imports it.
//
// A judgement goes through these steps:
//  1. Signals (signals.go) are measured during the observation period, and the pod's status is read.
//  2. Shown and Judge (judge.go) turn them into a verdict: regression, no regression, or inconclusive. They apply the
//     list Triggers (triggers.go); slo.go has the guardrails. restarts.go and verified.go find other explanations.
//  3. After a regression, LearnHarm (learn.go) adds floors, and DropVerified (verified.go) drops verified sizes that are
//     no longer trusted.
//  4. Without a regression, AddVerified (verified.go) stores the size as verified.
//  5. birth.go applies the same to the admission resources of new pods.
//
// The package never reverts anything: lifecycle.Next decides that from the verdict. Start reading with Triggers.
package harm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

const (
	// harmfulRestarts is the number of restarts since the resize that counts as a crash loop; a single restart also
	// happens without a resize.
	harmfulRestarts = 2
	// harmfulThrottling is the fraction (0 to 1) above which CPU throttling is a regression: of a container's throttled
	// periods, or of the time in which it waited for a CPU.
	harmfulThrottling = 0.5
	// busyNode is the used fraction of a node's CPU from which its containers get little beyond their requests.
	busyNode = 0.9
)

// Assess returns the state of a record's resize in its pod (nil: deleted), together with the verdict on its regression.
func Assess(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities, now time.Time, rules resize.Rules, signals Signals) lifecycle.State {
	state := lifecycle.Assess(pod, record, caps, now).Suffered(record, Shown(pod, record))
	return state.With(Judge(pod, record, now, rules, signals))
}

// Judge returns the verdict on a resize. OOM kills and restarts are a regression at once, a violated guardrail during the
// observation period, the other Triggers only at its end. Without a regression the verdict lists the signals that could not be judged.
func Judge(pod *corev1.Pod, record v1alpha1.ResizeRecord, now time.Time, rules resize.Rules, signals Signals) resize.Verdict {
	if pod == nil || pod.UID != record.PodUID {
		return resize.Verdict{}
	}
	c := caseOf(pod, record)
	c.Rules, c.Signals, c.now = rules, signals, now
	if v, decided := c.early(); decided {
		return v
	}
	if v := otherKill(c); v.OtherKill {
		return v
	}
	switch {
	case record.Wave == resize.WaveReboost || record.WatchUntil == nil:
		return resize.Verdict{}
	case now.Before(record.WatchUntil.Time):
		return c.during()
	}
	return c.orDuring(c.judge(AtEnd))
}

// early judges what the pod's status and its counters show at any time; false: they show nothing.
func (c Case) early() (resize.Verdict, bool) {
	var v resize.Verdict
	if !followsCrash(c.Record) {
		v = c.judge(AtOnce)
	}
	if c.Record.Wave != resize.WaveReboost && v.Harm == "" && !v.Inconclusive {
		v = c.judge(OnceMeasured)
	}
	v = c.orDuring(v)
	return v, v.Harm != "" || v.Inconclusive
}

// Shown returns the regression in the pod's own status (nil: deleted pod), which is reverted before the observation
// period ends.
func Shown(pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Verdict {
	if pod == nil || pod.UID != record.PodUID || followsCrash(record) {
		return resize.Verdict{}
	}
	return caseOf(pod, record).judge(AtOnce)
}

// followsCrash reports that the pod crashed before the resize, which only raised it: original resources that were
// restored, or a startup boost after a restart. It is never the cause of a crash.
func followsCrash(record v1alpha1.ResizeRecord) bool {
	return record.Wave == resize.WaveTemplate || record.Wave == resize.WaveRestore || record.Wave == resize.WaveReboost
}

// killed finds an OOM kill. It is a regression only of a resize that changed the container's memory.
func killed(c Case) resize.Verdict {
	for _, change := range c.Changes {
		t := podview.KilledSince(c.statuses[change.Container], change.Baseline)
		if t == nil || !movesMemory(c.Record, change) {
			continue
		}
		live := podview.ByName(podview.Read(c.Pod))[change.Container]
		return resize.Verdict{Harm: resize.HarmOOM, Container: change.Container, Evidence: podview.Evidence(t), At: t.FinishedAt.Time,
			Ceiling: ceiling(podview.KillingLimit(c.Pod, live.Size), t.ContainerID, c.Record, change), Message: killMessage(change, t, c.Record)}
	}
	return resize.Verdict{}
}

// restarted finds a container that restarts repeatedly, or once with an error after its memory was lowered: a heap that
// is a share of the limit fails without an OOM kill. A created pod (a baseline without a run) may fail once for other
// reasons, such as a service that does not answer yet. Restarts after an OOM kill do not count: if the resize did not
// cause the kill, it did not cause them.
func restarted(c Case) resize.Verdict {
	for _, change := range c.Changes {
		status := c.statuses[change.Container]
		if podview.KilledSince(status, change.Baseline) != nil || killedByNode(status) {
			continue
		}
		n, at := restartsSince(c.Pod, status, change), c.Record.WrittenAt.UTC().Format(time.RFC3339)
		ends := podview.Terminations(status)
		message := ""
		switch {
		case n >= harmfulRestarts:
			message = fmt.Sprintf("container %s restarted %d times since the resize of %s", change.Container, n, at)
		case n > 0 && lowersMemory(change) && change.Baseline.StartedAt != nil && len(ends) > 0 && ends[0].ExitCode != 0:
			message = fmt.Sprintf("container %s ended with exit code %d after the resize of %s lowered its memory", change.Container, ends[0].ExitCode, at)
		default:
			continue
		}
		return resize.Verdict{Harm: resize.HarmRestart, Container: change.Container, Message: message}
	}
	return resize.Verdict{}
}

// otherKill reports an OOM kill of a container whose memory the resize did not change. It proves nothing about the
// resize. Its answer is more memory, which an open record blocks.
func otherKill(c Case) resize.Verdict {
	for _, change := range c.Changes {
		if t := podview.KilledSince(c.statuses[change.Container], change.Baseline); t != nil && !movesMemory(c.Record, change) {
			return resize.Verdict{OtherKill: true, Container: change.Container, Message: killMessage(change, t, c.Record) + ", which did not change its memory"}
		}
	}
	if c.Record.Wave != resize.WaveReboost {
		return resize.Verdict{}
	}
	// A boost may last long: it must not block the answer to a kill of another container.
	for _, change := range c.Changes {
		if started := change.Baseline.StartedAt; started != nil {
			if kill := lifecycle.KilledAfterStart(c.Pod, started.Time); kill != nil {
				return resize.Verdict{OtherKill: true, Container: kill.Container, Message: fmt.Sprintf("container %s was OOM-killed during the startup boost", kill.Container)}
			}
		}
	}
	return resize.Verdict{}
}

// killMessage returns the sentence about an OOM kill after a resize.
func killMessage(c resize.Change, t *corev1.ContainerStateTerminated, record v1alpha1.ResizeRecord) string {
	return fmt.Sprintf("container %s was OOM-killed at %s, after the resize of %s", c.Container,
		t.FinishedAt.UTC().Format(time.RFC3339), record.WrittenAt.UTC().Format(time.RFC3339))
}

// movesMemory reports whether the resize, or its pending second patch, changes a container's memory.
func movesMemory(record v1alpha1.ResizeRecord, c resize.Change) bool {
	memory := c.Prior[recommender.Memory]
	return c.Desired[recommender.Memory] != memory || slices.ContainsFunc(record.Then, func(then v1alpha1.ContainerResources) bool {
		return then.Name == c.Container && podview.FromResources(then.Resources)[recommender.Memory] != memory
	})
}

// lowersMemory reports whether a resize lowers a container's memory limit, or its request if it has no limit.
func lowersMemory(c resize.Change) bool {
	return podview.LimitOrRequest(c.Desired[recommender.Memory]) < podview.LimitOrRequest(c.Prior[recommender.Memory])
}

// childKilled reports an OOM kill of a process that was not the container's main process: the container keeps running
// and its status shows nothing.
func childKilled(c Case) resize.Verdict {
	for _, change := range c.Changes {
		n := wholeKills(c.Signals.OOMEvents[change.Container]) - c.killsBefore(change)
		if n > 0 && movesMemory(c.Record, change) {
			live := podview.ByName(podview.Read(c.Pod))[change.Container]
			return resize.Verdict{Harm: resize.HarmOOM, Measured: true, Container: change.Container, Evidence: resizeEvidence(c.Record),
				Ceiling: ceiling(podview.KillingLimit(c.Pod, live.Size), change.Baseline.ContainerID, c.Record, change),
				Message: fmt.Sprintf("%.0f processes of container %s were OOM-killed since the resize of %s", n, change.Container,
					c.Record.WrittenAt.UTC().Format(time.RFC3339))}
		}
	}
	return resize.Verdict{}
}

// wholeKills returns a source's count of OOM kills as a whole number: a store that averages series answers fractions, and a
// small fraction is no kill.
func wholeKills(events float64) float64 { return math.Round(events) }

// unseenKills lists the containers whose memory the resize changed and whose killed child processes were not measured.
func unseenKills(c Case) resize.Verdict {
	var notJudged []string
	for _, change := range c.Changes {
		if _, measured := c.Signals.OOMEvents[change.Container]; !measured && movesMemory(c.Record, change) {
			notJudged = append(notJudged, "OOM kills of child processes of container "+change.Container)
		}
	}
	return resize.Verdict{NotJudged: notJudged}
}

// eventLasts is how long a Prometheus server shows the event series of a run that has ended.
const eventLasts = 5 * time.Minute

// killsBefore counts the OOM kills in a container's status before the resize whose events the source may still show at
// the end of the observation period. Each is the kill that the resize answers, and not one of the new size.
func (c Case) killsBefore(change resize.Change) (n float64) {
	status, measured := c.statuses[change.Container], ptr.Deref(c.Record.WatchUntil, c.Record.WrittenAt)
	for _, t := range podview.Terminations(status) {
		if podview.Killed(t) && !podview.EndedSince(status, t, change.Baseline) && measured.Sub(t.FinishedAt.Time) < eventLasts {
			n++
		}
	}
	return n
}

// excused makes the verdict of an Excusable trigger inconclusive if it has another possible cause: a node that is or was
// down, other pods that became not ready without a resize, or a rollout.
func excused(v resize.Verdict, record v1alpha1.ResizeRecord, signals Signals) resize.Verdict {
	if !slices.ContainsFunc(Triggers, func(t Trigger) bool { return t.Harm == v.Harm && t.Excusable }) {
		return v
	}
	switch {
	case signals.NodeBooted.After(record.WrittenAt.Time):
		return resize.Verdict{Inconclusive: true, Message: "the node restarted after the resize: " + v.Message}
	case signals.NodeNotReady:
		return resize.Verdict{Inconclusive: true, Message: "the node is not ready: " + v.Message}
	case signals.SiblingsUnready:
		return resize.Verdict{Inconclusive: true, Message: "pods of the workload that were not resized became not ready as well: " + v.Message}
	case signals.Rollout:
		return resize.Verdict{Inconclusive: true, Message: "the workload is rolling out: " + v.Message}
	}
	return v
}

const (
	// bootsFor is how long after its start a node explains a violated guardrail.
	bootsFor = 10 * time.Minute
	// excusedFor is how long after the observation period something else explains a violated guardrail. After that the
	// larger size is the safe one, whatever else happens.
	excusedFor = time.Hour
)

// postponed makes a regression that passes inconclusive while it has another possible cause. It is then judged again,
// so that a decrease that did cause it is reverted when the other cause has passed. Other pods that are not ready are
// no such cause: a decrease moves load to them.
func (c Case) postponed(v resize.Verdict) resize.Verdict {
	cause, booted := "", c.Signals.NodeBooted
	switch {
	case c.now.Sub(c.Record.WrittenAt.Time) >= lifecycle.WatchFor(c.Record, c.Rules)+excusedFor:
	case c.Signals.Rollout:
		cause = "the workload is rolling out"
	case c.Signals.Evicted:
		cause = "pods of the workload are being evicted"
	case c.Signals.NodeNotReady:
		cause = "the node is not ready"
	case booted.After(c.Record.WrittenAt.Time) && c.now.Sub(booted) < bootsFor:
		cause = "the node has just restarted"
	}
	if cause == "" {
		return v
	}
	return resize.Verdict{Inconclusive: true, Again: true, Message: cause + ", so the guardrail is checked again: " + v.Message}
}

// throttled judges containers whose CPU was lowered: with a limit by the throttled fraction of periods, without a limit
// by the missing CPU on a busy node.
func throttled(c Case) resize.Verdict {
	var notJudged []string
	for _, change := range c.Changes {
		from, to := change.Prior[recommender.CPU], change.Desired[recommender.CPU]
		var message, needs string
		var known bool
		switch {
		case to.Limit > 0 && (to.Limit < from.Limit || from.Limit == 0):
			message, known = throttledAtLimit(change, c.Signals)
			needs = "container_cpu_cfs_periods_total"
		case to.Limit == 0 && to.Request < from.Request:
			message, known = starved(change, c.Signals)
			needs = "PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer"
		default:
			continue
		}
		if message != "" {
			return resize.Verdict{Harm: resize.HarmThrottle, Measured: true, Container: change.Container, Message: message}
		}
		if !known {
			notJudged = append(notJudged, fmt.Sprintf("CPU of container %s (needs %s)", change.Container, needs))
		}
	}
	return resize.Verdict{NotJudged: notJudged}
}

// throttledAtLimit returns a message if the throttled fraction is a regression; known is false if it was not measured.
func throttledAtLimit(c resize.Change, signals Signals) (message string, known bool) {
	ratio, known := signals.Throttle[c.Container]
	if ratio > harmfulThrottling {
		message = fmt.Sprintf("container %s was throttled in %.0f %% of its periods at a CPU limit of %s", c.Container, ratio*100,
			recommender.Format(recommender.CPU, c.Desired[recommender.CPU].Limit))
	}
	return message, known
}

// starved judges a container without a CPU limit. It lacks CPU only if it uses more than its request on a node with
// little CPU beyond requests. So one of the two measurements is enough to exclude that.
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
		return fmt.Sprintf("container %s uses %s of CPU, more than its request of %s, on a node whose CPU is %.0f %% busy", c.Container,
			recommender.Format(recommender.CPU, usage), recommender.Format(recommender.CPU, request), busy*100), true
	}
	return "", known
}

// unready judges readiness, for pods whose containers were all ready before the resize.
func unready(c Case) resize.Verdict {
	for _, change := range c.Changes {
		if !change.Baseline.Ready {
			return resize.Verdict{NotJudged: []string{"readiness, because container " + change.Container + " was not ready before the resize"}}
		}
	}
	switch {
	case podview.IsReady(c.Pod):
		return resize.Verdict{}
	case restartsAll(c.Pod):
		return resize.Verdict{Inconclusive: true, Message: "the pod's own restart rules restart all its containers"}
	}
	return resize.Verdict{Harm: resize.HarmNotReady, Message: "the pod was ready before the resize, but not at the end of the observation period"}
}

// leftOpen makes the verdict inconclusive if the usage source gave no answer about a decrease, so that the size does
// not count as verified without a check.
func leftOpen(c Case) resize.Verdict {
	if c.Signals.Unanswered == "" || !slices.ContainsFunc(c.Changes, func(c resize.Change) bool { return c.Move().Lowers() }) {
		return resize.Verdict{}
	}
	return resize.Verdict{Inconclusive: true, Message: "the usage source did not answer: " + c.Signals.Unanswered}
}

// unjudged ends a message with the signals that could not be judged; empty if there are none.
func unjudged(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return "not checked: " + strings.Join(what, ", ")
}
