package withdraw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

const (
	// stalledAfter is how long a pod may wait on its node for its first container before its resources count as a
	// possible cause.
	stalledAfter = time.Minute
	// pendingAfter is how long a pod may wait for a node before Judge checks whether a node has room for its template's
	// size.
	pendingAfter = 10 * time.Minute
	// startsEvery is the interval at which pods that do not start are checked. It grows to a twentieth of the time for
	// which a pod waits, up to startsRarely: in a full cluster thousands of pods may wait for days.
	startsEvery, startsRarely = 15 * time.Second, 5 * time.Minute
	// rejectedLately is the maximum age of an unconfirmed answer of the API server.
	rejectedLately = 5 * time.Minute
	// inFlight is how long after a withdrawal the API server may still reject pods that admission processed before it.
	inFlight = 10 * time.Second
	// retriedWithin is longer than the maximum time between two attempts of a controller to create a pod (1,000 s).
	retriedWithin = 20 * time.Minute
	// mostStalled and mostRooms limit how many pods and nodes one reconcile requests facts about.
	mostStalled, mostRooms = 3, 100
)

// Rejection is one pod that the API server did not create.
type Rejection struct {
	// At is the time of the answer, to the second.
	At time.Time
	// Lasts reports that the controller has created no pod since (the condition ReplicaFailure). Otherwise only the age
	// of the answer tells whether it is still relevant.
	Lasts bool
	// Message is the API server's whole answer, as the controller reports it. Words shortens it before it is stored.
	Message string
}

// Input has the facts for Judge, which changes none of them.
type Input struct {
	Now time.Time
	// Status is the current withdrawal; nil: admission sets resources.
	Status *v1alpha1.AdmissionWithdrawn
	// Seed is the resources that admission sets; nil: it sets none.
	Seed *v1alpha1.Seed
	// Template of the workload; nil: not known.
	Template *corev1.PodTemplateSpec
	// Pods are the workload's live pods.
	Pods []*corev1.Pod
	// All are Pods, and those that ended: kubelets refused some of them.
	All []*corev1.Pod
	// Leaving are the workload's pods that are being deleted and have not finished.
	Leaving []*corev1.Pod
	// Deletions are those that an earlier call returned; Replicas is the workload's number of pods.
	Deletions Deletions
	Replicas  int32
	// Seeded returns the annotation that admission set on a pod; nil: this recommendation did not size the pod.
	Seeded func(pod *corev1.Pod) *v1alpha1.Seeded
	// Originals returns the sizes that a pod's containers would have without admission, if they are known.
	Originals func(pod *corev1.Pod) map[string]recommender.Size
	// Rejected is the newest rejection; nil: not known.
	Rejected *Rejection
	// Stalled is the kubelet's message why it does not start a pod, by pod; empty: it reports nothing. A pod without an
	// entry was not requested.
	Stalled map[types.UID]string
	// Cluster has all nodes; nil: not requested. Rooms has the footprints of the pods of a node.
	Cluster []*corev1.Node
	Rooms   map[string]*resize.Room
	// Largest is the maximum that pods may request on nodes that may return (a pool that scaled to zero), in millicores
	// and bytes, indexed by resource; 0: not known.
	Largest [2]recommender.Amount
	// Unread reports that a node, or the list of nodes for an empty name, could not be read and is not requested.
	Unread func(node string) bool
}

// Output is the result of Judge.
type Output struct {
	// Status is the withdrawal from now on; nil: admission sets resources.
	Status *v1alpha1.AdmissionWithdrawn
	// Due reports that Status has to be stored at once.
	Due bool
	// Events about the workload.
	Events []event.Event
	// After is the time until the next check; 0: only after an event.
	After time.Duration
	// Unscheduled are pods that fit on no node, or on none now, with their admission resources.
	Unscheduled []*corev1.Pod
	// Stuck are pods that do not start on their nodes with a memory limit below their template's.
	Stuck []*corev1.Pod
	// Deletions are for the next call.
	Deletions Deletions
	// Nodes, Rooms and Stalled request missing facts: all nodes, the rooms of nodes, the kubelets' messages.
	Nodes   bool
	Rooms   []string
	Stalled []types.UID
}

// judge is one call of Judge.
type judge struct {
	in  Input
	out Output
	// searched has the constraints of the last search of nodes, accepted its result.
	searched *corev1.PodSpec
	accepted []*corev1.Node
}

// trouble is why admission resources are withdrawn.
type trouble struct {
	reason, message, revision string
}

