package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

const gi = 1 << 30

func aNode(name, cpu, memory string, edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64"}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}},
	}
	for _, e := range edit {
		e(n)
	}
	return n
}

func tainted(key, value string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// clusterOf is a reader of a cluster with the index that the loops share.
func clusterOf(t testing.TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, workload.PodsByNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

func ofTemplate(kind v1alpha1.WorkloadKind, spec corev1.PodSpec) workload.Workload {
	return workload.Workload{Identity: workload.Identity{Kind: kind, Namespace: "shop", Name: "web"}, Template: &corev1.PodTemplateSpec{Spec: spec}}
}

func daemonPod(name, owner, node, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")},
		}}}},
		Status: corev1.PodStatus{StartTime: &metav1.Time{Time: today}},
	}
}

// running is a pod without DaemonSet.
func running(node, cpu string) *corev1.Pod {
	pod := daemonPod("web-x", "web", node, cpu)
	pod.OwnerReferences[0].Kind = "ReplicaSet"
	return pod
}

func TestTheLargestNodeOnWhichAPodMayRun(t *testing.T) {
	const deployment, daemonSet = v1alpha1.KindDeployment, v1alpha1.KindDaemonSet
	toleration := func(key string) []corev1.Toleration {
		return []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
	}
	pools := []client.Object{
		aNode("small", "2", "4Gi"), aNode("middle", "16", "64Gi"),
		aNode("arm", "32", "128Gi", labelled(corev1.LabelArchStable, "arm64")),
		aNode("gpu", "96", "1Ti", tainted("nvidia.com/gpu", "", corev1.TaintEffectNoSchedule)),
		aNode("virtual", "10000", "100Ti", labelled("type", "virtual-kubelet"), tainted("virtual-kubelet.io/provider", "azure", corev1.TaintEffectNoSchedule)),
		aNode("virtual-untainted", "10000", "100Ti", labelled("type", "virtual-kubelet")),
		aNode("new", "0", "0"),
		daemonPod("logs-1", "logs", "small", "250m"), daemonPod("web-1", "web", "small", "1"), daemonPod("logs-2", "logs", "middle", "4"),
	}
	arm := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"arm64"}}},
	}}}}}
	for name, tc := range map[string]struct {
		w          workload.Workload
		configured [2]recommender.Amount
		extra      []client.Object
		want       [2]recommender.Amount
	}{
		"any node":            {w: ofTemplate(deployment, corev1.PodSpec{}), want: [2]recommender.Amount{32_000, 128 * gi}},
		"required affinity":   {w: ofTemplate(deployment, corev1.PodSpec{Affinity: arm}), want: [2]recommender.Amount{12_000, 62 * gi}},
		"node selector":       {w: ofTemplate(deployment, corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}), want: [2]recommender.Amount{32_000, 128 * gi}},
		"toleration":          {w: ofTemplate(deployment, corev1.PodSpec{Tolerations: toleration("nvidia.com/gpu")}), want: [2]recommender.Amount{96_000, 1024 * gi}},
		"tolerates all":       {w: ofTemplate(deployment, corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}), want: [2]recommender.Amount{96_000, 1024 * gi}},
		"a virtual node":      {w: ofTemplate(deployment, corev1.PodSpec{Tolerations: toleration("virtual-kubelet.io/provider")}), want: [2]recommender.Amount{10_000_000, 102400 * gi}},
		"no node":             {w: ofTemplate(deployment, corev1.PodSpec{NodeSelector: map[string]string{"pool": "gone"}})},
		"nodes.largest":       {w: ofTemplate(deployment, corev1.PodSpec{NodeSelector: map[string]string{"pool": "gone"}}), configured: [2]recommender.Amount{63_000, 240 * gi}, want: [2]recommender.Amount{63_000, 240 * gi}},
		"a DaemonSet":         {w: ofTemplate(daemonSet, corev1.PodSpec{}), want: [2]recommender.Amount{1750, 3 * gi}},
		"a DaemonSet on arm":  {w: ofTemplate(daemonSet, corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}), want: [2]recommender.Amount{32_000, 128 * gi}},
		"a DaemonSet nowhere": {w: ofTemplate(daemonSet, corev1.PodSpec{NodeSelector: map[string]string{"pool": "gone"}}), configured: [2]recommender.Amount{63_000, 240 * gi}},
		"a cordoned node is still a node": {
			w:     ofTemplate(deployment, corev1.PodSpec{}),
			extra: []client.Object{aNode("cordoned", "64", "256Gi", tainted(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule))},
			want:  [2]recommender.Amount{64_000, 256 * gi},
		},
		"so is one that is not ready": {
			w:     ofTemplate(deployment, corev1.PodSpec{}),
			extra: []client.Object{aNode("unready", "64", "256Gi", tainted(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute))},
			want:  [2]recommender.Amount{64_000, 256 * gi},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: clusterOf(t, append(tc.extra, pools...)...), AtLeast: tc.configured}, Clock: clocktesting.NewFakePassiveClock(today)}
			require.NoError(t, c.listNodes(t.Context()))
			for range 2 {
				assert.Equal(t, tc.want, c.largestNow(t.Context(), tc.w))
			}
		})
	}
}

