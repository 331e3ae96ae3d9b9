package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/usage/prometheus"
)

// generous is what the workloads of the hard cases ask for, fitting what their past (25m and 50 MiB)
// makes of it.
var (
	generous = size{cpu: "60m", memory: "160Mi", cpuLimit: "120m", memoryLimit: "320Mi"}
	fitting  = size{cpu: "30m", memory: "65Mi", cpuLimit: "60m", memoryLimit: "130Mi"}
	// fittingCPU and fittingMemory have only the other one to change.
	fittingCPU    = size{cpu: fitting.cpu, cpuLimit: fitting.cpuLimit, memory: generous.memory, memoryLimit: generous.memoryLimit}
	fittingMemory = size{cpu: generous.cpu, cpuLimit: generous.cpuLimit, memory: fitting.memory, memoryLimit: fitting.memoryLimit}
)

func hardHistories() []history {
	var all []history
	for _, of := range []string{
		"held/web", "loop/web", "restarting/web", "sidecar/web", "managers/web", "huge/web", "volume/web", "critical/web",
		"shaky/web", "away/web", "away/late", "child/web", "boost/web", "room/web", "undo/web", "undo/neighbour", "birth/web", "shared/shrinks", "shared/grows", "barred/web",
		"canary/waiting", "canary/promoted", "one-shot/web", "guardrail-breaks/web", "guardrail-holds/web",
		"scaled/kept", "scaled/moved", "scaled/killed", "weights/web",
	} {
		ns, name, _ := strings.Cut(of, "/")
		all = append(all, history{ns, name + "-6d4f8c7b9d-x2x7k", "app", 0.025, 50})
	}
	return append(all, history{"sidecar", "web-6d4f8c7b9d-x2x7k", "proxy", 0.025, 50})
}

// fit has a workload sized as its past says, at once.
func fit(t *testing.T, d *appsv1.Deployment, change ...func(*v1alpha1.AttunePolicySpec)) *v1alpha1.AttunePolicy {
	t.Helper()
	return policyFor(t.Context(), t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = ptr.To(resource.MustParse(fitting.cpu)), ptr.To(resource.MustParse(fitting.memory))
		for _, f := range change {
			f(s)
		}
	})
}

// started makes a Deployment of one pod and returns both, the pod ready.
func started(t *testing.T, ns string, replicas int32, c corev1.Container, change ...func(*corev1.PodSpec)) (*appsv1.Deployment, *corev1.Pod) {
	t.Helper()
	d := newDeployment(ns, "web", replicas, c)
	for _, f := range change {
		f(&d.Spec.Template.Spec)
	}
	start(t, d)
	return d, &pods(t.Context(), t, d)[0]
}

// start makes a Deployment and waits until its pods are ready.
func start(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	createFor(t, d)
	ready(t.Context(), t, d)
}

// createFor makes a Deployment, and ends its pods with the test: there are many of them, and each costs.
func createFor(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	require.NoError(t, env.client.Create(t.Context(), d))
	t.Cleanup(func() {
		if !t.Failed() {
			err := env.client.Delete(context.WithoutCancel(t.Context()), d, client.PropagationPolicy(metav1.DeletePropagationBackground))
			require.NoError(t, client.IgnoreNotFound(err))
		}
	})
}

// hasSpec: the pod's first container asks for a size, and the kubelet has carried that out.
func hasSpec(t *testing.T, p *corev1.Pod, want size) error {
	t.Helper()
	if err := settled(t, p); err != nil {
		return err
	}
	if got := sizeOf(p.Spec.Containers[0].Resources); got != want {
		return fmt.Errorf("it has %v, want %v", got, want)
	}
	return nil
}

// recorded: the workload has an open record in a phase.
func recorded(ctx context.Context, d *appsv1.Deployment, phase v1alpha1.RecordPhase) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if len(rec.Status.Records) == 0 || rec.Status.Records[0].Phase != phase {
		return fmt.Errorf("records %v, history %v, conditions %v", rec.Status.Records, rec.Status.History, rec.Status.Conditions)
	}
	return nil
}

