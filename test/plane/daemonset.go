package plane

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// daemonSets has one pod of each on every node that is eligible (pkg/controller/daemon).
func (p *Plane) daemonSets(ctx context.Context, v *view) error {
	for _, d := range v.daemons {
		if d.DeletionTimestamp != nil {
			continue
		}
		hash := p.remember(d, d.Spec.Template)
		set := daemonsOf(v, d, hash)
		failure := p.spread(ctx, v, set)
		if failure == nil {
			failure = p.rollDaemons(ctx, v, set)
		}
		if failure != nil && !refused(failure) {
			return failure
		}
		if err := p.daemonStatus(ctx, v, set); err != nil {
			return err
		}
	}
	return nil
}

// templateGeneration is the label that counts a DaemonSet's templates (extensions/v1beta1, DaemonSetTemplateGenerationKey).
const templateGeneration = "pod-template-generation"

// daemons is a DaemonSet with its pods by node.
type daemons struct {
	d    *appsv1.DaemonSet
	hash string
	// want are the nodes that should have a pod, keep those whose pod may stay (nodeShouldRunDaemonPod); pods are those
	// that are there, finished and leaving ones included.
	want, keep map[string]bool
	pods       map[string][]*corev1.Pod
}

func daemonsOf(v *view, d *appsv1.DaemonSet, hash string) *daemons {
	set := &daemons{d: d, hash: hash, want: map[string]bool{}, keep: map[string]bool{}, pods: map[string][]*corev1.Pod{}}
	probe := &corev1.Pod{Spec: *d.Spec.Template.Spec.DeepCopy()}
	probe.Spec.Tolerations = append(probe.Spec.Tolerations, daemonTolerations...)
	for _, node := range v.nodes {
		bans := func(effect corev1.TaintEffect) bool {
			return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == effect && !tolerates(probe, t) })
		}
		set.keep[node.Name] = node.DeletionTimestamp == nil && selects(probe, node) && !bans(corev1.TaintEffectNoExecute)
		set.want[node.Name] = set.keep[node.Name] && !bans(corev1.TaintEffectNoSchedule)
	}
	for _, pod := range v.podsOf(d) {
		node := nodeOf(pod)
		set.pods[node] = append(set.pods[node], pod)
	}
	return set
}

// nodeOf is the node that a daemon's pod is for (util.GetTargetNodeName).
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			return r.Values[0]
		}
	}
	return ""
}

// daemonTolerations are added to each pod of a DaemonSet (util.AddOrUpdateDaemonPodTolerations): it stays on a node that
// is cut off, under pressure or cordoned.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// spread makes the pod of each node that has none, replaces finished ones, and deletes those of nodes that are not
// eligible any more.
func (p *Plane) spread(ctx context.Context, v *view, set *daemons) error {
	for _, node := range set.nodes() {
		alive := 0
		for _, pod := range set.pods[node] {
			if finished(pod) || !set.keep[node] && pod.DeletionTimestamp == nil {
				if err := p.remove(ctx, v, pod); err != nil {
					return err
				}
				continue
			}
			alive++
		}
		if alive > 0 || !set.want[node] {
			continue
		}
		if err := p.createDaemon(ctx, v, set, node); err != nil {
			p.wake(v, v.now.Add(retryCreate))
			return err
		}
	}
	return nil
}

func (set *daemons) nodes() (names []string) {
	for node := range set.want {
		names = append(names, node)
	}
	for node := range set.pods {
		if _, listed := set.want[node]; !listed {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}

func (p *Plane) createDaemon(ctx context.Context, v *view, set *daemons, node string) error {
	template := *set.d.Spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, appsv1.ControllerRevisionHashLabelKey, set.hash)
	template.Labels = withLabel(template.Labels, templateGeneration, strconv.FormatInt(set.d.Generation, 10))
	template.Spec.Tolerations = append(template.Spec.Tolerations, daemonTolerations...)
	if template.Spec.Affinity == nil {
		template.Spec.Affinity = &corev1.Affinity{}
	}
	template.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}
	return p.create(ctx, v, owner{set.d, "apps/v1", "DaemonSet"}, template, p.podName(set.d))
}

// rollDaemons deletes pods of the old template: those that are not available at once, others as far as so many may be
// missing (rollingUpdate without surge).
func (p *Plane) rollDaemons(ctx context.Context, v *view, set *daemons) error {
	if set.d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return nil
	}
	most := ptr.To(intstr.FromInt32(1))
	if u := set.d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		most = cmp.Or(u.MaxUnavailable, most)
	}
	unavailable, wanted := int32(0), int32(0)
	var candidates []*corev1.Pod
	for _, node := range set.nodes() {
		if !set.want[node] {
			continue
		}
		wanted++
		pod := set.alive(node)
		switch {
		case pod == nil:
			unavailable++
		case !p.available(v, pod, set.d.Spec.MinReadySeconds):
			unavailable++
			if revisionOf(pod) != set.hash {
				if err := p.remove(ctx, v, pod); err != nil {
					return err
				}
			}
		case revisionOf(pod) != set.hash:
			candidates = append(candidates, pod)
		}
	}
	spare := int(max(scaledValue(most, wanted, true), 1) - unavailable)
	for _, pod := range candidates[:max(0, min(spare, len(candidates)))] {
		if err := p.remove(ctx, v, pod); err != nil {
			return err
		}
	}
	return nil
}

// alive is the node's pod, if it is not on its way out.
func (set *daemons) alive(node string) *corev1.Pod {
	for _, pod := range set.pods[node] {
		if active(pod) {
			return pod
		}
	}
	return nil
}

func (p *Plane) daemonStatus(ctx context.Context, v *view, set *daemons) error {
	status := appsv1.DaemonSetStatus{
		ObservedGeneration: set.d.Generation, CollisionCount: set.d.Status.CollisionCount, Conditions: set.d.Status.Conditions,
	}
	fresh := daemonsOf(v, set.d, set.hash)
	for _, node := range fresh.nodes() {
		pod := fresh.alive(node)
		if !fresh.want[node] {
			if pod != nil {
				status.NumberMisscheduled++
			}
			continue
		}
		status.DesiredNumberScheduled++
		if pod == nil {
			continue
		}
		status.CurrentNumberScheduled++
		if ready(pod) {
			status.NumberReady++
		}
		if p.available(v, pod, set.d.Spec.MinReadySeconds) {
			status.NumberAvailable++
		}
		if revisionOf(pod) == set.hash {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	if equality.Semantic.DeepEqual(set.d.Status, status) {
		return nil
	}
	changed := set.d.DeepCopy()
	changed.Status = status
	swap(v.daemons, changed)
	return p.writeStatus(ctx, changed)
}
