package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// healthy returns the object of a healthy node.
func healthy(edits ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid", Labels: map[string]string{"zone": "a"}}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{BootID: "boot-1", KubeletVersion: "v1.36.3"}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: quantity("4"), corev1.ResourceMemory: quantity("8Gi")}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
	}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func TestPoliciesOfInfeasible(t *testing.T) {
	// Cases 43, 44, 45: the Node API does not show these.
	for message, want := range map[string]Policies{
		`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`:    {StaticCPU: true},
		`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`: {StaticMemory: true},
		`In-place resize of containers with swap is not supported.`:                         {Swap: true},
		`Node didn't have enough capacity: cpu, requested: 4000, capacity: 2000`:            {},
	} {
		assert.Equal(t, want, PoliciesOf(message), message)
	}
}

func TestLearnOfANode(t *testing.T) {
	const static, swap, full = `alongside CPU Manager policy "static"`, "containers with swap is not supported", "no room"
	up := lifecycle.NewRecord(mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), web(), noon, auto())
	var f NodeFacts
	f = f.Learn("shop", up, ReasonInfeasible, static, noon)
	assert.Equal(t, NodeFacts{Policies: Policies{StaticCPU: true}, Until: noon.Add(time.Hour)}, f, "other growth goes on")
	assert.True(t, able().With(f).StaticCPU)
	f = f.Learn("shop", up, ReasonInfeasible, swap, noon.Add(time.Minute))
	assert.Equal(t, Policies{StaticCPU: true, Swap: true}, f.Policies)
	f = f.Learn("shop", up, ReasonDeferred, static, noon)
	assert.Equal(t, noon.Add(10*time.Minute), f.Blocks["shop"].Growth, "what is deferred is put off, whatever the message says besides")
	shorter := f.Learn("shop", up, ReasonInfeasible, full, noon.Add(-time.Minute))
	assert.Equal(t, f, shorter, "a block is never shortened")
	assert.Equal(t, f, f.Learn("shop", up, string(HarmOOM), static, noon), "harm says nothing of the node")
}

// A single namespace can request sizes that no node has room for: that blocks only its own resizes. Failures in two
// namespaces block all of them.
func TestOneNamespaceBlocksNoOther(t *testing.T) {
	up := lifecycle.NewRecord(mustPlan(t, web(), wish(size(1000, 2000, 512, 1024))), web(), noon, auto())
	down := lifecycle.NewRecord(mustPlan(t, web(), wish(size(250, 500, 512, 1024))), web(), noon, auto())
	soon, later := noon.Add(10*time.Minute), noon.Add(11*time.Minute)
	none := NodeFacts{}
	growth := none.Learn("shop", up, ReasonDeferred, "", noon)
	unheard := none.Learn("shop", up, ReasonUnobserved, "", noon)
	for _, tc := range []struct {
		name              string
		facts             NodeFacts
		shop, bank, other NodeBlock
	}{
		{"growth", growth, NodeBlock{Growth: soon}, NodeBlock{}, NodeBlock{}},
		{"growth, twice", growth.Learn("shop", up, ReasonDeferred, "", noon.Add(time.Minute)), NodeBlock{Growth: later}, NodeBlock{}, NodeBlock{}},
		{"growth of two", growth.Learn("bank", up, ReasonDeferred, "", noon.Add(time.Minute)), NodeBlock{Growth: soon}, NodeBlock{Growth: later}, NodeBlock{Growth: soon}},
		{"nobody saw it", unheard, NodeBlock{All: soon}, NodeBlock{}, NodeBlock{}},
		{"nobody saw either", unheard.Learn("bank", up, ReasonTimeout, "", noon.Add(time.Minute)),
			NodeBlock{Growth: soon, All: soon}, NodeBlock{Growth: soon, All: later}, NodeBlock{Growth: soon, All: soon}},
		{"growth, and another's lowering", growth.Learn("bank", down, ReasonDeferred, "", noon),
			NodeBlock{Growth: soon}, NodeBlock{Growth: soon, All: soon}, NodeBlock{Growth: soon}},
	} {
		assert.Equal(t, tc.shop, tc.facts.BlockFor("shop"), tc.name)
		assert.Equal(t, tc.bank, tc.facts.BlockFor("bank"), tc.name)
		assert.Equal(t, tc.other, tc.facts.BlockFor("other"), tc.name)
	}
	assert.Len(t, growth.Blocks, 1, "what was learned later is no part of what was known before")
	over := growth.Learn("bank", up, ReasonDeferred, "", noon.Add(time.Minute)).Now(NodeTerms{}, NodeTerms{}, soon)
	assert.Equal(t, map[string]NodeBlock{"bank": {Growth: later}}, over.Blocks, "what is over is forgotten")
}