// told: no record is open, and the newest row of the history says so.
func told(ctx context.Context, d *appsv1.Deployment, result, reason string) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	h := rec.Status.History
	if len(rec.Status.Records) > 0 || len(h) == 0 || h[0].Result != result || h[0].Reason != reason {
		return fmt.Errorf("records %v, history %v, conditions %v", rec.Status.Records, h, rec.Status.Conditions)
	}
	return nil
}

// blocked: the workload's recommendation says why nothing is done.
func blocked(ctx context.Context, d *appsv1.Deployment, reason string) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
		return fmt.Errorf("records %v, history %v, conditions %v", rec.Status.Records, rec.Status.History, rec.Status.Conditions)
	}
	return nil
}

// TestMemoryInUseKeepsALimit (34): a container holds more than its new limit would be, and all of it is page cache, which
// is not in its working set and so not in what it is recommended. The operator asks what it holds before it asks for
// anything: the request goes down, the limit stays and is not tried.
func TestMemoryInUseKeepsALimit(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "held", true)
	d, p := started(t, "held", 1, idle(fittingCPU), func(s *corev1.PodSpec) { withFile(s, "", "") })
	use(ctx, t, p, "file=200")
	eventually(t, "held", func() error { return holds(p, 200) })
	refill(t, p, 200)
	eventually(t, "measured", func() error { return measured(ctx, p, 200*mebibyte) })
	fit(t, d)
	want := fittingCPU
	want.memory = fitting.memory
	eventually(t, "the request is lowered without its limit", func() error { return hasSpec(t, p, want) })
	eventually(t, "kept", func() error { return told(ctx, d, "Success", "") })
	eventually(t, "and says why", func() error { return blocked(ctx, d, resize.ReasonMemoryInUse) })
	require.NoError(t, see(t, p))
	assert.Equal(t, int64(2), p.Generation, "the limit was not tried")
	assert.NoError(t, hasLimit(p, "app", 320*mebibyte))
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

// refill has a pod write its file again, as long as the test goes on, whenever the machine took its page cache: one that
// is short of memory does.
func refill(t *testing.T, p *corev1.Pod, mib int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	url, over := fmt.Sprintf("http://%s:8080/set?file=%d", p.Status.PodIP, mib), make(chan struct{})
	pod := p.DeepCopy()
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			if holds(pod, mib) != nil {
				if request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err == nil {
					if response, err := env.cluster.HTTPClient().Do(request); err == nil {
						response.Body.Close()
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
}

// measured: Prometheus knows that a pod's container holds so much memory, page cache included.
func measured(ctx context.Context, p *corev1.Pod, bytes float64) error {
	got, err := env.cluster.Query(ctx, "max("+prometheus.Everything.Held(p.Namespace, []string{p.Name}, time.Minute)+")")
	if err == nil && got < bytes {
		err = fmt.Errorf("%g bytes are known of", got)
	}
	return err
}

// TestCrashLoopIsHealed (10): a container is killed over and over, without any resize before. What it is given
// while it waits to be started again does not reach its pod's own cgroup; attune sees to that once it runs, and
// takes the pod's limit for the one that killed.
func TestCrashLoopIsHealed(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "loop", true)
	d, p := started(t, "loop", 1, idle(size{cpu: "30m", memory: "64Mi", memoryLimit: "64Mi"}))
	first := p.UID
	for _, rest := range []string{"", "back-off 10s", "back-off 20s"} {
		use(ctx, t, p, "memory=70")
		eventually(t, "killed", func() error { return rests(t, p, rest) })
		if rest != "back-off 20s" {
			eventually(t, "started again", func() error { return is(t, p, corev1.PodReady, "") })
		}
	}
	fit(t, d, func(s *v1alpha1.AttunePolicySpec) { s.Memory.MaxAllowed = ptr.To(resource.MustParse("256Mi")) })
	eventually(t, "the pod and its container have more", func() error {
		if err := hasMoreMemory(t, p, 83); err != nil {
			return err
		}
		return is(t, p, corev1.PodReady, "")
	})
	kills := p.Status.ContainerStatuses[0].RestartCount
	use(ctx, t, p, "memory=70")
	eventually(t, "it has what it needs", func() error { return holds(p, 70) })
	require.NoError(t, is(t, p, corev1.PodReady, ""))
	assert.Equal(t, kills, p.Status.ContainerStatuses[0].RestartCount, "and lives")
	assert.Equal(t, first, p.UID)
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	for _, f := range rec.Status.Floors {
		assert.Negative(t, f.Amount.Cmp(resource.MustParse("90Mi")), "1.3 times 64 MiB is 83 MiB: %s of %s", f.Amount.String(), f.Evidence)
	}
	t.Logf("lives at %s after %d resizes", p.Spec.Containers[0].Resources.Limits.Memory(), p.Generation-1)
}

// hasMoreMemory: the cgroups of a pod and of its container have the same memory limit, above so many MiB.
func hasMoreMemory(t *testing.T, p *corev1.Pod, mib int64) error {
	t.Helper()
	if err := settled(t, p); err != nil {
		return err
	}
	limit := p.Spec.Containers[0].Resources.Limits.Memory().Value()
	if limit <= mib*mebibyte {
		return fmt.Errorf("it has %d", limit)
	}
	return errors.Join(hasLimit(p, "app", limit/4096*4096), podHasMemory(p, limit/4096*4096))
}

// TestRestartingResize (39, 40): where the resizePolicy of memory restarts the container, one pod has its
// turn while the other runs on; the restart is not taken for a crash, however long its preStop takes.
func TestRestartingResize(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "restarting", true)
	c := idle(fittingCPU)
	c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	d, _ := started(t, "restarting", 2, c, func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To(int64(30)) })
	fit(t, d)
	eventually(t, "one pod is watched, and the other one untouched", func() error {
		if got := restarts(t, d); !slices.Equal(got, []int{1, 1}) {
			return fmt.Errorf("untouched and restarted: %v", got)
		}
		return recorded(ctx, d, v1alpha1.RecordWatching)
	})
	eventually(t, "the other one follows after a clean watch", func() error { return succeeded(ctx, d, 2) })
	assert.Equal(t, []int{0, 2}, restarts(t, d))
	for _, p := range pods(ctx, t, d) {
		assert.Equal(t, fitting, sizeOf(*p.Status.ContainerStatuses[0].Resources))
	}
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.Empty(t, rec.Status.Floors, "a restart that was asked for teaches nothing")
	assert.Nil(t, rec.Status.Backoff)
}

