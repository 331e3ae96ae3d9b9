package harm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

const (
	// nodeKill is the reason of a row in status.floors for an OOM kill of the node. Its amount is 0: it is no minimum. It
	// keeps the kill from being learned after its evidence is gone.
	nodeKill = "nodekill"
	// nodeKillUse is the fraction of its limit below which a container may have been killed by its node.
	nodeKillUse = 0.7
	// nodeKillWorkloads is how many workloads are killed at once by a node without MemoryPressure: a node, or the cgroup
	// above the pods, reports it late or never.
	nodeKillWorkloads = 3
	// NodeKillWithin is how close in time these kills are.
	NodeKillWithin = 10 * time.Second
	// nodeKillOnce is how long after a kill of the node the kills of the same container, in any pod, are its own: a
	// container that fills its limit between two samples looks like a victim of its node each time.
	nodeKillOnce = time.Hour
	// eventSoon is when an OOM event is asked for again. It is measured after the end of its run.
	eventSoon = 30 * time.Second
)

// KillFacts are measurements about one termination of a container. The zero value: nothing was measured.
type KillFacts struct {
	// Used is the container's last memory sample before the termination, in bytes.
	Used recommender.Amount
	// Workloads is how many workloads had OOM-killed containers on the node within NodeKillWithin of it.
	Workloads int
	// Events is how many processes of the container the kernel killed since one minute before it.
	Events float64
}

// Ends has what is known about the terminations in a pod's status.
type Ends struct {
	// Facts are measurements, by podview.Evidence.
	Facts map[string]KillFacts
	// Node of the pod; nil: not known.
	Node *corev1.Node
	// Records are the open ones, Originals the original resources of the pod's containers, by name.
	Records   []v1alpha1.ResizeRecord
	Originals map[string]recommender.Size
}

// ReadEnds returns the pod with the reasons of its terminations corrected by what is known about them, as a copy if one
// differs. All later steps read only the corrected reasons:
//   - Exit code 137 with another reason and an OOM event is an OOM kill: the runtime heard of the kill too late. Its floor
//     keeps it one after the source has forgotten the event.
//   - An OOM kill of the node is none of the container: it teaches no minimum and reverts nothing.
//
// The returned floors have a row for each kill of the node instead of the minimum that was learned from it. messages has
// a sentence about each new one, and about each that is not the node's because one before it was. again is when to read
// them again, because more may be known by then; 0: there is no need.
func ReadEnds(pod *corev1.Pod, floors []v1alpha1.Floor, ends Ends, now time.Time) (read *corev1.Pod, learned []v1alpha1.Floor, messages []string, again time.Duration) {
	read, learned = pod, floors
	correct := func(container string, i int, reason string) {
		if read == pod {
			read = pod.DeepCopy()
		}
		podview.Terminations(podview.Statuses(read)[container])[i].Reason = reason
	}
	statuses := podview.Statuses(pod)
	for _, c := range podview.Read(pod) {
		for i, t := range slices.Backward(podview.Terminations(statuses[c.Name])) { // the older one first
			if t.ExitCode != podview.Sigkill && !podview.Killed(t) {
				continue
			}
			k := podview.KillOf(pod, c, t)
			row := v1alpha1.Floor{Container: c.Name, Resource: recommender.Memory.String(), Reason: nodeKill, LearnedAt: t.FinishedAt, Evidence: k.Evidence}
			same := func(f v1alpha1.Floor) bool { return identity(f) == identity(row) }
			known := podview.First(learned, same).Reason
			reason, message, soon := ends.explain(pod, k, t.Reason, known, learned, now)
			if again == 0 || soon > 0 && soon < again {
				again = soon
			}
			if reason != t.Reason {
				correct(c.Name, i, reason)
			}
			if reason == nodeKill && known != nodeKill {
				learned = bounded(append(slices.DeleteFunc(slices.Clone(learned), same), row), now)
				if !slices.ContainsFunc(learned, same) {
					message = "" // the next reconcile would report it again
				}
			}
			if message != "" {
				messages = append(messages, message)
			}
		}
	}
	return read, learned, messages, again
}

