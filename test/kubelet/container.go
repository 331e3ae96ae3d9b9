package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Back-off of containers that end again and again (pkg/kubelet/kubelet.go, client-go/util/flowcontrol/backoff.go).
const (
	backOffFirst = 10 * time.Second
	backOffMost  = 5 * time.Minute
	// unwellFor is how long a liveness probe fails before its container is ended: three times with the default period.
	unwellFor = 30 * time.Second
)

// containerState is one container, as it runs or waits to run again.
type containerState struct {
	id        string
	startedAt time.Time
	restarts  int32
	last      *corev1.ContainerStateTerminated
	// ended is how it ended; nil: it runs. It starts again at startAgain; zero: never.
	ended      *corev1.ContainerStateTerminated
	startAgain time.Time
	// shownUntil is when the status stops showing that it ended, and shows that it waits.
	shownUntil time.Time
	// backOff is what it waits after its next end, since backOffAt; sizes are those that it ended with last.
	backOff   time.Duration
	backOffAt time.Time
	sizes     corev1.ResourceRequirements
	// failed: the runtime could not start it (cgroup v1: its CPU quota is above its pod's).
	failed bool
	// unwellSince is since when its liveness probe fails.
	unwellSince time.Time
	// usage is the memory as it was sampled last.
	usage     int64
	sampledAt time.Time
}

func (c *containerState) runs() bool { return c != nil && c.ended == nil }

// run is a container as its processes see it.
func (s *podState) run(pod *corev1.Pod, name string) Run {
	c, actual := s.containers[name], s.actuated[name]
	if limit, limited := s.memoryLimit(name); limited && limit < actual.Limits.Memory().Value() {
		actual = *actual.DeepCopy()
		actual.Limits[corev1.ResourceMemory] = *resource.NewQuantity(limit, resource.BinarySI)
	}
	return Run{Pod: pod, Container: name, StartedAt: c.startedAt, Restarts: c.restarts, Actual: actual}
}

// exit ends a container. Whether and when it starts again is a matter of the pod's restart policy and of how often it
// has ended.
func (n *Node) exit(pod *corev1.Pod, s *podState, name, reason string, code int32, now time.Time) {
	c := s.containers[name]
	s.touch()
	c.ended = &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, ContainerID: c.id, StartedAt: stored(c.startedAt), FinishedAt: stored(now),
	}
	c.shownUntil, c.startAgain, c.unwellSince = now.Add(n.options.RestartAfter), time.Time{}, time.Time{}
	if !startsAgain(pod, name, code) {
		return
	}
	c.startAgain = now.Add(max(n.options.RestartAfter, c.waits(s.allocated[name], now)))
	n.beginAgain(pod, s, name, now)
}

// waits is how long a container that ended now has to wait, by the ends before it. Another size forgets them, and ten
// minutes without an end.
func (c *containerState) waits(allocated corev1.ResourceRequirements, now time.Time) time.Duration {
	if c.backOff != 0 && (now.Sub(c.backOffAt) > 2*backOffMost || !equality.Semantic.DeepEqual(c.sizes, allocated)) {
		c.backOff = 0
	}
	c.sizes = allocated
	return c.backOff
}

// beginAgain starts a container whose time has come, with what is allocated.
func (n *Node) beginAgain(pod *corev1.Pod, s *podState, name string, now time.Time) {
	c := s.containers[name]
	if c.ended == nil || c.startAgain.IsZero() || now.Before(c.startAgain) {
		return
	}
	s.touch()
	c.backOff, c.backOffAt, c.sizes = min(max(2*c.backOff, backOffFirst), backOffMost), now, s.allocated[name]
	if c.failed = n.options.CgroupV1 && s.podQuota > 0 && cpuLimit(s.allocated[name]) > s.podQuota; c.failed {
		s.actuate(name)
		c.startAgain = now.Add(c.backOff)
		return
	}
	s.again(pod, name, now)
}

// again starts a container with what is allocated. Its pod's cgroup keeps its limit (kubernetes/kubernetes#138760).
func (s *podState) again(pod *corev1.Pod, name string, now time.Time) {
	c := s.containers[name]
	c.last, c.ended = c.ended, nil
	c.restarts++
	c.id, c.startedAt, c.sampledAt, c.startAgain = containerID(pod, name, c.restarts), now, time.Time{}, time.Time{}
	s.actuate(name)
}