// TestTheLargestNodeOfACachedWorkload: the cache keeps the parts of a template that decide where its pods may run.
func TestTheLargestNodeOfACachedWorkload(t *testing.T) {
	reserved := tainted("dedicated", "", corev1.TaintEffectNoSchedule)
	nodes := clusterOf(t, aNode("small", "2", "1Gi", reserved), aNode("away", "4", "8Gi", reserved), aNode("shared", "8", "16Gi"), aNode("huge", "64", "256Gi", reserved))
	c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: nodes}, Clock: clocktesting.NewFakePassiveClock(today)}
	require.NoError(t, c.listNodes(t.Context()))
	affinity := func(term corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
	}
	names := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"small", "away"}}
	fields := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"away"}}
	everything := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for name, tc := range map[string]struct {
		spec                  corev1.PodSpec
		deployment, daemonSet recommender.Amount
	}{
		"no constraint":     {corev1.PodSpec{}, 16 * gi, 16 * gi},
		"tolerates all":     {corev1.PodSpec{Tolerations: everything}, 256 * gi, gi},
		"names of nodes":    {corev1.PodSpec{Tolerations: everything, Affinity: affinity(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{names}})}, 8 * gi, gi},
		"a field of a node": {corev1.PodSpec{Tolerations: everything, Affinity: affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{fields}})}, 8 * gi, 8 * gi},
		"a node selector":   {corev1.PodSpec{Tolerations: everything, NodeSelector: map[string]string{corev1.LabelHostname: "small"}}, gi, gi},
		"no toleration":     {corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: "small"}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			template := corev1.PodTemplateSpec{Spec: tc.spec}
			template.Spec.Containers = []corev1.Container{{Name: "app"}}
			for object, want := range map[workload.Object]recommender.Amount{
				&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: *template.DeepCopy()}}: tc.deployment,
				&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: *template.DeepCopy()}}:   tc.daemonSet,
			} {
				_, err := trim.Object(object)
				require.NoError(t, err)
				w, ok := workload.From(object)
				require.True(t, ok)
				assert.Equal(t, want, c.largestNow(t.Context(), w)[recommender.Memory], w.Kind)
			}
		})
	}
}

// TestASmallNodeThatJoinsLowersTheBoundOfADaemonSet also with taints that each DaemonSet pod tolerates.
func TestASmallNodeThatJoinsLowersTheBoundOfADaemonSet(t *testing.T) {
	w := ofTemplate(v1alpha1.KindDaemonSet, corev1.PodSpec{})
	for _, key := range []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable,
	} {
		nodes := clusterOf(t, aNode("big", "64", "256Gi"))
		c := &Controller{Nodes: Nodes{Reader: nodes, Largest: &board.Largest{}}, Clock: clocktesting.NewFakePassiveClock(today)}
		largest := func() recommender.Amount {
			require.NoError(t, c.listNodes(t.Context()))
			return c.largestNow(t.Context(), w)[recommender.Memory]
		}
		assert.Equal(t, recommender.Amount(256*gi), largest(), key)
		small := aNode("small", "2", "1Gi", tainted(key, "", corev1.TaintEffectNoSchedule), tainted(key, "", corev1.TaintEffectNoExecute))
		require.NoError(t, nodes.Create(t.Context(), small))
		c.forgetNodes(t.Context(), small)
		assert.Equal(t, recommender.Amount(gi), largest(), key)
	}
}

