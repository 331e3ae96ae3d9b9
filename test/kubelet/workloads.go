package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlane stands in for the controllers and the scheduler of a namespace: it makes the pods of
// Deployments and StatefulSets, reports on them, and binds them. It rolls nothing out: pods of an old
// template are deleted at once.
type ControlPlane struct {
	Client    client.Client
	Namespace string
	// Nodes that pods are bound to; empty: all there are.
	Nodes []string
	// Admit sees each pod before it is created, as a mutating webhook does. Nil: none does.
	Admit func(*corev1.Pod) error
	// made counts the pods of each ReplicaSet: no name comes twice.
	made map[string]int
}

// Sync takes every workload one step, then binds what has no node.
func (p *ControlPlane) Sync(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := p.Client.List(ctx, pods, client.InNamespace(p.Namespace)); err != nil {
		return err
	}
	deployments := &appsv1.DeploymentList{}
	if err := p.Client.List(ctx, deployments, client.InNamespace(p.Namespace)); err != nil {
		return err
	}
	for i := range deployments.Items {
		if err := p.deployment(ctx, &deployments.Items[i], pods.Items); err != nil {
			return err
		}
	}
	sets := &appsv1.StatefulSetList{}
	if err := p.Client.List(ctx, sets, client.InNamespace(p.Namespace)); err != nil {
		return err
	}
	for i := range sets.Items {
		if err := p.statefulSet(ctx, &sets.Items[i], pods.Items); err != nil {
			return err
		}
	}
	return p.schedule(ctx)
}

func (p *ControlPlane) deployment(ctx context.Context, d *appsv1.Deployment, pods []corev1.Pod) error {
	hash := templateHash(d.Spec.Template)
	rs := &appsv1.ReplicaSet{}
	err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: d.Name + "-" + hash}, rs)
	if apierrors.IsNotFound(err) {
		rs = replicaSet(d, hash)
		err = p.Client.Create(ctx, rs)
	}
	if err != nil {
		return err
	}
	live, old := p.split(pods, d.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	for _, pod := range old {
		if err := client.IgnoreNotFound(p.Client.Delete(ctx, pod)); err != nil {
			return err
		}
	}
	for i := len(live); i < int(*d.Spec.Replicas); i++ {
		if err := p.create(ctx, rs, "ReplicaSet", rs.Spec.Template, p.podName(rs.Name)); err != nil {
			return err
		}
	}
	for i := int(*d.Spec.Replicas); i < len(live); i++ {
		if err := client.IgnoreNotFound(p.Client.Delete(ctx, live[i])); err != nil {
			return err
		}
	}
	before := d.DeepCopy()
	n, ready := int32(len(live)), readyOf(live)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready,
		UnavailableReplicas: n - ready, Conditions: d.Status.Conditions,
	}
	return p.writeStatus(ctx, d, before, equality.Semantic.DeepEqual(before.Status, d.Status))
}

func (p *ControlPlane) statefulSet(ctx context.Context, s *appsv1.StatefulSet, pods []corev1.Pod) error {
	hash := s.Name + "-" + templateHash(s.Spec.Template)
	live, _ := p.split(pods, s.Spec.Selector, appsv1.ControllerRevisionHashLabelKey, hash)
	template := s.Spec.Template.DeepCopy()
	template.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	for i := range int(*s.Spec.Replicas) {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		taken := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
		if taken {
			continue
		}
		if err := p.create(ctx, s, "StatefulSet", *template, name); err != nil {
			return err
		}
	}
	before := s.DeepCopy()
	n, ready := int32(len(live)), readyOf(live)
	s.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.Generation, Replicas: n, CurrentReplicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready,
		CurrentRevision: hash, UpdateRevision: hash,
	}
	return p.writeStatus(ctx, s, before, equality.Semantic.DeepEqual(before.Status, s.Status))
}

func (p *ControlPlane) writeStatus(ctx context.Context, object, before client.Object, same bool) error {
	if same {
		return nil
	}
	return client.IgnoreNotFound(p.Client.Status().Patch(ctx, object, client.MergeFrom(before)))
}