// Judge withdraws the admission resources of a workload if its pods are rejected with them or do not start. It enables
// them again after a day or with a new template, for one pod first.
func Judge(in Input) Output {
	d := &judge{in: in, out: Output{Status: in.Status.DeepCopy()}}
	d.out.Deletions = d.deletions()
	if w := d.out.Status; w != nil {
		d.step(w)
	} else if found := d.find(time.Time{}); found != nil {
		d.withdraw(found)
	}
	return d.out
}

// step advances an active withdrawal.
func (d *judge) step(w *v1alpha1.AdmissionWithdrawn) {
	w.Since, w.Until = *lifecycle.NotAhead(&w.Since, d.in.Now), d.notBeyond(w.Until)
	if hash := d.templateHash(); w.TemplateHash != hash && hash != "" {
		w.TemplateHash, w.RejectedWithout, w.TrialPod = hash, false, ""
		if w.Until.After(d.in.Now) {
			w.Until = metav1.Time{Time: d.in.Now.Truncate(time.Second)}
		}
	}
	switch {
	case w.RejectedWithout:
		d.resumeAfterRejections(w)
	case d.in.Now.Before(w.Until.Time):
		d.rejectedWithout(w)
		d.find(w.Until.Time) // collects existing pods for which the template's resources may be restored
		d.wake(w.Until.Sub(d.in.Now))
	default:
		d.followTrialPod(w)
	}
}

// notBeyond returns a time, but at most the end of a withdrawal that starts now.
func (d *judge) notBeyond(until metav1.Time) metav1.Time {
	if most := d.in.Now.Add(Lasts); until.After(most) {
		return metav1.Time{Time: most.Truncate(time.Second)}
	}
	return until
}

func (d *judge) withdraw(why *trouble) {
	now := d.in.Now.Truncate(time.Second)
	w := &v1alpha1.AdmissionWithdrawn{
		Since: metav1.Time{Time: now}, Until: metav1.Time{Time: now.Add(Lasts)},
		Reason: why.reason, Message: Words(why.message), Revision: why.revision, TemplateHash: d.templateHash(),
	}
	d.out.Status = w
	d.out.Due = true
	d.recordEvent(event.Warning(w.Reason, "New pods are created without admission resources until %s: %s", w.Until.UTC().Format(time.RFC3339), w.Message))
}

// rejectedWithout records that pods are rejected without admission resources as well: these are not the cause.
func (d *judge) rejectedWithout(w *v1alpha1.AdmissionWithdrawn) {
	if r := d.in.Rejected; w.Reason == v1alpha1.ReasonAdmissionRejected && r != nil && r.At.After(w.Since.Add(inFlight)) &&
		!r.At.After(d.in.Now.Add(inFlight)) && MayReject(r.Message, SeedEffect{Raises: true, Lowers: true, Removes: true}) {
		w.RejectedWithout, w.Message = true, Words(r.Message)
		d.out.Due = true
		d.recordEvent(event.Normal(v1alpha1.EventAdmissionResumed, "Pods are rejected without admission resources as well, so these are not the cause: %s", w.Message))
	}
}

// resumeAfterRejections ends a withdrawal without effect as soon as a pod was created, or no attempt was rejected for
// longer than controllers wait between attempts.
func (d *judge) resumeAfterRejections(w *v1alpha1.AdmissionWithdrawn) {
	at := w.Since.Time // a restart of attune has lost the answer
	if r := d.in.Rejected; r != nil {
		at = r.At
	}
	if r := d.in.Rejected; r != nil && r.Lasts || d.in.Now.Sub(at) < retriedWithin && d.youngestPod().Before(at) {
		d.wake(time.Minute)
		return
	}
	d.resume("pods are created again")
}

func (d *judge) resume(why string) {
	d.out.Status = nil
	d.out.Due = true
	d.recordEvent(event.Normal(v1alpha1.EventAdmissionResumed, "New pods are created with admission resources again: %s", why))
}

// followTrialPod follows the one pod that is created with admission resources after the end of the withdrawal.
func (d *judge) followTrialPod(w *v1alpha1.AdmissionWithdrawn) {
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
	case Started(tried):
		d.resume(fmt.Sprintf("pod %s has started with them", tried.Name))
	default:
		w.TrialPod = tried.Name
		d.wake(d.checkAgain(tried))
	}
}

