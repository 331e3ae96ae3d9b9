package plane

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Times of the node lifecycle controller (pkg/controller/nodelifecycle, defaults of 1.32 and later).
const (
	// nodeGrace is how long a kubelet may be silent before its node is not ready.
	nodeGrace = 50 * time.Second
)

// lifecycle marks nodes whose kubelet is not heard, and takes pods that do not tolerate that away.
func (p *Plane) lifecycle(ctx context.Context, v *view) error {
	for _, node := range slices.Clone(v.nodes) {
		if err := p.watchNode(ctx, v, node); err != nil {
			return err
		}
	}
	for _, node := range v.nodes {
		if err := p.evictUntolerant(ctx, v, node); err != nil {
			return err
		}
	}
	return nil
}

// watchNode says of a node whether its kubelet is heard, with conditions and taints.
func (p *Plane) watchNode(ctx context.Context, v *view, node *corev1.Node) error {
	if p.silent(v, node) {
		if err := p.markUnknown(ctx, v, node); err != nil {
			return err
		}
	}
	return p.taint(ctx, v, find(v.nodes, node))
}

// silent: the node's kubelet was not heard for too long.
func (p *Plane) silent(v *view, node *corev1.Node) bool {
	if p.Silent == nil {
		return false
	}
	since, silent := p.Silent(node.Name)
	if !silent {
		return false
	}
	at := since.Add(nodeGrace)
	p.wake(v, at)
	return !v.now.Before(at)
}

// find is what became of an object.
func find(list []*corev1.Node, node *corev1.Node) *corev1.Node {
	for _, other := range list {
		if other.UID == node.UID {
			return other
		}
	}
	return node
}

// markUnknown sets the node's conditions to Unknown, and its pods not ready.
func (p *Plane) markUnknown(ctx context.Context, v *view, node *corev1.Node) error {
	c := nodeCondition(node, corev1.NodeReady)
	if c != nil && c.Status == corev1.ConditionUnknown {
		return p.podsNotReady(ctx, v, node)
	}
	changed := node.DeepCopy()
	for i := range changed.Status.Conditions {
		c := &changed.Status.Conditions[i]
		c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.", stored(v.now)
	}
	if err := p.writeStatus(ctx, changed); err != nil {
		return err
	}
	swap(v.nodes, changed)
	return p.podsNotReady(ctx, v, changed)
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// podsNotReady takes the condition Ready from the pods of a node (controllerutil.MarkPodsNotReady).
func (p *Plane) podsNotReady(ctx context.Context, v *view, node *corev1.Node) error {
	for _, pod := range v.pods {
		if pod.Spec.NodeName != node.Name || !ready(pod) {
			continue
		}
		changed := pod.DeepCopy()
		c := podCondition(changed, corev1.PodReady)
		c.Status, c.LastTransitionTime = corev1.ConditionFalse, stored(v.now)
		if err := p.writeStatus(ctx, changed); err != nil {
			return err
		}
		v.replace(changed)
	}
	return nil
}

// taint keeps the taints of a node to what its condition says.
func (p *Plane) taint(ctx context.Context, v *view, node *corev1.Node) error {
	want := ""
	if c := nodeCondition(node, corev1.NodeReady); c != nil {
		want = map[corev1.ConditionStatus]string{corev1.ConditionUnknown: corev1.TaintNodeUnreachable, corev1.ConditionFalse: corev1.TaintNodeNotReady}[c.Status]
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		ours := t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady
		return ours && t.Key != want
	})
	if want != "" && !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == want }) {
		added := ptr.To(stored(v.now))
		taints = append(taints,
			corev1.Taint{Key: want, Effect: corev1.TaintEffectNoSchedule, TimeAdded: added},
			corev1.Taint{Key: want, Effect: corev1.TaintEffectNoExecute, TimeAdded: added})
	}
	if len(taints) == len(node.Spec.Taints) {
		return nil
	}
	changed := node.DeepCopy()
	changed.Spec.Taints = taints
	if err := ignoreStale(p.Client.Update(ctx, changed)); err != nil {
		return err
	}
	swap(v.nodes, changed)
	return nil
}

// evictUntolerant deletes the pods of a tainted node once they have tolerated it for as long as they say
// (pkg/controller/tainteviction).
func (p *Plane) evictUntolerant(ctx context.Context, v *view, node *corev1.Node) error {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute || taint.TimeAdded == nil {
			continue
		}
		for _, pod := range slices.Clone(v.pods) {
			if pod.Spec.NodeName != node.Name || !active(pod) {
				continue
			}
			seconds, tolerates := toleration(pod, taint)
			if tolerates && seconds == nil {
				continue
			}
			at := taint.TimeAdded.Add(time.Duration(ptr.Deref(seconds, 0)) * time.Second)
			if v.now.Before(at) {
				p.wake(v, at)
				continue
			}
			if err := p.disrupt(ctx, v, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"); err != nil {
				return err
			}
		}
	}
	return nil
}
