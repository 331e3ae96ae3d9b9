package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestLittleRoom is what happens on a node of 600m where there is little room. One after the other: each
// needs to know what the others take.
func TestLittleRoom(t *testing.T) {
	namespace(need(t), t, "room", false)
	t.Run("26 more than the node has is refused, from 1.36 on by the API server", beyondTheNode)
	t.Run("92 overhead counts towards the node's capacity", overhead)
	t.Run("28 growth waits for room, and gets it when a neighbour goes", waitsForRoom)
	t.Run("69 a revert that finds no room waits for it, and is told", revertWithoutRoom)
	t.Run("31 a patch is carried out whole or not at all", allOrNothing)
	t.Run("22 one resize fails while the next one waits", twoAtOnce)
	t.Run("39 a memory request alone restarts where memory does", restartsForMemory)
	t.Run("83 who was bound meanwhile is turned away, and 95 lingers", turnedAway)
	t.Run("49 a device that is gone defers everything", goneDevice)
	t.Run("32 a critical pod that grows evicts its neighbours", criticalGrowth)
	t.Run("29 a node that shrinks turns away who does not fit any more (e)", shrunkenNode)
}

func inRoom(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	return newPod("room", name, smallNode, idle(size{cpu: cpu, memory: "32Mi"}), change...)
}

// leave ends pods and waits until their room is free.
func leave(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		require.NoError(t, client.IgnoreNotFound(env.client.Delete(t.Context(), p, client.GracePeriodSeconds(1))))
	}
	for _, p := range pods {
		eventually(t, p.Name+" is gone", func() error {
			if err := see(t, p); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
}

// beyondCapacity asks for more CPU than the node has: API servers refuse that from 1.36 on, kubelets did before.
func beyondCapacity(t *testing.T, p *corev1.Pod, cpu string) {
	t.Helper()
	generation := p.Generation
	err := ask(t, p, "app", size{cpu: cpu})
	if !serverIs(t, 36) {
		require.NoError(t, err)
		eventually(t, "infeasible", func() error { return is(t, p, corev1.PodResizePending, corev1.PodReasonInfeasible) })
		return
	}
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	require.NotEmpty(t, status.Status().Details.Causes)
	assert.Equal(t, metav1.CauseType("NodeCapacity"), status.Status().Details.Causes[0].Type)
	require.NoError(t, see(t, p))
	assert.Equal(t, generation, p.Generation)
}

func beyondTheNode(t *testing.T) {
	p := runPod(t, inRoom("beyond", "100m"))
	beyondCapacity(t, p, "601m")
	require.NoError(t, ask(t, p, "app", size{cpu: "600m"}))
	eventually(t, "all that the node has", func() error { return settled(t, p) })
	leave(t, p)
}

func overhead(t *testing.T) {
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-overhead"}, Handler: "runc",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
	}
	require.NoError(t, env.client.Create(t.Context(), class))
	p := runPod(t, inRoom("overhead", "100m", func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To(class.Name) }))
	beyondCapacity(t, p, "501m")
	require.NoError(t, ask(t, p, "app", size{cpu: "500m"}))
	eventually(t, "all but the overhead", func() error { return settled(t, p) })
	leave(t, p)
}

func waitsForRoom(t *testing.T) {
	p, neighbour := runPod(t, inRoom("waits", "200m")), runPod(t, inRoom("neighbour", "300m"))
	const why = "Node didn't have enough resource: cpu, requested: 500, used: 300, capacity: 600"
	require.NoError(t, ask(t, p, "app", size{cpu: "500m"}))
	eventually(t, "deferred", func() error { return deferred(t, p, why) })
	assert.Equal(t, "200m", p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String())

	require.NoError(t, ask(t, p, "app", size{cpu: "200m"}))
	eventually(t, "68: what is allocated is taken back to at once", func() error { return settled(t, p) })

	require.NoError(t, ask(t, p, "app", size{cpu: "500m"}))
	eventually(t, "deferred again", func() error { return deferred(t, p, why) })
	crash(t, p)
	assert.NoError(t, hasWeight(p, "app", 200), "8: a crash starts with the old size")
	assert.NoError(t, deferred(t, p, why))
	asked := p.Generation
	leave(t, neighbour)
	eventually(t, "granted, without being asked again", func() error { return settled(t, p) })
	assert.Equal(t, asked, p.Generation)
	assert.NoError(t, hasWeight(p, "app", 500))
	assert.Equal(t, int32(1), p.Status.ContainerStatuses[0].RestartCount, "the crash")
	leave(t, p)
}