// restarts returns how many of a workload's pods are untouched, and how many restarted once by one resize.
func restarts(t *testing.T, d *appsv1.Deployment) []int {
	t.Helper()
	counts := []int{0, 0}
	for _, p := range pods(t.Context(), t, d) {
		if n := p.Status.ContainerStatuses[0].RestartCount; n <= 1 && p.Generation == int64(n)+1 {
			counts[n]++
		}
	}
	return counts
}

// TestSidecarIsSized (41, 20, 42): a native sidecar is sized with its pod in one patch, within its own bound; an init container
// that asks for more than both is left alone; and who is born later is born with all that was kept, and
// left as it was born.
func TestSidecarIsSized(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "sidecar", true)
	require.NoError(t, env.client.Create(ctx, quota("sidecar", corev1.ResourceRequestsCPU, "2")))
	proxy := idle(fittingMemory, corev1.EnvVar{Name: "PORT", Value: "8081"})
	proxy.Name, proxy.RestartPolicy, proxy.ReadinessProbe = "proxy", ptr.To(corev1.ContainerRestartPolicyAlways), nil
	migrate := idle(size{cpu: "150m", memory: "16Mi", cpuLimit: "150m", memoryLimit: "64Mi"})
	migrate.Name, migrate.Args, migrate.ReadinessProbe = "migrate", []string{"hold-memory"}, nil // ends when it is told no more
	d, p := started(t, "sidecar", 1, idle(fittingMemory), func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{proxy, migrate} })
	eventually(t, "charged as the init container and its sidecar", func() error { return used(t, "sidecar", corev1.ResourceRequestsCPU, "210m") })
	bounded := size{cpu: "35m", cpuLimit: "70m", memory: fitting.memory, memoryLimit: fitting.memoryLimit}
	fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
		cpu := &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MinAllowed: ptr.To(resource.MustParse("35m")), MaxAllowed: ptr.To(resource.MustParse("35m"))}}
		s.ContainerPolicies = []v1alpha1.ContainerPolicy{{ContainerName: "proxy", CPU: cpu}}
	})
	eventually(t, "both resized", func() error {
		if err := hasSpec(t, p, fitting); err != nil {
			return err
		}
		if status := p.Status.InitContainerStatuses[0]; status.Resources == nil || sizeOf(*status.Resources) != bounded {
			return fmt.Errorf("the sidecar has %v", status.Resources)
		}
		return nil
	})
	assert.Equal(t, int64(2), p.Generation, "in one patch")
	assert.Equal(t, migrate.Resources, p.Spec.InitContainers[1].Resources)
	assert.NoError(t, hasQuota(p, "proxy", 7000))
	eventually(t, "42: still charged for the init container", func() error { return used(t, "sidecar", corev1.ResourceRequestsCPU, "185m") })

	eventually(t, "kept", func() error { return told(ctx, d, "Success", "") })
	eventually(t, "the webhook knows", func() error { return createdWith(ctx, d, fitting) })
	require.NoError(t, env.client.Delete(ctx, p))
	eventually(t, "replaced, and at its target", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		all := pods(ctx, t, d)
		if len(all) != 1 || all[0].UID == p.UID || is(t, &all[0], corev1.PodReady, "") != nil || *rec.Status.Pods != (v1alpha1.PodCounts{Total: 1, AtTarget: 1}) {
			return fmt.Errorf("%d pods, %v", len(all), rec.Status.Pods)
		}
		return nil
	})
	born := pods(ctx, t, d)[0]
	assert.Equal(t, fitting, sizeOf(born.Spec.Containers[0].Resources))
	assert.Equal(t, bounded, sizeOf(born.Spec.InitContainers[0].Resources))
	assert.Equal(t, migrate.Resources, born.Spec.InitContainers[1].Resources)
	assert.Equal(t, int64(1), born.Generation, "20: the controller has nothing to change about what the webhook gave it")
}

