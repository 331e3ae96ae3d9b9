package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/usage/prometheus"
)

// nodeStrategy asks for a test that takes a cluster of its own and a quarter of an hour.
var nodeStrategy = flag.Bool("node-strategy", false, "show the strategy Node on two nodes, and run nothing else")

const sharingTest = "TestNodeStrategy"

// sharing is the namespace of the workloads that share nodes.
const sharing = "sharing"

// shareLabel is that of the nodes that those may run on which move.
const shareLabel = "e2e.attune.io/shared"

// The nodes of TestNodeStrategy. Both have so much CPU; the operator is on the other one.
const (
	// sharedNode has 650Mi of memory for the pods that share it.
	sharedNode = 1
	otherNode  = 2
	sharedCPU  = 1.5
)

// shared is the cluster of TestNodeStrategy. Nodes are looked at often; the operator keeps its part of the CPU
// while others wait for theirs.
func shared() installation {
	options := cluster.Options{
		Nodes: 2, Prometheus: true, Backfill: past(nodeHistories(), shortPast),
		NodeCPU: fmt.Sprint(sharedCPU), NodeMemory: "8Gi", KubeletConfig: smallMemory,
	}
	return installation{options: options, reserved: []int{sharedNode}, settings: append([]string{
		"replicas=1", "certs.provider=self-signed", "resources.requests.cpu=400m",
		"node.interval=10s", "node.eviction.enabled=true", "node.loadTaint.enabled=true",
	}, settings...)}
}

func smallMemory(node int, config map[string]any) {
	if node == sharedNode {
		reserved := config["systemReserved"].(map[string]any)
		reserved["memory"] = plus(reserved["memory"], "7542Mi")
	}
}

// nodeHistories are the peaks of the workloads: CPU in cores, memory in MiB. But for steady, what they use while they
// run is next to nothing.
func nodeHistories() []history {
	return []history{
		{sharing, "web-6d4f8c7b9d-x2x7k", "app", 0.160, 100},
		{sharing, "api-6d4f8c7b9d-x2x7k", "app", 0.160, 110},
		{sharing, "keeps-6d4f8c7b9d-x2x7k", "app", 0.110, 160},
		{sharing, "agent-x2x7k", "app", 0.060, 60},
		{sharing, "steady-6d4f8c7b9d-x2x7k", "app", steadyUse, 30},
	}
}

// steadyUse is what steady always uses, in cores.
const steadyUse = 0.150

// sharers are the workloads of the story, and their pods once the shared node has them all.
type sharers struct {
	web, api, keeps, steady *appsv1.Deployment
	born                    map[string][]types.UID
}

// TestNodeStrategy: pods are born with their peaks, and share their node's spike headroom in place. When the memory
// that some of them need leaves no room for all, one that may go is evicted, born again with its peak, and finds the
// other node; a DaemonSet's pod and one that is never to go stay. Where CPU is short, a pod that waits for it is given
// more than it uses, and a node is tainted until there is enough again.
func TestNodeStrategy(t *testing.T) {
	if !*nodeStrategy {
		t.Skip("it takes a quarter of an hour and a machine for itself: -node-strategy asks for it (make test-long)")
	}
	alone(t, sharesNodes)
}

func sharesNodes(t *testing.T) {
	s := begun(t)
	// The parts build on each other: a failed one leaves nothing for the next.
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"spike headroom is shared in place", s.inPlace},
		{"a pod that does not fit finds the other node", s.elsewhere},
		{"a DaemonSet and a pod that never goes are left alone", s.untouched},
		{"a pod that waits for CPU is given more than it uses", s.waits},
		{"an overloaded node is tainted until it is well", s.taints},
	} {
		if !t.Run(part.name, part.test) {
			return
		}
	}
}

