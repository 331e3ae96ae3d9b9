package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/cluster"
)

var onVM = flag.Bool("vm", false, "run the stories that need a node with cgroup v2: a VM, whose kernel takes minutes to build where it is not cached")

// The nodes of TestCgroupV2: the first is the machine's, with cgroup v1, the last is a VM.
const nodeV1, nodeV2 = 1, 2

// versionsTest has a process and a cluster for itself where it is asked for.
const versionsTest = "TestCgroupV2"

// twoVersions is the cluster of TestCgroupV2. Nothing but the kubelets tells what is used. The operator is not on the
// node whose kubelet is restarted.
func twoVersions() installation {
	return installation{options: cluster.Options{Nodes: 2, VMNodes: 1}, reserved: []int{nodeV2}, settings: embeddedSettings}
}

// TestCgroupV2 tells the same stories on a node with cgroup v1 and on one with cgroup v2, side by side, and shows a table
// of what differs.
func TestCgroupV2(t *testing.T) {
	if !*onVM {
		t.Skip("a VM node's kernel may have to be built first: -vm asks for it (make test-v2)")
	}
	if reason := cluster.VMUnavailable(); reason != "" {
		t.Skip(reason)
	}
	alone(t, bothVersions)
}

// story is told on a node, in a namespace of its own. It returns what the table says.
type story struct {
	name string
	tell func(t *testing.T, ns string, node int) string
}

func bothVersions(t *testing.T) {
	table := &storyTable{cells: map[string]string{}}
	stories := []story{
		{"resized in place, kept, born", resizedAndCreated},
		{"an OOM kill is reverted", killedAndReverted},
		{"a child is killed for want of memory", childKilled},
		{"throttling is reverted", throttledStory},
		{"memory that is held keeps its limit", limitAboveUsage},
		{"usage is measured as it is", measuredStory},
	}
	t.Run("stories", func(t *testing.T) {
		for _, s := range stories {
			for _, node := range []int{nodeV1, nodeV2} {
				t.Run(fmt.Sprintf("%s, cgroup v%d", s.name, node), func(t *testing.T) {
					t.Parallel()
					ns := fmt.Sprintf("%s-v%d", strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(s.name)), node)
					namespace(t.Context(), t, ns, true)
					table.set(s.name, node, s.tell(t, ns, node))
				})
			}
		}
	})
	const single = "the same, singleProcessOOMKill"
	t.Run(single, func(t *testing.T) {
		change := func(config map[string]any) { config["singleProcessOOMKill"] = true }
		require.NoError(t, env.cluster.RestartKubelet(t.Context(), nodeV2, change))
		namespace(t.Context(), t, "single", true)
		table.set(single, nodeV2, childKilled(t, "single", nodeV2))
	})
	t.Log(table)
	require.Contains(t, table.cells[single+"2"], "the child alone")
}

// soon has a policy decide by a minute of usage, and bounds leave one size.
func soon(to size) func(s *v1alpha1.AttunePolicySpec) {
	return func(s *v1alpha1.AttunePolicySpec) {
		s.MetricsSource = &v1alpha1.MetricsSource{
			HistoryWindow: duration(time.Hour), QueryStep: duration(15 * time.Second), RateWindow: duration(time.Minute), MinimumDataPoints: ptr.To(int32(3)),
		}
		s.CPU.MinAllowed, s.CPU.MaxAllowed = ptr.To(resource.MustParse(to.cpu)), ptr.To(resource.MustParse(to.cpu))
		s.Memory.MinAllowed, s.Memory.MaxAllowed = ptr.To(resource.MustParse(to.memory)), ptr.To(resource.MustParse(to.memory))
	}
}

// wide is what the stories' workloads ask for, and tight what they get. Stories of memory leave CPU alone: a pod without
// it takes minutes to use memory, and is reverted as it is throttled.
var (
	wide       = size{cpu: "60m", memory: "160Mi", cpuLimit: "120m", memoryLimit: "320Mi"}
	tight      = size{cpu: "30m", memory: "64Mi", cpuLimit: "60m", memoryLimit: "128Mi"}
	wideMemory = size{cpu: "100m", memory: "160Mi", cpuLimit: "500m", memoryLimit: "320Mi"}
	lessMemory = size{cpu: "100m", memory: "64Mi", cpuLimit: "500m", memoryLimit: "128Mi"}
)

// auto makes a policy that resizes once it knows targets of both resources: they may come a step after one another, and
// the story is of one resize.
func auto(t *testing.T, d *appsv1.Deployment, to size) {
	t.Helper()
	switchOn(t, d, policyFor(t.Context(), t, d, v1alpha1.UpdateRecommend, soon(to)))
}

// switchOn has a policy resize its workload once it knows targets of both resources.
func switchOn(t *testing.T, d *appsv1.Deployment, policy *v1alpha1.AttunePolicy) {
	t.Helper()
	ctx := t.Context()
	targetOfBoth(t, d)
	eventually(t, "switched on", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		policy.Spec.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateAuto)
		return env.client.Update(ctx, policy)
	})
}

