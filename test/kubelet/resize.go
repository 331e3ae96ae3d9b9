package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// resize decides about every pod whose spec is not what it was allocated: at once where the spec is
// new, and again for those that wait whenever there may be room.
func (n *Node) resize(pods []*corev1.Pod, now time.Time) {
	again := n.retry || !now.Before(n.retryAt)
	if again {
		n.retry, n.retryAt = false, now.Add(retryDeferred)
	}
	var queue []*corev1.Pod
	for _, pod := range pods {
		s := n.pods[pod.UID]
		if s == nil || s.rejected != nil || finished(pod) {
			continue
		}
		fresh := s.observed != pod.Generation
		waits := s.pending != nil && s.pending.reason == corev1.PodReasonDeferred
		if fresh || again && waits {
			s.observed = pod.Generation
			queue = append(queue, pod)
		}
	}
	slices.SortStableFunc(queue, n.byUrgency)
	for _, pod := range queue {
		n.decide(pod, pods, now)
	}
}

// byUrgency: what does not grow, then priority, then class, then who waits longest.
func (n *Node) byUrgency(a, b *corev1.Pod) int {
	return cmp.Or(
		compareBool(!n.grows(a), !n.grows(b)),
		-cmp.Compare(priority(a), priority(b)),
		compareBool(a.Status.QOSClass == corev1.PodQOSGuaranteed, b.Status.QOSClass == corev1.PodQOSGuaranteed),
		n.waitsSince(a).Compare(n.waitsSince(b)),
	)
}

func (n *Node) waitsSince(pod *corev1.Pod) time.Time {
	if p := n.pods[pod.UID].pending; p != nil {
		return p.since
	}
	return time.Unix(1<<40, 0)
}

func (n *Node) grows(pod *corev1.Pod) bool {
	now, then := requestsOf(with(pod, n.pods[pod.UID].allocated)), requestsOf(pod)
	for name, q := range then {
		if had := now[name]; q.Cmp(had) > 0 {
			return true
		}
	}
	return false
}

// decide: nothing to do, not here, not now, or allocated.
func (n *Node) decide(pod *corev1.Pod, pods []*corev1.Pod, now time.Time) {
	s := n.pods[pod.UID]
	desired := resourcesOf(pod)
	s.touch()
	if equality.Semantic.DeepEqual(desired, s.allocated) {
		s.pending = nil
		return
	}
	if reason, message := n.refuses(pod, pods); reason != "" {
		s.pending = n.verdict(s.pending, reason, message, pod.Generation, now)
		return
	}
	s.pending = nil
	s.allocated = desired
	if s.containers == nil {
		return
	}
	n.wakeWaiting(pod, s, now)
	s.progress = n.verdict(s.progress, "", "", pod.Generation, now)
	s.actuateAt = now.Add(n.options.ActuateAfter)
}

// wakeWaiting starts containers that wait to be started again: their back-off goes by their size, so that another one
// ends it.
func (n *Node) wakeWaiting(pod *corev1.Pod, s *podState, now time.Time) {
	for name, c := range s.containers {
		if c.runs() || c.startAgain.IsZero() || equality.Semantic.DeepEqual(c.sizes, s.allocated[name]) {
			continue
		}
		c.backOff, c.startAgain = 0, now
		n.beginAgain(pod, s, name, now)
	}
}

// refuses is why a resize is not allocated: up to 1.35 more than the node has is never going to fit, from
// 1.36 on only later.
func (n *Node) refuses(pod *corev1.Pod, pods []*corev1.Pod) (reason, message string) {
	if n.options.StaticCPU && pod.Status.QOSClass == corev1.PodQOSGuaranteed && n.changesCPU(pod) {
		return corev1.PodReasonInfeasible, `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`
	}
	if n.options.Swap && n.changesSwapped(pod) {
		return corev1.PodReasonInfeasible, "In-place resize of containers with swap is not supported."
	}
	want, has := requestsOf(pod), n.allocatable()
	for name, q := range want {
		if limit, known := has[name]; known && q.Cmp(limit) > 0 && n.options.Minor <= 35 {
			return corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %s, capacity: %s", name, q.String(), limit.String())
		}
	}
	if n.Faults.Rejects != "" {
		return corev1.PodReasonDeferred, n.Faults.Rejects
	}
	if name := n.short(pod, pods); name != "" {
		q := want[corev1.ResourceName(name)]
		return corev1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %s", name, q.String())
	}
	return "", ""
}

func (n *Node) changesCPU(pod *corev1.Pod) bool {
	for name, desired := range resourcesOf(pod) {
		had := n.pods[pod.UID].allocated[name]
		if desired.Requests.Cpu().Cmp(*had.Requests.Cpu()) != 0 || desired.Limits.Cpu().Cmp(*had.Limits.Cpu()) != 0 {
			return true
		}
	}
	return false
}

