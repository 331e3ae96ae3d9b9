package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
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

// member is a running pod with one container that holds a size.
func member(name string, holds recommender.Size) *corev1.Pod {
	resources := resize.ToRequirements(holds)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Generation: 1},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Resources: resources}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Resources: &resources, AllocatedResources: resources.Requests,
		}}},
	}
	pod.Status.QOSClass = resize.QOSClass(pod)
	return pod
}

// recommended is the recommendation of a Deployment of the strategy Node whose container app peaks at amounts.
func recommended(name string, peakCPU, peakMemory recommender.Amount) *v1alpha1.AttuneRecommendation {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-" + name}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: name}
	rec.Spec.Strategy, rec.Spec.Mode, rec.Spec.EvictionRanking = v1alpha1.StrategyNode, v1alpha1.UpdateAuto, v1alpha1.RankingLow
	peaks := resize.ToResources(size(peakCPU, peakMemory, 0))
	rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Demand: &v1alpha1.ContainerDemand{
		CPUPeak: peaks.CPURequest, MemoryPeak: peaks.MemoryRequest, MemoryMax7d: peaks.MemoryRequest, AllowMemoryDecrease: true,
	}}}
	return rec
}

// sceneOf is a node of some CPU and 1 GiB whose pods all use a base of CPU and as much memory as they peak at.
func sceneOf(cpus string, base recommender.Usage, pods ...*corev1.Pod) *scene {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("1Gi")}
	s := &scene{
		node: n, pods: pods, recommendations: map[types.UID]*v1alpha1.AttuneRecommendation{}, now: noon,
		held: func(types.UID) string { return "" }, stays: func(types.UID) string { return "" },
		lowered: func(types.UID) time.Time { return time.Time{} },
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

// Who is not changed now counts as he is; the others share what is left.
func TestWhoShares(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*scene, *corev1.Pod)
		shares bool
	}{
		"a pod of a Node policy":   {func(*scene, *corev1.Pod) {}, true},
		"of no policy":             {func(s *scene, p *corev1.Pod) { delete(s.recommendations, p.UID) }, false},
		"of another strategy":      {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Strategy = v1alpha1.StrategyWorkload }, false},
		"of another mode":          {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Mode = v1alpha1.UpdateInitial }, false},
		"without a recommendation": {func(s *scene, p *corev1.Pod) { s.recommendations[p.UID].Spec.Containers = nil }, false},
		"that does not run":        {func(_ *scene, p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false},
		"that is going":            {func(_ *scene, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
		"that is Guaranteed":       {func(_ *scene, p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, false},
		"whose decrease is under way": {func(_ *scene, p *corev1.Pod) {
			p.Status.ContainerStatuses[0].AllocatedResources = resize.ToRequirements(size(1900, 64, 0)).Requests
		}, false},
		"that a gate holds": {func(s *scene, p *corev1.Pod) {
			s.held = func(uid types.UID) string { return map[types.UID]string{p.UID: "Paused"}[uid] }
		}, false},
		"that is watched": {func(s *scene, p *corev1.Pod) {
			s.recommendations[p.UID].Status.Records = []v1alpha1.ResizeRecord{{PodUID: p.UID, Phase: v1alpha1.RecordWatching}}
		}, false},
		"whose sibling is watched": {func(s *scene, p *corev1.Pod) {
			s.recommendations[p.UID].Status.Records = []v1alpha1.ResizeRecord{{PodUID: "other", Phase: v1alpha1.RecordWatching}}
		}, true},
		"that is to go for want of room": {func(s *scene, p *corev1.Pod) {
			s.recommendations[p.UID].Status.Records = []v1alpha1.ResizeRecord{{PodUID: p.UID, Phase: v1alpha1.RecordWithdrawing, Reason: resize.ReasonDoesNotFit}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod, other := member("a", size(1500, 64, 128)), member("b", size(1000, 64, 128))
			pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			s := sceneOf("8", 1000, pod, other)
			c.edit(s, pod)
			l := s.ledger()
			members, taken := 1, recommender.Amount(1600)
			if c.shares {
				members, taken = 2, 100
			}
			if name == "whose decrease is under way" {
				taken = 2000
			}
			assert.Len(t, l.members, members)
			assert.Len(t, l.demands, members)
			assert.Equal(t, 8000-taken, l.available[cpu], "what the scheduler counts for it, or its overhead alone")
		})
	}
}

// What nothing is known of keeps what it holds.
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
		"bounds hold": {func(_ *scene, t *v1alpha1.ContainerTarget) {
			t.Demand.Least, t.Demand.Most = resize.ToResources(size(1200, 0, 0)), resize.ToResources(size(1400, 0, 0))
		}, node.Demand{Base: 1200, Peak: 1400}, node.Demand{Base: 64 * mi, Peak: 64 * mi}},
		"memory is not lowered": {func(_ *scene, t *v1alpha1.ContainerTarget) { t.Demand.AllowMemoryDecrease = false },
			node.Demand{Base: 1000, Peak: 2000}, node.Unmeasured(100 * mi)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := member("a", holds)
			s := sceneOf("8", 1000, pod)
			c.edit(s, &s.recommendations[pod.UID].Spec.Containers[0])
			of := s.ledger().demands[0].Containers[0]
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

// What waited a fifth of the time seems to have used a fifth more (PSI): it asks for that, and its neighbours get less
// of the reserve.
func TestWhoWaitedForCPUIsGrantedMore(t *testing.T) {
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
	// Both peak at 2: base 500 and half of 1500. Waiting makes it base 600, and 1500 × 1400 / 2900 more.
	assert.EqualValues(t, 1250, before)
	assert.InDelta(t, 600+1500*1400/2900, int64(after), 1)
	assert.InDelta(t, 500+1500*1500/2900, int64(neighbour), 1)
}

func TestWhoMayNotBeEvictedRanksAsNever(t *testing.T) {
	a, b := member("a", size(2000, 64, 128)), member("b", size(2000, 64, 128))
	s := sceneOf("2", 1500, a, b)
	out := s.share(always)
	require.Len(t, out.result.Evictions, 1)
	assert.Equal(t, "shop/a", out.result.Evictions[0].Name)
	assert.Contains(t, out.grants["a"].Evict, "CPU does not fit")
	assert.Empty(t, out.grants["b"].Evict)

	s.stays = func(uid types.UID) string { return map[types.UID]string{"a": "DoNotDisrupt"}[uid] }
	out = s.share(always)
	require.Len(t, out.result.Evictions, 1)
	assert.Equal(t, "shop/b", out.result.Evictions[0].Name)

	s.stays = func(types.UID) string { return "LastReplica" }
	out = s.share(always)
	assert.Empty(t, out.result.Evictions)
	assert.True(t, out.result.Overcommitted[cpu])
	s.stays = func(types.UID) string { return "" }
	s.recommendations["a"].Spec.Workload.Kind, s.recommendations["b"].Spec.EvictionRanking = v1alpha1.KindDaemonSet, v1alpha1.RankingNever
	assert.Empty(t, s.share(always).result.Evictions, "a DaemonSet's and Never")
}