// A pod of 1,500m fits on no node of 1,900m with 412m of DaemonSet pods. A node autoscaler would add such nodes again
// and again.
func TestTheLargestNodeIsLessItsDaemonSetPods(t *testing.T) {
	static := daemonPod("proxy-a", "node-a", "a", "100m")
	static.OwnerReferences[0].Kind = "Node"
	// Users may set the node and the owner of a pod that they create.
	notStarted := daemonPod("huge-x", "huge", "a", "64")
	notStarted.Status.StartTime = nil
	young := func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(today.Add(-time.Minute)) }
	for name, tc := range map[string]struct {
		objects []client.Object
		want    recommender.Amount
	}{
		"no pods":            {[]client.Object{aNode("a", "1900m", "8Gi")}, 1900},
		"of the node":        {[]client.Object{aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "300m"), daemonPod("cni-a", "cni", "a", "112m")}, 1487},
		"a static pod":       {[]client.Object{aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "312m"), static}, 1487},
		"a resize of a pod":  {[]client.Object{aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "300m"), daemonPod("cni-a", "cni", "a", "100m")}, 1487},
		"another pod":        {[]client.Object{aNode("a", "1900m", "8Gi"), running("a", "1")}, 1900},
		"not scheduled":      {[]client.Object{aNode("a", "1900m", "8Gi"), daemonPod("huge-x", "huge", "", "64")}, 1900},
		"not accepted":       {[]client.Object{aNode("a", "1900m", "8Gi"), notStarted}, 1900},
		"more than the node": {[]client.Object{aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "2")}, 1},
		"a smaller node has more room": {[]client.Object{
			aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "900m"), aNode("b", "1800m", "8Gi"), daemonPod("logs-b", "logs", "b", "200m"),
		}, 1576},
		"a new node has no DaemonSet pods yet": {[]client.Object{
			aNode("a", "1900m", "8Gi"), daemonPod("logs-a", "logs", "a", "412m"), aNode("b", "1900m", "8Gi", young),
		}, 1487},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: clusterOf(t, tc.objects...)}, Clock: clocktesting.NewFakePassiveClock(today)}
			require.NoError(t, c.listNodes(t.Context()))
			for range 2 {
				assert.Equal(t, tc.want, c.largestNow(t.Context(), ofTemplate(v1alpha1.KindDeployment, corev1.PodSpec{}))[recommender.CPU])
			}
		})
	}
}

// A search for the constraints of one namespace can be slow. It must not delay others.
func TestASearchOfNodesBlocksNoOther(t *testing.T) {
	var x nodeIndex
	x.set([]corev1.Node{*aNode("a", "2", "8Gi", labelled("pool", "a")), *aNode("b", "4", "8Gi", labelled("pool", "b"))})
	none := func(string) [2]recommender.Amount { return [2]recommender.Amount{} }
	inPool := func(pool string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": pool}}}
	}
	searching := 0
	found := x.of(inPool("a"), false, today, func(string) [2]recommender.Amount {
		searching++
		require.True(t, x.mutex.TryLock(), "the mutex is held")
		x.mutex.Unlock()
		assert.Equal(t, "b", x.of(inPool("b"), false, today, none)[recommender.CPU].node)
		x.set([]corev1.Node{*aNode("c", "8", "8Gi", labelled("pool", "a"))})
		return [2]recommender.Amount{}
	})
	assert.Equal(t, 1, searching, "once for each node")
	assert.Equal(t, "a", found[recommender.CPU].node, "the nodes at the start of the search")
	assert.Equal(t, "c", x.of(inPool("a"), false, today, none)[recommender.CPU].node, "the result of an old search is not used again")
}

