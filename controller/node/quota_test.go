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
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

func quotaOf(name corev1.ResourceName, hard, used string) corev1.ResourceQuota {
	return corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team", Namespace: "claims"},
		Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{name: resource.MustParse(used)},
		},
	}
}

// claiming is a node of 8 with a pod of the namespace claims that always needs 6 and has 1, and two pods of the
// namespace shop that always need 1.5, peak at 2, and may be evicted.
func claiming(quotas ...corev1.ResourceQuota) *scene {
	a, b, c := member("a", size(1000, 64, 128)), member("b", size(2000, 64, 128)), member("c", size(2000, 64, 128))
	a.Namespace = "claims"
	s := sceneOf("8", 1500, a, b, c)
	s.uses(a, 6000)
	s.recommendations["a"] = recommended("a", 6000, 64)
	s.recommendations["a"].Namespace = "claims"
	s.recommendations["a"].Spec.EvictionRanking = v1alpha1.RankingNever
	s.quotas = map[string][]corev1.ResourceQuota{"claims": quotas}
	return s
}

// A demand counts against other pods only up to the amount that the quotas of its namespace permit.
func TestDemandBeyondAQuotaEvictsNoPod(t *testing.T) {
	for name, c := range map[string]struct {
		quotas []corev1.ResourceQuota
		// most that the pod can have; 0: no limit.
		most recommender.Amount
		goes int
	}{
		"no quota":                         {nil, 0, 1},
		"of something else":                {[]corev1.ResourceQuota{quotaOf("pods", "1", "1")}, 0, 1},
		"with room for all":                {[]corev1.ResourceQuota{quotaOf("requests.cpu", "6", "1")}, 0, 1},
		"that is used up":                  {[]corev1.ResourceQuota{quotaOf("requests.cpu", "1", "1")}, 1000, 0},
		"of cpu, which is the same":        {[]corev1.ResourceQuota{quotaOf("cpu", "1", "1")}, 1000, 0},
		"that is exceeded":                 {[]corev1.ResourceQuota{quotaOf("requests.cpu", "1", "3")}, 1000, 0},
		"with room for what fits":          {[]corev1.ResourceQuota{quotaOf("requests.cpu", "4500m", "1")}, 4500, 0},
		"with room for more than that":     {[]corev1.ResourceQuota{quotaOf("requests.cpu", "5500m", "1")}, 5500, 1},
		"two: the strictest":               {[]corev1.ResourceQuota{quotaOf("requests.cpu", "9", "1"), quotaOf("cpu", "2", "1")}, 2000, 0},
		"of limits, which the pod has not": {[]corev1.ResourceQuota{quotaOf("limits.cpu", "9", "1")}, 1000, 0},
		"with no room for its new limit":   {[]corev1.ResourceQuota{quotaOf("limits.memory", "100Mi", "100Mi")}, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := claiming(c.quotas...)
			if name == "with no room for its new limit" {
				s.recommendations["a"].Spec.Containers[0].Demand.MemoryMax7d = podview.ToResources(size(0, 100, 0)).MemoryRequest
			}
			out := s.share(always)
			assert.Len(t, out.result.Evictions, c.goes)
			assert.Equal(t, c.most, out.ledger.demands[0].Containers[0].Reach[cpu])
			if c.goes > 0 {
				return
			}
			assert.LessOrEqual(t, out.grants["a"].Sizes["app"][cpu].Request, c.most, "it is asked for no more")
			assert.Empty(t, out.holders)
			for _, neighbour := range s.pods[1:] {
				if to := out.grants[neighbour.UID].Sizes["app"][cpu].Request; to > 0 {
					assert.GreaterOrEqual(t, to, recommender.Amount(1750), "its share")
				}
			}
		})
	}
	t.Run("while its use is not known", func(t *testing.T) {
		q := quotaOf("requests.cpu", "9", "1")
		q.Status.Used = nil
		assert.Empty(t, claiming(q).share(always).result.Evictions)
	})
	t.Run("that does not cover the pod", func(t *testing.T) {
		q := quotaOf("requests.cpu", "1", "1")
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
		assert.Len(t, claiming(q).share(always).result.Evictions, 1)
	})
	t.Run("of memory", func(t *testing.T) {
		s := claiming(quotaOf("requests.memory", "64Mi", "64Mi"))
		s.recommendations["a"] = recommended("a", 1000, 1000)
		s.base = func(pod *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
			return recommender.Usage(map[bool]recommender.Amount{true: 64 * mi, false: 1000}[r == memory]), true
		}
		assert.Empty(t, s.share(always).result.Evictions)
		s.quotas = nil
		assert.NotEmpty(t, s.share(always).result.Evictions)
	})
}