// revertWithoutRoom has attune lower a pod, somebody else take the room, and then the lower size do harm.
func revertWithoutRoom(t *testing.T) {
	ctx := t.Context()
	was := size{cpu: "400m", memory: "160Mi", memoryLimit: "320Mi"}
	d, p := started(t, "room", 1, idle(was), func(s *corev1.PodSpec) { onNode(s, smallNode) })
	fit(t, d)
	eventually(t, "lowered and watched", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
	require.NoError(t, hasSpec(t, p, size{cpu: "30m", memory: "65Mi", memoryLimit: "130Mi"}))
	neighbour := runPod(t, inRoom("took-it", "300m"))
	use(ctx, t, p, "memory=200")
	eventually(t, "its old size is asked for in vain", func() error { return deferred(t, p, "cpu") })
	assert.Equal(t, "400m", sizeOf(p.Spec.Containers[0].Resources).cpu)
	eventually(t, "told", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionDegraded)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRevertPending {
			return fmt.Errorf("conditions %v", rec.Status.Conditions)
		}
		return nil
	})
	eventually(t, "by an event, too", func() error { return hasEvent(ctx, "room", p.Name, v1alpha1.EventRevertPending) })
	leave(t, neighbour)
	eventually(t, "put back once there is room", func() error { return told(ctx, d, "Reverted", "oomkill") })
	require.NoError(t, hasSpec(t, p, was))
	assert.LessOrEqual(t, p.Status.ContainerStatuses[0].RestartCount, int32(2), "the kill's")
	scale(ctx, t, d, 0)
	leave(t, p)
}

func allOrNothing(t *testing.T) {
	p := runPod(t, inRoom("whole", "200m"))
	neighbour := runPod(t, newPod("room", "memory-neighbour", smallNode, idle(size{cpu: "10m", memory: "800Mi"})))
	require.NoError(t, ask(t, p, "app", size{cpu: "100m", memory: "500Mi"}))
	eventually(t, "the memory finds no room", func() error { return deferred(t, p, "Node didn't have enough resource: memory") })
	assert.Equal(t, "200m", p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String(), "the CPU is not lowered either")
	assert.NoError(t, hasWeight(p, "app", 200))
	leave(t, p, neighbour)
}

func twoAtOnce(t *testing.T) {
	neighbour := runPod(t, inRoom("neighbour", "300m"))
	p := runPod(t, newPod("room", "two", smallNode, idle(size{cpu: "100m", memory: "64Mi", memoryLimit: "200Mi"}, memory(120))))
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "80Mi"}))
	eventually(t, "the first is tried again and again", func() error { return failed(t, p, "below current usage") })
	first := p.Generation
	require.NoError(t, ask(t, p, "app", size{cpu: "400m"}))
	eventually(t, "the second waits", func() error { return deferred(t, p, "cpu") })
	progress := conditionOf(p, corev1.PodResizeInProgress)
	require.NotNil(t, progress, "both show")
	assert.Equal(t, first, progress.ObservedGeneration)
	assert.Equal(t, "100m", p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String())
	require.NoError(t, ask(t, p, "app", size{cpu: "100m", memoryLimit: "200Mi"}))
	eventually(t, "68: both are taken back", func() error { return settled(t, p) })
	leave(t, p, neighbour)
}

func restartsForMemory(t *testing.T) {
	p := runPod(t, inRoom("restarts", "100m", slowToEnd(6), func(p *corev1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}))
	require.NoError(t, ask(t, p, "app", size{cpu: "90m"}))
	eventually(t, "resized", func() error { return settled(t, p) })
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount, "for CPU")
	require.NoError(t, ask(t, p, "app", size{memory: "40Mi"}))
	eventually(t, "40: in progress while its preStop takes its time", func() error { return is(t, p, corev1.PodResizeInProgress, "") })
	eventually(t, "resized", func() error { return settled(t, p) })
	assert.Equal(t, int32(1), p.Status.ContainerStatuses[0].RestartCount, "for a memory request alone")
	leave(t, p)
}

func turnedAway(t *testing.T) {
	p := runPod(t, inRoom("grows", "200m"))
	require.NoError(t, ask(t, p, "app", size{cpu: "500m"}))
	eventually(t, "grown", func() error { return settled(t, p) })
	// Bound by a scheduler that did not know.
	late := createPod(t, inRoom("late", "200m", func(p *corev1.Pod) { p.Spec.NodeName = nodeName(smallNode) }))
	eventually(t, "turned away", func() error { return endedBadly(t, late) })
	assert.Equal(t, "OutOfcpu", late.Status.Reason)
	require.NoError(t, ask(t, p, "app", size{cpu: "550m"}))
	eventually(t, "who was turned away takes no room", func() error { return settled(t, p) })
	leave(t, p, late)
}

