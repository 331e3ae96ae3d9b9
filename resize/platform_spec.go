package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// SpecFacts are the facts of a pod's spec, and of one of its containers, that decide what may be changed. Admission and
// plans for running pods pass them to AllowedBySpec, so that both follow the same rules. The zero value allows all.
type SpecFacts struct {
	// Running is false for a pod that is being created.
	Running bool
	// Back is true for a change that restores sizes that the pod had.
	Back bool
	// Critical is true for pods of system priority.
	Critical bool
	// Queue reserved room for the pod.
	Queue podview.Queue
	// FixedLimit is true for resources with a limit that leaves no room for a request, such as 0.
	FixedLimit [2]bool
	// Volumes are the memory-backed volumes that the container mounts, Held its own need in addition, in bytes.
	Volumes podview.MemoryVolumes
	Held    recommender.Amount
	// LeastLimit is the memory limit that the process needs because of LeastLimitBy, a variable or flag, in bytes; 0: none.
	LeastLimit   recommender.Amount
	LeastLimitBy string
}

// specRules check the change of one resource of one container by the spec alone. For a rule that refuses, leaves returns
// the allowed part of the move.
var specRules = [...]struct {
	refuses func(*SpecFacts, recommender.Resource, Move) *Refusal
	leaves  func(Move) recommender.Size
}{
	{fixedLimit, unmoved},
	{countedByQueue, withoutRequests},
	{reservedByQueue, withoutRequestIncreases},
	{criticalGrowth, withoutIncreases},
	{criticalCreated, withoutRequestIncreases},
	{tmpfs, WithoutMemoryLimitDecrease},
	{belowHeap, WithoutMemoryLimitDecrease},
}

// AllowedBySpec returns the part of a change that the pod's spec allows, and why the rest is not allowed; nil: all of it
// is. Created and running pods share it; f says which of them the pod is.
func AllowedBySpec(f *SpecFacts, r recommender.Resource, from, to recommender.Allocation) (recommender.Allocation, *Refusal) {
	if from == to || f.allowAll(r) {
		return to, nil
	}
	var first *Refusal
	m := Move{}
	m.From[r], m.To[r] = from, to
	for i := range specRules {
		refusal := specRules[i].refuses(f, r, m)
		if refusal == nil {
			continue
		}
		if left := specRules[i].leaves(m); left != m.To {
			m.To = left
			if first == nil {
				first = refusal
			}
		}
	}
	return m.To[r], first
}

// allowAll reports whether no rule can refuse a change, which saves the time of asking them: admission waits.
func (f *SpecFacts) allowAll(r recommender.Resource) bool {
	return !f.Critical && f.Queue.Name == "" && !f.FixedLimit[r] && f.Volumes == (podview.MemoryVolumes{}) && f.LeastLimit == 0
}

// fixedLimit leaves a resource whose limit is set to 0. Nodes apply no such limit, but the API server accepts no request
// above it, and a resize cannot remove it.
func fixedLimit(f *SpecFacts, r recommender.Resource, _ Move) *Refusal {
	if !f.FixedLimit[r] {
		return nil
	}
	return Refuse(ReasonFixedLimit, "the %s limit is 0, and Kubernetes accepts no request above it. Remove the limit from the pod template, or set a larger one", r)
}

// countedByQueue leaves requests that a queue counts as long as the pod exists: more would use quota that another
// workload was promised, and the queue would not notice less. What is restored are the requests that it counted.
func countedByQueue(f *SpecFacts, r recommender.Resource, m Move) *Refusal {
	if !f.Queue.Counts || f.Back || m.From[r].Request == m.To[r].Request {
		return nil
	}
	return Refuse(ReasonQueue, "%s reserved quota for the %s request of the pod template; the request stays. Change it in the template", f.Queue.Name, r)
}

// reservedByQueue raises no request of a created pod for which room is reserved by its template: the group would not fit
// the reserved room. A running pod has its room.
func reservedByQueue(f *SpecFacts, r recommender.Resource, m Move) *Refusal {
	if f.Running || f.Queue.Name == "" || m.To[r].Request <= m.From[r].Request {
		return nil
	}
	return Refuse(ReasonQueue, "%s may have reserved room for the %s request of the pod template; the request is not raised. Change it in the template", f.Queue.Name, r)
}

// criticalGrowth refuses growth of running pods of system priority: a kubelet evicts other pods of the node to make room
// for them.
func criticalGrowth(f *SpecFacts, _ recommender.Resource, m Move) *Refusal {
	if !f.Running || !f.Critical || !m.Raises() {
		return nil
	}
	return Refuse(ReasonCriticalPriority, "the kubelet would evict other pods to raise a pod of system priority. Change the resources of the pod template")
}

// criticalCreated raises no request of created pods of system priority: the scheduler evicts other pods to make room for
// them. It counts requests, so a limit may rise, for instance after an OOM kill.
func criticalCreated(f *SpecFacts, r recommender.Resource, m Move) *Refusal {
	if f.Running || !f.Critical || m.To[r].Request <= m.From[r].Request {
		return nil
	}
	return Refuse(ReasonCriticalPriority, "the scheduler could evict other pods for a higher %s request of a pod of system priority; the request is not raised. Change it in the pod template", r)
}

