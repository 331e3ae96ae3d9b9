package e2e

import (
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/usage/prometheus"
)

// onOverload asks for a test that takes the machine's CPU for itself, and some ten minutes.
var onOverload = flag.Bool("overload", false, "show what is done where CPU is short, and run nothing else")

const overloadTest = "TestOverload"

const overloaded = "overloaded"

// overloadedCPU is what each of its nodes has.
const overloadedCPU = 1.5

// overload is the cluster of TestOverload. The operator keeps its part of the CPU while others wait for theirs.
func overload() installation {
	past := past([]history{{overloaded, "steady-6d4f8c7b9d-x2x7k", "app", steadyUse, 30}}, shortPast)
	options := cluster.Options{Nodes: 2, Prometheus: true, Backfill: past, NodeCPU: fmt.Sprint(overloadedCPU), NodeMemory: "8Gi"}
	return installation{options: options, reserved: []int{sharedNode}, settings: append([]string{
		"replicas=1", "certs.provider=self-signed", "controller.resources.requests.cpu=400m", "node.interval=10s", "node.loadTaint.enabled=true",
	}, settings...)}
}

// steadyUse is what steady always uses, in cores.
const steadyUse = 0.150

// TestOverload: where CPU is short, a pod of the strategy Node that waits for it is given more than it uses, and a node
// is tainted until there is enough again.
func TestOverload(t *testing.T) {
	if !*onOverload {
		t.Skip("it takes ten minutes and a machine for itself: -overload asks for it (make test-long)")
	}
	alone(t, overloads)
}

func overloads(t *testing.T) {
	steady := steadyOne(t)
	pod := pods(t.Context(), t, steady)[0]
	before := *pod.Spec.Containers[0].Resources.Requests.Cpu()
	for _, node := range []int{sharedNode, otherNode} {
		d := newDeployment(overloaded, noise(node), 1, app("app", size{cpu: "500m"}))
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CPU_MILLICORES", Value: "2000"}}
		d.Spec.Template.Spec.Containers[0].ReadinessProbe = nil
		onNode(&d.Spec.Template.Spec, node)
		require.NoError(t, env.client.Create(t.Context(), d))
	}
	t.Run("a pod that waits for CPU is given more than it uses", func(t *testing.T) { waits(t, steady, pod, before) })
	t.Run("an overloaded node is tainted until it is well", taints)
}

// steadyOne uses the same as ever.
func steadyOne(t *testing.T) *appsv1.Deployment {
	ctx := t.Context()
	namespace(ctx, t, overloaded, true)
	c := app("app", size{cpu: "10m", memory: "16Mi"})
	c.Env[0].Value = fmt.Sprint(1000 * steadyUse)
	d := newDeployment(overloaded, "steady", 0, c)
	onNode(&d.Spec.Template.Spec, otherNode)
	createFor(t, d)
	policyFor(ctx, t, d, v1alpha1.UpdateAuto, sizedByItsNode)
	eventually(t, "a seed", func() error { return hasSeed(ctx, d) })
	scale(ctx, t, d, 1)
	return d
}

// sizedByItsNode has a policy's workload sized by its node, within no bounds.
func sizedByItsNode(s *v1alpha1.AttunePolicySpec) {
	node := v1alpha1.StrategyNode
	s.Strategy, s.CPU, s.Memory.MaxAllowed, s.Memory.MaxChangePercent = &node, nil, nil, nil
}

// waits: steady uses no more than before while others want more CPU than there is, but it waits for it. Nothing that
// it uses is above its forecast, which knows of no waiting: only a base that counts the waiting can be.
func waits(t *testing.T, steady *appsv1.Deployment, pod corev1.Pod, before resource.Quantity) {
	ctx := t.Context()
	t.Logf("steady asks for %s of CPU before", &before)
	used := fmt.Sprintf(`max(max_over_time(rate(container_cpu_usage_seconds_total{namespace=%q,pod=%q,container="app"}[1m])[15m:15s]))`, overloaded, pod.Name)
	waited := "max(" + prometheus.Everything.Waiting(overloaded, []string{pod.Name}, time.Minute) + ")"
	within(t, 10*time.Minute, "it is given more than it uses", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod); err != nil {
			return err
		}
		rec, err := recommendation(ctx, steady)
		if err != nil {
			return err
		}
		asked, peak := pod.Spec.Containers[0].Resources.Requests.Cpu(), rec.Spec.Containers[0].Demand.CPUPeak
		most, err := env.cluster.Query(ctx, used)
		if err != nil {
			return err
		}
		waiting, err := env.cluster.Query(ctx, waited)
		if err != nil {
			return err
		}
		says := fmt.Sprintf("it asks for %s of CPU; its forecast is %s, it has used %.3f at most, and waits %.0f %% of the time", asked, peak, most, 100*waiting)
		for _, less := range []float64{before.AsApproximateFloat64(), peak.AsApproximateFloat64(), most} {
			if asked.AsApproximateFloat64() < 1.1*less {
				return errors.New(says)
			}
		}
		t.Log(says)
		return nil
	})
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
}

func noise(node int) string { return fmt.Sprintf("noise%d", node) }

// taints: both nodes are overloaded, being one machine, and one of them has to stay open.
func taints(t *testing.T) {
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
		t.Logf("%s uses %.2f of %.1f CPUs", nodeName(node), load, overloadedCPU)
		assert.Greater(t, load, 0.95*overloadedCPU)
	}
	eventually(t, "it is told", func() error { return hasEvent(ctx, "", v1alpha1.OverloadedTaint, v1alpha1.EventNodeTainted) })
	for _, node := range []int{sharedNode, otherNode} {
		require.NoError(t, env.client.Delete(ctx, newDeployment(overloaded, noise(node), 0), client.PropagationPolicy(metav1.DeletePropagationBackground)))
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
