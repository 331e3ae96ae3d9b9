package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const probes = "kubelet"

// TestKubelet is what attune takes for granted of a kubelet and its API server, seen on real ones: a
// version that differs fails here. The numbers are those of the hard cases, the letters those of the
// questions that docs/architecture/in-place-resize.md answers.
func TestKubelet(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, probes, false)
	atOnce := make(chan struct{}, 2) // a story counts as one: its parts must not crowd the others out
	for name, probe := range map[string]func(*testing.T){
		"3 a pod that is being deleted takes a resize, which nobody wants":          deletedPod,
		"4 a pod that has ended takes a resize, and nothing ever answers":           endedPod,
		"6 a resize before the container has started: it starts with the new size":  notStartedPod,
		"9 a limit that could not be lowered is what a crash starts with (f)":       crashAtTheLowerLimit,
		"10 a resize ends the wait of a crash loop, and misses its pod (i)":         crashLoop,
		"31 the CPU of a patch waits for its memory (g)":                            cpuWaitsForMemory,
		"36 page cache counts as usage":                                             pageCache,
		"43 static managers: Guaranteed pods are infeasible (a: no quota is asked)": staticManagers,
		"46 memory of the pod's own, lowered alone, is not checked by kubelets (c)": podLevelMemory,
		"47 a static pod is refused":                                                staticPod,
		"48 a host port is no hindrance":                                            hostPort,
		"29 a label that went from the node defers even a lowering":                 labelDrift,
		"2 another pod's uid is refused (d)":                                        anotherUID,
		"50 resource claims are refused, up to 1.36":                                resourceClaims,
		"54 a LimitRange that comes later adds its defaults to a resize (b)":        lateDefaults,
		"60 admission policies on pods do not see a resize":                         admissionPolicies,
		"77 amounts that the kernel rounds show as asked for":                       tinyAmounts,
		"91 a memory volume is as large as it was mounted, and counts as usage":     memoryVolume,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			probe(t)
		})
	}
}

// idle is a container that uses next to nothing.
func idle(s size, env ...corev1.EnvVar) corev1.Container {
	c := app("app", s, env...)
	c.Env = append([]corev1.EnvVar{{Name: "CPU_MILLICORES", Value: "0"}, {Name: "MEMORY_MIB", Value: "1"}}, env...)
	return c
}

func memory(mib int) corev1.EnvVar {
	return corev1.EnvVar{Name: "MEMORY_MIB", Value: strconv.Itoa(mib)}
}

func deletedPod(t *testing.T) {
	p := newPod(probes, "deleted", 1, idle(size{cpu: "10m", memory: "16Mi"}), slowToEnd(60))
	runPod(t, p)
	require.NoError(t, env.client.Delete(t.Context(), p, client.GracePeriodSeconds(90)))
	require.NoError(t, see(t, p))
	require.NotNil(t, p.DeletionTimestamp)
	require.NoError(t, ask(t, p, "app", size{cpu: "20m"}))
	assert.Equal(t, "20m", sizeOf(p.Spec.Containers[0].Resources).cpu)
}

// slowToEnd has a container take so many seconds before it is ended.
func slowToEnd(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(seconds + 30)
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	}
}

