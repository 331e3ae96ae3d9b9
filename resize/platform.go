package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

const (
	// criticalPriority is that of system-cluster-critical: to fit such a pod, a kubelet evicts others.
	criticalPriority = 2_000_000_000
	// restartRest is how long a container must run after a restart before anything of it is lowered.
	restartRest = 10 * time.Minute
	// statsDelay is how long after its start a kubelet may not know a container's memory usage, and
	// answers a lower memory limit with an error.
	statsDelay = 30 * time.Second
)

// situation is everything a platform rule may look at.
type situation struct {
	pod      *corev1.Pod
	caps     Capabilities
	now      time.Time
	statuses map[string]*corev1.ContainerStatus
	wished   map[string]Container
}

// podRules concern the pod, whatever is wished for.
var podRules = []func(situation) *Refusal{
	finished, terminating, mirror, windows, noResize, noResourcesInStatus, bestEffort,
	podLevelResources, resourceClaims, nodeNotReady, notScheduled, notStarted, alreadyUnderway,
}

// moveRules concern one container. A rule that refuses leaves the rest of the move to be made.
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
	{staticMemory, withoutMemory},
	{swap, withoutMemoryRequest},
	{memoryLimitDecreaseUnsupported, withoutMemoryLimitDecrease},
	{startedJustNow, withoutMemoryLimitDecrease},
	{belowUsage, withoutMemoryLimitDecrease},
	{tmpfs, withoutMemoryLimitDecrease},
}

// planRules concern the plan as a whole.
var planRules = []func(situation, Plan) *Refusal{
	qosChange, outsidePodLevel, beyondNode,
}

func finished(s situation) *Refusal {
	if phase := s.pod.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return refuse(ReasonPodFinished, "the pod has ended (%s); nothing runs that could be resized", phase)
	}
	return nil
}

func terminating(s situation) *Refusal {
	if s.pod.DeletionTimestamp != nil {
		return refuse(ReasonPodDeleted, "the pod is being deleted")
	}
	return nil
}

func mirror(s situation) *Refusal {
	if _, ok := s.pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return refuse(ReasonStaticPod, "a static pod is resized in its manifest on the node")
	}
	return nil
}

func windows(s situation) *Refusal {
	if os := s.pod.Spec.OS; s.caps.Windows || os != nil && os.Name == corev1.Windows {
		return refuse(ReasonWindows, "Kubernetes resizes pods on Linux nodes only")
	}
	return nil
}

func noResize(s situation) *Refusal {
	switch {
	case !s.caps.Resizable:
		return refuse(ReasonResizeNotSupported, "the API server does not serve pods/resize; it needs Kubernetes 1.33 or newer")
	case s.pod.Spec.NodeName != "" && s.caps.KubeletMinor != 0 && s.caps.KubeletMinor < MinorResize:
		return refuse(ReasonResizeNotSupported, "the kubelet of node %s is of version 1.%d; resizing needs 1.33 or newer",
			s.pod.Spec.NodeName, s.caps.KubeletMinor)
	}
	return nil
}

// noResourcesInStatus: the API server takes a running container without resources in its status for
// one on a node that cannot resize. A container that has not started has none either, which means nothing.
func noResourcesInStatus(s situation) *Refusal {
	for _, status := range s.pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			continue
		}
		if status.Resources == nil {
			return refuse(ReasonNodeWithoutResize, "node %s reports no resources of running containers, so the API server refuses to resize its pods",
				s.pod.Spec.NodeName)
		}
		return nil
	}
	return nil
}

func bestEffort(s situation) *Refusal {
	if classOf(s.pod) == corev1.PodQOSBestEffort {
		return refuse(ReasonBestEffort, "a pod without requests and limits cannot be resized; it can be given requests when it is created")
	}
	return nil
}

func podLevelResources(s situation) *Refusal {
	if !hasPodLevelResources(s.pod) || s.caps.ServerMinor >= MinorPodLevelResources && s.caps.Has(FeaturePodLevelResize) {
		return nil
	}
	return refuse(ReasonPodLevelResources, "pods with resources of their own are resizable from Kubernetes 1.36 on, on nodes that declare %s",
		FeaturePodLevelResize)
}