// find returns why pods with admission resources do not run, from events after since; nil: no reason is known. It
// collects pods for which the template's resources can be restored, and requests missing facts (Output).
func (d *judge) find(since time.Time) *trouble {
	found := d.refused(since)
	if r := d.in.Rejected; r != nil && d.in.Seed != nil && r.At.After(since) && !r.At.After(d.in.Now.Add(inFlight)) &&
		(r.Lasts || d.in.Now.Sub(r.At) < rejectedLately && d.youngestPod().Before(r.At)) && MayReject(r.Message, EffectOf(d.in.Seed, d.in.Template)) {
		found = &trouble{v1alpha1.ReasonAdmissionRejected, r.Message, d.in.Seed.Revision}
	}
	for _, pod := range d.seeded() {
		if Started(pod) || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		why := d.ofPod(pod)
		if why != "" && found == nil && !pod.CreationTimestamp.Time.Before(since) {
			found = &trouble{v1alpha1.ReasonPodsDoNotStart, why, d.in.Seeded(pod).Revision}
		}
		d.wake(d.checkAgain(pod))
	}
	return cmp.Or(found, d.deletedAgain(since))
}

// checkAgain returns the time until the next check of a pod that does not start.
func (d *judge) checkAgain(pod *corev1.Pod) time.Duration {
	waits := scheduledAt(pod)
	if at, unschedulable := podview.UnschedulableSince(pod); unschedulable {
		waits = at
	}
	return min(max(d.in.Now.Sub(waits)/20, startsEvery), startsRarely)
}

// ofPod returns why a created pod does not start because of its admission resources; empty: for no such reason, or not
// for long enough.
func (d *judge) ofPod(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return d.pending(pod)
	}
	originals := d.sizesBefore(pod)
	container, lower := LowersMemoryLimit(pod, originals)
	if !lower || d.in.Now.Sub(scheduledAt(pod)) < stalledAfter {
		return ""
	}
	words, known := d.stalled(pod)
	if !known || !MayStall(words) {
		return ""
	}
	d.out.Stuck = append(d.out.Stuck, pod)
	return fmt.Sprintf("pod %s does not start with a memory limit below its template's in container %s. If attune cannot restore the limit, delete the pod: %s", pod.Name, container, words)
}

// stalled returns the kubelet's report on a waiting pod: the container that it cannot create, otherwise the pod's
// events. false: not known yet.
func (d *judge) stalled(pod *corev1.Pod) (string, bool) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Waiting == nil {
			continue
		}
		switch s.State.Waiting.Reason {
		case "CreateContainerError", "CreateContainerConfigError", "RunContainerError":
			return s.State.Waiting.Reason + ": " + s.State.Waiting.Message, true
		case "ContainerCreating", "PodInitializing":
		default: // an image problem, or a crash loop (harm.JudgeBirth)
			return "", true
		}
	}
	words, known := d.in.Stalled[pod.UID]
	if !known && len(d.out.Stalled) < mostStalled {
		d.out.Stalled = append(d.out.Stalled, pod.UID)
	}
	return words, known
}

// pending returns why a pending pod would be scheduled with its template's resources: no eligible node can ever hold
// it, or, after ten minutes, no node has room for it but one has room for the template's size.
func (d *judge) pending(pod *corev1.Pod) string {
	at, unschedulable := podview.UnschedulableSince(pod)
	was, grown := d.requestsBefore(pod)
	if !unschedulable || !grown {
		return ""
	}
	if d.in.Cluster == nil {
		if !d.in.Unread("") {
			d.out.Nodes = true
		}
		return ""
	}
	has := resize.Footprint(pod)
	holds := 0
	var eligible []*corev1.Node
	for _, node := range d.accepting(pod) {
		if lifecycle.Holds(node, was) {
			eligible = append(eligible, node)
		}
		if lifecycle.Holds(node, has) {
			holds++
		}
	}
	switch {
	// A node autoscaler may add the largest node within minutes, but no node of a given name.
	case len(eligible) > 0 && holds == 0 && (namesNodes(pod) || !podview.Within(has, d.in.Largest)):
		d.out.Unscheduled = append(d.out.Unscheduled, pod)
		return fmt.Sprintf("pod %s requests %s, more than any node has on which it may run; its template requests %s", pod.Name, amounts(has), amounts(was))
	case d.in.Now.Sub(at) < pendingAfter:
		return ""
	}
	if !d.templateFitsNow(pod, eligible, was) {
		return ""
	}
	d.out.Unscheduled = append(d.out.Unscheduled, pod)
	return fmt.Sprintf("pod %s requests %s and has been pending since %s, but a node has room for the %s of its template", pod.Name, amounts(has), at.UTC().Format(time.RFC3339), amounts(was))
}

// accepting returns the nodes on which a pod may run. Pods of one template mostly follow each other, and get the same list.
func (d *judge) accepting(pod *corev1.Pod) []*corev1.Node {
	spec := &pod.Spec
	of := corev1.PodSpec{NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations}
	if d.searched != nil && equality.Semantic.DeepEqual(of, *d.searched) {
		return d.accepted
	}
	accepts := lifecycle.Accepting(pod)
	d.searched, d.accepted = &of, nil
	for _, node := range d.in.Cluster {
		if accepts(node) {
			d.accepted = append(d.accepted, node)
		}
	}
	return d.accepted
}