// DaemonSets change without a change of nodes.
func TestDaemonSetPodsAreReadAgain(t *testing.T) {
	nodes := clusterOf(t, aNode("a", "1900m", "8Gi"))
	clock := clocktesting.NewFakePassiveClock(today)
	c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: nodes}, Clock: clock}
	largest := func() recommender.Amount {
		require.NoError(t, c.listNodes(t.Context()))
		return c.largestNow(t.Context(), ofTemplate(v1alpha1.KindDeployment, corev1.PodSpec{}))[recommender.CPU]
	}
	assert.Equal(t, recommender.Amount(1900), largest())
	require.NoError(t, nodes.Create(t.Context(), daemonPod("logs-a", "logs", "a", "412m")))
	assert.Equal(t, recommender.Amount(1900), largest())
	clock.SetTime(today.Add(searchedFor))
	assert.Equal(t, recommender.Amount(1487), largest())
}

func TestNodesAreListedAgainAfterAChange(t *testing.T) {
	nodes := clusterOf(t, aNode("small", "2", "4Gi"))
	c := &Controller{Nodes: Nodes{Reader: nodes, Largest: &board.Largest{}}, Clock: clocktesting.NewFakePassiveClock(today)}
	w := ofTemplate(v1alpha1.KindDeployment, corev1.PodSpec{})
	largest := func() [2]recommender.Amount {
		require.NoError(t, c.listNodes(t.Context()))
		return c.largestNow(t.Context(), w)
	}
	assert.Equal(t, [2]recommender.Amount{2000, 4 * gi}, largest())
	big := aNode("big", "64", "256Gi")
	require.NoError(t, nodes.Create(t.Context(), big))
	assert.Empty(t, c.forgetNodes(t.Context(), big))
	assert.Equal(t, [2]recommender.Amount{64_000, 256 * gi}, largest())
	require.NoError(t, nodes.Delete(t.Context(), big))
	c.forgetNodes(t.Context(), big)
	assert.Equal(t, [2]recommender.Amount{2000, 4 * gi}, largest())
	cores, bytes := c.Nodes.Largest.Node()
	assert.Equal(t, []float64{64, 256 * gi}, []float64{cores, bytes}, "samples of a node that is gone stay true")

	heartbeat := big.DeepCopy()
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	assert.False(t, nodesChanged().Update(event.UpdateEvent{ObjectOld: big, ObjectNew: heartbeat}))
	heartbeat.Labels = map[string]string{"pool": "a"}
	assert.True(t, nodesChanged().Update(event.UpdateEvent{ObjectOld: big, ObjectNew: heartbeat}))
}

// TestADeletedNodeOfAnotherPlacementDoesNotCount: a workload that moved to a pool of smaller nodes.
func TestADeletedNodeOfAnotherPlacementDoesNotCount(t *testing.T) {
	c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: clusterOf(t, aNode("small", "2", "4Gi", labelled("pool", "small")))}, Clock: clocktesting.NewFakePassiveClock(today)}
	require.NoError(t, c.listNodes(t.Context()))
	w := ofTemplate(v1alpha1.KindDeployment, corev1.PodSpec{NodeSelector: map[string]string{"pool": "small"}})
	elsewhere := ofTemplate(v1alpha1.KindDeployment, corev1.PodSpec{NodeSelector: map[string]string{"pool": "large"}})
	pass := pass{now: today}
	pass.settings.Source.HistoryWindow = 24 * time.Hour
	for placement, want := range map[string]recommender.Amount{
		placementOf(w.Template):         256 * gi, // its own pool had a larger node
		placementOf(elsewhere.Template): 4 * gi,
		"":                              4 * gi, // from before the template got a node selector
	} {
		rec := &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{LargestNode: &v1alpha1.LargestNode{
			Memory: ptr.To(resource.MustParse("256Gi")), SeenAt: metav1.NewTime(today.Add(-time.Hour)), Placement: placement,
		}}}
		bound, gone := reader{largest: c.largestNow}.bound(t.Context(), pass, rec, w)
		assert.Equal(t, want, bound[recommender.Memory], placement)
		assert.Equal(t, want != 4*gi, gone, placement)
	}
}