// begun makes the workloads, and waits for what their new pods are to be given.
func begun(t *testing.T) *sharers {
	ctx := t.Context()
	namespace(ctx, t, sharing, true)
	relabel(t, sharedNode, shareLabel, ptr.To("true"))
	low := size{cpu: "10m", memory: "16Mi"}
	of := func(name, mostCPU, mostMemory string, ranking v1alpha1.EvictionRanking, place func(*corev1.PodSpec)) *appsv1.Deployment {
		d := newDeployment(sharing, name, 0, app("app", low))
		place(&d.Spec.Template.Spec)
		require.NoError(t, env.client.Create(ctx, d))
		nodePolicy(t, v1alpha1.KindDeployment, name, mostCPU, mostMemory, ranking)
		return d
	}
	s := &sharers{
		web:   of("web", "150m", "200Mi", v1alpha1.RankingHigh, moves),
		api:   of("api", "150m", "100Mi", v1alpha1.RankingLow, moves),
		keeps: of("keeps", "100m", "150Mi", v1alpha1.RankingNever, moves),
		steady: of("steady", "1", "50Mi", v1alpha1.RankingNever, func(spec *corev1.PodSpec) {
			spec.Containers[0].Env[0].Value = fmt.Sprint(1000 * steadyUse)
			onNode(spec, otherNode)
		}),
	}
	nodePolicy(t, v1alpha1.KindDaemonSet, "agent", "50m", "50Mi", v1alpha1.RankingLow)
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: "agent", Labels: map[string]string{"app": "agent"}}}
	agent.Spec.Selector = &metav1.LabelSelector{MatchLabels: agent.Labels}
	agent.Spec.Template = newDeployment(sharing, "agent", 0, app("app", size{cpu: "50m", memory: "50Mi"})).Spec.Template
	onNode(&agent.Spec.Template.Spec, sharedNode)
	require.NoError(t, env.client.Create(ctx, agent))
	for _, d := range []*appsv1.Deployment{s.web, s.api, s.keeps, s.steady} {
		eventually(t, "a seed for "+d.Name, func() error { return hasWholeSeed(ctx, d) })
	}
	scale(ctx, t, s.steady, 1)
	return s
}

// moves has pods run on the nodes that are shared.
func moves(spec *corev1.PodSpec) {
	spec.NodeSelector = map[string]string{shareLabel: "true"}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpExists})
}

// nodePolicy sizes one workload on its nodes, at most at a peak.
func nodePolicy(t *testing.T, kind v1alpha1.WorkloadKind, name, mostCPU, mostMemory string, ranking v1alpha1.EvictionRanking) {
	t.Helper()
	p := &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: name},
		Spec: v1alpha1.AttunePolicySpec{
			TargetRef: v1alpha1.TargetRef{Kind: kind, Name: name},
			PolicySettings: v1alpha1.PolicySettings{
				Strategy:      ptr.To(v1alpha1.StrategyNode),
				Node:          &v1alpha1.NodeSettings{Eviction: ptr.To(v1alpha1.Enabled), EvictionRanking: ptr.To(ranking)},
				MetricsSource: &v1alpha1.MetricsSource{HistoryWindow: duration(24 * time.Hour), RateWindow: duration(time.Minute)},
				CPU:           &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: ptr.To(resource.MustParse(mostCPU))}},
				Memory: &v1alpha1.MemorySettings{
					ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: ptr.To(resource.MustParse(mostMemory))}, AllowDecrease: ptr.To(true),
				},
				UpdateStrategy: &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto), SafetyObservationPeriod: duration(time.Minute)},
			},
		},
	}
	require.NoError(t, env.client.Create(t.Context(), p))
}

// hasWholeSeed: CPU and memory of new pods are known.
func hasWholeSeed(ctx context.Context, d *appsv1.Deployment) error {
	if err := hasSeed(ctx, d); err != nil {
		return err
	}
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	seed := rec.Spec.Seed.Containers
	if len(seed) == 0 || seed[0].CPURequest == nil || seed[0].MemoryRequest == nil {
		return fmt.Errorf("seed %v", seed)
	}
	return nil
}

// podsOf are a workload's live ones, by the label app.
func podsOf(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, env.client.List(t.Context(), list, client.InNamespace(sharing), client.MatchingLabels{"app": name}))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func uidsOf(pods []corev1.Pod) (uids []types.UID) {
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	slices.Sort(uids)
	return uids
}

// sameAsBorn: none of the workload's pods has gone or was restarted since the shared node had them all.
func (s *sharers) sameAsBorn(t *testing.T, name string) []corev1.Pod {
	t.Helper()
	now := podsOf(t, name)
	assert.Equal(t, s.born[name], uidsOf(now), "%s: the same pods", name)
	for _, p := range now {
		assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount, p.Name)
	}
	return now
}