// TestStaticManagersRefuse (43): the node's CPU manager will not have a Guaranteed pod's CPU changed. That
// is taken back at once; the pod is neither restarted nor evicted.
func TestStaticManagersRefuse(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "managers", true)
	was := size{cpu: "60m", memory: "65Mi", cpuLimit: "60m", memoryLimit: "65Mi"}
	d, p := started(t, "managers", 1, idle(was), func(s *corev1.PodSpec) { onNode(s, staticNode) })
	require.Equal(t, corev1.PodQOSGuaranteed, p.Status.QOSClass)
	fit(t, d)
	eventually(t, "tried and taken back", func() error { return told(ctx, d, "Withdrawn", "Infeasible") })
	require.NoError(t, hasSpec(t, p, was))
	assert.Equal(t, int64(3), p.Generation)
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

// TestUnschedulablePodShrinks (5): a pod that fits nowhere is lowered until it does.
func TestUnschedulablePodShrinks(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "huge", true)
	d := newDeployment("huge", "web", 1, idle(size{cpu: "30", memory: "160Mi", cpuLimit: "60", memoryLimit: "320Mi"}))
	require.NoError(t, env.client.Create(ctx, d))
	var p corev1.Pod
	eventually(t, "unschedulable", func() error {
		all := pods(ctx, t, d)
		if len(all) == 0 {
			return fmt.Errorf("no pod")
		}
		p = all[0]
		if c := conditionOf(&p, corev1.PodScheduled); c == nil || c.Reason != corev1.PodReasonUnschedulable {
			return fmt.Errorf("conditions %v", p.Status.Conditions)
		}
		return nil
	})
	fit(t, d)
	ready(ctx, t, d)
	now := pods(ctx, t, d)[0]
	assert.Equal(t, p.UID, now.UID)
	assert.Equal(t, fitting.cpu, sizeOf(now.Spec.Containers[0].Resources).cpu)
}

