package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

const (
	cpu    = recommender.CPU
	memory = recommender.Memory
	mi     = recommender.Amount(1 << 20)
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// size is a CPU request in millicores, a memory request and a memory limit in MiB.
func size(cpuRequest, memoryRequest, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{cpu: {Request: cpuRequest}, memory: {Request: memoryRequest * mi, Limit: memoryLimit * mi}}
}

// member is a running pod with one container of a size.
func member(name string, holds recommender.Size) *corev1.Pod {
	resources := podview.ToRequirements(holds)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Generation: 1},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Resources: resources}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Resources: &resources, AllocatedResources: resources.Requests,
		}}},
	}
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// recommended is the recommendation for a Deployment of the strategy Node whose container app has these peaks.
func recommended(name string, peakCPU, peakMemory recommender.Amount) *v1alpha1.AttuneRecommendation {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-" + name}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: name}
	rec.Spec.Strategy, rec.Spec.Mode, rec.Spec.EvictionRanking = v1alpha1.StrategyNode, v1alpha1.UpdateAuto, v1alpha1.RankingLow
	peaks := podview.ToResources(size(peakCPU, peakMemory, 0))
	rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Demand: &v1alpha1.ContainerDemand{
		CPUPeak: peaks.CPURequest, MemoryPeak: peaks.MemoryRequest, MemoryMax7d: peaks.MemoryRequest, AllowMemoryDecrease: true,
	}}}
	return rec
}

// sceneOf is a node of some CPU and 1 GiB. All its pods use a base of CPU, and as much memory as their peak.
func sceneOf(cpus string, base recommender.Usage, pods ...*corev1.Pod) *scene {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("1Gi")}
	s := &scene{
		node: n, pods: pods, recommendations: map[types.UID]*v1alpha1.AttuneRecommendation{}, now: noon,
		held: unheld, stays: unheld,
		changed: func(types.UID) changes { return changes{} },
		base: func(_ *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
			if r == memory {
				return recommender.Usage(64 * mi), true
			}
			return base, true
		},
	}
	for _, pod := range pods {
		s.recommendations[pod.UID] = recommended(pod.Name, 2000, 64)
	}
	return s
}

func always(*corev1.Pod) bool { return true }

// Pods with a known demand are members, frozen if they may not be changed now. The others count with their present
// size. uses sets another CPU base for one pod.
func (s *scene) uses(a *corev1.Pod, base recommender.Usage) {
	others := s.base
	s.base = func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool) {
		if pod == a && r == cpu {
			return base, true
		}
		return others(pod, container, r)
	}
}

// The minimum of a policy may be any amount: a node grants no more than it has, and continues to share.
func TestNoPolicyStopsANode(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 300 {
		pods = append(pods, member(fmt.Sprintf("p%03d", i), size(100, 64, 128)))
	}
	s := sceneOf("64", 64_000, pods...)
	s.node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("64Gi")
	for _, pod := range pods {
		s.recommendations[pod.UID] = recommended(string(pod.UID), 120, 64)
	}
	s.recommendations["p000"].Spec.Containers[0].Demand.Least = v1alpha1.Resources{MemoryRequest: ptr.To(resource.MustParse("8Pi")), CPURequest: ptr.To(resource.MustParse("10000000000"))}
	s.base = func(_ *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
		return []recommender.Usage{110, recommender.Usage(64 * mi)}[r], true
	}
	out := s.share(func(*corev1.Pod) bool { return true })
	assert.GreaterOrEqual(t, out.grants["p001"].Sizes["app"][cpu].Request, recommender.Amount(110), "others get what they need")
}

