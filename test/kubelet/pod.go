package kubelet

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

// podState is what the kubelet knows of one pod.
type podState struct {
	// allocated is what the pod may use, actuated what the runtime was told, by container.
	allocated, actuated map[string]corev1.ResourceRequirements
	containers          map[string]*containerState
	// observed is the generation that was decided about last.
	observed          int64
	pending, progress *verdict
	// rejected: the pod was not admitted, with this reason and message.
	rejected *verdict

	// startAt is when the containers start, actuateAt when the runtime is told; zero: not at all.
	startAt, actuateAt time.Time
	// publishAt is when a status that lags is written.
	publishAt time.Time
	lagging   *corev1.PodStatus
}

// verdict is a condition that stands.
type verdict struct {
	reason, message string
	generation      int64
	since           time.Time
}

// containerState is one container, as it runs.
type containerState struct {
	id        string
	startedAt time.Time
	restarts  int32
	last      *corev1.ContainerStateTerminated
	// usage is the memory as it was sampled last.
	usage     int64
	sampledAt time.Time
}

// restarted: the kubelet was stopped in between. What was infeasible is decided about again.
func (s *podState) restarted(now time.Time) {
	for _, v := range []*verdict{s.pending, s.progress} {
		if v != nil {
			v.since = now
		}
	}
	s.observed = 0
}

// accept takes in pods that are new on the node, as far as they fit.
func (n *Node) accept(pods []*corev1.Pod, now time.Time) {
	for _, pod := range pods {
		if n.pods[pod.UID] != nil || finished(pod) {
			continue
		}
		s := &podState{allocated: resourcesOf(pod), actuated: resourcesOf(pod), observed: pod.Generation}
		if short := n.short(pod, pods); short != "" {
			s.rejected = &verdict{reason: "OutOf" + short, message: "Pod was rejected: Node didn't have enough resource: " + short}
			n.pods[pod.UID] = s
			continue
		}
		s.startAt = now.Add(n.options.StartAfter)
		n.pods[pod.UID] = s
		n.retry = true
	}
	for _, pod := range pods {
		if s := n.pods[pod.UID]; s != nil && !s.startAt.IsZero() && !now.Before(s.startAt) {
			s.start(pod, now)
		}
	}
}

// start starts the containers with what is allocated then.
func (s *podState) start(pod *corev1.Pod, now time.Time) {
	s.startAt = time.Time{}
	s.actuated = maps.Clone(s.allocated)
	s.containers = map[string]*containerState{}
	for _, c := range resizable(pod) {
		s.containers[c.Name] = &containerState{id: containerID(pod, c.Name, 0), startedAt: now}
	}
}

// restart ends a container and starts it again with what is allocated.
func (s *podState) restart(pod *corev1.Pod, container, reason string, code int32, now time.Time) {
	c := s.containers[container]
	c.last = &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, ContainerID: c.id,
		StartedAt: stored(c.startedAt), FinishedAt: stored(now),
	}
	c.restarts++
	c.id, c.startedAt, c.sampledAt = containerID(pod, container, c.restarts), now, time.Time{}
	s.actuated[container] = s.allocated[container]
}

func containerID(pod *corev1.Pod, container string, restarts int32) string {
	return fmt.Sprintf("containerd://%s-%s-%d", pod.UID, container, restarts)
}

// Crash ends a container, which starts again with what is allocated, as a crash does.
func (n *Node) Crash(pod *corev1.Pod, container string, now time.Time) {
	if s := n.pods[pod.UID]; s != nil && s.containers != nil {
		s.restart(pod, container, "Error", 1, now)
	}
}

// Allocated is what the kubelet allocated to a container; the API shows no more of it than the requests.
func (n *Node) Allocated(pod *corev1.Pod, container string) corev1.ResourceRequirements {
	if s := n.pods[pod.UID]; s != nil {
		return s.allocated[container]
	}
	return corev1.ResourceRequirements{}
}

// killOverLimit: the kernel kills a container that holds more than its limit.
func (n *Node) killOverLimit(pod *corev1.Pod, now time.Time) {
	s := n.pods[pod.UID]
	if s == nil || s.containers == nil {
		return
	}
	for name, c := range s.containers {
		limit, limited := s.actuated[name].Limits[corev1.ResourceMemory]
		if limited && now.Sub(c.startedAt) >= oomAfter && n.options.Usage(pod, name) > limit.Value() {
			s.restart(pod, name, "OOMKilled", 137, now)
		}
	}
}

// short is the resource that the node has too little of for a pod's spec beside what others hold, or "".
func (n *Node) short(pod *corev1.Pod, pods []*corev1.Pod) string {
	want, has := requestsOf(pod), n.allocatable()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		sum := want[name].DeepCopy()
		for _, other := range pods {
			if other.UID != pod.UID {
				held := n.held(other)[name]
				sum.Add(held)
			}
		}
		if name == corev1.ResourceCPU {
			sum.Add(*resource.NewMilliQuantity(n.Faults.Taken, resource.DecimalSI))
		}
		if limit := has[name]; sum.Cmp(limit) > 0 {
			return string(name)
		}
	}
	return ""
}

// held is what a pod takes of the node: the more of what is allocated and what it still has. What it
// only asks for does not count.
func (n *Node) held(pod *corev1.Pod) corev1.ResourceList {
	s := n.pods[pod.UID]
	if s == nil || s.rejected != nil || finished(pod) {
		return nil
	}
	a, b := requestsOf(with(pod, s.allocated)), requestsOf(with(pod, s.actuated))
	for name, other := range b {
		if mine := a[name]; other.Cmp(mine) > 0 {
			a[name] = other
		}
	}
	return a
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{})
}

// with is a pod whose containers have other resources.
func with(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range resizable(pod) {
		c.Resources = resources[c.Name]
	}
	return pod
}

func resourcesOf(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	all := map[string]corev1.ResourceRequirements{}
	for _, c := range resizable(pod) {
		all[c.Name] = *c.Resources.DeepCopy()
	}
	return all
}

// resizable are the containers that run as long as the pod.
func resizable(pod *corev1.Pod) []*corev1.Container {
	var list []*corev1.Container
	for i := range pod.Spec.InitContainers {
		if p := pod.Spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			list = append(list, &pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	return list
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