// split finds the live pods of a workload, of its newest template and of older ones.
func (p *ControlPlane) split(pods []corev1.Pod, of *metav1.LabelSelector, label, hash string) (live, old []*corev1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(of)
	if err != nil {
		panic("the API server has checked the selector: " + err.Error())
	}
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || finished(pod) || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if pod.Labels[label] == hash {
			live = append(live, pod)
		} else {
			old = append(old, pod)
		}
	}
	slices.SortFunc(live, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return live, old
}

// create makes a pod of an owner's template.
func (p *ControlPlane) create(ctx context.Context, owner client.Object, kind string, template corev1.PodTemplateSpec, name string) error {
	yes := true
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = p.Namespace, name
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	if p.Admit != nil {
		if err := p.Admit(pod); err != nil {
			return fmt.Errorf("admitting pod %s: %w", name, err)
		}
	}
	return p.Client.Create(ctx, pod)
}

// schedule binds pods without a node to the one with the most CPU left.
func (p *ControlPlane) schedule(ctx context.Context) error {
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	if err := p.Client.List(ctx, pods, client.InNamespace(p.Namespace)); err != nil {
		return err
	}
	waiting := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
	if !waiting {
		return nil
	}
	if err := p.Client.List(ctx, nodes); err != nil {
		return err
	}
	nodes.Items = slices.DeleteFunc(nodes.Items, func(node corev1.Node) bool {
		return len(p.Nodes) > 0 && !slices.Contains(p.Nodes, node.Name)
	})
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		node := roomiest(pod, nodes.Items, pods.Items)
		if node == "" {
			continue
		}
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := p.Client.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return fmt.Errorf("binding pod %s: %w", pod.Name, err)
		}
		pod.Spec.NodeName = node
	}
	return nil
}

// roomiest is the node with the most CPU left that has room for a pod, or "". It counts, as a scheduler
// does, the most that each pod asks for, was allocated and has; a test's label on the pod may name its
// node.
func roomiest(pod *corev1.Pod, nodes []corev1.Node, pods []corev1.Pod) string {
	wants := requestsOf(pod)
	best, most := "", int64(-1)
	for _, node := range nodes {
		if name, set := pod.Spec.NodeSelector[corev1.LabelHostname]; set && name != node.Name {
			continue
		}
		cpu, memory := node.Status.Allocatable[corev1.ResourceCPU], node.Status.Allocatable[corev1.ResourceMemory]
		cpu, memory = cpu.DeepCopy(), memory.DeepCopy()
		for i := range pods {
			if pods[i].Spec.NodeName == node.Name && !finished(&pods[i]) {
				takes := helpers.PodRequests(&pods[i], helpers.PodResourcesOptions{UseStatusResources: true})
				cpu.Sub(takes[corev1.ResourceCPU])
				memory.Sub(takes[corev1.ResourceMemory])
			}
		}
		cpu.Sub(wants[corev1.ResourceCPU])
		memory.Sub(wants[corev1.ResourceMemory])
		if memory.Sign() >= 0 && cpu.MilliValue() > most {
			best, most = node.Name, cpu.MilliValue()
		}
	}
	return best
}

func replicaSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	yes := true
	rs := &appsv1.ReplicaSet{}
	rs.Namespace, rs.Name = d.Namespace, d.Name+"-"+hash
	rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: &yes}}
	rs.Spec.Replicas = d.Spec.Replicas
	rs.Spec.Template = *d.Spec.Template.DeepCopy()
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	rs.Labels = rs.Spec.Template.Labels
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: rs.Spec.Template.Labels}
	return rs
}

// podName counts up, so that every run makes the same names.
func (p *ControlPlane) podName(replicaSet string) string {
	if p.made == nil {
		p.made = map[string]int{}
	}
	p.made[replicaSet]++
	return replicaSet + "-" + rand.SafeEncodeString(fmt.Sprintf("%05d", p.made[replicaSet]))
}

func templateHash(template corev1.PodTemplateSpec) string {
	raw, err := json.Marshal(template)
	if err != nil {
		panic("marshalling plain data: " + err.Error())
	}
	h := fnv.New32a()
	h.Write(raw)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

func readyOf(pods []*corev1.Pod) int32 {
	var n int32
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}