// goneDevice has a pod with a device that its node then says it has not.
func goneDevice(t *testing.T) {
	const device = "e2e.attune.io/device"
	offer := func(ctx context.Context, n string) {
		node := &corev1.Node{}
		require.NoError(t, env.client.Get(ctx, client.ObjectKey{Name: nodeName(smallNode)}, node))
		before := node.DeepCopy()
		node.Status.Capacity[device], node.Status.Allocatable[device] = resource.MustParse(n), resource.MustParse(n)
		require.NoError(t, env.client.Status().Patch(ctx, node, client.MergeFrom(before)))
	}
	offer(t.Context(), "1")
	p := runPod(t, inRoom("device", "100m", func(p *corev1.Pod) {
		one := resource.MustParse("1")
		r := &p.Spec.Containers[0].Resources
		r.Requests[device], r.Limits = one, corev1.ResourceList{device: one}
	}))
	require.NoError(t, ask(t, p, "app", size{cpu: "90m"}))
	eventually(t, "resized", func() error { return settledBut(t, p) })
	kept := p.Spec.Containers[0].Resources
	assert.True(t, kept.Limits.Name(device, resource.DecimalSI).Value() == 1, "its keys are kept: %v", kept)
	offer(t.Context(), "0")
	eventually(t, "nothing goes any more", func() error {
		if err := deferred(t, p, device); err == nil {
			return nil
		}
		cpu := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if settledBut(t, p) == nil {
			require.NoError(t, ask(t, p, "app", size{cpu: fmt.Sprintf("%dm", cpu-1)}))
		}
		return fmt.Errorf("conditions %v", p.Status.Conditions)
	})
	leave(t, p)
}

// settledBut is settled for a pod whose status does not show all of its resources.
func settledBut(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	if err := see(t, p); err != nil {
		return err
	}
	if conditionOf(p, corev1.PodResizePending) != nil || conditionOf(p, corev1.PodResizeInProgress) != nil || p.Status.ObservedGeneration < p.Generation {
		return fmt.Errorf("conditions %v", p.Status.Conditions)
	}
	return nil
}

func criticalGrowth(t *testing.T) {
	neighbour := runPod(t, inRoom("ordinary", "400m"))
	p := runPod(t, inRoom("critical", "100m", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }))
	require.NoError(t, ask(t, p, "app", size{cpu: "500m"}))
	eventually(t, "grown", func() error { return settled(t, p) })
	require.NoError(t, see(t, neighbour))
	disrupted := conditionOf(neighbour, corev1.DisruptionTarget)
	require.NotNil(t, disrupted, "phase %s", neighbour.Status.Phase)
	assert.Equal(t, corev1.PodReasonTerminationByKubelet, disrupted.Reason)
	assert.NotNil(t, neighbour.Status.ContainerStatuses[0].State.Terminated)
	leave(t, p, neighbour)
}

// shrunkenNode starts the kubelet again with less to offer. It may look at the node as the API server has it from
// before, and leave everybody running; from the next start on nobody stays who does not fit.
func shrunkenNode(t *testing.T) {
	older, younger := runPod(t, inRoom("older", "200m")), runPod(t, inRoom("younger", "300m"))
	before := offered(t)
	reserve := func(more string) func(map[string]any) {
		return func(config map[string]any) {
			reserved := config["systemReserved"].(map[string]any)
			reserved["cpu"] = plus(reserved["cpu"], more)
		}
	}
	require.NoError(t, env.cluster.RestartKubelet(t.Context(), smallNode, reserve("200m")))
	eventually(t, "the node offers less", func() error {
		if now := offered(t); now != before-200 {
			return fmt.Errorf("it offers %dm, before %dm", now, before)
		}
		return nil
	})
	require.NoError(t, see(t, younger))
	t.Logf("after the first start the younger one is %s", younger.Status.Phase)
	require.NoError(t, env.cluster.RestartKubelet(t.Context(), smallNode))
	eventually(t, "the younger one is turned away", func() error {
		if err := see(t, younger); err != nil {
			return err
		}
		// Its program ends well when it is told to, which then is what the phase says.
		if phase := younger.Status.Phase; phase != corev1.PodFailed && phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s", phase)
		}
		return nil
	})
	require.NoError(t, see(t, older))
	require.NoError(t, ask(t, older, "app", size{cpu: "150m"}))
	eventually(t, "the older one is lowered as ever", func() error { return settled(t, older) })
	leave(t, older, younger)
	require.NoError(t, env.cluster.RestartKubelet(t.Context(), smallNode, reserve("-200m")))
}

// offered is the small node's allocatable CPU in millicores.
func offered(t *testing.T) int64 {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, env.client.Get(t.Context(), client.ObjectKey{Name: nodeName(smallNode)}, node))
	return node.Status.Allocatable.Cpu().MilliValue()
}
