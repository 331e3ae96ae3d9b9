package answers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/internal/board"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// ControlPlaneLabel marks nodes of the control plane. RemovableNodes neither removes them nor moves pods to them.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// RemovableNodes returns how many nodes could be removed if the requests of each pod shrank by less(pod). A negative
// amount is an increase.
func RemovableNodes(nodes []*corev1.Node, pods []*corev1.Pod, less func(*corev1.Pod) SavedAmounts) int {
	all := newCluster(nodes, pods, less)
	// Emptying a node with a low load needs few moves.
	slices.SortStableFunc(all, func(a, b *emptiedNode) int {
		return cmp.Or(cmp.Compare(a.load(), b.load()), cmp.Compare(a.of.Name, b.of.Name))
	})
	removed, left := 0, slices.Clone(all)
	slices.Reverse(left)
	await(pods, less, left)
	for _, candidate := range all {
		if candidate.stays || !empty(candidate, left) {
			continue
		}
		removed++
		left = slices.DeleteFunc(left, func(n *emptiedNode) bool { return n == candidate })
		slices.SortStableFunc(left, func(a, b *emptiedNode) int { return cmp.Compare(b.load(), a.load()) })
	}
	return removed
}

// nodeRoom is millicores of CPU, bytes of memory, and a number of pods.
type nodeRoom [3]recommender.Amount

func (a nodeRoom) fitIn(b nodeRoom) bool { return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2] }

// plus saturates as AddSaved does: an object of the cluster may hold amounts that no machine has.
func (a nodeRoom) plus(b nodeRoom) nodeRoom {
	return nodeRoom{AddSaved(a[0], b[0]), AddSaved(a[1], b[1]), AddSaved(a[2], b[2])}
}

func (a nodeRoom) minus(b nodeRoom) nodeRoom { return a.plus(nodeRoom{-b[0], -b[1], -b[2]}) }

// emptiedNode is a node with its pods.
type emptiedNode struct {
	of        *corev1.Node
	has, free nodeRoom
	// moving are the pods that would have to move to other nodes, the largest first. Pods of DaemonSets and static pods
	// are removed with the node.
	moving []moving
	// refuses are the required anti-affinities of its pods.
	refuses []refusal
	// stays: the node cannot be emptied, or has already received pods of other nodes.
	stays bool
}

type moving struct {
	pod   *corev1.Pod
	needs nodeRoom
}

func newCluster(nodes []*corev1.Node, pods []*corev1.Pod, less func(*corev1.Pod) SavedAmounts) []*emptiedNode {
	var all []*emptiedNode
	by := map[string]*emptiedNode{}
	for _, of := range nodes {
		can := board.Allocatable(of)
		has := nodeRoom{can[0], can[1], recommender.Amount(max(0, of.Status.Allocatable.Pods().Value()))}
		n := &emptiedNode{of: of, has: has, free: has, stays: controls(of)}
		all, by[of.Name] = append(all, n), n
	}
	for _, pod := range pods {
		if n := by[pod.Spec.NodeName]; n != nil && !resize.Finished(pod) {
			n.add(pod, needs(pod, less(pod)))
		}
	}
	for _, n := range all {
		slices.SortStableFunc(n.moving, func(a, b moving) int { return cmp.Compare(shareOf(b.needs, n.has), shareOf(a.needs, n.has)) })
	}
	return all
}

func controls(of *corev1.Node) bool {
	_, labelled := of.Labels[ControlPlaneLabel]
	return labelled
}

// needs is what a pod takes from a node after its savings.
func needs(pod *corev1.Pod, less SavedAmounts) nodeRoom {
	has := resize.Footprint(pod)
	return nodeRoom{max(0, has[0]-less[0]), max(0, has[1]-less[1]), 1}
}