func TestSharingPods(t *testing.T) {
	record := func(phase v1alpha1.RecordPhase, reason string) func(*scene, *corev1.Pod) {
		return func(s *scene, p *corev1.Pod) {
			s.recommendations[p.UID].Status.Records = []v1alpha1.ResizeRecord{{PodUID: p.UID, Phase: phase, Reason: reason}}
		}
	}
	const out, frozen, shares = "out", "frozen", "shares"
	for name, c := range map[string]struct {
		edit func(*scene, *corev1.Pod)
		want string
	}{
		"a pod of a Node policy":   {func(*scene, *corev1.Pod) {}, shares},
		"of no policy":             {func(s *scene, p *corev1.Pod) { delete(s.recommendations, p.UID) }, out},
		"of another strategy":      {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Strategy = v1alpha1.StrategyWorkload }, out},
		"of another mode":          {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Mode = v1alpha1.UpdateInitial }, out},
		"of a Job":                 {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Workload.Kind = v1alpha1.KindJob }, out},
		"of a CronJob":             {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Workload.Kind = v1alpha1.KindCronJob }, out},
		"without a recommendation": {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Containers = nil }, out},
		"without a demand": {func(s *scene, p *corev1.Pod) {
			d := s.recommendations[p.UID].Spec.Containers[0].Demand
			d.CPUPeak, d.MemoryPeak = nil, nil
		}, out},
		"that does not run":  {func(_ *scene, p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, out},
		"that is going":      {func(_ *scene, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, out},
		"that is Guaranteed": {func(_ *scene, p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, out},
		"with resources of its own": {func(_ *scene, p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}}
		}, out},
		"with an amount that no node has": {func(_ *scene, p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Pi")}
			p.Status.ContainerStatuses = nil
		}, out},
		"whose decrease is under way": {func(_ *scene, p *corev1.Pod) {
			p.Status.ContainerStatuses[0].AllocatedResources = podview.ToRequirements(size(1900, 64, 0)).Requests
		}, frozen},
		"that a gate holds": {func(s *scene, p *corev1.Pod) {
			s.held = func(_ types.NamespacedName, uid types.UID) string { return map[types.UID]string{p.UID: "Paused"}[uid] }
		}, frozen},
		"whose workload was not looked at since the start": {func(s *scene, _ *corev1.Pod) { s.held = (&board.Grants{}).Held }, frozen},
		"that is watched":      {record(v1alpha1.RecordWatching, ""), frozen},
		"that is never raised": {func(_ *scene, p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](2_000_001_000) }, frozen},
		"whose sibling is watched": {func(s *scene, p *corev1.Pod) {
			s.recommendations[p.UID].Status.Records = []v1alpha1.ResizeRecord{{PodUID: "other", Phase: v1alpha1.RecordWatching}}
		}, shares},
		"that is to go for want of room": {record(v1alpha1.RecordWithdrawing, resize.ReasonDoesNotFit), shares},
		"that is to go, and a gate holds it": {func(s *scene, p *corev1.Pod) {
			record(v1alpha1.RecordEvicting, resize.ReasonDoesNotFit)(s, p)
			s.held = func(types.NamespacedName, types.UID) string { return "Rollout" }
		}, shares},
	} {
		t.Run(name, func(t *testing.T) {
			pod, other := member("a", size(1500, 64, 128)), member("b", size(1000, 64, 128))
			pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			s := sceneOf("8", 1000, pod, other)
			c.edit(s, pod)
			l := s.ledger()
			if c.want == out {
				assert.Equal(t, []*corev1.Pod{other}, l.members)
				assert.EqualValues(t, 8000-1600, l.available[cpu], "what the scheduler counts for it")
				return
			}
			require.Len(t, l.demands, 2)
			assert.EqualValues(t, 8000-100, l.available[cpu], "its overhead")
			assert.Equal(t, c.want == frozen, l.demands[0].Frozen)
			holds := recommender.Amount(1500)
			if name == "whose decrease is under way" {
				holds = 1900
			}
			assert.Equal(t, holds, l.demands[0].Containers[0].Current[cpu], "what the scheduler counts")
		})
	}
}