func resourceClaims(s situation) *Refusal {
	if s.caps.ServerMinor >= MinorResourceClaims {
		return nil
	}
	claims := func(c corev1.Container) bool { return len(c.Resources.Claims) > 0 }
	if slices.ContainsFunc(s.pod.Spec.Containers, claims) || slices.ContainsFunc(s.pod.Spec.InitContainers, claims) ||
		len(s.pod.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		return refuse(ReasonResourceClaims, "pods whose containers have resource claims are resizable from Kubernetes 1.37 on")
	}
	return nil
}

func nodeNotReady(s situation) *Refusal {
	if s.pod.Spec.NodeName != "" && !s.caps.NodeReady {
		return wait(ReasonNodeNotReady, "node %s is not ready or not known; its kubelet would not see the resize", s.pod.Spec.NodeName)
	}
	return nil
}

// notScheduled: a pod that the scheduler has not looked at yet is left to it.
func notScheduled(s situation) *Refusal {
	if s.pod.Spec.NodeName == "" && !unschedulable(s.pod) {
		return wait(ReasonNotScheduled, "the pod has no node yet")
	}
	return nil
}

// notStarted: before its containers have started, a pod shows nothing that a resize could be verified by.
func notStarted(s situation) *Refusal {
	if s.pod.Spec.NodeName == "" {
		return nil
	}
	for _, status := range s.statuses {
		if status.State.Running != nil || status.State.Terminated != nil || status.RestartCount > 0 {
			return nil
		}
	}
	return wait(ReasonNotStarted, "the pod's containers have not started yet")
}

func alreadyUnderway(s situation) *Refusal {
	if resizeUnderway(s.pod) {
		return wait(ReasonResizeUnderway, "a resize of the pod is under way; another would replace it half-done")
	}
	return nil
}

// unscheduledGrowth: a pod that fits nowhere may shrink until it does; growing it can only hurt.
func unscheduledGrowth(s situation, m Move) *Refusal {
	if s.pod.Spec.NodeName == "" && raises(m) {
		return waitMove(ReasonNotScheduled, "the pod fits no node; it is not made bigger")
	}
	return nil
}

func criticalGrowth(s situation, m Move) *Refusal {
	if p := s.pod.Spec.Priority; p != nil && *p >= criticalPriority && raises(m) {
		return refuseMove(ReasonCriticalPriority, "a kubelet evicts other pods to let a pod of priority %d grow", *p)
	}
	return nil
}

// notReady also covers a startup probe that has not passed: such a pod is not ready.
func notReady(s situation, m Move) *Refusal {
	if s.pod.Spec.NodeName != "" && !isReady(s.pod) && lowers(m) {
		return waitMove(ReasonNotReady, "a pod that is not ready is never lowered")
	}
	return nil
}

func restartedLately(s situation, m Move) *Refusal {
	restarted := lastRestart(s.statuses[m.Container])
	if !restarted.IsZero() && s.now.Sub(restarted) < restartRest && lowers(m) {
		return waitMove(ReasonRestartedLately, "it restarted at %s; it is not lowered for %s after that",
			restarted.UTC().Format(time.RFC3339), restartRest)
	}
	return nil
}

// oldStaticKubelet: a 1.33 kubelet with a static policy refuses any resize of a Guaranteed pod.
func oldStaticKubelet(s situation, m Move) *Refusal {
	if (s.caps.StaticCPU || s.caps.StaticMemory) && s.caps.KubeletMinor <= MinorResize && guaranteed(s.pod) {
		return refuseMove(ReasonStaticPolicy, "the node assigns CPUs or memory statically and its kubelet then resizes no Guaranteed pod")
	}
	return nil
}

func staticCPU(s situation, m Move) *Refusal {
	if s.caps.StaticCPU && guaranteed(s.pod) && m.From[recommender.CPU] != m.To[recommender.CPU] {
		return refuseOf(recommender.CPU, ReasonStaticCPU, "the node assigns CPUs statically; new pods get the new size")
	}
	return nil
}

