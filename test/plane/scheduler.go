package plane

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// room is what a node has, and what its pods take of it.
type room struct {
	node                  *corev1.Node
	cpu, memory, pods     int64 // left: millicores, bytes, pods
	totalCPU, totalMemory int64
	takes                 []*corev1.Pod
}

// schedule binds pods without a node, urgent ones first, each to the node with the most CPU left. It counts, as the
// scheduler does, the most that each pod asks for, was allocated and has, its overhead included.
func (p *Plane) schedule(ctx context.Context, v *view) error {
	waiting := slices.DeleteFunc(slices.Clone(v.pods), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" || !active(pod) || len(pod.Spec.SchedulingGates) > 0
	})
	if len(waiting) == 0 {
		return nil
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return -cmp.Compare(priority(a), priority(b)) })
	rooms := p.rooms(v)
	for _, pod := range waiting {
		if err := p.place(ctx, v, pod, rooms); err != nil {
			return err
		}
	}
	return nil
}

// rooms are the nodes that pods may be bound to, with what is left of each.
func (p *Plane) rooms(v *view) (list []*room) {
	byName := map[string]*room{}
	for _, node := range v.nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		has := node.Status.Allocatable
		r := &room{node: node, totalCPU: has.Cpu().MilliValue(), totalMemory: has.Memory().Value(), pods: 110}
		if pods, set := has[corev1.ResourcePods]; set {
			r.pods = pods.Value()
		}
		r.cpu, r.memory = r.totalCPU, r.totalMemory
		byName[node.Name] = r
		list = append(list, r)
	}
	for _, pod := range v.pods {
		if r := byName[pod.Spec.NodeName]; r != nil && !finished(pod) {
			r.take(pod, p.footprint(pod), 1)
		}
	}
	return list
}

// footprint of a pod; nothing that was listed is ever written into, so that it is counted once.
type footprint struct{ cpu, memory int64 }

func (p *Plane) footprint(pod *corev1.Pod) footprint {
	return p.footprints.of(pod, func() (f footprint) {
		f.cpu, f.memory = Footprint(pod)
		return f
	})
}

// perPod remembers what was worked out of pods, for as long as each step asks for it.
type perPod[V any] struct{ now, before map[*corev1.Pod]V }

// of a pod.
func (m *perPod[V]) of(pod *corev1.Pod, count func() V) V {
	known, ok := m.now[pod]
	if ok {
		return known
	}
	if known, ok = m.before[pod]; !ok {
		known = count()
	}
	if m.now == nil {
		m.now = map[*corev1.Pod]V{}
	}
	m.now[pod] = known
	return known
}

// next forgets what the last step did not ask for.
func (m *perPod[V]) next() { m.before, m.now = m.now, nil }

// take counts a pod in, or out with a sign of -1.
func (r *room) take(pod *corev1.Pod, of footprint, sign int64) {
	r.cpu, r.memory, r.pods = r.cpu-sign*of.cpu, r.memory-sign*of.memory, r.pods-sign
	if sign > 0 {
		r.takes = append(r.takes, pod)
		return
	}
	r.takes = slices.DeleteFunc(r.takes, func(other *corev1.Pod) bool { return other.UID == pod.UID })
}

// Footprint is what the scheduler and quotas count for a pod: of each container the most of what it asks for, was
// allocated and has, and the pod's overhead; in millicores and bytes.
func Footprint(pod *corev1.Pod) (cpu, memory int64) {
	requests := helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true})
	return requests.Cpu().MilliValue(), requests.Memory().Value()
}

// place binds a pod, or says why it cannot be.
func (p *Plane) place(ctx context.Context, v *view, pod *corev1.Pod, rooms []*room) error {
	var best *room
	why := map[string]int{}
	needs := p.footprint(pod)
	for _, r := range rooms {
		if reason := r.refuses(pod, needs); reason != "" {
			why[reason]++
			continue
		}
		if best == nil || r.cpu > best.cpu {
			best = r
		}
	}
	if best == nil {
		pod, err := p.preempt(ctx, v, pod, rooms)
		if err != nil {
			return err
		}
		return p.unschedulable(ctx, v, pod, len(rooms), why)
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: best.node.Name}}
	if err := p.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = best.node.Name
	v.replace(bound)
	best.take(bound, needs, 1)
	return nil
}

// replace puts in a changed pod.
func (v *view) replace(pod *corev1.Pod) {
	swap(v.pods, pod)
	for _, list := range v.owned {
		swap(list, pod)
	}
}