// The golden node of 5 CPUs at its golden sizes: whichever pods are observed, paused or rolling out, no pod is
// evicted, and no size changes.
func TestFrozenPodEvictsNoOther(t *testing.T) {
	golden := func() *scene {
		s := sceneOf("5", 1000, member("a", size(2000, 64, 128)), member("b", size(1500, 64, 128)), member("c", size(1500, 64, 128)))
		s.recommendations["a"] = recommended("a", 3000, 64)
		return s
	}
	for _, who := range []types.UID{"a", "b", "c"} {
		for name, edit := range map[string]func(*scene){
			"watched": func(s *scene) {
				s.recommendations[who].Status.Records = []v1alpha1.ResizeRecord{{PodUID: who, Phase: v1alpha1.RecordWatching}}
			},
			"held": func(s *scene) {
				s.held = func(_ types.NamespacedName, uid types.UID) string { return map[types.UID]string{who: "Cooldown"}[uid] }
			},
			"paused": func(s *scene) {
				s.held = func(_ types.NamespacedName, uid types.UID) string { return map[types.UID]string{who: "Paused"}[uid] }
				s.stays = s.held
			},
		} {
			s := golden()
			edit(s)
			result := s.share(always)
			assert.Empty(t, result.result.Evictions, "%s %s", who, name)
			assert.False(t, result.result.Overcommitted[cpu], "%s %s", who, name)
			for uid, granted := range result.grants {
				assert.Equal(t, recommender.Size{}, granted.Sizes["app"], "%s is %s: %s stays as it is", who, name, uid)
			}
		}
	}
}

// The loop does not plan with lowerings that the platform's rules block: a pod that is not ready or just restarted is
// not lowered, but may be raised.
func TestRefusedLoweringsAreNotCountedOn(t *testing.T) {
	ready := func(p *corev1.Pod, status corev1.ConditionStatus) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"it is not ready": func(p *corev1.Pod) { ready(p, corev1.ConditionFalse) },
		"it restarted lately": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 1
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-9 * time.Minute))}
		},
	} {
		for _, holds := range []recommender.Amount{3500, 500} {
			pod, other := member("a", size(holds, 64, 256)), member("b", size(2000, 64, 128))
			edit(pod)
			s := sceneOf("8", 1000, pod, other)
			s.recommendations["b"].Status.Records = []v1alpha1.ResizeRecord{{PodUID: "b"}}
			granted := s.share(always).grants["a"].Sizes["app"]
			if holds > 2000 {
				assert.Equal(t, recommender.Size{}, granted, name)
				edit = func(p *corev1.Pod) { ready(p, corev1.ConditionTrue) }
				edit(pod)
				pod.Status.ContainerStatuses[0].RestartCount = 0
				assert.EqualValues(t, 1500, s.share(always).grants["a"].Sizes["app"][cpu].Request)
				continue
			}
			assert.EqualValues(t, 1500, granted[cpu].Request, name)
		}
	}
}

// Workloads of the same name in two namespaces are two groups. The group of a policy stays within its namespace as
// well.
func TestGroupsStayInTheirNamespaces(t *testing.T) {
	needs := func(edit func(mine, theirs *v1alpha1.AttuneRecommendation)) recommender.Amount {
		a, b := member("a", size(1500, 64, 128)), member("b", size(1500, 64, 128))
		s := sceneOf("8", 1000, a, b)
		edit(s.recommendations["a"], s.recommendations["b"])
		return s.share(always).result.Needed[cpu]
	}
	assert.EqualValues(t, 3000, needs(func(_, _ *v1alpha1.AttuneRecommendation) {}), "two workloads")
	same := func(mine, theirs *v1alpha1.AttuneRecommendation) { theirs.Spec.Workload.Name = mine.Spec.Workload.Name }
	assert.EqualValues(t, 4000, needs(same), "one workload")
	assert.EqualValues(t, 3000, needs(func(mine, theirs *v1alpha1.AttuneRecommendation) {
		same(mine, theirs)
		theirs.Namespace = "other"
	}), "of the same name in another namespace")
	group := func(mine, theirs *v1alpha1.AttuneRecommendation) {
		mine.Spec.NodeGroup, theirs.Spec.NodeGroup = "web", "web"
	}
	assert.EqualValues(t, 4000, needs(group), "one group")
	assert.EqualValues(t, 3000, needs(func(mine, theirs *v1alpha1.AttuneRecommendation) {
		group(mine, theirs)
		theirs.Namespace = "other"
	}), "of the same name in another namespace")
}