func (s *sharers) inPlace(t *testing.T) {
	ctx := t.Context()
	scale(ctx, t, s.web, 2)
	scale(ctx, t, s.api, 2)
	scale(ctx, t, s.keeps, 1)
	eventually(t, "the DaemonSet's pod runs", func() error {
		if p := podsOf(t, "agent"); len(p) != 1 || p[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%d pods", len(p))
		}
		return nil
	})
	s.born = map[string][]types.UID{}
	for _, name := range []string{"web", "api", "keeps", "agent"} {
		s.born[name] = uidsOf(podsOf(t, name))
	}
	for _, p := range podsOf(t, "api") {
		assert.Contains(t, p.Annotations, v1alpha1.SeededAnnotation)
		assert.Equal(t, nodeName(sharedNode), p.Spec.NodeName)
		assert.Equal(t, "100Mi", p.Spec.Containers[0].Resources.Requests.Memory().String(), "its peak")
	}
	within(t, 6*time.Minute, "everybody's CPU is lowered to a share of the spike headroom", func() error {
		for _, name := range []string{"web", "api", "keeps"} {
			for _, p := range podsOf(t, name) {
				if err := hasLessCPU(&p, 95); err != nil {
					return err
				}
			}
		}
		return nil
	})
	var sum int64
	for name := range s.born {
		for _, p := range s.sameAsBorn(t, name) {
			sum += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	assert.GreaterOrEqual(t, sum, int64(250), "the node keeps room for the spike of the largest group, two pods of 150m less what they use")
	t.Logf("together they ask for %dm of CPU instead of 750m", sum)
}

// hasLessCPU: the pod asks for less than so many millicores, and its kubelet has carried that out.
func hasLessCPU(p *corev1.Pod, millicores int64) error {
	asked := p.Spec.Containers[0].Resources.Requests.Cpu()
	if asked.MilliValue() >= millicores {
		return fmt.Errorf("%s asks for %s of CPU", p.Name, asked)
	}
	if of := p.Status.ContainerStatuses; len(of) == 0 || of[0].Resources == nil || of[0].Resources.Requests.Cpu().Cmp(*asked) != 0 {
		return fmt.Errorf("%s: its kubelet has not carried it out", p.Name)
	}
	return nil
}

// elsewhere: what web needs now leaves no room for all on the first node, and the other one has room.
func (s *sharers) elsewhere(t *testing.T) {
	ctx := t.Context()
	relabel(t, otherNode, shareLabel, ptr.To("true"))
	for _, p := range podsOf(t, "web") {
		use(ctx, t, &p, "memory=150")
	}
	within(t, 10*time.Minute, "one of api runs on the other node", func() error {
		var there []corev1.Pod
		for _, p := range podsOf(t, "api") {
			if p.Spec.NodeName == nodeName(otherNode) && p.Status.Phase == corev1.PodRunning {
				there = append(there, p)
			}
		}
		if len(there) != 1 {
			return fmt.Errorf("%d of its pods run there", len(there))
		}
		assert.Contains(t, there[0].Annotations, v1alpha1.SeededAnnotation)
		assert.Equal(t, "100Mi", there[0].Spec.Containers[0].Resources.Requests.Memory().String(), "born with its peak")
		return nil
	})
	within(t, 5*time.Minute, "web gets what it needs", func() error {
		for _, p := range podsOf(t, "web") {
			if asked := p.Spec.Containers[0].Resources.Requests.Memory().Value(); asked < 150*mebibyte {
				return fmt.Errorf("%s asks for %d MiB", p.Name, asked/mebibyte)
			}
		}
		return nil
	})
	s.sameAsBorn(t, "web")
	rec, err := recommendation(ctx, s.api)
	require.NoError(t, err)
	evicted := slices.IndexFunc(rec.Status.History, func(h v1alpha1.HistoryEntry) bool { return h.Result == "Evicted" })
	if assert.GreaterOrEqual(t, evicted, 0, "%v", rec.Status.History) {
		assert.Equal(t, "DoesNotFit", rec.Status.History[evicted].Reason)
	}
}

func (s *sharers) untouched(t *testing.T) {
	s.sameAsBorn(t, "keeps")
	s.sameAsBorn(t, "agent")
}

// waits: steady uses no more than before while others want more CPU than there is, but it waits for it. Nothing that
// it uses is above its forecast, which knows of no waiting: only a base that counts the waiting can be.
func (s *sharers) waits(t *testing.T) {
	ctx := t.Context()
	pod := pods(ctx, t, s.steady)[0]
	before := *pod.Spec.Containers[0].Resources.Requests.Cpu()
	t.Logf("steady asks for %s of CPU before", &before)
	for _, node := range []int{sharedNode, otherNode} {
		d := newDeployment(sharing, noise(node), 1, app("app", size{cpu: "500m"}))
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CPU_MILLICORES", Value: "2000"}}
		d.Spec.Template.Spec.Containers[0].ReadinessProbe = nil
		onNode(&d.Spec.Template.Spec, node)
		require.NoError(t, env.client.Create(ctx, d))
	}
	used := fmt.Sprintf(`max(max_over_time(rate(container_cpu_usage_seconds_total{namespace=%q,pod=%q,container="app"}[1m])[15m:15s]))`, sharing, pod.Name)
	within(t, 10*time.Minute, "it is given more than it uses", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod); err != nil {
			return err
		}
		rec, err := recommendation(ctx, s.steady)
		if err != nil {
			return err
		}
		asked, peak := pod.Spec.Containers[0].Resources.Requests.Cpu(), rec.Spec.Containers[0].Demand.CPUPeak
		if asked.AsApproximateFloat64() < 1.1*before.AsApproximateFloat64() {
			return fmt.Errorf("it asks for %s, and asked for %s before", asked, &before)
		}
		if asked.AsApproximateFloat64() < 1.1*peak.AsApproximateFloat64() {
			return fmt.Errorf("it asks for %s, its forecast is %s", asked, peak)
		}
		most, err := env.cluster.Query(ctx, used)
		if err != nil {
			return err
		}
		if asked.AsApproximateFloat64() < 1.1*most {
			return fmt.Errorf("it asks for %s and has used %.3f", asked, most)
		}
		waiting, err := env.cluster.Query(ctx, "max("+prometheus.Everything.Waiting(sharing, []string{pod.Name}, time.Minute)+")")
		t.Logf("steady asks for %s of CPU; its forecast is %s, it has used %.3f at most, and waits %.0f %% of the time", asked, peak, most, 100*waiting)
		return err
	})
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
}

