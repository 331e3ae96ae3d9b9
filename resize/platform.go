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
	// restartRest is how long a container must run after a restart before any of its amounts is lowered.
	restartRest = 10 * time.Minute
	// statsDelay is how long after a container's start its kubelet may not know the memory usage. It then answers a
	// lower memory limit with an error.
	statsDelay = 30 * time.Second
)

// situation holds the facts that platform rules may use: the pod, its node, and the wished sizes. Rules that read only
// the pod work with the other fields unset.
type situation struct {
	pod      *corev1.Pod
	caps     Capabilities
	now      time.Time
	statuses map[string]*corev1.ContainerStatus
	wished   map[string]podview.Container
	// back is true if the wished sizes are ones that the pod had.
	back bool
	// toStart is true for a plan whose purpose is the start of the pod's containers.
	toStart bool
}

// moveRules check one container's move, after specRules. For a rule that refuses, leaves returns the allowed part of the
// move.
var moveRules = []struct {
	refuses func(situation, Move) *Refusal
	leaves  func(Move) recommender.Size
}{
	{unscheduledGrowth, withoutIncreases},
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
}

// planRules check the plan as a whole, after all moves.
var planRules = []func(situation, Plan) *Refusal{
	qosChange, outsidePodLevel, beyondNode,
}

// podRefusal returns why no change of the pod is possible, or nil. The rules are ordered from permanent to transient
// ones, so that the reported reason is the most lasting one.
func podRefusal(s situation) *Refusal {
	return cmp.Or(Untouchable(s.pod), unsupported(s), notYet(s))
}

// Untouchable returns why a pod is neither resized nor evicted on any node, or nil: it has finished, is being deleted,
// or is static, so that a file on the node has its size.
func Untouchable(pod *corev1.Pod) *Refusal {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case Finished(pod):
		return Refuse(ReasonPodFinished, "the pod has finished (%s)", pod.Status.Phase)
	case pod.DeletionTimestamp != nil:
		return Refuse(ReasonPodDeleted, "the pod is being deleted")
	case static:
		return Refuse(ReasonStaticPod, "a static pod can only be changed in its manifest on the node")
	}
	return nil
}

// unsupported refuses changes that the API server or the node cannot carry out. It allows a kubelet of unknown version:
// notYet refuses an unknown node. A pod without requests and limits would change its class, which the API server
// refuses. Pod-level resources need the support of both the API server and the node.
func unsupported(s situation) *Refusal {
	node, podLevel := s.pod.Spec.NodeName, podview.HasPodLevelResources(s.pod)
	switch os := s.pod.Spec.OS; {
	case s.caps.Windows || os != nil && os.Name == corev1.Windows:
		return Refuse(ReasonWindows, "Kubernetes resizes pods only on Linux nodes")
	case !s.caps.Resizable:
		return Refuse(ReasonResizeNotSupported, "the API server does not serve pods/resize. Use Kubernetes 1.33 or newer with the feature gate InPlacePodVerticalScaling")
	case node != "" && s.caps.KubeletMinor != 0 && s.caps.KubeletMinor < MinorResize:
		return Refuse(ReasonResizeNotSupported, "the kubelet of node %s has version 1.%d, but resizing needs 1.33 or newer", node, s.caps.KubeletMinor)
	case noResourcesInStatus(s.pod):
		return Refuse(ReasonNodeWithoutResize, "node %s reports no resources of running containers, so the API server rejects resizes of its pods", node)
	case podview.ClassOf(s.pod) == corev1.PodQOSBestEffort:
		return bestEffort(s.pod)
	case podLevel && !(s.caps.ServerMinor >= MinorPodLevelResources && s.caps.Has(FeaturePodLevelResize)):
		return Refuse(ReasonPodLevelResources, "a pod with pod-level resources can be resized from Kubernetes 1.36 on, on nodes that declare %s", FeaturePodLevelResize)
	case s.caps.ServerMinor < MinorResourceClaims && hasClaims(s.pod):
		return Refuse(ReasonResourceClaims, "a pod whose containers have resource claims can be resized from Kubernetes 1.37 on")
	}
	return nil
}

// bestEffort is the refusal for a pod of the class BestEffort, with the cause that users do not see: empty pod-level
// resources.
func bestEffort(pod *corev1.Pod) *Refusal {
	if pod.Spec.Resources != nil && !podview.HasPodLevelResources(pod) {
		return Refuse(ReasonBestEffort, "before version 1.37, Kubernetes gives a pod with empty pod-level resources the class BestEffort, and does not resize it. Remove spec.resources from the pod template")
	}
	return Refuse(ReasonBestEffort, "a pod without requests and limits cannot be resized; the webhook can set requests of new pods")
}

// noResourcesInStatus reports whether the API server would assume that the pod's node cannot resize: a running
// container has no resources in its status. A container that has not started has none either, so only the first running
// one is checked.
func noResourcesInStatus(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return i >= 0 && pod.Status.ContainerStatuses[i].Resources == nil
}

func hasClaims(pod *corev1.Pod) bool {
	claims := func(c corev1.Container) bool { return len(c.Resources.Claims) > 0 }
	return slices.ContainsFunc(pod.Spec.Containers, claims) || slices.ContainsFunc(pod.Spec.InitContainers, claims) ||
		len(pod.Status.NodeAllocatableResourceClaimStatuses) > 0
}

