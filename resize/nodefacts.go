package resize

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"attune.io/attune/api/v1alpha1"
)

// NodeFacts are what a node's answers taught of it, which its Node object does not show. The zero value is a node
// nothing is known of. They are kept in memory: a node that is asked again only says it again.
type NodeFacts struct {
	Block NodeBlock
	// Policies of the kubelet, and until when they are taken for granted.
	Policies Policies
	Until    time.Time
}

// Policies are settings of a kubelet that refuse resizes.
type Policies struct {
	// StaticCPU and StaticMemory: the CPU and the memory manager assign whole amounts to Guaranteed pods.
	StaticCPU, StaticMemory bool
	// Swap: containers may use swap.
	Swap bool
}

// policiesLast is how long what a kubelet said of its settings is taken for granted. They change with a restart of
// the kubelet alone, which SameKubelet mostly sees; one refused resize an hour finds what it does not.
const policiesLast = time.Hour

// Learn adds what a record says that its node did not carry out. Where the node's words name a setting of its
// kubelet, that alone is what it refuses, and everything else goes on.
func (f NodeFacts) Learn(record v1alpha1.ResizeRecord, reason, message string, now time.Time) NodeFacts {
	if said := PoliciesOf(message); reason == ReasonInfeasible && said != (Policies{}) {
		f.Policies, f.Until = f.Policies.and(said), now.Add(policiesLast)
		return f
	}
	block := BlockOf(record, reason, now)
	f.Block.Growth, f.Block.All = latest(f.Block.Growth, block.Growth), latest(f.Block.All, block.All)
	return f
}

// Now are the facts that still hold, of a node that was seen as it was then and is as it is now: blocks end with
// whatever may have lifted them, policies with the kubelet's run.
func (f NodeFacts) Now(then, node *corev1.Node, now time.Time) NodeFacts {
	if node == nil || !SameTerms(then, node) {
		f.Block = NodeBlock{}
	}
	if node == nil || !SameKubelet(then, node) || !now.Before(f.Until) {
		f.Policies, f.Until = Policies{}, time.Time{}
	}
	if !now.Before(latest(f.Block.Growth, f.Block.All)) {
		f.Block = NodeBlock{}
	}
	return f
}

// PoliciesOf reads them from a kubelet's Infeasible.
func PoliciesOf(message string) Policies {
	text := strings.ToLower(message)
	static := strings.Contains(text, "static")
	return Policies{
		StaticCPU:    static && strings.Contains(text, "cpu manager"),
		StaticMemory: static && strings.Contains(text, "memory manager"),
		Swap:         strings.Contains(text, "containers with swap"),
	}
}

func (p Policies) and(q Policies) Policies {
	return Policies{p.StaticCPU || q.StaticCPU, p.StaticMemory || q.StaticMemory, p.Swap || q.Swap}
}

// SameKubelet reports whether a node object shows no sign that the kubelet was started anew: not another node, boot
// or version, and it was ready all the time. A kubelet that comes up reports itself not ready first, unless it is
// quicker than its own first report; nothing else of a Node tells.
func SameKubelet(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.Status.NodeInfo.BootID == b.Status.NodeInfo.BootID &&
		a.Status.NodeInfo.KubeletVersion == b.Status.NodeInfo.KubeletVersion &&
		readySince(a).Equal(readySince(b))
}

func readySince(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// SameTerms reports whether a node gives resizes the same answers, as far as its object shows: what it has, how it
// is, what it is called, whom it takes, and what its kubelet can do.
func SameTerms(a, b *corev1.Node) bool {
	return SameKubelet(a, b) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable) &&
		maps.Equal(conditionsOf(a), conditionsOf(b)) &&
		maps.Equal(a.Labels, b.Labels) &&
		a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}

func conditionsOf(node *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	all := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(node.Status.Conditions))
	for _, c := range node.Status.Conditions {
		all[c.Type] = c.Status
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// With adds what is known of a node to what it says of itself.
func (c Capabilities) With(f NodeFacts) Capabilities {
	c.Policies = c.Policies.and(f.Policies)
	return c
}