// explain returns the corrected reason of a termination, a sentence if something new is known about it, and when more may
// be known (0: there is no need to look again). known is the reason of its row among the floors; empty: it has none.
func (e Ends) explain(pod *corev1.Pod, k podview.OOM, reason, known string, floors []v1alpha1.Floor, now time.Time) (corrected, message string, again time.Duration) {
	facts, asked := e.Facts[k.Evidence]
	switch {
	case reason != podview.OOMKilled && (known != "" || wholeKills(facts.Events) > 0):
		return podview.OOMKilled, "", 0
	case reason != podview.OOMKilled && asked:
		return reason, "", eventSoon
	case reason != podview.OOMKilled || known == nodeKill:
		return cmp.Or(known, reason), "", 0
	}
	message, mayBe := e.ofNode(pod, k, now)
	follows := followsNodeKill(floors, k)
	switch {
	case message == "" && mayBe:
		return reason, "", NodeKillWithin
	case message == "" || follows && known != "":
		return reason, "", 0
	case follows:
		return reason, message + ". Less than an hour before, a kill of this container was the node's. So this one counts as a kill at the limit, which it may fill between two samples", 0
	}
	return nodeKill, message + ". Its limit stays. Raise the memory requests of the pods on the node", 0
}

// followsNodeKill reports whether an earlier kill of the container, less than nodeKillOnce before, was the node's. Kills
// within NodeKillWithin are of the same shortage.
func followsNodeKill(floors []v1alpha1.Floor, k podview.OOM) bool {
	return slices.ContainsFunc(floors, func(f v1alpha1.Floor) bool {
		after := k.At.Sub(f.LearnedAt.Time)
		return f.Reason == nodeKill && f.Container == k.Container && after > NodeKillWithin && after < nodeKillOnce
	})
}

// ofNode returns the sentence about an OOM kill that was the node's; empty: it was the container's. mayBe is true if the
// container was far below its limit a moment ago. A container that attune has lowered and observes, or lowered at
// admission, is never killed by its node.
func (e Ends) ofNode(pod *corev1.Pod, k podview.OOM, now time.Time) (message string, mayBe bool) {
	facts := e.Facts[k.Evidence]
	limit, _ := limitAtKill(pod, k, e.Records, e.Originals[k.Container], now)
	_, change, open := changeOf(pod, e.Records, k.Container)
	if facts.Used == 0 || float64(facts.Used) >= nodeKillUse*float64(limit) || open && change.Move().LowersOf(recommender.Memory) || loweredAtAdmission(pod, k.Container, e.Originals) {
		return "", false
	}
	if facts.Workloads < nodeKillWorkloads && !underPressure(e.Node, k.At) {
		return "", now.Sub(k.At).Abs() < 2*NodeKillWithin
	}
	return fmt.Sprintf("Node %s ran out of memory: container %s was OOM-killed at %s, when it used %s of its limit %s",
		pod.Spec.NodeName, k.Container, k.At.UTC().Format(time.RFC3339), recommender.Format(recommender.Memory, facts.Used), recommender.Format(recommender.Memory, limit)), true
}

// loweredAtAdmission reports whether admission lowered the memory of a container, and its pod was not resized since.
func loweredAtAdmission(pod *corev1.Pod, container string, originals map[string]recommender.Size) bool {
	birth, _ := BirthRecord(pod, originals)
	return slices.ContainsFunc(resize.Changes(birth), func(c resize.Change) bool { return c.Container == container && c.Move().LowersOf(recommender.Memory) })
}

// killedByNode reports whether a container's status shows an OOM kill of the node (ReadEnds).
func killedByNode(status *corev1.ContainerStatus) bool {
	return podview.First(podview.Terminations(status), func(t *corev1.ContainerStateTerminated) bool { return t.Reason == nodeKill }) != nil
}

// underPressure reports whether a node (nil: not known) reports MemoryPressure, or did so until after a time. A node that
// is lost proves nothing.
func underPressure(node *corev1.Node, at time.Time) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeMemoryPressure && (c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionFalse && c.LastTransitionTime.After(at))
	})
}