func endedPod(t *testing.T) {
	p := createPod(t, newPod(probes, "ended", 1, idle(size{cpu: "10m", memory: "16Mi"}, corev1.EnvVar{Name: "MEMORY_MIB", Value: "none"}),
		func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
	eventually(t, "ended", func() error { return endedBadly(t, p) })
	require.NoError(t, ask(t, p, "app", size{cpu: "20m"}))
	// Another pod's resize on the same node comes and goes: the kubelet has looked.
	other := runPod(t, newPod(probes, "not-ended", 1, idle(size{cpu: "10m", memory: "16Mi"})))
	require.NoError(t, ask(t, other, "app", size{cpu: "20m"}))
	eventually(t, "another pod's resize", func() error { return settled(t, other) })
	require.NoError(t, see(t, p))
	assert.Nil(t, conditionOf(p, corev1.PodResizePending))
	assert.Nil(t, conditionOf(p, corev1.PodResizeInProgress))
	assert.Equal(t, "10m", p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String())
	t.Logf("generation %d, observed %d", p.Generation, p.Status.ObservedGeneration)
}

func notStartedPod(t *testing.T) {
	first := idle(size{cpu: "10m", memory: "16Mi"})
	first.Name, first.ReadinessProbe = "first", nil
	p := createPod(t, newPod(probes, "not-started", 1, idle(size{cpu: "50m", memory: "32Mi"}),
		func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{first} }))
	eventually(t, "the init container runs", func() error {
		if err := see(t, p); err != nil {
			return err
		}
		if s := p.Status.InitContainerStatuses; len(s) == 0 || s[0].State.Running == nil {
			return fmt.Errorf("%v", s)
		}
		return nil
	})
	assert.Nil(t, p.Status.ContainerStatuses[0].Resources, "of a container that has not started")
	assert.Nil(t, p.Status.ContainerStatuses[0].AllocatedResources)
	require.NoError(t, ask(t, p, "app", size{cpu: "100m"}))
	eventually(t, "the kubelet has seen it", func() error {
		if err := see(t, p); err != nil {
			return err
		}
		if p.Status.ObservedGeneration < p.Generation || conditionOf(p, corev1.PodResizePending) != nil {
			return fmt.Errorf("conditions %v", p.Status.Conditions)
		}
		return nil
	})
	require.NoError(t, syscall.Kill(mainProcess(t, p, "first"), syscall.SIGTERM))
	eventually(t, "ready", func() error { return is(t, p, corev1.PodReady, "") })
	assert.NoError(t, hasWeight(p, "app", 100))
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

func crashAtTheLowerLimit(t *testing.T) {
	p := runPod(t, newPod(probes, "crash", 1, idle(size{cpu: "10m", memory: "64Mi", memoryLimit: "300Mi"}, memory(150))))
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "100Mi"}))
	eventually(t, "the kubelet refuses", func() error { return failed(t, p, "below current usage") })
	assert.Equal(t, "300Mi", p.Status.ContainerStatuses[0].Resources.Limits.Memory().String(), "what it has")
	assert.NoError(t, hasLimit(p, "app", 300*mebibyte))
	crashed := p.Status.ContainerStatuses[0].ContainerID
	require.NoError(t, syscall.Kill(mainProcess(t, p, "app"), syscall.SIGKILL))
	eventually(t, "killed again, at the lower limit", func() error {
		if err := see(t, p); err != nil {
			return err
		}
		status := p.Status.ContainerStatuses[0]
		for _, end := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if end != nil && end.Reason == "OOMKilled" && end.ContainerID != crashed {
				return nil
			}
		}
		return fmt.Errorf("state %v, last %v", status.State, status.LastTerminationState)
	})
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "300Mi"}))
	eventually(t, "healed by the old limit", func() error { return is(t, p, corev1.PodReady, "") })
	eventually(t, "and settled", func() error { return settled(t, p) })
}