// A container without data keeps its size.
func TestDemands(t *testing.T) {
	holds := size(1500, 100, 300)
	for name, c := range map[string]struct {
		edit func(*scene, *v1alpha1.ContainerTarget)
		cpu  node.Demand
		mem  node.Demand
	}{
		"base and peak": {func(*scene, *v1alpha1.ContainerTarget) {}, node.Demand{Base: 1000, Peak: 2000}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"it was not measured itself": {func(s *scene, _ *v1alpha1.ContainerTarget) {
			s.base = func(*corev1.Pod, string, recommender.Resource) (recommender.Usage, bool) { return 0, false }
		}, node.Unmeasured(1500), node.Unmeasured(100 * mi)},
		"its workload's peak is held": {func(_ *scene, t *v1alpha1.ContainerTarget) { t.Demand.CPUPeak = nil }, node.Unmeasured(1500), node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"it is excluded or unknown":   {func(_ *scene, t *v1alpha1.ContainerTarget) { t.Demand = nil }, node.Unmeasured(1500), node.Unmeasured(100 * mi)},
		"what is allowed at most holds": {func(_ *scene, t *v1alpha1.ContainerTarget) {
			t.Demand.Most = podview.ToResources(size(1400, 0, 0))
		}, node.Demand{Base: 1000, Peak: 1400}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"what is allowed at least is no demand": {func(_ *scene, t *v1alpha1.ContainerTarget) {
			t.Demand.Least = podview.ToResources(size(6000, 0, 0))
		}, node.Demand{Base: 1000, Peak: 2000}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"what harm has taught is": {func(s *scene, _ *v1alpha1.ContainerTarget) {
			s.recommendations["a"].Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "cpu", Amount: resource.MustParse("1200m"), Reason: "restart", LearnedAt: metav1.NewTime(noon)}}
		}, node.Demand{Base: 1200, Peak: 2000}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"memory is not lowered": {func(_ *scene, t *v1alpha1.ContainerTarget) { t.Demand.AllowMemoryDecrease = false },
			node.Demand{Base: 1000, Peak: 2000}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := member("a", holds)
			s := sceneOf("8", 1000, pod)
			c.edit(s, &s.recommendations[pod.UID].Spec.Containers[0])
			p, _ := s.demand(pod)
			of := p.Containers[0]
			assert.Equal(t, c.cpu, of.Of[cpu])
			assert.Equal(t, c.mem, of.Of[memory])
			assert.Equal(t, node.Amounts{1500, 100 * mi}, of.Current)
		})
	}
	t.Run("a CPU limit that stays is the most", func(t *testing.T) {
		pod := member("a", recommender.Size{cpu: {Request: 500, Limit: 1500}, memory: {Request: 64 * mi}})
		assert.Equal(t, node.Demand{Base: 1000, Peak: 1500}, sceneOf("8", 1000, pod).ledger().demands[0].Containers[0].Of[cpu])
	})
}

// If a container waited a fifth of the time (PSI), it would have used a fifth more: it demands that, and other pods
// get less of the reserve.
func TestContainersThatWaitedForCPUGetMore(t *testing.T) {
	a, b := member("a", size(600, 64, 128)), member("b", size(600, 64, 128))
	grants := func(waited recommender.Usage) (recommender.Amount, recommender.Amount) {
		recent := node.NewRecent()
		for at := noon.Add(-10 * time.Minute); at.Before(noon); at = at.Add(30 * time.Second) {
			recent.Add(cpu, at, 500+waited)
		}
		s := sceneOf("8", 500, a, b)
		base := s.base
		s.base = func(pod *corev1.Pod, container string, r recommender.Resource) (recommender.Usage, bool) {
			if pod == a && r == cpu {
				return recent.Base(cpu, noon)
			}
			return base(pod, container, r)
		}
		out := s.share(always)
		return out.grants["a"].Sizes["app"][cpu].Request, out.grants["b"].Sizes["app"][cpu].Request
	}
	before, _ := grants(0)
	after, neighbour := grants(100)
	// Both peak at 2: base 500 and half of 1500. With waiting, the base is 600, and 1500 × 1400 / 2900 more.
	assert.EqualValues(t, 1250, before)
	assert.InDelta(t, 600+1500*1400/2900, int64(after), 1)
	assert.InDelta(t, 500+1500*1500/2900, int64(neighbour), 1)
}

func TestPodsThatMayNotBeEvictedRankAsNever(t *testing.T) {
	a, b := member("a", size(2000, 64, 128)), member("b", size(2000, 64, 128))
	s := sceneOf("2", 1500, a, b)
	out := s.share(always)
	require.Len(t, out.result.Evictions, 1)
	assert.Equal(t, "shop/a", out.result.Evictions[0].Name)
	assert.Contains(t, out.grants["a"].Evict, "CPU does not fit")
	assert.Empty(t, out.grants["b"].Evict)

	s.stays = func(_ types.NamespacedName, uid types.UID) string {
		return map[types.UID]string{"a": "DoNotDisrupt"}[uid]
	}
	out = s.share(always)
	require.Len(t, out.result.Evictions, 1)
	assert.Equal(t, "shop/b", out.result.Evictions[0].Name)

	s.stays = func(types.NamespacedName, types.UID) string { return "LastReplica" }
	out = s.share(always)
	assert.Empty(t, out.result.Evictions)
	assert.True(t, out.result.Overcommitted[cpu])
	s.stays = (&board.Grants{}).Stays
	assert.Empty(t, s.share(always).result.Evictions, "nobody goes before his workload was looked at")
	s.stays = unheld
	s.recommendations["a"].Spec.Workload.Kind, s.recommendations["b"].Spec.EvictionRanking = v1alpha1.KindDaemonSet, v1alpha1.RankingNever
	assert.Empty(t, s.share(always).result.Evictions, "a DaemonSet's and Never")
}

// The sharing treats an amount that a container keeps for another reason than its demand as such.
func TestKeptAmountsOfAContainer(t *testing.T) {
	look := func(edit func(*corev1.Pod, *v1alpha1.AttuneRecommendation)) node.Container {
		pod := member("a", size(1500, 100, 300))
		s := sceneOf("8", 1000, pod)
		edit(pod, s.recommendations["a"])
		return s.ledger().demands[0].Containers[0]
	}
	c := look(func(_ *corev1.Pod, rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.Containers[0].Demand.Least = podview.ToResources(size(700, 32, 0))
	})
	assert.Equal(t, node.Amounts{700, 32 * mi}, c.Least, "what its policy allows at least")
	assert.Equal(t, [2]bool{}, c.Restarts)
	assert.Equal(t, node.Amounts{1500, 100 * mi}, c.AtCreation, "nothing else is noted")

	c = look(func(_ *corev1.Pod, rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.Containers[0].Demand.AllowMemoryDecrease = false
	})
	assert.Equal(t, node.Amounts{0, 100 * mi}, c.Least, "its memory, where it may not be lowered")
	assert.Equal(t, 150*mi, c.Max7d, "and its limit")

	c = look(func(pod *corev1.Pod, _ *v1alpha1.AttuneRecommendation) {
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	})
	assert.Equal(t, [2]bool{memory: true}, c.Restarts)

	c = look(func(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) {
		of := func(hash string, s recommender.Size) v1alpha1.Originals {
			return v1alpha1.Originals{TemplateHash: hash, Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(s)}}}
		}
		hash := podview.TemplateHash(pod)
		rec.Status.Originals = []v1alpha1.Originals{of(hash, size(1, 1, 0)), of(hash, size(300, 0, 0)), of("other", size(9000, 64, 0))}
	})
	assert.Equal(t, node.Amounts{300, 100 * mi}, c.AtCreation, "what is noted of its template last, and what it has beside")

	kill := v1alpha1.Floor{Container: "app", Resource: "memory", Amount: resource.MustParse("200Mi"), Reason: "oomkill", LearnedAt: metav1.NewTime(noon)}
	other := v1alpha1.Floor{Container: "app", Resource: "memory", Amount: resource.MustParse("400Mi"), Reason: "notready", LearnedAt: metav1.NewTime(noon)}
	c = look(func(_ *corev1.Pod, rec *v1alpha1.AttuneRecommendation) {
		rec.Status.Floors = []v1alpha1.Floor{kill, other}
	})
	assert.Equal(t, 200*mi, c.OOM, "the limit follows kills alone")
}

