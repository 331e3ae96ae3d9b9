package resize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// NodeFacts are what a node's answers taught of it, which its Node object does not show. The zero value is a node
// nothing is known of. They are kept in memory: a node that is asked again only says it again.
type NodeFacts struct {
	// Blocks are how long resizes on the node are not tried, by the namespace whose resizes taught it. They are never
	// changed in place.
	Blocks map[string]NodeBlock
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
// the kubelet alone, which kubeletRun mostly sees; one refused resize an hour finds what it does not.
const policiesLast = time.Hour

// Learn adds what a record of a namespace says that its node did not carry out. Where the node's words name a setting of
// its kubelet, that alone is what it refuses, and everything else goes on.
func (f NodeFacts) Learn(namespace string, record v1alpha1.ResizeRecord, reason, message string, now time.Time) NodeFacts {
	if said := PoliciesOf(message); reason == ReasonInfeasible && said != (Policies{}) {
		f.Policies, f.Until = f.Policies.and(said), now.Add(policiesLast)
		return f
	}
	block := BlockOf(record, reason, now)
	if block == (NodeBlock{}) {
		return f
	}
	blocks := maps.Clone(f.Blocks)
	if blocks == nil {
		blocks = map[string]NodeBlock{}
	}
	known := blocks[namespace]
	blocks[namespace] = NodeBlock{Growth: latest(known.Growth, block.Growth), All: latest(known.All, block.All)}
	f.Blocks = blocks
	return f
}

// BlockFor is what holds the resizes of a namespace's pods: what its own taught, and what at least two namespaces did.
// One alone may have asked for what no node has.
func (f NodeFacts) BlockFor(namespace string) NodeBlock {
	own := f.Blocks[namespace]
	var growth, all twoLatest
	for _, block := range f.Blocks {
		growth.note(latest(block.Growth, block.All))
		all.note(block.All)
	}
	return NodeBlock{Growth: latest(own.Growth, growth.second), All: latest(own.All, all.second)}
}

// twoLatest of some times.
type twoLatest struct{ first, second time.Time }

func (t *twoLatest) note(at time.Time) {
	if at.After(t.first) {
		t.first, t.second = at, t.first
	} else {
		t.second = latest(t.second, at)
	}
}

// Now are the facts that still hold, of a node that was seen on some terms then and is on others now: blocks end with
// whatever may have lifted them, policies with the kubelet's run.
func (f NodeFacts) Now(then, terms NodeTerms, now time.Time) NodeFacts {
	if then != terms {
		f.Blocks = nil
	}
	if then.kubelet != terms.kubelet || !now.Before(f.Until) {
		f.Policies, f.Until = Policies{}, time.Time{}
	}
	f.Blocks = standing(f.Blocks, now)
	return f
}

// standing are the blocks that are not over.
func standing(blocks map[string]NodeBlock, now time.Time) map[string]NodeBlock {
	var left map[string]NodeBlock
	for namespace, block := range blocks {
		if !now.Before(latest(block.Growth, block.All)) {
			continue
		}
		if left == nil {
			left = map[string]NodeBlock{}
		}
		left[namespace] = block
	}
	return left
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

// NodeTerms is a digest of what a node's answers to resizes depend on, as far as its object shows: equal terms get
// equal answers. It takes the place of the object itself, which whoever remembers nodes would keep in memory.
type NodeTerms struct{ kubelet, rest uint64 }

// TermsOf a node: what it has, how it is, what it is called, whom it takes, and what its kubelet can do.
func TermsOf(node *corev1.Node) NodeTerms {
	if node == nil {
		return NodeTerms{}
	}
	var rest strings.Builder
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		amount := node.Status.Allocatable[name]
		fmt.Fprintf(&rest, "%s=%s\n", name, amount.String())
	}
	for _, t := range node.Spec.Taints {
		fmt.Fprintf(&rest, "%s\n%s\n", t.ToString(), t.Effect)
	}
	// fmt writes maps in the order of their keys.
	fmt.Fprintln(&rest, conditionsOf(node), node.Labels, node.Spec.Unschedulable, node.Status.DeclaredFeatures)
	return NodeTerms{kubelet: kubeletRun(node), rest: podview.Hash(rest.String())}
}

// kubeletRun changes where a node object shows that the kubelet was started anew: another node, boot or version, or
// it was not ready in between. A kubelet that comes up reports itself not ready first, unless it is quicker than its
// own first report; nothing else of a Node tells.
func kubeletRun(node *corev1.Node) uint64 {
	return podview.Hash(fmt.Sprint(node.UID, "\n", node.Status.NodeInfo.BootID, "\n", node.Status.NodeInfo.KubeletVersion, "\n", readySince(node).UnixNano()))
}

func readySince(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
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
