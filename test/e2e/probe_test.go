package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/cluster"
)

// Pods of their own, resized by hand: what a kubelet does with them, attune takes for granted.

// newPod is one container on a node.
func newPod(ns, name string, node int, c corev1.Container, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, TerminationGracePeriodSeconds: ptr.To(int64(1))},
	}
	onNode(&p.Spec, node)
	for _, f := range change {
		f(p)
	}
	return p
}

// createPod makes a pod, and deletes it after the test.
func createPod(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	require.NoError(t, env.client.Create(t.Context(), p))
	t.Cleanup(func() {
		gone := client.IgnoreNotFound(env.client.Delete(context.WithoutCancel(t.Context()), p, client.GracePeriodSeconds(1)))
		require.NoError(t, gone)
	})
	return p
}

// runPod makes a pod and returns when it is ready.
func runPod(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	createPod(t, p)
	eventually(t, p.Name+" is ready", func() error { return is(t, p, corev1.PodReady, "") })
	return p
}

// ask resizes a container as a person would.
func ask(t *testing.T, p *corev1.Pod, container string, s size) error {
	t.Helper()
	return askFor(t, p, map[string]any{"name": container, "resources": s.requirements()})
}

func askFor(t *testing.T, p *corev1.Pod, containers ...map[string]any) error {
	t.Helper()
	return patchResize(t, p, map[string]any{"spec": map[string]any{"containers": containers}})
}

func patchResize(t *testing.T, p *corev1.Pod, patch map[string]any) error {
	t.Helper()
	data, err := json.Marshal(patch)
	require.NoError(t, err)
	return env.client.SubResource("resize").Patch(t.Context(), p, client.RawPatch(types.StrategicMergePatchType, data))
}

// see reads a pod anew.
func see(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	return env.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// is waits for nothing: it says whether a pod has a condition, with a reason if one is given.
func is(t *testing.T, p *corev1.Pod, kind corev1.PodConditionType, reason string) error {
	t.Helper()
	if err := see(t, p); err != nil {
		return err
	}
	c := conditionOf(p, kind)
	if c == nil || c.Status != corev1.ConditionTrue || reason != "" && c.Reason != reason {
		return fmt.Errorf("conditions %v, containers %v", p.Status.Conditions, p.Status.ContainerStatuses)
	}
	return nil
}

// endedBadly: the pod is over, and was no success.
func endedBadly(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	if err := see(t, p); err != nil {
		return err
	}
	if p.Status.Phase != corev1.PodFailed {
		return errors.New(string(p.Status.Phase))
	}
	return nil
}

// settled: the kubelet has carried out what the spec asks for.
func settled(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	if err := see(t, p); err != nil {
		return err
	}
	pending, progress := conditionOf(p, corev1.PodResizePending), conditionOf(p, corev1.PodResizeInProgress)
	if pending != nil || progress != nil || p.Status.ObservedGeneration < p.Generation {
		return fmt.Errorf("generation %d of %d, conditions %v", p.Status.ObservedGeneration, p.Generation, p.Status.Conditions)
	}
	for i, status := range p.Status.ContainerStatuses {
		if status.Resources == nil || sizeOf(*status.Resources) != sizeOf(p.Spec.Containers[i].Resources) {
			return fmt.Errorf("container %s has %v", status.Name, status.Resources)
		}
	}
	return nil
}

// refuses: a pod's resize waits, or has failed, and the kubelet says why.
func refuses(t *testing.T, p *corev1.Pod, kind corev1.PodConditionType, reason, why string) error {
	t.Helper()
	if err := is(t, p, kind, reason); err != nil {
		return err
	}
	if c := conditionOf(p, kind); !strings.Contains(c.Message, why) || c.ObservedGeneration != p.Generation {
		return fmt.Errorf("generation %d of %d: %s", c.ObservedGeneration, p.Generation, c.Message)
	}
	return nil
}

func deferred(t *testing.T, p *corev1.Pod, why string) error {
	t.Helper()
	return refuses(t, p, corev1.PodResizePending, corev1.PodReasonDeferred, why)
}

func infeasible(t *testing.T, p *corev1.Pod, why string) error {
	t.Helper()
	return refuses(t, p, corev1.PodResizePending, corev1.PodReasonInfeasible, why)
}

func failed(t *testing.T, p *corev1.Pod, why string) error {
	t.Helper()
	return refuses(t, p, corev1.PodResizeInProgress, corev1.PodReasonError, why)
}

// hasWeight: a container's CPU has the weight of a request, in millicores.
func hasWeight(p *corev1.Pod, container string, milli int64) error {
	return granted(p, container, func(g cluster.Grant) (string, int64, int64) {
		return "weight", g.Weight, cluster.WeightOf(g.Version, milli)
	})
}

// hasQuota compares a container's CPU time in 100 ms, in microseconds.
func hasQuota(p *corev1.Pod, container string, want int64) error {
	return granted(p, container, func(g cluster.Grant) (string, int64, int64) { return "quota", g.Quota, want })
}

// hasLimit compares a container's memory limit, in bytes.
func hasLimit(p *corev1.Pod, container string, want int64) error {
	return granted(p, container, func(g cluster.Grant) (string, int64, int64) { return "memory limit", g.Memory, want })
}

// granted compares an amount in a container's cgroup with the one that is wanted.
func granted(p *corev1.Pod, container string, compare func(cluster.Grant) (what string, got, want int64)) error {
	grant, err := env.cluster.Grant(p, container)
	if err != nil {
		return err
	}
	if what, got, want := compare(grant); got != want {
		return fmt.Errorf("its %s is %d, want %d", what, got, want)
	}
	return nil
}

// mainProcess is that of a container, as this machine counts.
func mainProcess(t *testing.T, p *corev1.Pod, container string) int {
	t.Helper()
	text, err := env.cluster.ReadCgroup(p, container, "memory", "cgroup.procs")
	require.NoError(t, err)
	lines := strings.Fields(text)
	require.NotEmpty(t, lines)
	pid, err := strconv.Atoi(lines[0])
	require.NoError(t, err)
	require.Positive(t, pid)
	return pid
}

// crash ends a container at once, and returns when another one runs in its place.
func crash(t *testing.T, p *corev1.Pod) {
	t.Helper()
	before := p.Status.ContainerStatuses[0]
	require.NoError(t, syscall.Kill(mainProcess(t, p, before.Name), syscall.SIGKILL))
	eventually(t, "another container runs", func() error {
		if err := see(t, p); err != nil {
			return err
		}
		if now := p.Status.ContainerStatuses[0]; now.State.Running == nil || now.ContainerID == before.ContainerID {
			return fmt.Errorf("state %v", now.State)
		}
		return nil
	})
}

// holds: a pod's container has that much memory, all kinds of it counted.
func holds(p *corev1.Pod, mib int64) error {
	got, err := env.cluster.MemoryUsage(p, p.Spec.Containers[0].Name)
	if err != nil {
		return err
	}
	if got < mib*mebibyte {
		return fmt.Errorf("%d bytes", got)
	}
	return nil
}