// startsAgain: the restart policy has a container start again that ended with this code.
func startsAgain(pod *corev1.Pod, name string, code int32) bool {
	for _, c := range sidecars(pod) {
		if c.Name == name {
			return true
		}
	}
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// live has the containers of a pod run on: they end by themselves, are killed, fail their probes, and start again.
func (n *Node) live(pod *corev1.Pod, now time.Time) {
	s := n.pods[pod.UID]
	if s == nil || s.containers == nil || finished(pod) || now.Before(s.lookAt) {
		return
	}
	s.nextAt = time.Time{}
	ready := true
	for _, c := range resizable(pod) {
		n.beginAgain(pod, s, c.Name, now)
		n.look(pod, s, c.Name, now)
		run := s.containers[c.Name]
		if !run.runs() {
			// What the status shows of it may change by itself.
			ready, s.shown = false, ""
			s.nextAt = earlier(earlier(s.nextAt, run.startAgain, now), run.shownUntil, now)
			continue
		}
		_, well := n.processes.Healthy(s.run(pod, c.Name), now)
		ready = ready && well
		s.nextAt = earlier(s.nextAt, n.processes.Next(s.run(pod, c.Name), now), now)
		if !run.unwellSince.IsZero() {
			s.nextAt = earlier(s.nextAt, run.unwellSince.Add(unwellFor), now)
		}
	}
	if ready != s.ready {
		s.ready = ready
		s.touch()
	}
	if _, unforeseen := n.processes.(simple); unforeseen {
		return
	}
	s.lookAt = now.Add(time.Hour)
	if !s.nextAt.IsZero() {
		s.lookAt = s.nextAt
	}
	s.nextAt = s.lookAt
}

// look whether a container has to end.
func (n *Node) look(pod *corev1.Pod, s *podState, name string, now time.Time) {
	c := s.containers[name]
	if !c.runs() {
		return
	}
	run := s.run(pod, name)
	if at, code := n.processes.Ends(run); !at.IsZero() && !now.Before(at) {
		n.exit(pod, s, name, exitReason(code), code, at)
		return
	}
	limit := run.Actual.Limits.Memory().Value()
	if needs, _ := n.processes.Memory(run, now); limit > 0 && needs > limit {
		n.exit(pod, s, name, "OOMKilled", 137, now)
		return
	}
	alive, _ := n.processes.Healthy(run, now)
	switch {
	case alive:
		c.unwellSince = time.Time{}
	case c.unwellSince.IsZero():
		c.unwellSince = now
	case now.Sub(c.unwellSince) >= unwellFor:
		n.exit(pod, s, name, "Error", 137, now)
	}
}

func exitReason(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// memoryLimit is what bounds a container's memory: its own limit, or what its pod's leaves it.
func (s *podState) memoryLimit(name string) (bytes int64, limited bool) {
	own, limited := s.actuated[name].Limits[corev1.ResourceMemory]
	if !limited || s.podLimit == 0 {
		return own.Value(), limited
	}
	others := int64(0)
	for other, r := range s.actuated {
		if other != name {
			others += r.Limits.Memory().Value()
		}
	}
	return min(own.Value(), s.podLimit-others), true
}

// phase of a pod by its containers (pkg/kubelet/kubelet_pods.go, getPhase).
func (s *podState) phase(pod *corev1.Pod) corev1.PodPhase {
	failed := false
	for _, c := range pod.Spec.Containers {
		run := s.containers[c.Name]
		if run == nil {
			return corev1.PodPending
		}
		if run.runs() || !run.startAgain.IsZero() {
			return corev1.PodRunning
		}
		failed = failed || run.ended.ExitCode != 0
	}
	if failed {
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// waiting is how the status shows a container that waits to start again.
func (c *containerState) waiting(pod *corev1.Pod, name string) *corev1.ContainerStateWaiting {
	if c.failed {
		return &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: "failed to write to cpu.cfs_quota_us: invalid argument"}
	}
	return &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf(
		"back-off %s restarting failed container=%s pod=%s_%s(%s)", c.backOff, name, pod.Name, pod.Namespace, pod.UID)}
}
