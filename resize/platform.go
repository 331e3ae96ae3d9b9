package resize

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const (
	// restartRest is how long a container must run after a restart before anything of it is lowered.
	restartRest = 10 * time.Minute
	// statsDelay is how long after its start a kubelet may not know a container's memory usage, and
	// answers a lower memory limit with an error.
	statsDelay = 30 * time.Second
)

// situation holds the facts that platform rules may use: the pod, its node, and what is wished for. Rules that
// look only at the pod work with the other fields unset.
type situation struct {
	pod      *corev1.Pod
	caps     Capabilities
	now      time.Time
	statuses map[string]*corev1.ContainerStatus
	wished   map[string]podview.Container
}

// podRules check the pod, whatever is wished for. They are ordered from what never changes to what passes by
// itself, so that the reported reason is the most lasting one.
var podRules = []func(situation) *Refusal{
	finished, terminating, mirror, windows, noResize, noResourcesInStatus, bestEffort,
	podLevelResources, resourceClaims, nodeNotReady, notScheduled, notStarted, alreadyUnderway,
}

// moveRules check one container's move. A rule that refuses names what it leaves of the move.
var moveRules = []struct {
	refuses func(situation, Move) *Refusal
	leaves  func(Move) recommender.Size
}{
	{unscheduledGrowth, withoutIncreases},
	{criticalGrowth, withoutIncreases},
	{notReady, withoutDecreases},
	{restartedLately, withoutDecreases},
	{oldStaticKubelet, unmoved},
	{staticCPU, withoutCPU},
	{staticMemory, WithoutMemory},
	{notRunning, withoutCPU},
	{swap, withoutMemoryRequest},
	{memoryLimitDecreaseUnsupported, WithoutMemoryLimitDecrease},
	{startedJustNow, WithoutMemoryLimitDecrease},
	{belowUsage, WithoutMemoryLimitDecrease},
	{tmpfs, WithoutMemoryLimitDecrease},
}

// planRules check the plan as a whole, after all moves.
var planRules = []func(situation, Plan) *Refusal{
	qosChange, outsidePodLevel, beyondNode,
}

// Untouchable returns why a pod is neither resized nor evicted, whatever its node can do, or nil: it has ended, is
// being deleted, or is static.
func Untouchable(pod *corev1.Pod) *Refusal {
	s := situation{pod: pod}
	return cmp.Or(finished(s), terminating(s), mirror(s))
}

// finished refuses a pod that has ended.
func finished(s situation) *Refusal {
	if phase := s.pod.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return Refuse(ReasonPodFinished, "the pod has ended (%s); nothing runs that could be resized", phase)
	}
	return nil
}

func terminating(s situation) *Refusal {
	if s.pod.DeletionTimestamp != nil {
		return Refuse(ReasonPodDeleted, "the pod is being deleted")
	}
	return nil
}

// mirror refuses the API server's copy of a static pod, whose size is in a file on the node.
func mirror(s situation) *Refusal {
	if _, ok := s.pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return Refuse(ReasonStaticPod, "a static pod is resized in its manifest on the node")
	}
	return nil
}

func windows(s situation) *Refusal {
	if os := s.pod.Spec.OS; s.caps.Windows || os != nil && os.Name == corev1.Windows {
		return Refuse(ReasonWindows, "Kubernetes resizes pods on Linux nodes only")
	}
	return nil
}

// noResize refuses where the API server or the kubelet is older than Kubernetes 1.33, or does not serve the
// subresource. A kubelet of unknown version is not refused here: nodeNotReady does that for an unknown node.
func noResize(s situation) *Refusal {
	switch {
	case !s.caps.Resizable:
		return Refuse(ReasonResizeNotSupported, "the API server does not serve pods/resize; it needs Kubernetes 1.33 or newer with the feature InPlacePodVerticalScaling")
	case s.pod.Spec.NodeName != "" && s.caps.KubeletMinor != 0 && s.caps.KubeletMinor < MinorResize:
		return Refuse(ReasonResizeNotSupported, "the kubelet of node %s is of version 1.%d; resizing needs 1.33 or newer",
			s.pod.Spec.NodeName, s.caps.KubeletMinor)
	}
	return nil
}

// noResourcesInStatus refuses where the API server would: it takes a running container without resources in its
// status for one on a node that cannot resize. A container that has not started has none either, so only running
// ones are looked at.
func noResourcesInStatus(s situation) *Refusal {
	for _, status := range s.pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			continue
		}
		if status.Resources == nil {
			return Refuse(ReasonNodeWithoutResize, "node %s reports no resources of running containers, so the API server refuses to resize its pods",
				s.pod.Spec.NodeName)
		}
		return nil
	}
	return nil
}

// bestEffort refuses a pod without requests and limits: a resize would change its class, which the API server
// refuses.
func bestEffort(s situation) *Refusal {
	if podview.ClassOf(s.pod) == corev1.PodQOSBestEffort {
		return Refuse(ReasonBestEffort, "a pod without requests and limits cannot be resized; it can be given requests when it is created")
	}
	return nil
}