func TestStoredNodesJudgeSamplesAfterARestart(t *testing.T) {
	stored := func(name string, age time.Duration, cpu string) client.Object {
		return &v1alpha1.AttuneRecommendation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: v1alpha1.AttuneRecommendationSpec{LargestNode: &v1alpha1.LargestNode{
				CPU: ptr.To(resource.MustParse(cpu)), Memory: ptr.To(resource.MustParse("256Gi")), SeenAt: metav1.NewTime(today.Add(-age)),
			}},
		}
	}
	c := &Controller{
		Nodes: Nodes{Largest: &board.Largest{}, Reader: clusterOf(t, aNode("small", "2", "4Gi"), stored("a", 24*time.Hour, "64"), stored("b", 100*24*time.Hour, "128"),
			aNode("virtual", "10000", "100Ti", labelled("type", "virtual-kubelet")))},
		Clock: clocktesting.NewFakePassiveClock(today),
	}
	require.NoError(t, c.listNodes(t.Context()))
	cores, bytes := c.Nodes.Largest.Node()
	assert.Equal(t, []float64{64, 256 * gi}, []float64{cores, bytes})
}

// TestATargetFollowsTheNodes: a decision is made again if the nodes of the workload change, and only then.
func TestATargetFollowsTheNodes(t *testing.T) {
	f := newFleet(t, 3)
	nodes := clusterOf(t, aNode("node", "64", "256Gi"))
	f.Nodes = Nodes{Reader: nodes, Largest: &board.Largest{}}
	f.pass(t)
	rec := f.memory.recommendations("shop")[0]
	assert.Empty(t, rec.Spec.Containers[0].Holds)
	require.NotNil(t, rec.Spec.LargestNode)
	assert.Equal(t, "64", rec.Spec.Seed.LargestPod.CPURequest.String())

	// Another node of the same size causes no write.
	f.pass(t)
	f.memory.written()
	require.NoError(t, nodes.Create(t.Context(), aNode("other", "64", "256Gi")))
	f.forgetNodes(t.Context(), nil)
	f.pass(t)
	assert.Zero(t, f.memory.writes["patch AttuneRecommendation"])

	// A node pool that was scaled to zero is remembered.
	for _, name := range []string{"node", "other"} {
		require.NoError(t, nodes.Delete(t.Context(), aNode(name, "64", "256Gi")))
	}
	require.NoError(t, nodes.Create(t.Context(), aNode("tiny", "50m", "64Mi")))
	f.forgetNodes(t.Context(), nil)
	f.pass(t)
	assert.Empty(t, f.memory.recommendations("shop")[0].Spec.Containers[0].Holds)
}

func BenchmarkLargestNode(b *testing.B) {
	var objects []client.Object
	for i := range 5000 {
		objects = append(objects, aNode(fmt.Sprintf("node-%04d", i), "16", "64Gi", labelled("pool", fmt.Sprint(i%50))))
	}
	var workloads []workload.Workload
	for i := range 10_000 {
		spec := corev1.PodSpec{}
		if i%2 == 0 {
			spec.NodeSelector = map[string]string{"pool": fmt.Sprint(i % 50)}
		}
		workloads = append(workloads, ofTemplate(v1alpha1.KindDeployment, spec))
	}
	items := make([]corev1.Node, len(objects))
	for i := range objects {
		items[i] = *objects[i].(*corev1.Node)
	}
	c := &Controller{Nodes: Nodes{Largest: &board.Largest{}, Reader: clusterOf(b)}, Clock: clocktesting.NewFakePassiveClock(today)}
	ask := func() {
		for i := range workloads {
			c.largestNow(context.Background(), workloads[i])
		}
	}
	b.Run("10000 workloads, nothing changed", func(b *testing.B) {
		c.nodes.set(items)
		ask()
		b.ReportAllocs()
		for b.Loop() {
			ask()
		}
	})
	b.Run("10000 workloads, one of 5000 nodes changed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.nodes.set(items)
			ask()
		}
	})
}