// namesNodes reports whether a pod may run on nodes of given names only, as each pod of a DaemonSet.
func namesNodes(pod *corev1.Pod) bool {
	if pod.Spec.NodeSelector[corev1.LabelHostname] != "" {
		return true
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	named := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && (r.Key == metav1.ObjectNameField || r.Key == corev1.LabelHostname)
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchFields, named) && !slices.ContainsFunc(t.MatchExpressions, named)
	})
}

// templateFitsNow reports whether a node has room for a pod's original requests, and none for its current ones. It
// requests the rooms that it does not know.
func (d *judge) templateFitsNow(pod *corev1.Pod, eligible []*corev1.Node, was [2]recommender.Amount) (fits bool) {
	has := resize.Footprint(pod)
	for _, node := range eligible[:min(len(eligible), mostRooms)] {
		room := d.in.Rooms[node.Name]
		if room == nil {
			if !d.in.Unread(node.Name) && !slices.Contains(d.out.Rooms, node.Name) {
				d.out.Rooms = append(d.out.Rooms, node.Name)
			}
			continue
		}
		left := room.Left(pod.UID, resize.CapabilitiesOf(node, "").Allocatable)
		if podview.Within(has, left) {
			return false // another reason keeps it from that node
		}
		fits = fits || podview.Within(was, left)
	}
	return fits && len(d.out.Rooms) == 0
}

func amounts(of [2]recommender.Amount) string {
	return recommender.Format(recommender.CPU, of[recommender.CPU]) + " of CPU and " + recommender.Format(recommender.Memory, of[recommender.Memory]) + " of memory"
}

// requestsBefore returns what the scheduler would count for a pod with its original resources, and whether the pod now
// has more of a resource.
func (d *judge) requestsBefore(pod *corev1.Pod) (was [2]recommender.Amount, grown bool) {
	was = resize.Footprint(d.before(pod))
	return was, !podview.Within(resize.Footprint(pod), was)
}

// before returns a copy of a pod with its original resources.
func (d *judge) before(pod *corev1.Pod) *corev1.Pod {
	before := pod.DeepCopy()
	originals := d.sizesBefore(pod)
	for _, c := range podview.AllContainers(before) {
		if had, known := originals[c.Name]; known {
			c.Resources = podview.ToRequirements(had)
		}
	}
	return before
}

// sizesBefore returns the sizes that a pod would have without admission: the known originals of its template, otherwise
// its annotation's. Users can edit the annotation; it can only make admission set less.
func (d *judge) sizesBefore(pod *corev1.Pod) map[string]recommender.Size {
	sizes := podview.SizesOf(d.in.Seeded(pod).Original)
	maps.Copy(sizes, d.in.Originals(pod))
	return sizes
}

// seeded returns the live pods that admission sized by this recommendation.
func (d *judge) seeded() (pods []*corev1.Pod) {
	for _, pod := range d.in.Pods {
		// Most pods run; the annotation is decoded only for relevant pods.
		if Started(pod) && d.out.Status == nil {
			continue
		}
		if d.in.Seeded(pod) != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// youngestPod returns the creation time of the youngest live pod; zero: there is no live pod.
func (d *judge) youngestPod() (at time.Time) {
	for _, pod := range d.in.Pods {
		if created := pod.CreationTimestamp.Time; created.After(at) {
			at = created
		}
	}
	return at
}

// templateHash returns a digest of the template's programs and requests; empty: the template is not known.
func (d *judge) templateHash() string {
	if d.in.Template == nil {
		return ""
	}
	var all strings.Builder
	for _, c := range slices.Concat(d.in.Template.Spec.InitContainers, d.in.Template.Spec.Containers) {
		fmt.Fprintf(&all, "%s\x00%s\x00%q\x00%q\x00%v\x01", c.Name, c.Image, c.Command, c.Args, podview.ReadSpec(c.Resources))
	}
	return strconv.FormatUint(podview.Hash(all.String()), 36)
}

func (d *judge) recordEvent(e event.Event) { d.out.Events = append(d.out.Events, e) }

// wake requests another check after a duration; the shortest one counts, 0 and less are ignored.
func (d *judge) wake(after time.Duration) {
	if after > 0 && (d.out.After == 0 || after < d.out.After) {
		d.out.After = after
	}
}

// scheduledAt returns when a pod was scheduled, or its creation time if that is not known.
func scheduledAt(pod *corev1.Pod) time.Time {
	if c := podview.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}
