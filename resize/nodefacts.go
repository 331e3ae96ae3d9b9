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

// NodeFacts are facts learned from a node's answers to resizes that its Node object does not show. The zero value has
// no facts. They are kept in memory only: after attune restarts, the node gives the same answers again.
type NodeFacts struct {
	// Blocks are the times until which resizes on the node are not tried, by the namespace whose resizes failed. The
	// map is replaced and never changed in place, so that a reader needs no lock.
	Blocks map[string]NodeBlock
	// Policies of the kubelet.
	Policies Policies
	// Until is when Policies expire.
	Until time.Time
}

// Policies are settings of a kubelet that make it refuse resizes. The zero value refuses nothing.
type Policies struct {
	// StaticCPU and StaticMemory are true if the kubelet's CPU or memory manager has the policy Static, which assigns
	// whole CPUs or memory to Guaranteed pods.
	StaticCPU, StaticMemory bool
	// Swap is true if containers may use swap.
	Swap bool
}

// policiesLast is how long a learned setting of a kubelet is used. Settings change only with a restart of the kubelet,
// which kubeletRun detects in most cases; in the others one refused resize per hour confirms the setting.
const policiesLast = time.Hour

// Learn adds the result of a record that its node did not carry out. If the message names a setting of the kubelet,
// Learn adds only that setting and does not block the node. The receiver is not changed.
func (f NodeFacts) Learn(namespace string, record v1alpha1.ResizeRecord, reason, message string, now time.Time) NodeFacts {
	if said := PoliciesOf(message); reason == ReasonInfeasible && said != (Policies{}) {
		f.Policies, f.Until = f.Policies.and(said), now.Add(policiesLast)
		return f
	}
	block := BlockOf(record, reason, now)
	if block == (NodeBlock{}) {
		return f
	}
	blocks := map[string]NodeBlock{}
	maps.Copy(blocks, f.Blocks)
	known := blocks[namespace]
	blocks[namespace] = NodeBlock{Growth: latest(known.Growth, block.Growth), All: latest(known.All, block.All)}
	f.Blocks = blocks
	return f
}

// BlockFor returns the block for a namespace: from its own failed resizes, and from failures in at least two
// namespaces. The resizes of one namespace alone do not block others, since they may have been too large for any node.
func (f NodeFacts) BlockFor(namespace string) NodeBlock {
	own := f.Blocks[namespace]
	var growth, all twoLatest
	for _, block := range f.Blocks {
		growth.addTime(latest(block.Growth, block.All))
		all.addTime(block.All)
	}
	return NodeBlock{Growth: latest(own.Growth, growth.second), All: latest(own.All, all.second)}
}

// twoLatest keeps the two latest times that it was given.
type twoLatest struct{ first, second time.Time }

func (t *twoLatest) addTime(at time.Time) {
	if at.After(t.first) {
		t.first, t.second = at, t.first
	} else {
		t.second = latest(t.second, at)
	}
}

// Now returns the facts that are still valid. then are the terms under which they were learned, terms the current ones.
// Blocks end with any change of the terms, policies with a restart of the kubelet; both also expire.
func (f NodeFacts) Now(then, terms NodeTerms, now time.Time) NodeFacts {
	if then != terms {
		f.Blocks = nil
	}
	if then.kubelet != terms.kubelet || !now.Before(f.Until) {
		f.Policies, f.Until = Policies{}, time.Time{}
	}
	f.Blocks = maps.Clone(f.Blocks)
	maps.DeleteFunc(f.Blocks, func(_ string, block NodeBlock) bool { return !now.Before(latest(block.Growth, block.All)) })
	return f
}

// PoliciesOf reads kubelet settings from the message of an Infeasible answer; the zero value if it names none of them.
// The kubelet gives no code for them, only this text.
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

// NodeTerms is a digest of the fields of a node's object on which its answers to resizes depend: equal terms mean equal
// answers. It is kept in place of the object to save memory. The zero value stands for an unknown node.
type NodeTerms struct{ kubelet, rest uint64 }

// TermsOf computes the terms of a node from its allocatable amounts, taints, conditions, labels, features and kubelet.
// A nil node has zero terms.
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

// kubeletRun changes when the node object shows a restart of the kubelet: another node, boot or version, or a change of
// the Ready condition in between. A starting kubelet first reports not ready, unless it is ready before its first
// report; no other field shows a restart.
func kubeletRun(node *corev1.Node) uint64 {
	return podview.Hash(fmt.Sprint(node.UID, "\n", node.Status.NodeInfo.BootID, "\n", node.Status.NodeInfo.KubeletVersion, "\n", ReadySince(node).UnixNano()))
}

// ReadySince returns when the node's Ready condition last changed; zero if it has no such condition.
func ReadySince(node *corev1.Node) time.Time {
	ready := podview.First(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return ready.LastTransitionTime.Time
}

// conditionsOf omits the times of conditions, which change with every heartbeat.
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

// With adds the facts learned from a node's answers to its declared capabilities.
func (c Capabilities) With(f NodeFacts) Capabilities {
	c.Policies = c.Policies.and(f.Policies)
	return c
}