// crashLoop resizes a container while it waits to be started again.
func crashLoop(t *testing.T) {
	p := runPod(t, newPod(probes, "loop", 1, idle(size{cpu: "10m", memory: "32Mi", memoryLimit: "64Mi"})))
	for _, rest := range []string{"", "back-off 10s", "back-off 20s", "back-off 40s"} {
		use(t.Context(), t, p, "memory=100")
		eventually(t, "killed", func() error { return rests(t, p, rest) })
		if rest != "back-off 40s" {
			eventually(t, "started again", func() error { return is(t, p, corev1.PodReady, "") })
		}
	}
	ended := p.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "200Mi"}))
	eventually(t, "ready", func() error { return is(t, p, corev1.PodReady, "") })
	rested := p.Status.ContainerStatuses[0].State.Running.StartedAt.Sub(ended.Time)
	assert.Less(t, rested, 40*time.Second, "its back-off")
	eventually(t, "settled", func() error { return settled(t, p) })

	// (i) Everything says that it has 200Mi; but its pod's own cgroup, which bounds it as well, has not followed.
	assert.NoError(t, hasLimit(p, "app", 200*mebibyte))
	if kubeletsAre(t, 37) {
		assert.NoError(t, podHasMemory(p, 200*mebibyte), "from 1.37 on it follows")
		use(t.Context(), t, p, "memory=100")
		eventually(t, "and it lives", func() error { return holds(p, 100) })
		return
	}
	assert.NoError(t, podHasMemory(p, 64*mebibyte))
	if kubeletsAre(t, 36) {
		assert.Equal(t, "64Mi", p.Status.Resources.Limits.Memory().String(), "what the status says of the pod as a whole")
	}
	use(t.Context(), t, p, "memory=100")
	eventually(t, "killed at the old limit", func() error { return rests(t, p, "") })
	eventually(t, "started again", func() error { return is(t, p, corev1.PodReady, "") })

	require.NoError(t, ask(t, p, "app", size{memoryLimit: "201Mi"}))
	eventually(t, "any change of memory while it runs mends that", func() error { return podHasMemory(p, 201*mebibyte) })
	use(t.Context(), t, p, "memory=100")
	eventually(t, "and it lives", func() error { return holds(p, 100) })
}

// rests: a pod's container was OOM-killed and has not started yet, for a reason where one is given. A process that is
// killed as soon as it has started may end with the reason Error: containerd then hears of the kill after the exit.
func rests(t *testing.T, p *corev1.Pod, why string) error {
	t.Helper()
	before := p.Status.ContainerStatuses[0].ContainerID
	seen := p.DeepCopy()
	if err := see(t, seen); err != nil {
		return err
	}
	status := seen.Status.ContainerStatuses[0]
	last := status.LastTerminationState.Terminated
	killed := last != nil && last.ExitCode == 128+int32(syscall.SIGKILL) && last.ContainerID == before
	if !killed || why != "" && (status.State.Waiting == nil || !strings.Contains(status.State.Waiting.Message, why)) {
		return fmt.Errorf("state %v, last %v", status.State, last)
	}
	*p = *seen
	return nil
}

// podHasMemory compares the memory limit of a pod's own cgroup.
func podHasMemory(p *corev1.Pod, limit int64) error {
	grant, err := env.cluster.PodGrant(p)
	if err == nil && grant.Memory != limit {
		err = fmt.Errorf("the pod's cgroup has %d, want %d", grant.Memory, limit)
	}
	return err
}

func cpuWaitsForMemory(t *testing.T) {
	p := runPod(t, newPod(probes, "half", 1, idle(size{cpu: "10m", cpuLimit: "100m", memory: "64Mi", memoryLimit: "300Mi"}, memory(150))))
	require.NoError(t, ask(t, p, "app", size{cpu: "20m", cpuLimit: "200m", memoryLimit: "100Mi"}))
	eventually(t, "the kubelet refuses", func() error { return failed(t, p, "below current usage") })
	assert.Equal(t, "20m", p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String(), "allocated")
	has := sizeOf(*p.Status.ContainerStatuses[0].Resources)
	assert.Equal(t, size{cpu: "10m", cpuLimit: "100m", memory: "64Mi", memoryLimit: "300Mi"}, has, "carried out")
	assert.NoError(t, hasQuota(p, "app", 10_000))
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "300Mi"}))
	eventually(t, "the CPU follows once the memory is given up", func() error { return settled(t, p) })
	assert.NoError(t, hasQuota(p, "app", 20_000))
}

// onDisk gives a container a place for its file.
func onDisk(medium corev1.StorageMedium, limit string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { withFile(&p.Spec, medium, limit) }
}