func noise(node int) string { return fmt.Sprintf("noise%d", node) }

// taints: both nodes are overloaded, being one machine, and one of them has to stay open.
func (s *sharers) taints(t *testing.T) {
	ctx := t.Context()
	within(t, 10*time.Minute, "a node is tainted", func() error {
		if len(tainted(t)) == 0 {
			return fmt.Errorf("no node is")
		}
		return nil
	})
	for _, node := range []int{sharedNode, otherNode} {
		load, err := env.cluster.Query(ctx, prometheus.Everything.NodeUsage(nodeName(node), time.Minute))
		require.NoError(t, err)
		t.Logf("%s uses %.2f of %.1f CPUs", nodeName(node), load, sharedCPU)
		assert.Greater(t, load, 0.95*sharedCPU)
	}
	eventually(t, "it is told", func() error { return hasEvent(ctx, "", v1alpha1.OverloadedTaint, v1alpha1.EventNodeTainted) })
	for _, node := range []int{sharedNode, otherNode} {
		require.NoError(t, env.client.Delete(ctx, newDeployment(sharing, noise(node), 0), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	within(t, 10*time.Minute, "no node is tainted any more", func() error {
		if names := tainted(t); len(names) > 0 {
			return fmt.Errorf("%v are", names)
		}
		return nil
	})
	eventually(t, "it is told", func() error { return hasEvent(ctx, "", v1alpha1.OverloadedTaint, v1alpha1.EventNodeTaintRemoved) })
}

// tainted are the names of the nodes that carry the taint of overloaded ones, never both.
func tainted(t *testing.T) (names []string) {
	t.Helper()
	list := &corev1.NodeList{}
	require.NoError(t, env.client.List(t.Context(), list))
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == v1alpha1.OverloadedTaint }) {
			names = append(names, n.Name)
		}
	}
	require.LessOrEqual(t, len(names), 1, "%v are tainted", names)
	return names
}
