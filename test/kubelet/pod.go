package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// nextAt is when a container does something by itself; until lookAt nothing can have happened.
	nextAt, lookAt time.Time
	// ready: every container runs and passes its probe.
	ready bool
	// podLimit is the memory limit of the pod's own cgroup, in bytes; 0: it has none.
	podLimit int64
	// podQuota is the CPU limit of the pod's own cgroup, in millicores; 0: it has none.
	podQuota int64
	// made: the pod's cgroup exists.
	made bool
	// shown is the version of the object that shows everything; empty: something is not shown yet.
	shown string
	// holds is what the pod takes of the node, as long as that is the same.
	holds corev1.ResourceList
	// tooSmall: a container has too little memory to be started.
	tooSmall bool
	// leaving: its deletion is as good as done, but for its finalizers.
	leaving bool
}

// touch: something is there that the status does not show yet.
func (s *podState) touch() { s.shown, s.holds, s.lookAt = "", nil, time.Time{} }

// actuate has the runtime give a container what is allocated.
func (s *podState) actuate(name string) {
	s.actuated[name] = s.allocated[name]
	s.touch()
}

// quotas is the CPU limit of all containers, in millicores; 0 where one has none.
func quotas(resources map[string]corev1.ResourceRequirements) (sum int64) {
	for _, r := range resources {
		limit := cpuLimit(r)
		if limit == 0 {
			return 0
		}
		sum += limit
	}
	return sum
}

func cpuLimit(r corev1.ResourceRequirements) int64 { return r.Limits.Cpu().MilliValue() }

// together is the memory limit of all containers, in bytes; 0 where one has none.
func together(resources map[string]corev1.ResourceRequirements) (sum int64) {
	for _, r := range resources {
		limit := r.Limits.Memory().Value()
		if limit == 0 {
			return 0
		}
		sum += limit
	}
	return sum
}

// verdict is a condition that stands.
type verdict struct {
	reason, message string
	generation      int64
	since           time.Time
}

// restarted: the kubelet was stopped in between. What was infeasible is decided about again.
func (s *podState) restarted(now time.Time) {
	for _, v := range []*verdict{s.pending, s.progress} {
		if v != nil {
			v.since = now
		}
	}
	s.observed = 0
	s.touch()
}

// accept takes in pods that are new on the node, as far as they fit.
func (n *Node) accept(ctx context.Context, pods []*corev1.Pod, now time.Time) {
	for _, pod := range pods {
		if n.pods[pod.UID] != nil || finished(pod) {
			continue
		}
		s := &podState{allocated: resourcesOf(pod), actuated: resourcesOf(pod), observed: pod.Generation}
		if short := n.short(pod, pods); short != "" {
			s.rejected = &verdict{reason: "OutOf" + short, message: "Pod was rejected: Node didn't have enough resource: " + short}
			s.startAt = now.Add(n.options.StartAfter)
			n.pods[pod.UID] = s
			continue
		}
		s.startAt = now.Add(n.options.StartAfter)
		n.pods[pod.UID] = s
		n.retry = true
	}
	for _, pod := range pods {
		s := n.pods[pod.UID]
		if s == nil || s.startAt.IsZero() || now.Before(s.startAt) {
			continue
		}
		switch {
		case s.rejected != nil:
			s.startAt = time.Time{}
			s.touch()
		case n.tooSmall(s):
			s.startAt, s.tooSmall = now.Add(retryStart), true
			s.cgroup(n.options)
			s.touch()
			if n.Faults.TooSmall == "" {
				n.failedMount(ctx, pod, now)
			}
		default:
			s.cgroup(n.options)
			s.start(pod, now)
		}
	}
}

// cgroup makes the pod's cgroup with what is allocated at the first attempt to start it. Later attempts do not change it.
func (s *podState) cgroup(options Options) {
	if s.made {
		return
	}
	s.made = true
	if options.PodCgroup {
		s.podLimit = together(s.allocated)
	}
	s.podQuota = quotas(s.allocated)
}