func withFile(spec *corev1.PodSpec, medium corev1.StorageMedium, limit string) {
	dir := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		dir.SizeLimit = ptr.To(resource.MustParse(limit))
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "file", VolumeSource: corev1.VolumeSource{EmptyDir: dir}})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "file", MountPath: "/file"})
	c.Env = append(c.Env, corev1.EnvVar{Name: "FILE_DIR", Value: "/file"})
}

func pageCache(t *testing.T) {
	p := runPod(t, newPod(probes, "cached", 1, idle(size{cpu: "10m", memory: "32Mi", memoryLimit: "512Mi"}), onDisk("", "")))
	use(t.Context(), t, p, "file=300") // a machine with little free memory drops some of it
	eventually(t, "cached", func() error { return holds(p, 200) })
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "150Mi"}))
	eventually(t, "refused, though the kernel could drop it all", func() error { return failed(t, p, "below current usage") })
	assert.NoError(t, hasLimit(p, "app", 512*mebibyte))
	own, err := env.cluster.OwnMemory(p, "app")
	require.NoError(t, err)
	assert.Less(t, own, int64(50*mebibyte), "what the process itself holds")
	use(t.Context(), t, p, "file=1")
	eventually(t, "done once the file is gone", func() error { return settled(t, p) })
	assert.NoError(t, hasLimit(p, "app", 150*mebibyte))
}

func staticManagers(t *testing.T) {
	const ns = "static"
	namespace(t.Context(), t, ns, false)
	require.NoError(t, env.client.Create(t.Context(), quota(ns, corev1.ResourceRequestsCPU, "150m")))
	eventually(t, "the quota is counted", func() error { return used(t, ns, corev1.ResourceRequestsCPU, "0") })
	p := runPod(t, newPod(ns, "guaranteed", staticNode, idle(size{cpu: "100m", memory: "64Mi", cpuLimit: "100m", memoryLimit: "64Mi"})))
	require.NoError(t, ask(t, p, "app", size{cpu: "120m", cpuLimit: "120m"}))
	eventually(t, "CPU is infeasible", func() error { return infeasible(t, p, `CPU Manager policy "static"`) })

	// (a) While it is marked so, the quota does not see what is asked for.
	require.NoError(t, ask(t, p, "app", size{cpu: "500m", cpuLimit: "500m"}), "more than the quota")
	eventually(t, "still infeasible", func() error { return infeasible(t, p, `CPU Manager policy "static"`) })
	generation := p.Generation
	require.NoError(t, ask(t, p, "app", size{cpu: "500m", cpuLimit: "500m"}))
	assert.Equal(t, generation, p.Generation, "27: what changes nothing is no new resize, so nothing is tried again")

	require.NoError(t, ask(t, p, "app", size{cpu: "100m", cpuLimit: "100m"}))
	eventually(t, "taken back", func() error { return settled(t, p) })
	require.NoError(t, ask(t, p, "app", size{memory: "80Mi", memoryLimit: "80Mi"}))
	eventually(t, "memory is infeasible", func() error { return infeasible(t, p, `Memory Manager policy "Static"`) })
	require.NoError(t, ask(t, p, "app", size{memory: "64Mi", memoryLimit: "64Mi"}))
	eventually(t, "taken back", func() error { return settled(t, p) })

	burstable := runPod(t, newPod(ns, "burstable", staticNode, idle(size{cpu: "20m", memory: "64Mi", memoryLimit: "80Mi"})))
	require.NoError(t, ask(t, burstable, "app", size{cpu: "30m", memory: "70Mi"}))
	eventually(t, "a Burstable pod is resized there", func() error { return settled(t, burstable) })
}

func quota(ns string, of corev1.ResourceName, amount string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse(amount)}},
	}
}