// TestMemoryVolumeHoldsTheLimit (91): what is in a memory volume counts as usage and cannot be dropped, so
// the limit stays, and the rest goes on.
func TestMemoryVolumeHoldsTheLimit(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "volume", true)
	d, p := started(t, "volume", 1, idle(generous), func(s *corev1.PodSpec) { withFile(s, corev1.StorageMediumMemory, "") })
	use(ctx, t, p, "file=150")
	eventually(t, "held", func() error { return holds(p, 150) })
	fit(t, d)
	want := fitting
	want.memoryLimit = generous.memoryLimit
	eventually(t, "lowered but for the memory limit", func() error { return hasSpec(t, p, want) })
	assert.Equal(t, int64(2), p.Generation, "the limit was never asked for")
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

// TestCriticalPodIsNotGrown (32): to fit it, its kubelet would evict others.
func TestCriticalPodIsNotGrown(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "critical", true)
	was := size{cpu: "15m", memory: "32Mi"}
	d, p := started(t, "critical", 1, idle(was), func(s *corev1.PodSpec) { s.PriorityClassName = "system-cluster-critical" })
	fit(t, d)
	eventually(t, "refused", func() error { return blocked(ctx, d, "CriticalPriority") })
	require.NoError(t, hasSpec(t, p, was))
	assert.Equal(t, int64(1), p.Generation)
}

// TestChildIsKilled (37): the kernel kills a process of a container that lives on. Only a counter tells of
// it; at the end of the watch the pod is put back.
func TestChildIsKilled(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "child", true)
	d, p := started(t, "child", 1, idle(fittingCPU, corev1.EnvVar{Name: "CHILD", Value: "1"}))
	fit(t, d)
	eventually(t, "watched", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
	use(ctx, t, p, "memory=200")
	eventually(t, "a child is killed", func() error { return killCounted(p) })
	use(ctx, t, p, "memory=10")
	eventually(t, "put back", func() error { return told(ctx, d, "Reverted", "oomkill") })
	require.NoError(t, hasSpec(t, p, fittingCPU))
	// With cgroup v2 the kubelet has the kernel kill all of a container (memory.oom.group).
	restarts := map[int]int32{1: 0, 2: 1}[env.cluster.CgroupVersion(p)]
	assert.Equal(t, restarts, p.Status.ContainerStatuses[0].RestartCount)
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	require.Len(t, rec.Status.Floors, 1)
	assert.Positive(t, rec.Status.Floors[0].Amount.Cmp(resource.MustParse("168Mi")), "1.3 times 130 MiB is 169 MiB: %s", rec.Status.Floors[0].Amount.String())
}

// TestQuotaIsFreedFirst (56): one workload can only grow when another one has shrunk, and the quota counts
// that when the kubelet has done it.
func TestQuotaIsFreedFirst(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "shared", true)
	require.NoError(t, env.client.Create(ctx, quota("shared", corev1.ResourceRequestsCPU, "80m")))
	grows := newDeployment("shared", "grows", 1, idle(size{cpu: "15m", memory: "65Mi"}))
	shrinks := newDeployment("shared", "shrinks", 1, idle(size{cpu: "60m", memory: "65Mi"}))
	start(t, grows)
	start(t, shrinks)
	small, large := pods(ctx, t, grows)[0], pods(ctx, t, shrinks)[0]
	fit(t, grows)
	eventually(t, "no room in the quota", func() error { return blocked(ctx, grows, "Quota") })
	assert.NoError(t, hasSpec(t, &small, size{cpu: "15m", memory: "65Mi"}))
	fit(t, shrinks)
	eventually(t, "shrunk", func() error { return hasSpec(t, &large, size{cpu: "30m", memory: "65Mi"}) })
	eventually(t, "grown", func() error { return hasSpec(t, &small, size{cpu: "30m", memory: "65Mi"}) })
	failures, err := rowsOf(ctx, grows, "Failed")
	require.NoError(t, err)
	assert.Empty(t, failures, "the API server was never asked in vain")
	assert.Equal(t, int64(2), small.Generation, "asked for once")
}

func nodeIs(t *testing.T, node int, kind corev1.NodeConditionType, want corev1.ConditionStatus) error {
	t.Helper()
	n := &corev1.Node{}
	if err := env.client.Get(t.Context(), client.ObjectKey{Name: nodeName(node)}, n); err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == kind && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", n.Status.Conditions)
}