func (n *emptiedNode) add(pod *corev1.Pod, needs nodeRoom) {
	n.free = n.free.minus(needs)
	n.refuses = append(n.refuses, refusalsOf(pod)...)
	refusal := lifecycle.Tied(pod)
	switch {
	case refusal != nil && (refusal.Reason == resize.ReasonDaemonPod || refusal.Reason == resize.ReasonStaticPod || refusal.Reason == resize.ReasonPodDeleted):
	case refusal != nil || boundToNode(pod):
		n.stays = true
	default:
		n.moving = append(n.moving, moving{pod, needs})
	}
}

// load is the largest used fraction of the node over CPU, memory and pods.
func (n *emptiedNode) load() float64 { return shareOf(n.has.minus(n.free), n.has) }

// shareOf is the largest fraction that a takes of the amounts in of.
func shareOf(a, of nodeRoom) float64 {
	var most float64
	for i := range a {
		most = max(most, float64(a[i])/float64(max(1, of[i])))
	}
	return most
}

// boundToNode reports whether a constraint other than requests, taints and node affinity places the pod. RemovableNodes
// cannot decide whether another node takes such a pod.
func boundToNode(pod *corev1.Pod) bool {
	s := &pod.Spec
	if a := s.Affinity; a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0) {
		return true
	}
	spreads := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }
	storage := func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.HostPath != nil || v.Ephemeral != nil || v.CSI != nil
	}
	return s.HostNetwork || len(s.ResourceClaims) > 0 || slices.ContainsFunc(s.TopologySpreadConstraints, spreads) ||
		slices.ContainsFunc(s.Volumes, storage) || slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), ofNode)
}

// ofNode reports whether a container needs anything from a node other than CPU and memory.
func ofNode(c corev1.Container) bool {
	for name := range c.Resources.Requests {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			return true
		}
	}
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 })
}

// refusal is a required anti-affinity of a pod. Its topology key is ignored: matching pods are only kept off the pod's
// own node.
type refusal struct {
	namespaces []string // empty: all
	of         labels.Selector
}

func refusalsOf(pod *corev1.Pod) (refusals []refusal) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			selector = labels.Everything()
		}
		r := refusal{namespaces: term.Namespaces, of: selector}
		if len(r.namespaces) == 0 && term.NamespaceSelector == nil {
			r.namespaces = []string{pod.Namespace}
		} else if term.NamespaceSelector != nil {
			r.namespaces = nil
		}
		refusals = append(refusals, r)
	}
	return refusals
}

func (r refusal) matches(pod *corev1.Pod) bool {
	return (len(r.namespaces) == 0 || slices.Contains(r.namespaces, pod.Namespace)) && r.of.Matches(labels.Set(pod.Labels))
}

// await places the pending pods on nodes that have room. These nodes stay.
func await(pods []*corev1.Pod, less func(*corev1.Pod) SavedAmounts, to []*emptiedNode) {
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		m := moving{pod, needs(pod, less(pod))}
		if i := slices.IndexFunc(to, func(n *emptiedNode) bool { return n.takes(m, nodeRoom{}) }); i >= 0 {
			to[i].free, to[i].stays = to[i].free.minus(m.needs), true
		}
	}
}

// empty moves each pod of a node to the first other node that takes it. The fullest nodes come first. If one pod finds
// no place, no pod moves.
func empty(from *emptiedNode, others []*emptiedNode) bool {
	given := map[*emptiedNode]nodeRoom{}
	for _, m := range from.moving {
		i := slices.IndexFunc(others, func(n *emptiedNode) bool { return n != from && n.takes(m, given[n]) })
		if i < 0 {
			return false
		}
		given[others[i]] = given[others[i]].plus(m.needs)
	}
	for n, needs := range given {
		n.free, n.stays = n.free.minus(needs), true
	}
	return true
}

// takes reports whether a node takes a pod in addition to what it was given already.
func (n *emptiedNode) takes(m moving, given nodeRoom) bool {
	if !m.needs.plus(given).fitIn(n.free) || slices.ContainsFunc(n.refuses, func(r refusal) bool { return r.matches(m.pod) }) {
		return false
	}
	return !controls(n.of) && lifecycle.Takes(n.of, m.pod, [2]recommender.Amount{m.needs[0], m.needs[1]})
}