func TestFactsEndWithWhatTheyAreAbout(t *testing.T) {
	// Cases 27, 87: a size that a node refused is tried again after the node has changed.
	block := NodeBlock{Growth: noon.Add(10 * time.Minute)}
	static := Policies{StaticCPU: true}
	facts := NodeFacts{Blocks: map[string]NodeBlock{"shop": block}, Policies: static, Until: noon.Add(time.Hour)}
	for _, tc := range []struct {
		name     string
		edit     func(*corev1.Node)
		after    time.Duration
		block    NodeBlock
		policies Policies
	}{
		{"nothing changed", func(*corev1.Node) {}, 0, block, static},
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(noon) }, 0, block, static},
		{"an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, 0, block, static},
		{"images", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"app"}}} }, 0, block, static},
		{"the block is over", func(*corev1.Node) {}, 10 * time.Minute, NodeBlock{}, static},
		{"after an hour", func(*corev1.Node) {}, time.Hour, NodeBlock{}, Policies{}},
		{"it has more", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = quantity("8") }, 0, NodeBlock{}, static},
		{"another condition", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, 0, NodeBlock{}, static},
		{"another label", func(n *corev1.Node) { n.Labels["zone"] = "b" }, 0, NodeBlock{}, static},
		{"a taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}} }, 0, NodeBlock{}, static},
		{"a feature", func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{FeaturePodLevelResize} }, 0, NodeBlock{}, static},
		{"another version", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.1" }, 0, NodeBlock{}, Policies{}},
		{"a reboot", func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }, 0, NodeBlock{}, Policies{}},
		{"it was not ready in between", func(n *corev1.Node) { n.Status.Conditions[1].LastTransitionTime = metav1.NewTime(noon) }, 0, NodeBlock{}, Policies{}},
		{"another node of the same name", func(n *corev1.Node) { n.UID = "other" }, 0, NodeBlock{}, Policies{}},
	} {
		got := facts.Now(TermsOf(healthy()), TermsOf(healthy(tc.edit)), noon.Add(tc.after))
		assert.Equal(t, tc.block, got.BlockFor("shop"), tc.name)
		assert.Equal(t, tc.policies, got.Policies, tc.name)
	}
	assert.Equal(t, NodeFacts{}, facts.Now(TermsOf(healthy()), TermsOf(nil), noon), "a node that is gone")
}

func TestRoomCountsWhatWasPromised(t *testing.T) {
	// Case 28: growth that was sent and that no status shows yet is not promised a second time.
	neighbour := with(running(size(1000, 0, 512, 0)), func(p *corev1.Pod) { p.UID = "other" })
	type both = [2]recommender.Amount
	for _, tc := range []struct {
		name     string
		promised both
		reason   string
	}{
		{"nothing", both{}, ""},
		{"what its spec shows by now", both{1000, 512 * mi}, ""},
		{"more than its spec shows", both{2001, 512 * mi}, ReasonNoRoom},
		{"less, which it has still to give back", both{10, 10 * mi}, ""},
	} {
		w := world(func(w *GateInput) {
			w.Node.Room = RoomOf([]*corev1.Pod{neighbour, web()}, map[types.UID]both{"other": tc.promised}, noon)
			w.Node.Capabilities.Allocatable = both{4000, 4 * gi}
		})
		_, refusal := Admit(web(), mustPlan(t, web(), wish(size(2000, 2000, 512, 1024))), w)
		check(t, tc.reason, refusal)
	}
}