// TestShakyKubelet (12): the kubelet starts again, twice, while a pod is watched. The watch ends as it would
// have, with the container that it began with; the status that it writes anew is no harm.
func TestShakyKubelet(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "shaky", true)
	d, p := started(t, "shaky", 1, idle(fittingMemory), func(s *corev1.PodSpec) { onNode(s, shakyNode) })
	byHand := runPod(t, newPod("shaky", "by-hand", shakyNode, idle(size{cpu: "50m", memory: "16Mi"})))
	fit(t, d)
	eventually(t, "watched", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
	container := p.Status.ContainerStatuses[0].ContainerID
	for _, cpu := range []string{"40m", "30m"} {
		require.NoError(t, env.cluster.RestartKubelet(ctx, shakyNode))
		require.NoError(t, see(t, byHand))
		require.NoError(t, ask(t, byHand, "app", size{cpu: cpu}))
		eventually(t, "the kubelet is at work again", func() error { return settled(t, byHand) })
	}
	eventually(t, "kept after a clean watch", func() error { return told(ctx, d, "Success", "") })
	require.NoError(t, hasSpec(t, p, fitting))
	assert.Equal(t, container, p.Status.ContainerStatuses[0].ContainerID)
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

// TestKubeletIsAway (11): the kubelet of a node that still counts as ready does not see a resize: what was
// asked for is taken back at its deadline. Once the node counts as away nothing is sent there. When the
// kubelet is back, it finds the old size.
func TestKubeletIsAway(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "away", true)
	there := func(s *corev1.PodSpec) { onNode(s, awayNode) }
	d, p := started(t, "away", 1, idle(fittingMemory), there)
	late := newDeployment("away", "late", 1, idle(fittingMemory))
	there(&late.Spec.Template.Spec)
	start(t, late)
	waiting := pods(ctx, t, late)[0]

	require.NoError(t, env.cluster.StopKubelet(ctx, awayNode))
	t.Cleanup(func() { _ = env.cluster.StartKubelet(context.WithoutCancel(ctx), awayNode) }) // it may run by then
	end := heartbeats(t, awayNode)
	fit(t, d)
	asked := func() error {
		if err := see(t, p); err != nil {
			return err
		}
		if sizeOf(p.Spec.Containers[0].Resources) != fitting {
			return fmt.Errorf("spec %v", p.Spec.Containers[0].Resources)
		}
		return nil
	}
	eventually(t, "asked for", asked)
	assert.Less(t, p.Status.ObservedGeneration, p.Generation)
	eventually(t, "taken back", func() error { return recorded(ctx, d, v1alpha1.RecordWithdrawing) })
	eventually(t, "in the spec", func() error {
		if err := asked(); err == nil {
			return fmt.Errorf("it still asks for less")
		}
		return nil
	})
	assert.Equal(t, fittingMemory, sizeOf(p.Spec.Containers[0].Resources))

	end()
	eventually(t, "the node counts as away", func() error { return nodeIs(t, awayNode, corev1.NodeReady, corev1.ConditionUnknown) })
	fit(t, late)
	eventually(t, "nothing is sent there", func() error { return blocked(ctx, late, "NodeNotReady") })
	require.NoError(t, see(t, &waiting))
	assert.Equal(t, int64(1), waiting.Generation)
	require.NoError(t, recorded(ctx, d, v1alpha1.RecordWithdrawing), "nobody has seen that it was taken back")

	require.NoError(t, env.cluster.StartKubelet(ctx, awayNode))
	eventually(t, "closed", func() error { return told(ctx, d, "Withdrawn", "Unobserved") })
	require.NoError(t, hasSpec(t, p, fittingMemory))
	eventually(t, "resized once the node is back", func() error { return hasSpec(t, &waiting, fitting) })
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

// heartbeats renews a node's lease in its kubelet's place, until the end is called.
func heartbeats(t *testing.T, node int) (end func()) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: nodeName(node)}}
			now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
			patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now)))
			if err := env.client.Patch(t.Context(), lease, patch); err != nil && t.Context().Err() == nil {
				t.Errorf("renewing the lease of %s: %v", nodeName(node), err)
			}
			select {
			case <-stop:
				return
			case <-t.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