// changesSwapped: with limited swap a container's share of it goes by its memory request, which then cannot change
// without a restart where request and limit differ.
func (n *Node) changesSwapped(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != corev1.PodQOSBurstable {
		return false
	}
	for _, c := range resizable(pod) {
		had := n.pods[pod.UID].allocated[c.Name]
		swaps := !had.Requests.Memory().IsZero() && had.Requests.Memory().Cmp(*had.Limits.Memory()) != 0
		changed := had.Requests.Memory().Cmp(*c.Resources.Requests.Memory()) != 0
		if swaps && changed && !restarts(c, had, c.Resources) {
			return true
		}
	}
	return false
}

// verdict keeps the time of one with the same reason.
func (n *Node) verdict(before *verdict, reason, message string, generation int64, now time.Time) *verdict {
	v := &verdict{reason: reason, message: message, generation: generation, since: now}
	if before != nil && before.reason == reason {
		v.since = before.since
	}
	return v
}

// actuate tells the runtime what is allocated: all of it or nothing.
func (n *Node) actuate(pod *corev1.Pod, now time.Time) {
	s := n.pods[pod.UID]
	if s == nil || s.containers == nil || s.progress == nil && s.actuateAt.IsZero() {
		return
	}
	if equality.Semantic.DeepEqual(s.actuated, s.allocated) {
		s.progress, s.actuateAt = nil, time.Time{}
		s.touch()
		return
	}
	if s.actuateAt.IsZero() || now.Before(s.actuateAt) {
		return
	}
	s.touch()
	if message := n.cannot(pod, now); message != "" {
		n.Failures = append(n.Failures, message)
		generation := pod.Generation
		if s.progress != nil {
			generation = s.progress.generation
		}
		s.progress = n.verdict(s.progress, corev1.PodReasonError, message, generation, now)
		s.actuateAt = now.Add(retryError)
		return
	}
	for _, c := range resizable(pod) {
		if s.containers[c.Name].runs() && restarts(c, s.actuated[c.Name], s.allocated[c.Name]) {
			s.restart(pod, c.Name, now)
		}
	}
	if n.options.PodCgroup && s.anyRuns() {
		s.podLimit = together(s.allocated)
	}
	if s.anyRuns() {
		s.podQuota = quotas(s.allocated)
	}
	s.actuated = maps.Clone(s.allocated)
	s.progress, s.actuateAt = nil, time.Time{}
	n.retry = true
}

func (s *podState) anyRuns() bool {
	for _, c := range s.containers {
		if c.runs() {
			return true
		}
	}
	return false
}

// cannot is why the runtime cannot be told, or "".
func (n *Node) cannot(pod *corev1.Pod, now time.Time) string {
	if n.Faults.Error != "" {
		return n.Faults.Error
	}
	s := n.pods[pod.UID]
	for _, c := range resizable(pod) {
		to, limited := s.allocated[c.Name].Limits[corev1.ResourceMemory]
		from, wasLimited := s.actuated[c.Name].Limits[corev1.ResourceMemory]
		lowered := limited && (!wasLimited || to.Cmp(from) < 0)
		if !lowered || !s.containers[c.Name].runs() || n.options.Minor < 34 || restarts(c, s.actuated[c.Name], s.allocated[c.Name]) {
			continue
		}
		usage, known := n.sample(pod, c.Name, now)
		switch {
		case !known:
			return fmt.Sprintf("cannot decrease memory limits: missing container memory usage: %q", c.Name)
		case usage >= to.Value():
			return fmt.Sprintf("cannot decrease memory limits: [attempting to set container %q memory limit (%d) below current usage (%d)]", c.Name, to.Value(), usage)
		}
	}
	return ""
}

// sample is a container's memory usage as the kubelet knows it: a while old, and unknown at first.
func (n *Node) sample(pod *corev1.Pod, container string, now time.Time) (int64, bool) {
	c := n.pods[pod.UID].containers[container]
	if now.Sub(c.startedAt) < statsMissing || n.Faults.NoStats {
		return 0, false
	}
	if c.sampledAt.IsZero() || now.Sub(c.sampledAt) >= statsLag {
		_, c.usage = n.processes.Memory(n.pods[pod.UID].run(pod, container), now)
		c.sampledAt = now
	}
	return c.usage, true
}

// restarts: the container's own policy restarts it for the change.
func restarts(c *corev1.Container, from, to corev1.ResourceRequirements) bool {
	for _, p := range c.ResizePolicy {
		changed := !from.Requests.Name(p.ResourceName, "").Equal(*to.Requests.Name(p.ResourceName, "")) ||
			!from.Limits.Name(p.ResourceName, "").Equal(*to.Limits.Name(p.ResourceName, ""))
		if changed && p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// compareBool sorts true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
