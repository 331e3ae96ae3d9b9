package policy

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// shown is a report about workloads with one container each, in the namespace "metrics".
func shown(mode v1alpha1.UpdateType, names ...string) report {
	r := report{settings: policy.Settings{}}
	r.settings.Resize.Mode = mode
	for _, name := range names {
		rec := v1alpha1.AttuneRecommendation{}
		rec.Namespace = "metrics"
		rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: name}
		cpu := resource.MustParse("120m")
		rec.Spec.Containers = []v1alpha1.ContainerTarget{{
			Name: "app", Target: v1alpha1.Resources{CPURequest: &cpu}, Confidence: "0.5",
			Steps: []v1alpha1.Step{{Resource: "cpu", Name: "burst", Before: "1", After: "1500m"}, {Resource: "memory", Name: "burst", Before: "1Gi", After: "1Gi"}},
		}}
		r.recommendations = append(r.recommendations, rec)
		r.matched.won = append(r.matched.won, workload.Workload{})
	}
	return r
}

// Deleted workloads and policies leave no series. Series of workloads that another policy has taken over stay.
func TestSeriesGoWithWhatTheyAreAbout(t *testing.T) {
	var x published
	one, other := types.NamespacedName{Namespace: "metrics", Name: "one"}, types.NamespacedName{Namespace: "metrics", Name: "other"}
	gained := func() []int {
		var all []int
		for _, name := range []string{"attune_recommendation_cpu_cores", "attune_recommendation_memory_bytes", "attune_confidence", "attune_burst_factor", "attune_savings_cpu_cores"} {
			all = append(all, testutil.CollectAndCount(&x, name))
		}
		return all
	}

	x.publish(one, shown(v1alpha1.UpdateAuto, "web", "api", "db"))
	assert.Equal(t, []int{3, 0, 3, 3, 1}, gained(), "no series for memory, which has no target and no peaks")
	assert.NoError(t, testutil.CollectAndCompare(&x, strings.NewReader(`
# HELP attune_burst_factor Factor that the burst step applies to a container's recommendation, by resource (cpu, memory); no series if it applies none.
# TYPE attune_burst_factor gauge
attune_burst_factor{container="app",kind="Deployment",namespace="metrics",resource="cpu",workload="api"} 1.5
attune_burst_factor{container="app",kind="Deployment",namespace="metrics",resource="cpu",workload="db"} 1.5
attune_burst_factor{container="app",kind="Deployment",namespace="metrics",resource="cpu",workload="web"} 1.5
# HELP attune_confidence Confidence of a container's recommendation, from 0 (no history) to 1 (enough history).
# TYPE attune_confidence gauge
attune_confidence{container="app",kind="Deployment",namespace="metrics",workload="api"} 0.5
attune_confidence{container="app",kind="Deployment",namespace="metrics",workload="db"} 0.5
attune_confidence{container="app",kind="Deployment",namespace="metrics",workload="web"} 0.5
# HELP attune_recommendation_cpu_cores Target of the CPU request of a container, in cores.
# TYPE attune_recommendation_cpu_cores gauge
attune_recommendation_cpu_cores{container="app",kind="Deployment",namespace="metrics",workload="api"} 0.12
attune_recommendation_cpu_cores{container="app",kind="Deployment",namespace="metrics",workload="db"} 0.12
attune_recommendation_cpu_cores{container="app",kind="Deployment",namespace="metrics",workload="web"} 0.12
`), "attune_burst_factor", "attune_confidence", "attune_recommendation_cpu_cores"))
	x.publish(one, shown(v1alpha1.UpdateAuto, "web", "api"))
	assert.Equal(t, []int{2, 0, 2, 2, 1}, gained(), "a workload is gone")
	x.publish(other, shown(v1alpha1.UpdateAuto, "web"))
	x.publish(one, shown(v1alpha1.UpdateAuto, "api"))
	assert.Equal(t, []int{2, 0, 2, 2, 1}, gained(), "taken over, and not taken back by the policy that had it")
	x.publish(one, shown(v1alpha1.UpdateAuto, "web", "api"))
	x.publish(other, shown(v1alpha1.UpdateAuto, "web"))
	x.publish(other, shown(v1alpha1.UpdateAuto))
	assert.Equal(t, []int{1, 0, 1, 1, 1}, gained(), "gone, and what the former policy showed of it does not come back before its next pass")
	x.publish(other, shown(v1alpha1.UpdateObserve, "web"))
	assert.Equal(t, []int{1, 0, 2, 1, 1}, gained(), "Observe shows the progress of the data alone")
	x.forget(one)
	assert.Equal(t, []int{0, 0, 1, 0, 1}, gained())
	x.forget(other)
	x.forget(other)
	assert.Equal(t, []int{0, 0, 0, 0, 0}, gained())
	assert.Empty(t, x.policies)
}

// The instances of a policy in other namespaces are neither counted in the sum of a namespace nor changed by it: a
// cluster policy may be in thousands.
func TestTheSumOfANamespaceIsOfItsPoliciesAlone(t *testing.T) {
	var x published
	for _, namespace := range []string{"sum-a", "sum-b"} {
		x.publish(types.NamespacedName{Namespace: namespace, Name: base}, shown(v1alpha1.UpdateAuto, "web"))
	}
	part := x.policies["sum-b"][base]
	part.saved[recommender.CPU] = 3000
	x.policies["sum-b"][base] = part
	assert.Equal(t, map[string]float64{"sum-a": 0, "sum-b": 3}, savedBy(&x, "attune_savings_cpu_cores"))
	x.forget(types.NamespacedName{Namespace: "sum-a", Name: base})
	assert.Len(t, x.policies, 1)
	x.forget(types.NamespacedName{Namespace: "sum-b", Name: base})
	assert.Empty(t, x.policies)
}

func TestAPassPublishesWhatItSaves(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	p := f.memory.objects["AttunePolicy/shop"]["all"].(*v1alpha1.AttunePolicy)
	assert.InDelta(t, p.Status.Savings.CPURequestReduction.AsApproximateFloat64(), savedBy(&f.published, "attune_savings_cpu_cores")["shop"], 1e-9)
	assert.InDelta(t, p.Status.Savings.MemoryRequestReduction.AsApproximateFloat64(), savedBy(&f.published, "attune_savings_memory_bytes")["shop"], 1)
}

// savedBy is the value of a metric by namespace.
func savedBy(x *published, name string) map[string]float64 {
	out := map[string]float64{}
	for m := range collected(x) {
		var value dto.Metric
		if strings.Contains(m.Desc().String(), `"`+name+`"`) && m.Write(&value) == nil {
			out[value.Label[0].GetValue()] = value.GetGauge().GetValue()
		}
	}
	return out
}

// collected returns all metrics.
func collected(x *published) <-chan prometheus.Metric {
	to := make(chan prometheus.Metric)
	go func() {
		x.Collect(to)
		close(to)
	}()
	return to
}

// containers returns the number of shown containers.
func (x *published) containers() (n int) {
	for _, in := range x.policies {
		for _, part := range in {
			n += len(part.shown)
		}
	}
	return n
}