func staticMemory(s situation, m Move) *Refusal {
	if s.caps.StaticMemory && guaranteed(s.pod) && m.From[recommender.Memory] != m.To[recommender.Memory] {
		return refuseOf(recommender.Memory, ReasonStaticMemory, "the node assigns memory statically; new pods get the new size")
	}
	return nil
}

// swap: the swap a Burstable container may use follows from its memory request, and a kubelet cannot
// change it while the container runs.
func swap(s situation, m Move) *Refusal {
	from, to := m.From[recommender.Memory], m.To[recommender.Memory]
	if !s.caps.Swap || from.Request == to.Request || from.Request == from.Limit ||
		classOf(s.pod) != corev1.PodQOSBurstable || s.restartsFor(m.Container, corev1.ResourceMemory) {
		return nil
	}
	return refuseOf(recommender.Memory, ReasonSwap, "the node uses swap and its kubelet cannot change a memory request in place")
}

func memoryLimitDecreaseUnsupported(s situation, m Move) *Refusal {
	if !lowersMemoryLimit(m) || s.restartsFor(m.Container, corev1.ResourceMemory) {
		return nil
	}
	if s.caps.ServerMinor >= MinorMemoryLimitDecrease &&
		(s.caps.KubeletMinor >= MinorMemoryLimitDecrease || s.pod.Spec.NodeName == "") {
		return nil
	}
	return refuseOf(recommender.Memory, ReasonMemoryLimitDecrease,
		"lowering a memory limit safely needs Kubernetes 1.34 or newer on the API server and the node; the limit stays")
}

func startedJustNow(s situation, m Move) *Refusal {
	status := s.statuses[m.Container]
	if status == nil || status.State.Running == nil || !lowersMemoryLimit(m) {
		return nil
	}
	if s.now.Sub(status.State.Running.StartedAt.Time) >= statsDelay {
		return nil
	}
	refusal := refuseOf(recommender.Memory, ReasonStartedJustNow, "it started less than %s ago and its memory usage is not known yet; the limit stays", statsDelay)
	refusal.Transient = true
	return refusal
}

// belowUsage counts the page cache, as the kubelet does: it refuses a limit below it although the
// kernel could reclaim it.
func belowUsage(s situation, m Move) *Refusal {
	usage := s.wished[m.Container].MemoryUsage
	switch limit := m.To[recommender.Memory].Limit; {
	case !lowersMemoryLimit(m):
		return nil
	case usage == 0 && m.From[recommender.Memory].Limit == 0:
		return refuseOf(recommender.Memory, ReasonMemoryInUse, "what it holds now is not known, and a limit that is added is never removed; it gets none")
	case usage == 0 || limit > headroomOver(usage):
		return nil
	}
	refusal := refuseOf(recommender.Memory, ReasonMemoryInUse, "it holds %s now, page cache included, and a limit below 1.1 times that could kill it; the limit stays",
		recommender.Format(recommender.Memory, usage))
	refusal.Transient = true
	return refusal
}

// tmpfs: pages of a memory-backed volume count as the container's memory and cannot be reclaimed; the
// volume may still fill up to its size limit.
func tmpfs(s situation, m Move) *Refusal {
	if !lowersMemoryLimit(m) {
		return nil
	}
	size, bounded := tmpfsSize(s.pod, m.Container)
	switch {
	case !bounded:
		return refuseOf(recommender.Memory, ReasonMemoryVolume, "it mounts a memory-backed volume without a size limit, which may fill up to the memory limit; the limit stays")
	case size > 0 && m.To[recommender.Memory].Limit <= headroomOver(s.wished[m.Container].MemoryUsage)+size:
		return refuseOf(recommender.Memory, ReasonMemoryVolume, "it mounts memory-backed volumes of %s, for which the limit leaves no room; the limit stays",
			recommender.Format(recommender.Memory, size))
	}
	return nil
}