// used is what the real quota controller has counted.
func used(t *testing.T, ns string, of corev1.ResourceName, want string) error {
	t.Helper()
	q := &corev1.ResourceQuota{}
	if err := env.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "quota"}, q); err != nil {
		return err
	}
	got, ok := q.Status.Used[of]
	if !ok || got.Cmp(resource.MustParse(want)) != 0 {
		return fmt.Errorf("used %v", q.Status.Used)
	}
	return nil
}

// podLevelMemory lowers the pod's own limit below what its containers hold, and above each one's limit.
func podLevelMemory(t *testing.T) {
	second := idle(size{memoryLimit: "150Mi", memory: "10Mi"}, memory(100), corev1.EnvVar{Name: "PORT", Value: "8081"})
	second.Name, second.ReadinessProbe = "second", nil
	p := runPod(t, newPod(probes, "pod-level", 1, idle(size{memoryLimit: "150Mi", memory: "10Mi"}, memory(100)), func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, second)
		own := size{cpu: "20m", memory: "64Mi", memoryLimit: "400Mi"}.requirements()
		p.Spec.Resources = &own
	}))
	own := size{memoryLimit: "160Mi"}.requirements()
	err := patchResize(t, p, map[string]any{"spec": map[string]any{"resources": own}})
	if !kubeletsAre(t, 36) {
		require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "older kubelets do not resize it, and the API server knows: %v", err)
		return
	}
	require.NoError(t, err)
	if kubeletsAre(t, 37) { // the kernel refuses, or kills: it depends on what it can take back in time
		eventually(t, "an answer", func() error {
			if err := is(t, p, corev1.PodResizeInProgress, corev1.PodReasonError); err == nil {
				return nil
			}
			return oneWasKilled(t, p)
		})
		return
	}
	eventually(t, "an answer", func() error { return is(t, p, corev1.PodResizeInProgress, corev1.PodReasonError) })
	message := conditionOf(p, corev1.PodResizeInProgress).Message
	t.Log(message)
	assert.NotContains(t, message, "below current usage", "the kubelet's own check is passed by; only the kernel says no")
	for _, s := range p.Status.ContainerStatuses {
		assert.Zero(t, s.RestartCount)
	}
}

// oneWasKilled: a container of a pod has ended by a kill.
func oneWasKilled(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	if err := see(t, p); err != nil {
		return err
	}
	for _, s := range p.Status.ContainerStatuses {
		if last := s.LastTerminationState.Terminated; last != nil && last.ExitCode == 128+int32(syscall.SIGKILL) {
			return nil
		}
	}
	return fmt.Errorf("containers %v", p.Status.ContainerStatuses)
}

func staticPod(t *testing.T) {
	c := idle(size{cpu: "10m", memory: "16Mi"})
	manifest := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: probes, Name: "static"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, TerminationGracePeriodSeconds: ptr.To(int64(1))},
	}
	data, err := json.Marshal(manifest)
	require.NoError(t, err)
	file := filepath.Join(staticPods, "static.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	t.Cleanup(func() { require.NoError(t, os.Remove(file)) })
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: probes, Name: "static-" + nodeName(staticNode)}}
	eventually(t, "its mirror is ready", func() error { return is(t, p, corev1.PodReady, "") })
	require.Contains(t, p.Annotations, corev1.MirrorPodAnnotationKey)
	assert.ErrorContains(t, ask(t, p, "app", size{cpu: "20m"}), "static pods cannot be resized")
}

func hostPort(t *testing.T) {
	p := runPod(t, newPod(probes, "host-port", 1, idle(size{cpu: "10m", memory: "16Mi"}), func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}}
	}))
	require.NoError(t, ask(t, p, "app", size{cpu: "30m", memory: "24Mi"}))
	eventually(t, "resized beside its own port", func() error { return settled(t, p) })
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
}