// Eligible reports whether a pod may go to a node at all, whatever room there is.
func Eligible(pod *corev1.Pod, node *corev1.Node) bool { return excludes(pod, node) == "" }

// excludes is why a pod may not go to a node, in the scheduler's words, or "".
func excludes(pod *corev1.Pod, node *corev1.Node) string {
	switch {
	case !selects(pod, node):
		return "node(s) didn't match Pod's node affinity/selector"
	case node.Spec.Unschedulable && !tolerates(pod, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return "node(s) were unschedulable"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return "node(s) had untolerated taint(s)"
		}
	}
	return ""
}

// refuses is why a pod cannot go to a node, in the scheduler's words, or "".
func (r *room) refuses(pod *corev1.Pod, needs footprint) string {
	if why := excludes(pod, r.node); why != "" {
		return why
	}
	switch {
	case r.pods < 1:
		return "Too many pods"
	case needs.cpu > 0 && needs.cpu > r.cpu:
		return "Insufficient cpu"
	case needs.memory > 0 && needs.memory > r.memory:
		return "Insufficient memory"
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	_, does := toleration(pod, taint)
	return does
}

// selects: the pod's node selector and the required names of its affinity, as DaemonSets set them, fit the node.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key != "metadata.name" || !slices.Contains(r.Values, node.Name)
		}) && !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Operator != corev1.NodeSelectorOpIn || !slices.Contains(r.Values, node.Labels[r.Key])
		})
	})
}

// unschedulable says so on the pod, once for each reason.
func (p *Plane) unschedulable(ctx context.Context, v *view, pod *corev1.Pod, nodes int, why map[string]int) error {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		parts = append(parts, fmt.Sprintf("%d %s", why[reason], reason))
	}
	message := fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(parts, ", "))
	if nodes == 0 {
		message = "no nodes available to schedule pods"
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Message == message {
		return nil
	}
	changed := pod.DeepCopy()
	setPodCondition(v, changed, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message})
	changed.Status.Phase = corev1.PodPending
	if err := p.writeStatus(ctx, changed); err != nil {
		return err
	}
	v.replace(changed)
	return nil
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// setPodCondition keeps the time of the last transition.
func setPodCondition(v *view, pod *corev1.Pod, changed corev1.PodCondition) {
	changed.LastTransitionTime = stored(v.now)
	c := podCondition(pod, changed.Type)
	if c == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, changed)
		return
	}
	if c.Status == changed.Status {
		changed.LastTransitionTime = c.LastTransitionTime
	}
	*c = changed
}

func priority(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// preempt deletes less urgent pods of the first node where that makes room, the least urgent first.
func (p *Plane) preempt(ctx context.Context, v *view, pod *corev1.Pod, rooms []*room) (*corev1.Pod, error) {
	if priority(pod) <= 0 || pod.Status.NominatedNodeName != "" || ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever {
		return pod, nil
	}
	for _, r := range rooms {
		victims := p.victims(r, pod)
		if len(victims) == 0 {
			continue
		}
		changed := pod.DeepCopy()
		changed.Status.NominatedNodeName = r.node.Name
		if err := p.writeStatus(ctx, changed); err != nil {
			return pod, err
		}
		v.replace(changed)
		for _, victim := range victims {
			if err := p.disrupt(ctx, v, victim, corev1.PodReasonPreemptionByScheduler, "default-scheduler: preempting to accommodate a higher priority pod"); err != nil {
				return changed, err
			}
		}
		return changed, nil
	}
	return pod, nil
}

// victims are the pods that have to go for another one to fit; none where that is not enough.
func (p *Plane) victims(r *room, pod *corev1.Pod) []*corev1.Pod {
	left := *r
	left.takes = slices.Clone(r.takes)
	lesser := slices.DeleteFunc(slices.Clone(r.takes), func(other *corev1.Pod) bool {
		return priority(other) >= priority(pod) || other.DeletionTimestamp != nil
	})
	slices.SortStableFunc(lesser, func(a, b *corev1.Pod) int { return cmp.Compare(priority(a), priority(b)) })
	for i, victim := range lesser {
		left.take(victim, p.footprint(victim), -1)
		if left.refuses(pod, p.footprint(pod)) == "" {
			return lesser[:i+1]
		}
	}
	return nil
}

// disrupt deletes a pod, with the condition that says who did it.
func (p *Plane) disrupt(ctx context.Context, v *view, pod *corev1.Pod, reason, message string) error {
	changed := pod.DeepCopy()
	setPodCondition(v, changed, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	if err := p.writeStatus(ctx, changed); err != nil {
		return err
	}
	return p.remove(ctx, v, changed)
}
