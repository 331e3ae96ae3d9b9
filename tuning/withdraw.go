package tuning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

const (
	// stalledAfter is how long a pod may wait on its node for its first container before its resources are suspected.
	stalledAfter = time.Minute
	// pendingAfter is how long a pod may wait for a node before it is asked whether its template would fit one.
	pendingAfter = 10 * time.Minute
	// startsEvery is how often pods that do not start are looked at.
	startsEvery = 15 * time.Second
	// rejectedLately is how old an answer of the API server may be that nothing confirms.
	rejectedLately = 5 * time.Minute
	// inFlight is how long after a withdrawal pods are still rejected that admission saw before it.
	inFlight = 10 * time.Second
	// retriedWithin is longer than controllers wait at most between two attempts to create a pod (1,000 s).
	retriedWithin = 20 * time.Minute
	// mostStalled and mostRooms bound how many pods and nodes one pass asks about.
	mostStalled, mostRooms = 3, 100
)

// withdrawer withdraws the admission resources of a workload (status.admissionWithdrawn) where its pods are rejected
// with them or do not start, and gives them again after a day or with a new template, to one pod first. It never
// evicts or deletes a pod.
type withdrawer struct {
	*pass
	originals *originals
	// unscheduled are pods that fit no node, or none now, with what admission gave them. starter.restoreUnscheduled
	// reads them.
	unscheduled []*corev1.Pod
}

// trouble is why admission resources are withdrawn.
type trouble struct {
	reason, message, revision string
}

// judge moves status.admissionWithdrawn one step on.
func (d *withdrawer) judge() {
	w, of := d.out.Status.AdmissionWithdrawn, d.view.owner()
	if d.view.Workload == nil || of.Deleting || d.view.Namespace.Terminating {
		return
	}
	if w == nil {
		if found := d.find(time.Time{}); found != nil {
			d.withdraw(found)
		}
		return
	}
	w.Since, w.Until = *lifecycle.NotAhead(&w.Since, d.view.Now), d.notBeyond(w.Until)
	if hash := d.templateHash(); w.TemplateHash != hash && hash != "" {
		w.TemplateHash, w.RejectedWithout, w.TrialPod = hash, false, ""
		if w.Until.After(d.view.Now) {
			w.Until = metav1.Time{Time: d.view.Now.Truncate(time.Second)}
		}
	}
	switch {
	case w.RejectedWithout:
		d.resumeAfterRejections(w)
	case d.view.Now.Before(w.Until.Time):
		d.rejectedWithout(w)
		d.find(w.Until.Time) // pods that existed before may be given their template's resources
		d.wake(w.Until.Sub(d.view.Now))
	default:
		d.try(w)
	}
}

// notBeyond returns a time, or at most the time to which a withdrawal of now would last.
func (d *withdrawer) notBeyond(until metav1.Time) metav1.Time {
	if most := d.view.Now.Add(harm.WithdrawnFor); until.After(most) {
		return metav1.Time{Time: most.Truncate(time.Second)}
	}
	return until
}

func (d *withdrawer) withdraw(why *trouble) {
	now := d.view.Now.Truncate(time.Second)
	w := &v1alpha1.AdmissionWithdrawn{
		Since: metav1.Time{Time: now}, Until: metav1.Time{Time: now.Add(harm.WithdrawnFor)},
		Reason: why.reason, Message: harm.Words(why.message), Revision: why.revision, TemplateHash: d.templateHash(),
	}
	d.out.Status.AdmissionWithdrawn = w
	d.out.Due = true
	d.out.Events = append(d.out.Events, Event{Event: admissionWithdrawn(w), OnWorkload: true})
}

// rejectedWithout notes that pods are rejected without admission resources as well: these are not the cause.
func (d *withdrawer) rejectedWithout(w *v1alpha1.AdmissionWithdrawn) {
	if r := d.view.Rejected; w.Reason == v1alpha1.ReasonAdmissionRejected && r != nil && r.At.After(w.Since.Add(inFlight)) {
		w.RejectedWithout, w.Message = true, harm.Words(r.Message)
		d.out.Due = true
		d.out.Events = append(d.out.Events, Event{Event: admissionNotTheCause(w), OnWorkload: true})
	}
}

// resumeAfterRejections ends a withdrawal that changed nothing as soon as a pod was created, or no attempt was
// rejected for longer than controllers wait between attempts.
func (d *withdrawer) resumeAfterRejections(w *v1alpha1.AdmissionWithdrawn) {
	r := d.view.Rejected
	if r != nil && r.Lasts || r != nil && d.view.Now.Sub(r.At) < retriedWithin && d.youngestPod().Before(r.At) {
		d.wake(time.Minute)
		return
	}
	if r == nil && d.view.Now.Sub(w.Since.Time) < retriedWithin && d.youngestPod().Before(w.Since.Time) {
		d.wake(time.Minute) // a restart has lost the answer
		return
	}
	d.resume("pods are created again")
}