// podLevelResources needs the support of both the API server and the node.
func podLevelResources(s situation) *Refusal {
	if !podview.HasPodLevelResources(s.pod) || s.caps.ServerMinor >= MinorPodLevelResources && s.caps.Has(FeaturePodLevelResize) {
		return nil
	}
	return Refuse(ReasonPodLevelResources, "pods with resources of their own are resizable from Kubernetes 1.36 on, on nodes that declare %s",
		FeaturePodLevelResize)
}

func resourceClaims(s situation) *Refusal {
	if s.caps.ServerMinor >= MinorResourceClaims {
		return nil
	}
	claims := func(c corev1.Container) bool { return len(c.Resources.Claims) > 0 }
	if slices.ContainsFunc(s.pod.Spec.Containers, claims) || slices.ContainsFunc(s.pod.Spec.InitContainers, claims) ||
		len(s.pod.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		return Refuse(ReasonResourceClaims, "pods whose containers have resource claims are resizable from Kubernetes 1.37 on")
	}
	return nil
}

// nodeNotReady waits for the node: without a kubelet the resize would stay pending, and hold quota and the
// scheduler's room.
func nodeNotReady(s situation) *Refusal {
	if s.pod.Spec.NodeName != "" && !s.caps.NodeReady {
		return RefuseForNow(ReasonNodeNotReady, "node %s is not ready or not known; its kubelet would not see the resize", s.pod.Spec.NodeName)
	}
	return nil
}

// notScheduled leaves a pod to the scheduler that the scheduler has not tried to place yet.
func notScheduled(s situation) *Refusal {
	if _, tried := podview.UnschedulableSince(s.pod); s.pod.Spec.NodeName == "" && !tried {
		return RefuseForNow(ReasonNotScheduled, "the pod has no node yet")
	}
	return nil
}

// notStarted waits for the pod's containers: before they start, the pod shows nothing by which a resize could be
// verified.
func notStarted(s situation) *Refusal {
	if s.pod.Spec.NodeName == "" {
		return nil
	}
	for _, status := range s.statuses {
		if status.State.Running != nil || status.State.Terminated != nil || status.RestartCount > 0 {
			return nil
		}
	}
	return RefuseForNow(ReasonNotStarted, "the pod's containers have not started yet")
}

// alreadyUnderway waits for a resize that is not finished, also one of another writer: a second one would replace
// it half-done.
func alreadyUnderway(s situation) *Refusal {
	if podview.ResizeUnderway(s.pod) {
		return RefuseForNow(ReasonResizeUnderway, "a resize of the pod is under way; another would replace it half-done")
	}
	return nil
}

// restartsFor reports whether a change of the resource restarts the container (resizePolicy).
func (s situation) restartsFor(container string, name corev1.ResourceName) bool {
	c := podview.ContainerOf(s.pod, container)
	return c != nil && podview.RestartPolicyFor(c, name) == corev1.RestartContainer
}

// RestartsContainer reports whether the move changes a resource whose resizePolicy restarts the container. A
// changed request alone is enough for that.
func (m Move) RestartsContainer(c *corev1.Container) bool {
	for _, r := range recommender.Resources {
		if m.From[r] != m.To[r] && podview.RestartPolicyFor(c, podview.NameOf(r)) == corev1.RestartContainer {
			return true
		}
	}
	return false
}

// qosChange refuses a plan that would change the pod's class of quality of service, which the API server does not
// allow (KEP-1287).
func qosChange(s situation, p Plan) *Refusal {
	if before, after := podview.ClassOf(s.pod), podview.QOSClass(p.Apply(s.pod)); before != after {
		return Refuse(ReasonQOSClass, "the pod would become %s, and a resize may not change its class %s; requests and limits must move together", after, before)
	}
	return nil
}

// outsidePodLevel keeps the sum of the containers' requests, and each container's limit, within the pod's own
// resources.
func outsidePodLevel(s situation, p Plan) *Refusal {
	if !podview.HasPodLevelResources(s.pod) {
		return nil
	}
	pod := podview.ReadSpec(*s.pod.Spec.Resources)
	total := podview.ContainerRequests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if pod[r].Request > 0 && total[r] > pod[r].Request {
			return Refuse(ReasonPodLevelResources, "the containers would request %s of %s, more than the pod's own %s",
				recommender.Format(r, total[r]), r, recommender.Format(r, pod[r].Request))
		}
		for _, m := range p.Moves {
			if pod[r].Limit > 0 && m.To[r].Limit > pod[r].Limit {
				return Refuse(ReasonPodLevelResources, "container %s would have a %s limit of %s, above the pod's own %s",
					m.Container, r, recommender.Format(r, m.To[r].Limit), recommender.Format(r, pod[r].Limit))
			}
		}
	}
	return nil
}

// beyondNode refuses a pod that alone, with overhead, would request more than its node has. The API server checks
// the same from 1.36 on (PodResizeValidator); an older kubelet answers Infeasible.
func beyondNode(s situation, p Plan) *Refusal {
	needs := podview.Requests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if has := s.caps.Allocatable[r]; has > 0 && needs[r] > has {
			return Refuse(ReasonNodeCapacity, "the pod would request %s of %s, and node %s has %s in all",
				recommender.Format(r, needs[r]), r, s.pod.Spec.NodeName, recommender.Format(r, has))
		}
	}
	return nil
}