// lowers starts a workload on a node and waits until its pod was lowered.
func lowers(t *testing.T, ns string, node int, c corev1.Container, to size) (*appsv1.Deployment, *corev1.Pod) {
	t.Helper()
	d, p := started(t, ns, 1, c, func(s *corev1.PodSpec) { onNode(s, node) })
	auto(t, d, to)
	eventually(t, "lowered", func() error { return hasSpec(t, p, to) })
	require.NoError(t, hasGrant(p, to))
	return d, p
}

func resizedAndCreated(t *testing.T, ns string, node int) string {
	ctx := t.Context()
	d, p := lowers(t, ns, node, idle(wide), tight)
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	eventually(t, "kept", func() error { return told(ctx, d, "Success", "") })
	eventually(t, "new pods get it", func() error { return seeds(ctx, d, tight) })
	require.NoError(t, env.client.Delete(ctx, p))
	var born corev1.Pod
	eventually(t, "a new pod is born with the kept size", func() error {
		all := pods(ctx, t, d)
		if len(all) != 1 || all[0].UID == p.UID {
			return fmt.Errorf("%d pods", len(all))
		}
		born = all[0]
		if got := sizeOf(born.Spec.Containers[0].Resources); got != tight {
			return fmt.Errorf("it has %v", got)
		}
		return hasGrant(&born, tight)
	})
	assert.Equal(t, int64(1), born.Generation, "it was never resized")
	return grantOf(node, tight).String()
}

// seeds: new pods get a size, larger or smaller than their template's.
func seeds(ctx context.Context, d *appsv1.Deployment, want size) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	s := rec.Spec.Seed
	if s == nil || len(s.Containers) != 1 || s.RaiseOnly || s.Containers[0].RaiseOnly {
		return fmt.Errorf("the seed is %v", s)
	}
	of := s.Containers[0]
	if got := fmt.Sprint(of.CPURequest, of.MemoryRequest); got != fmt.Sprint(ptr.To(resource.MustParse(want.cpu)), ptr.To(resource.MustParse(want.memory))) {
		return fmt.Errorf("the seed is %s", got)
	}
	return nil
}

func killedAndReverted(t *testing.T, ns string, node int) string {
	ctx := t.Context()
	d, p := lowers(t, ns, node, idle(wideMemory), lessMemory)
	use(ctx, t, p, "memory=200")
	killed := waitForKill(ctx, t, p)
	eventually(t, "the memory is put back", func() error { return hasMemoryLimit(ctx, p, resource.MustParse(wideMemory.memoryLimit)) })
	took := time.Since(killed)
	eventually(t, "all is put back", func() error { return hasSpec(t, p, wideMemory) })
	require.NoError(t, hasGrant(p, wideMemory))
	assert.Equal(t, int32(1), p.Status.ContainerStatuses[0].RestartCount)
	eventually(t, "reverted", func() error { return told(ctx, d, "Reverted", "oomkill") })
	return fmt.Sprintf("old limit on the kubelet after %s", took.Round(time.Second))
}

func childKilled(t *testing.T, ns string, node int) string {
	ctx := t.Context()
	d, p := lowers(t, ns, node, idle(wideMemory, corev1.EnvVar{Name: "CHILD", Value: "1"}), lessMemory)
	eventually(t, "watched", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
	use(ctx, t, p, "memory=200")
	eventually(t, "killed", func() error { return killCounted(p) })
	use(ctx, t, p, "memory=10")
	eventually(t, "put back", func() error { return told(ctx, d, "Reverted", "oomkill") })
	eventually(t, "all of it", func() error { return hasSpec(t, p, wideMemory) })
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	require.Len(t, rec.Status.Floors, 1)
	switch n := p.Status.ContainerStatuses[0].RestartCount; n {
	case 0:
		return "the child alone; reverted"
	case 1:
		return "the whole container, once; reverted"
	default:
		return fmt.Sprintf("the whole container, %d times; reverted", n)
	}
}

// killCounted: a kill for want of memory was counted in the container's cgroup, or ended the container.
func killCounted(p *corev1.Pod) error {
	kills, err := env.cluster.OOMKills(p, "app")
	if err == nil && kills > 0 {
		return nil
	}
	if seen := env.client.Get(context.Background(), client.ObjectKeyFromObject(p), p); seen == nil && p.Status.ContainerStatuses[0].RestartCount > 0 {
		return nil
	}
	return errors.Join(err, errors.New("no kill yet"))
}

func throttledStory(t *testing.T, ns string, node int) string {
	ctx := t.Context()
	d, p := lowers(t, ns, node, idle(wide), tight)
	eventually(t, "watched", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
	use(ctx, t, p, "cpu=300")
	began := time.Now()
	eventually(t, "reverted", func() error { return told(ctx, d, "Reverted", "throttle") })
	took := time.Since(began)
	use(ctx, t, p, "cpu=0")
	eventually(t, "put back", func() error { return hasSpec(t, p, wide) })
	require.NoError(t, hasGrant(p, wide))
	pressure := "not told"
	if waited := pressureOf(t, p, node); waited > 0 {
		pressure = fmt.Sprintf("%.0f s", waited)
	}
	if node == nodeV2 {
		assert.NotEqual(t, "not told", pressure, "kubelets tell CPU pressure per container with cgroup v2")
	}
	return fmt.Sprintf("after %s; CPU pressure of the container: %s", took.Round(time.Second), pressure)
}

// pressureOf a pod's container is what its kubelet says that it waited for CPU, in seconds; 0: it does not say.
func pressureOf(t *testing.T, p *corev1.Pod, node int) float64 {
	t.Helper()
	out, err := env.cluster.Command(t.Context(), "kubectl", "get", "--raw", "/api/v1/nodes/"+nodeName(node)+"/proxy/metrics/cadvisor").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "container_pressure_cpu_waiting_seconds_total{") && strings.Contains(line, fmt.Sprintf("pod=%q", p.Name)) && strings.Contains(line, `container="app"`) {
			value, err := strconv.ParseFloat(strings.Fields(line[strings.LastIndex(line, "}")+1:])[0], 64)
			require.NoError(t, err)
			return value
		}
	}
	return 0
}