func (d *withdrawer) resume(why string) {
	d.out.Status.AdmissionWithdrawn = nil
	d.out.Due = true
	d.tell(admissionResumed(why))
}

// try follows the one pod that is created with admission resources after the time of the withdrawal is over.
func (d *withdrawer) try(w *v1alpha1.AdmissionWithdrawn) {
	if found := d.find(w.Until.Time); found != nil {
		d.withdraw(found)
		return
	}
	var tried *corev1.Pod
	for _, pod := range d.seeded() {
		if !pod.CreationTimestamp.Before(&w.Until) && (tried == nil || pod.Name == w.TrialPod) {
			tried = pod
		}
	}
	switch {
	case tried == nil:
		w.TrialPod = ""
	case harm.Started(tried):
		d.resume(fmt.Sprintf("pod %s has started with them", tried.Name))
	default:
		w.TrialPod = tried.Name
		d.wake(startsEvery)
	}
}

// find returns why pods do not come to run with what admission gives, as far as that happened after a time; nil: no
// reason is known. It collects pods that can be given the resources of their template, and asks for what it does not
// know (Unknowns).
func (d *withdrawer) find(since time.Time) *trouble {
	var found *trouble
	if r := d.view.Rejected; r != nil && d.view.Rec.Spec.Seed != nil && r.At.After(since) &&
		(r.Lasts || d.view.Now.Sub(r.At) < rejectedLately && !d.youngestPod().After(r.At)) && harm.MayReject(r.Message, harm.EffectOf(d.view.Rec.Spec.Seed, d.view.templateSize)) {
		found = &trouble{v1alpha1.ReasonAdmissionRejected, r.Message, d.view.Rec.Spec.Seed.Revision}
	}
	for _, pod := range d.seeded() {
		if harm.Started(pod) || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		why := d.ofPod(pod)
		if why != "" && found == nil && !pod.CreationTimestamp.Time.Before(since) {
			found = &trouble{v1alpha1.ReasonPodsDoNotStart, why, seededOf(pod).Revision}
		}
		d.wake(startsEvery)
	}
	return found
}

// ofPod returns why a created pod does not start because of what admission gave it; empty: for no such reason, or
// not for long enough.
func (d *withdrawer) ofPod(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return d.pending(pod)
	}
	originals := d.sizesBefore(pod)
	container, lower := harm.LowersMemoryLimit(pod, originals)
	if !lower || d.view.Now.Sub(scheduledAt(pod)) < stalledAfter {
		return ""
	}
	words, known := d.stalled(pod)
	if !known || !harm.MayStall(words) {
		return ""
	}
	return fmt.Sprintf("pod %s does not start with a memory limit below its template's in container %s; it keeps that until it is deleted: %s", pod.Name, container, words)
}

// stalled returns what the kubelet reports of a pod that waits: of a container that it cannot create, otherwise its
// events. false: not known yet.
func (d *withdrawer) stalled(pod *corev1.Pod) (string, bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if s.State.Waiting == nil {
				continue
			}
			switch s.State.Waiting.Reason {
			case "CreateContainerError", "CreateContainerConfigError", "RunContainerError":
				return s.State.Waiting.Reason + ": " + s.State.Waiting.Message, true
			case "ContainerCreating", "PodInitializing":
			default: // an image, or a crash loop, which births judges
				return "", true
			}
		}
	}
	words, known := d.view.Looked.Stalled[pod.UID]
	if !known && len(d.out.Unknowns.Stalled) < mostStalled {
		d.out.Unknowns.Stalled = append(d.out.Unknowns.Stalled, pod.UID)
	}
	return words, known
}