// notYet waits for the pod and its node. Without a kubelet the resize would stay pending and reserve quota and the
// scheduler's room. A pod that the scheduler has not tried to place yet waits for the scheduler. Before its containers
// start, a pod's status shows nothing that could verify a resize. A second resize would replace an unfinished one, even
// another writer's.
func notYet(s situation) *Refusal {
	node := s.pod.Spec.NodeName
	_, tried := podview.UnschedulableSince(s.pod)
	switch {
	case node != "" && !s.caps.NodeReady:
		return RefuseForNow(ReasonNodeNotReady, "node %s is not ready or not known, so its kubelet would not see the resize", node)
	case node == "" && !tried:
		return RefuseForNow(ReasonNotScheduled, "the pod has no node yet")
	case node != "" && !s.toStart && !started(s.statuses):
		return RefuseForNow(ReasonNotStarted, "the pod's containers have not started yet")
	case podview.ResizeUnderway(s.pod):
		return RefuseForNow(ReasonResizeUnderway, "another resize of the pod is in progress")
	}
	return nil
}

// started reports whether a container runs or has run.
func started(statuses map[string]*corev1.ContainerStatus) bool {
	for _, status := range statuses {
		if status.State.Running != nil || status.State.Terminated != nil || status.RestartCount > 0 {
			return true
		}
	}
	return false
}

// restartsFor reports whether a change of the resource restarts the container (resizePolicy).
func (s situation) restartsFor(container string, name corev1.ResourceName) bool {
	c := podview.ContainerOf(s.pod, container)
	return c != nil && podview.RestartPolicyFor(c, name) == corev1.RestartContainer
}

// RestartsContainer reports whether the move changes a resource whose resizePolicy restarts the container. A changed
// request alone is enough.
func (m Move) RestartsContainer(c *corev1.Container) bool {
	return slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		return m.From[r] != m.To[r] && podview.RestartPolicyFor(c, podview.NameOf(r)) == corev1.RestartContainer
	})
}

// qosChange refuses a plan that would change the pod's QoS class, which the API server does not allow (KEP-1287).
func qosChange(s situation, p Plan) *Refusal {
	if before, after := podview.ClassOf(s.pod), podview.QOSClass(p.Apply(s.pod)); before != after {
		return Refuse(ReasonQOSClass, "the pod's QoS class would become %s instead of %s, which a resize cannot change; requests and limits must change together", after, before)
	}
	return nil
}

// stayBurstable keeps one request of a pod that would become Guaranteed one unit below its limit. A pod whose request is
// there already is at its target, so that counts as no change.
func stayBurstable(pod *corev1.Pod, p Plan, _ GateInput) Plan {
	// A pod with a request that is not the limit is not Guaranteed: only without one is the pod copied.
	below := func(m Move) bool {
		return m.To[recommender.CPU].Request != m.To[recommender.CPU].Limit || m.To[recommender.Memory].Request != m.To[recommender.Memory].Limit
	}
	if slices.ContainsFunc(p.Moves, below) || podview.ClassOf(pod) != corev1.PodQOSBurstable || podview.QOSClass(p.Apply(pod)) != corev1.PodQOSGuaranteed {
		return p
	}
	from, to := make([]recommender.Size, len(p.Moves)), make([]recommender.Size, len(p.Moves))
	for i, m := range p.Moves {
		from[i], to[i] = m.From, m.To
	}
	container, r, found := podview.StayBurstable(from, to, func(int, recommender.Resource, recommender.Allocation) bool { return true })
	if !found {
		return p
	}
	m := &p.Moves[container]
	to[container][r] = podview.BelowLimit(m.To[r])
	if to[container][r] != m.From[r] {
		left := Refuse(ReasonQOSClass, "%s", BelowLimitMessage(r, m.To[r].Limit))
		left.Container = m.Container
		p.LeftOut = append(slices.Clip(p.LeftOut), *left)
	}
	name := m.Container
	return p.reducedTo(func(m Move) recommender.Size {
		if m.Container == name {
			return to[container]
		}
		return m.To
	})
}

// BelowLimitMessage says that a request stays one unit below its limit.
func BelowLimitMessage(r recommender.Resource, limit recommender.Amount) string {
	unit := [...]string{recommender.CPU: "1m", recommender.Memory: "1 byte"}[r]
	return "the " + r.String() + " request is kept " + unit + " below its limit of " + recommender.Format(r, limit) + ": otherwise the QoS class of the pod would become Guaranteed"
}

// outsidePodLevel keeps the sum of the containers' requests, and each container's limit, within the pod-level
// resources.
func outsidePodLevel(s situation, p Plan) *Refusal {
	if !podview.HasPodLevelResources(s.pod) {
		return nil
	}
	pod := podview.ReadSpec(*s.pod.Spec.Resources)
	total := podview.ContainerRequests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if pod[r].Request > 0 && total[r] > pod[r].Request {
			return Refuse(ReasonPodLevelResources, "the containers would request %s of %s, more than the pod-level request of %s",
				recommender.Format(r, total[r]), r, recommender.Format(r, pod[r].Request))
		}
		for _, m := range p.Moves {
			if pod[r].Limit > 0 && m.To[r].Limit > pod[r].Limit {
				return Refuse(ReasonPodLevelResources, "container %s would have a %s limit of %s, above the pod-level limit of %s",
					m.Container, r, recommender.Format(r, m.To[r].Limit), recommender.Format(r, pod[r].Limit))
			}
		}
	}
	return nil
}

// beyondNode refuses a pod whose requests, with overhead, exceed the node's allocatable amounts. The API server checks
// the same from 1.36 on (PodResizeValidator); an older kubelet answers Infeasible.
func beyondNode(s situation, p Plan) *Refusal {
	needs := podview.Requests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if has := s.caps.Allocatable[r]; has > 0 && needs[r] > has {
			return Refuse(ReasonNodeCapacity, "the pod would request %s of %s, but node %s has %s in total",
				recommender.Format(r, needs[r]), r, s.pod.Spec.NodeName, recommender.Format(r, has))
		}
	}
	return nil
}