func limitAboveUsage(t *testing.T, ns string, node int) string {
	ctx := t.Context()
	d, p := started(t, ns, 1, idle(wideMemory), func(s *corev1.PodSpec) { onNode(s, node); withFile(s, "", "") })
	use(ctx, t, p, "file=200")
	eventually(t, "held", func() error { return holds(p, 200) })
	if node == nodeV1 {
		refill(t, p, 200)
	}
	auto(t, d, lessMemory)
	if node == nodeV2 {
		return limitAboveUsageOnTmpfs(t, d, p)
	}
	want := lessMemory
	want.memoryLimit = wideMemory.memoryLimit
	eventually(t, "the request is lowered without its limit", func() error { return hasSpec(t, p, want) })
	eventually(t, "and says why", func() error { return blocked(ctx, d, resize.ReasonMemoryInUse) })
	require.NoError(t, hasGrant(p, want))
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	return "page cache: the limit is kept, and said so"
}

// limitAboveUsageOnTmpfs: the VM's disk is its memory, so a file is no page cache there, which the kernel can drop, but counts as
// used. The limit stays above it.
func limitAboveUsageOnTmpfs(t *testing.T, d *appsv1.Deployment, p *corev1.Pod) string {
	ctx := t.Context()
	eventually(t, "the request is lowered", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if got := sizeOf(p.Spec.Containers[0].Resources); got.memory != lessMemory.memory {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	eventually(t, "kept", func() error { return told(ctx, d, "Success", "") })
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(p), p))
	got := sizeOf(p.Spec.Containers[0].Resources)
	limit := resource.MustParse(got.memoryLimit)
	assert.Greater(t, limit.Value(), int64(200*mebibyte), "it holds so much")
	require.NoError(t, hasGrant(p, got))
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	return "a file in memory: the limit is " + got.memoryLimit
}

func measuredStory(t *testing.T, ns string, node int) string {
	c := app("app", size{cpu: "100m", memory: "256Mi"})
	c.Env[0].Value, c.Env[1].Value = "60", "100"
	d, _ := started(t, ns, 1, c, func(s *corev1.PodSpec) { onNode(s, node) })
	policyFor(t.Context(), t, d, v1alpha1.UpdateRecommend, func(s *v1alpha1.AttunePolicySpec) {
		soon(tight)(s)
		s.CPU.MinAllowed, s.CPU.MaxAllowed, s.Memory.MinAllowed, s.Memory.MaxAllowed = nil, nil, nil, nil
	})
	target := targetOfBoth(t, d)
	memoryAsItIs(t, target)
	if node == nodeV1 {
		cpuAsItIs(t, target) // a VM's clock counts what the machine gives to others as well
	}
	return fmt.Sprintf("60m and 100 MiB: recommends %s and %s", target.CPURequest, target.MemoryRequest)
}

// hasGrant: the files of a container's cgroup say a size.
func hasGrant(p *corev1.Pod, want size) error {
	grant, err := env.cluster.Grant(p, "app")
	if err == nil && grant != grantOf(grant.Version, want) {
		err = fmt.Errorf("its cgroup has %v, want %v", grant, grantOf(grant.Version, want))
	}
	return err
}

// grantOf a size with a version of cgroups.
func grantOf(version int, s size) cluster.Grant {
	r := s.requirements()
	return cluster.GrantOf(version, r.Requests.Cpu().MilliValue(), r.Limits.Cpu().MilliValue(), r.Limits.Memory().Value())
}

// storyTable is what became of the stories, by version.
type storyTable struct {
	mutex sync.Mutex
	names []string
	cells map[string]string
}

func (s *storyTable) set(name string, node int, cell string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	s.cells[name+strconv.Itoa(node)] = cell
}

func (s *storyTable) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	slices.Sort(s.names)
	text := "\n| story | cgroup v1 | cgroup v2 |\n|---|---|---|\n"
	for _, name := range s.names {
		text += fmt.Sprintf("| %s | %s | %s |\n", name, s.cells[name+"1"], s.cells[name+"2"])
	}
	return text
}