// retryStart is how soon a start is tried again (exponentialbackoff of volumes: up to 2 min 2 s; containers: each sync).
const retryStart = 30 * time.Second

// tooSmall: a memory limit is below what the runtime needs.
func (n *Node) tooSmall(s *podState) bool {
	for _, r := range s.allocated {
		if limit := r.Limits.Memory().Value(); limit > 0 && limit < n.Faults.LeastMemory {
			return true
		}
	}
	return false
}

// start starts the containers with what is allocated then.
func (s *podState) start(pod *corev1.Pod, now time.Time) {
	s.startAt, s.tooSmall = time.Time{}, false
	s.touch()
	s.actuated = maps.Clone(s.allocated)
	s.containers = map[string]*containerState{}
	for _, c := range resizable(pod) {
		s.containers[c.Name] = &containerState{id: containerID(pod, c.Name, 0), startedAt: now}
	}
}

// restart ends a container and starts it again at once with what is allocated, as a resize does.
func (s *podState) restart(pod *corev1.Pod, name string, now time.Time) {
	c := s.containers[name]
	c.ended = &corev1.ContainerStateTerminated{
		Reason: "Completed", ContainerID: c.id, StartedAt: stored(c.startedAt), FinishedAt: stored(now),
	}
	s.again(pod, name, now)
}

func containerID(pod *corev1.Pod, container string, restarts int32) string {
	return fmt.Sprintf("containerd://%s-%s-%d", pod.UID, container, restarts)
}

// Crash ends a container with an error; it starts again as its restart policy and its back-off say.
func (n *Node) Crash(pod *corev1.Pod, container string, now time.Time) {
	if s := n.pods[pod.UID]; s != nil && s.containers[container].runs() {
		n.exit(pod, s, container, "Error", 1, now)
	}
}

// Allocated is what the kubelet allocated to a container; the API shows no more of it than the requests.
func (n *Node) Allocated(pod *corev1.Pod, container string) corev1.ResourceRequirements {
	if s := n.pods[pod.UID]; s != nil {
		return s.allocated[container]
	}
	return corev1.ResourceRequirements{}
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
	if s == nil || s.rejected != nil || s.leaving || finished(pod) {
		return nil
	}
	if s.holds != nil {
		return s.holds
	}
	a, b := requestsOf(with(pod, s.allocated)), requestsOf(with(pod, s.actuated))
	for name, other := range b {
		if mine := a[name]; other.Cmp(mine) > 0 {
			a[name] = other
		}
	}
	s.holds = a
	return a
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return helpers.PodRequests(pod, helpers.PodResourcesOptions{})
}

// with is a pod whose containers have other resources.
func with(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) *corev1.Pod {
	changed := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	changed.Spec.InitContainers, changed.Spec.Containers = slices.Clone(pod.Spec.InitContainers), slices.Clone(pod.Spec.Containers)
	for _, c := range resizable(changed) {
		c.Resources = resources[c.Name]
	}
	return changed
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

// failedMount reports a pod whose volumes in memory are larger than its memory limit. One event is repeated for each pod.
func (n *Node) failedMount(ctx context.Context, pod *corev1.Pod, now time.Time) {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + ".failedmount"}}
	known := n.client.Get(ctx, client.ObjectKeyFromObject(e), e) == nil
	e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	e.Reason, e.Type = "FailedMount", corev1.EventTypeWarning
	e.Message = `MountVolume.SetUp failed for volume "kube-api-access" : write ca.crt: no space left on device`
	e.LastTimestamp = metav1.NewTime(now.Truncate(time.Second))
	e.Count++
	if known {
		_ = n.client.Update(ctx, e)
		return
	}
	e.FirstTimestamp = e.LastTimestamp
	_ = n.client.Create(ctx, e)
}