// pending returns why a pod that no node takes would be taken with the resources of its template: no node that it
// may run on can hold it at all, or, after ten minutes, none has room for it and one has room for the template's.
func (d *withdrawer) pending(pod *corev1.Pod) string {
	at, unschedulable := unschedulableSince(pod)
	was, grown := d.requestsBefore(pod)
	if !unschedulable || !grown {
		return ""
	}
	if d.view.Looked.Cluster == nil {
		if d.view.Looked.Unread.Cluster == nil {
			d.out.Unknowns.Nodes = true
		}
		return ""
	}
	has := resize.Footprint(pod)
	holds, roomFor := 0, ""
	var eligible []*corev1.Node
	for _, node := range d.view.Looked.Cluster {
		if lifecycle.Takes(node, pod, was) {
			eligible = append(eligible, node)
		}
		if lifecycle.Takes(node, pod, has) {
			holds++
		}
	}
	switch {
	case len(eligible) > 0 && holds == 0:
		d.unscheduled = append(d.unscheduled, pod)
		return fmt.Sprintf("pod %s requests %s, more than any node has that it may run on; its template requests %s", pod.Name, amounts(has), amounts(was))
	case d.view.Now.Sub(at) < pendingAfter:
		return ""
	}
	for _, node := range eligible[:min(len(eligible), mostRooms)] {
		room := d.view.Looked.Rooms[node.Name]
		if room == nil {
			if d.view.Looked.Unread.Nodes[node.Name] == nil && !slices.Contains(d.out.Unknowns.Rooms, node.Name) {
				d.out.Unknowns.Rooms = append(d.out.Unknowns.Rooms, node.Name)
			}
			continue
		}
		left := room.Left(pod.UID, resize.CapabilitiesOf(node, "").Allocatable)
		if has[0] <= left[0] && has[1] <= left[1] {
			return "" // something else keeps it from that node
		}
		if roomFor == "" && was[0] <= left[0] && was[1] <= left[1] {
			roomFor = node.Name
		}
	}
	if roomFor == "" || len(d.out.Unknowns.Rooms) > 0 {
		return ""
	}
	d.unscheduled = append(d.unscheduled, pod)
	return fmt.Sprintf("pod %s requests %s and is pending since %s; a node has room for the %s of its template", pod.Name, amounts(has), at.UTC().Format(time.RFC3339), amounts(was))
}

func amounts(of [2]recommender.Amount) string {
	return recommender.Format(recommender.CPU, of[recommender.CPU]) + " of CPU and " + recommender.Format(recommender.Memory, of[recommender.Memory]) + " of memory"
}

// requestsBefore returns what the scheduler would count for a pod with its original resources, and whether it has
// more of something now.
func (d *withdrawer) requestsBefore(pod *corev1.Pod) (was [2]recommender.Amount, grown bool) {
	before := pod.DeepCopy()
	originals := d.sizesBefore(pod)
	for _, list := range [][]corev1.Container{before.Spec.InitContainers, before.Spec.Containers} {
		for i := range list {
			if had, known := originals[list[i].Name]; known {
				list[i].Resources = podview.ToRequirements(had)
			}
		}
	}
	was = resize.Footprint(before)
	has := resize.Footprint(pod)
	return was, has[0] > was[0] || has[1] > was[1]
}

// sizesBefore are the sizes that a pod would have without admission: the known originals of its template, otherwise
// what its annotation says. A user can write that; it only makes admission give less.
func (d *withdrawer) sizesBefore(pod *corev1.Pod) map[string]recommender.Size {
	sizes := d.originals.of(pod)
	for name, claimed := range claimsOf(pod) {
		if _, known := sizes[name]; !known {
			sizes[name] = *claimed
		}
	}
	return sizes
}

// seeded returns the live pods that admission sized by this recommendation.
func (d *withdrawer) seeded() (pods []*corev1.Pod) {
	for _, pod := range d.view.Live() {
		// Most pods run; the annotation is decoded for those that are of interest.
		if harm.Started(pod) && d.out.Status.AdmissionWithdrawn == nil {
			continue
		}
		if seeded := seededOf(pod); seeded != nil && seeded.Recommendation == d.view.Rec.Name {
			pods = append(pods, pod)
		}
	}
	return pods
}

// youngestPod returns the creation time of the youngest live pod; zero: there is none.
func (d *withdrawer) youngestPod() (at time.Time) {
	for _, pod := range d.view.Live() {
		if created := pod.CreationTimestamp.Time; created.After(at) {
			at = created
		}
	}
	return at
}

// templateHash is a digest of what the template runs and requests; empty: the template is not known.
func (d *withdrawer) templateHash() string {
	if !d.view.hasTemplate() {
		return ""
	}
	var all strings.Builder
	spec := d.view.Workload.Template.Spec
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			fmt.Fprintf(&all, "%s\x00%s\x00%q\x00%q\x00%v\x01", c.Name, c.Image, c.Command, c.Args, podview.ReadSpec(c.Resources))
		}
	}
	return strconv.FormatUint(podview.Hash(all.String()), 36)
}

// scheduledAt is when a pod got its node; its creation where that is not known.
func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// unschedulableSince reports whether the scheduler found no node for a pod, and since when.
func unschedulableSince(pod *corev1.Pod) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}