// tmpfs keeps a memory limit that leaves no room for the container's memory-backed volumes (podview.MemoryVolumes).
func tmpfs(f *SpecFacts, _ recommender.Resource, m Move) *Refusal {
	switch {
	case !m.LowersMemoryLimit() || !f.Volumes.Exceed(m.To[recommender.Memory].Limit, f.Held):
		return nil
	case f.Volumes.Unbounded:
		return Refuse(ReasonMemoryVolume, "the container mounts a memory-backed volume without sizeLimit, which may grow up to the memory limit; the limit stays")
	default:
		return Refuse(ReasonMemoryVolume, "the container mounts memory-backed volumes of %s, and a lower limit leaves no room for them; the limit stays",
			recommender.Format(recommender.Memory, f.Volumes.Size))
	}
}

// belowHeap keeps a memory limit that the process was told, or below the heap that it may use: it would collect garbage
// too late, and be killed.
func belowHeap(f *SpecFacts, _ recommender.Resource, m Move) *Refusal {
	if !m.LowersMemoryLimit() || m.To[recommender.Memory].Limit >= f.LeastLimit {
		return nil
	}
	if f.LeastLimit == recommender.MaxAmount {
		return Refuse(ReasonMemoryLimitKnown, "%s took the memory limit when the container started, and does not follow a lower one; the limit stays. Only new pods get the lower one", f.LeastLimitBy)
	}
	return Refuse(ReasonMemoryLimitKnown, "%s lets the process use memory up to %s; the limit stays. Lower the value first", f.LeastLimitBy, recommender.Format(recommender.Memory, f.LeastLimit))
}

// withoutRequests leaves the requests unchanged. A memory limit may rise, unless it equals the request.
func withoutRequests(m Move) recommender.Size {
	from, to := m.From[recommender.Memory], m.From
	if from.Limit > 0 && from.Request != from.Limit {
		to[recommender.Memory].Limit = max(from.Limit, m.To[recommender.Memory].Limit)
	}
	return to
}

// withoutRequestIncreases raises no request, and no limit that equals its request.
func withoutRequestIncreases(m Move) recommender.Size {
	for _, r := range recommender.Resources {
		from, to := m.From[r], &m.To[r]
		to.Request = min(to.Request, from.Request)
		if from.Request == from.Limit {
			to.Limit = min(to.Limit, from.Limit)
		}
	}
	return m.To
}

// FactsOf returns the facts of a running pod and of one of its resizable containers. The container's memory usage counts
// as not known.
func FactsOf(pod *corev1.Pod, c *corev1.Container, now time.Time) SpecFacts {
	return situation{pod: pod, now: now, statuses: podview.Statuses(pod)}.factsOf(c)
}

// FactsOfTemplate returns the facts of a pod that is created from a template, and of one of its containers. It learns
// its memory limit when it starts, with the new limit.
func FactsOfTemplate(template *corev1.PodTemplateSpec, c *corev1.Container) SpecFacts {
	f := FactsOf(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, c, time.Time{})
	told := podview.ToldOf(&template.Spec, c.Name)
	f.Running, f.LeastLimit, f.LeastLimitBy = false, recommender.WithHeadroom(told.Heap), told.HeapBy
	return f
}

// factsOf returns the facts of a running pod, without those of a container.
func factsOf(pod *corev1.Pod) SpecFacts {
	return SpecFacts{
		Running: true, Critical: podview.Critical(pod.Spec.PriorityClassName, pod.Spec.Priority),
		Queue: podview.QueueOf(pod.Labels, pod.Annotations, pod.Spec.SchedulingGroup != nil, len(pod.Spec.SchedulingGates) > 0),
	}
}

// factsOf adds the facts of a container of the pod.
func (s situation) factsOf(c *corev1.Container) SpecFacts {
	f := factsOf(s.pod)
	f.Back = s.back
	f.Volumes, f.Held = memoryVolumes(s.pod, c.Name), recommender.WithHeadroom(s.wished[c.Name].MemoryUsage)
	for _, r := range recommender.Resources {
		limit, set := c.Resources.Limits[podview.NameOf(r)]
		f.FixedLimit[r] = set && podview.AtMost(r, limit) == 0
	}
	f.LeastLimit, f.LeastLimitBy = s.leastLimit(c)
	return f
}

// leastLimit returns the memory limit that the running processes of a container need, and the variable or flag that is
// the reason. What a process learned at its start is the limit or request of that time. It is known while the pod was
// not resized since. After a resize, it is not known, and no limit is safe (MaxAmount), except one that is restored: the
// container had it while it ran.
func (s situation) leastLimit(c *corev1.Container) (least recommender.Amount, by string) {
	told := podview.ToldOf(&s.pod.Spec, c.Name)
	if least, by = recommender.WithHeadroom(told.Heap), told.HeapBy; told.Limit == "" && told.Request == "" || s.restartsFor(c.Name, corev1.ResourceMemory) {
		return least, by
	}
	now := podview.ReadSpec(c.Resources)[recommender.Memory]
	resized := podview.ResizedSince(s.pod, s.startOf(c.Name), s.now)
	switch {
	case resized && s.back:
		return least, by
	case told.Limit != "":
		return recommender.MaxAmount, told.Limit
	case resized:
		return recommender.MaxAmount, told.Request
	case now.Request > least:
		return now.Request, told.Request
	}
	return least, by
}

// startOf returns when a container started; zero: it does not run.
func (s situation) startOf(container string) time.Time {
	if status := s.statuses[container]; status != nil && status.State.Running != nil {
		return status.State.Running.StartedAt.Time
	}
	return time.Time{}
}