func labelDrift(t *testing.T) {
	const label = "e2e.attune.io/zone"
	relabel(t, staticNode, label, ptr.To("a"))
	p := runPod(t, newPod(probes, "drift", staticNode, idle(size{cpu: "50m", memory: "16Mi"}), func(p *corev1.Pod) { p.Spec.NodeSelector[label] = "a" }))
	relabel(t, staticNode, label, nil)
	eventually(t, "even a lowering waits", func() error {
		// The kubelet may not know of the label yet: then it is done, and asked for anew.
		if err := deferred(t, p, "NodeAffinity"); err == nil {
			return nil
		}
		cpu := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if settled(t, p) == nil {
			require.NoError(t, ask(t, p, "app", size{cpu: fmt.Sprintf("%dm", cpu-1)}))
		}
		return fmt.Errorf("conditions %v", p.Status.Conditions)
	})
	had := p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String()
	require.NoError(t, ask(t, p, "app", size{cpu: had}))
	eventually(t, "68: what is allocated is taken back to, whatever the node is", func() error { return settled(t, p) })
}

// relabel sets a node's label, or takes it away.
func relabel(t *testing.T, node int, label string, value *string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{label: value}}})
	require.NoError(t, err)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(node)}}
	require.NoError(t, env.client.Patch(t.Context(), n, client.RawPatch("application/merge-patch+json", patch)))
}

func anotherUID(t *testing.T) {
	p := createPod(t, newPod(probes, "uid", 1, idle(size{cpu: "10m", memory: "16Mi"})))
	patch := map[string]any{
		"metadata": map[string]any{"uid": "b2f1b1f6-6d5a-4f43-9d36-0c8a5ae9e2d0"},
		"spec":     map[string]any{"containers": []map[string]any{{"name": "app", "resources": size{cpu: "20m"}.requirements()}}},
	}
	err := patchResize(t, p.DeepCopy(), patch)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	assert.ErrorContains(t, err, "metadata.uid: Invalid value")
	assert.ErrorContains(t, err, "field is immutable")
	patch["metadata"] = map[string]any{"uid": p.UID}
	assert.NoError(t, patchResize(t, p, patch))
}

func tinyAmounts(t *testing.T) {
	p := runPod(t, newPod(probes, "tiny", 1, idle(size{cpu: "50m", cpuLimit: "100m", memory: "32Mi", memoryLimit: "64Mi"})))
	require.NoError(t, ask(t, p, "app", size{cpu: "1m", cpuLimit: "5m", memory: "20000001", memoryLimit: "70000001"}))
	eventually(t, "settled", func() error { return settled(t, p) })
	assert.NoError(t, hasWeight(p, "app", 1), "the least there is")
	assert.NoError(t, hasQuota(p, "app", 1000), "the least there is")
	assert.NoError(t, hasLimit(p, "app", 70000001/4096*4096), "whole pages")
}

func memoryVolume(t *testing.T) {
	p := runPod(t, newPod(probes, "volume", 1, idle(size{cpu: "10m", memory: "32Mi", memoryLimit: "200Mi"}), onDisk(corev1.StorageMediumMemory, "")))
	mounted := func() int64 {
		var fs syscall.Statfs_t
		require.NoError(t, syscall.Statfs(fmt.Sprintf("/proc/%d/root/file", mainProcess(t, p, "app")), &fs))
		return int64(fs.Blocks) * fs.Bsize
	}
	assert.Equal(t, int64(200*mebibyte), mounted(), "as large as the memory limit")
	use(t.Context(), t, p, "file=100")
	eventually(t, "held", func() error { return holds(p, 100) })
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "80Mi"}))
	eventually(t, "its pages are usage", func() error { return failed(t, p, "below current usage") })
	require.NoError(t, ask(t, p, "app", size{memoryLimit: "300Mi"}))
	eventually(t, "grown", func() error { return settled(t, p) })
	assert.NoError(t, hasLimit(p, "app", 300*mebibyte))
	assert.Equal(t, int64(200*mebibyte), mounted(), "no larger than before")
}