// Pods of a namespace share the rest of its quotas: bases first, in the order of their names. Frozen pods take none
// of it, and the part inside an init request is counted anyway.
func TestPodsShareWhatAQuotaLeaves(t *testing.T) {
	reaches := func(left string, edit func(*scene)) (reaches []recommender.Amount) {
		s := sceneOf("16", 1500, member("a", size(1000, 64, 128)), member("b", size(1000, 64, 128)), member("c", size(1000, 64, 128)))
		s.quotas = map[string][]corev1.ResourceQuota{"shop": {quotaOf("requests.cpu", left, "0")}}
		edit(s)
		for _, d := range s.ledger().demands {
			reaches = append(reaches, d.Containers[0].Reach[cpu])
		}
		return reaches
	}
	type a = []recommender.Amount
	none := func(*scene) {}
	assert.Equal(t, a{1000, 1000, 1000}, reaches("0", none))
	assert.Equal(t, a{1500, 1200, 1000}, reaches("700m", none))
	assert.Equal(t, a{1700, 1500, 1500}, reaches("1700m", none))
	assert.Equal(t, a{0, 1700, 1500}, reaches("2200m", none))
	assert.Equal(t, a{0, 0, 0}, reaches("3", none))
	assert.Equal(t, a{0, 1500, 1200}, reaches("700m", func(s *scene) {
		s.recommendations["a"].Status.Records = []v1alpha1.ResizeRecord{{PodUID: "a", Phase: v1alpha1.RecordWatching}}
	}), "who is frozen")
	assert.Equal(t, a{1500, 1500, 1000}, reaches("600m", func(s *scene) {
		s.pods[0].Spec.InitContainers = []corev1.Container{{Name: "init", Resources: podview.ToRequirements(size(1400, 1, 0))}}
	}), "100m beyond its init request, and 500m")
	assert.Equal(t, a{1000, 1500, 1200}, reaches("700m", func(s *scene) {
		s.pods[0].Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}), "what is not changed")
}

// A closed loop: an exhausted quota makes no pod oscillate.
func TestAQuotaThatIsUsedUpLeavesTheNodeAtRest(t *testing.T) {
	s := claiming(quotaOf("requests.cpu", "2", "1"))
	used := recommender.Amount(1000)
	for look := range 20 {
		out := s.share(always)
		require.Empty(t, out.result.Evictions)
		changed := false
		for i, pod := range s.pods {
			to := out.grants[pod.UID].Sizes["app"][cpu].Request
			if to == 0 {
				continue
			}
			changed = true
			if i == 0 {
				used = to
			}
			held := size(to, 64, 128)
			next := member(pod.Name, held)
			next.Namespace = pod.Namespace
			*pod = *next
		}
		s.quotas["claims"][0].Status.Used["requests.cpu"] = *resource.NewMilliQuantity(int64(used), resource.DecimalSI)
		s.now = s.now.Add(5 * time.Minute)
		require.False(t, changed && look > 1, "look %d changes somebody", look)
	}
	assert.EqualValues(t, 2000, used)
	assert.Equal(t, node.Amounts{2000, 0}, s.ledger().demands[0].Containers[0].Reach)
}

// Usage that a policy's own server reports takes no room from pods of other namespaces: the pod claims what it has, or
// what the operator's own source measures.
func TestUsageOfAPolicysServerTakesNoRoom(t *testing.T) {
	for name, test := range map[string]struct {
		// foreign is true if a policy's own server reports the peak of 980 MiB.
		foreign bool
		ranking v1alpha1.EvictionRanking
		// measured by the operator's own source; 0: it does not know the pod. holds is in MiB.
		measured, holds, most recommender.Amount
		evicted               int
	}{
		"ranking Low":              {true, v1alpha1.RankingLow, 64 * mi, 64, 64 * mi, 0},
		"ranking Never":            {true, v1alpha1.RankingNever, 64 * mi, 64, 64 * mi, 0},
		"not measured":             {true, v1alpha1.RankingNever, 0, 64, 64 * mi, 0},
		"without a request":        {true, v1alpha1.RankingNever, 0, 0, 0, 0},
		"measured by the operator": {true, v1alpha1.RankingNever, 200 * mi, 64, 200 * mi, 0},
		"used indeed":              {true, v1alpha1.RankingNever, 980 * mi, 64, 980 * mi, 2},
		"the operator's own peak":  {false, v1alpha1.RankingNever, 64 * mi, 64, 980 * mi, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := claiming()
			s.pods[0] = member("a", size(1000, test.holds, 128))
			s.pods[0].Namespace = "claims"
			rec := recommended("a", 1000, 980)
			rec.Namespace, rec.Spec.EvictionRanking, rec.Spec.PolicySource = "claims", test.ranking, test.foreign
			s.recommendations["a"] = rec
			s.base = func(pod *corev1.Pod, _ string, r recommender.Resource) (recommender.Usage, bool) {
				switch {
				case r != memory:
					return 1000, true
				case pod.Namespace == "claims":
					return recommender.Usage(test.measured), test.measured > 0
				}
				return recommender.Usage(64 * mi), true
			}
			out := s.share(always)
			assert.Len(t, out.result.Evictions, test.evicted)
			granted := out.grants["a"].Sizes["app"][memory].Request
			assert.LessOrEqual(t, granted, test.most)
			for _, other := range []types.UID{"b", "c"} {
				if kept := out.grants[other].Sizes["app"][memory].Request; test.evicted == 0 && kept != 0 { // 0: not changed
					assert.GreaterOrEqual(t, kept, 64*mi, other)
				}
			}
		})
	}
}