// A policy with a minimum of 6 CPUs for a pod that uses almost nothing evicts no other pod.
func TestUnmeasuredMinimumEvictsNoPod(t *testing.T) {
	for _, ranking := range []v1alpha1.EvictionRanking{v1alpha1.RankingNever, v1alpha1.RankingLow} {
		a, b, c := member("a", size(100, 64, 128)), member("b", size(1500, 64, 128)), member("c", size(1500, 64, 128))
		s := sceneOf("8", 1500, a, b, c)
		s.uses(a, 10)
		s.recommendations["a"] = recommended("a", 10, 64)
		s.recommendations["a"].Spec.EvictionRanking = ranking
		s.recommendations["a"].Spec.Containers[0].Demand.Least = podview.ToResources(size(6000, 0, 0))
		out := s.share(always)
		assert.Empty(t, out.result.Evictions)
		assert.False(t, out.result.Overcommitted[cpu])
		assert.LessOrEqual(t, out.result.Needed[cpu], recommender.Amount(3600))
	}
}

// Memory that grows by half a percent must not restart containers whose resizePolicy requires it: the node grants
// none of it.
func TestContainersThatWouldRestartAreSizedOnlyAtAdmission(t *testing.T) {
	pod := member("a", size(1500, 200, 400))
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for used := recommender.Amount(200); used < 220; used++ {
		s := sceneOf("8", 1000, pod)
		s.recommendations["a"] = recommended("a", 2000, used)
		s.base = func(_ *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
			return []recommender.Usage{1000, recommender.Usage(used * mi)}[r], true
		}
		granted := s.share(always).grants["a"].Sizes["app"]
		assert.Equal(t, recommender.Allocation{}, granted[memory], "%d MiB", used)
		assert.EqualValues(t, 2000, granted[cpu].Request, "its CPU is")
	}
}