func qosChange(s situation, p Plan) *Refusal {
	if before, after := classOf(s.pod), QOSClass(p.Apply(s.pod)); before != after {
		return refuse(ReasonQOSClass, "the pod would become %s, and a resize may not change its class %s; requests and limits must move together", after, before)
	}
	return nil
}

// outsidePodLevel keeps containers within the pod's own resources.
func outsidePodLevel(s situation, p Plan) *Refusal {
	if !hasPodLevelResources(s.pod) {
		return nil
	}
	pod := ReadSpec(*s.pod.Spec.Resources)
	total := containerRequests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if pod[r].Request > 0 && total[r] > pod[r].Request {
			return refuse(ReasonPodLevelResources, "the containers would request %s of %s, more than the pod's own %s",
				recommender.Format(r, total[r]), r, recommender.Format(r, pod[r].Request))
		}
		for _, m := range p.Moves {
			if pod[r].Limit > 0 && m.To[r].Limit > pod[r].Limit {
				return refuse(ReasonPodLevelResources, "container %s would have a %s limit of %s, above the pod's own %s",
					m.Container, r, recommender.Format(r, m.To[r].Limit), recommender.Format(r, pod[r].Limit))
			}
		}
	}
	return nil
}

// beyondNode is what the API server's PodResizeValidator checks from 1.36 on, and what an older kubelet
// calls Infeasible: the pod alone is more than the node has. Overhead counts.
func beyondNode(s situation, p Plan) *Refusal {
	needs := podRequests(p.Apply(s.pod))
	for _, r := range recommender.Resources {
		if has := s.caps.Allocatable[r]; has > 0 && needs[r] > has {
			return refuse(ReasonNodeCapacity, "the pod would request %s of %s, and node %s has %s in all",
				recommender.Format(r, needs[r]), r, s.pod.Spec.NodeName, recommender.Format(r, has))
		}
	}
	return nil
}

func guaranteed(pod *corev1.Pod) bool { return classOf(pod) == corev1.PodQOSGuaranteed }

func unschedulable(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// lastRestart is when a container last restarted; zero if it never did.
func lastRestart(status *corev1.ContainerStatus) time.Time {
	switch {
	case status == nil || status.RestartCount == 0:
		return time.Time{}
	case status.State.Running != nil:
		return status.State.Running.StartedAt.Time
	case status.LastTerminationState.Terminated != nil:
		return status.LastTerminationState.Terminated.FinishedAt.Time
	}
	return time.Time{}
}

func headroomOver(usage recommender.Amount) recommender.Amount { return usage + usage/10 }

// tmpfsSize sums the memory-backed volumes that a container mounts; false if one has no bound.
func tmpfsSize(pod *corev1.Pod, container string) (recommender.Amount, bool) {
	mounted := mountsOf(pod, container)
	var sum recommender.Amount
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory || !mounted[v.Name] {
			continue
		}
		if v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			return 0, false
		}
		sum += AmountOf(recommender.Memory, *v.EmptyDir.SizeLimit)
	}
	return sum, true
}

func mountsOf(pod *corev1.Pod, container string) map[string]bool {
	mounted := map[string]bool{}
	for _, c := range resizable(pod) {
		if c.Name != container {
			continue
		}
		for _, mount := range c.VolumeMounts {
			mounted[mount.Name] = true
		}
	}
	return mounted
}

// restartsFor: changing the resource restarts the container.
func (s situation) restartsFor(container string, name corev1.ResourceName) bool {
	for _, c := range resizable(s.pod) {
		if c.Name == container {
			return restartPolicyFor(c, name) == corev1.RestartContainer
		}
	}
	return false
}

// restartsContainer: the move changes a resource whose policy restarts the container. A request alone
// is enough.
func restartsContainer(c *corev1.Container, m Move) bool {
	for _, r := range recommender.Resources {
		if m.From[r] != m.To[r] && restartPolicyFor(c, NameOf(r)) == corev1.RestartContainer {
			return true
		}
	}
	return false
}

func restartPolicyFor(c *corev1.Container, name corev1.ResourceName) corev1.ResourceResizeRestartPolicy {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy
		}
	}
	return corev1.NotRequired
}