// unheld: no gate blocks any pod.
func unheld(types.NamespacedName, types.UID) string { return "" }

// Pods without a template hash label share one hash: a newer entry may lack some of their containers.
func TestCreatedWithUsesTheNewestEntryOfTheContainer(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "log"}}}}
	was := func(name, cpu string) v1alpha1.ContainerResources {
		return v1alpha1.ContainerResources{Name: name, Resources: v1alpha1.Resources{CPURequest: ptr.To(resource.MustParse(cpu))}}
	}
	hash := podview.TemplateHash(pod)
	rec := &v1alpha1.AttuneRecommendation{Status: v1alpha1.AttuneRecommendationStatus{Originals: []v1alpha1.Originals{
		{TemplateHash: hash, Containers: []v1alpha1.ContainerResources{was("app", "200m"), was("log", "100m")}},
		{TemplateHash: hash, Containers: []v1alpha1.ContainerResources{was("app", "300m")}},
	}}}
	assert.EqualValues(t, 300, createdWith(pod, rec, "app", node.Amounts{cpu: 500})[cpu])
	assert.EqualValues(t, 100, createdWith(pod, rec, "log", node.Amounts{cpu: 500})[cpu])
	assert.EqualValues(t, 500, createdWith(pod, rec, "new", node.Amounts{cpu: 500})[cpu])
}

// A demand without a maximum of 7 days is of a policy that leaves memory limits alone: a request rises up to the limit,
// which stays, also after an OOM kill.
func TestRequestsOnlyLeavesMemoryLimitsAlone(t *testing.T) {
	s := sceneOf("4", 100, member("a", size(100, 64, 128)))
	rec := recommended("a", 120, 300)
	rec.Spec.Containers[0].Demand.MemoryMax7d = nil
	rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: "oomkill", Amount: resource.MustParse("500Mi"), LearnedAt: metav1.Time{Time: noon}}}
	s.recommendations["a"] = rec
	assert.Equal(t, recommender.Allocation{Request: 128 * mi}, s.share(always).grants["a"].Sizes["app"][memory])
}
