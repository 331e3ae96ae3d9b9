package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// byNode returns a View of strategy Node whose container used at most 200m and 100Mi in the last hours, and 700m and
// 300Mi 20 hours ago.
func byNode(t *testing.T, edit func(*v1alpha1.AttunePolicySpec)) View {
	t.Helper()
	v := sizing(t, nil).with(t, func(s *v1alpha1.AttunePolicySpec) {
		s.Strategy = ptr.To(v1alpha1.StrategyNode)
		edit(s)
	})
	v.History.Highest = func(_ string, r recommender.Resource) node.Span {
		burst := v.Now.Add(-20 * time.Hour)
		return func(from, to time.Time) (recommender.Usage, bool) {
			if from.Before(burst) && to.After(burst) {
				return []recommender.Usage{700, 300 << 20}[r], true
			}
			return []recommender.Usage{200, 100 << 20}[r], true
		}
	}
	return v
}

// A pod stays on its node for days, so it gets the peak of a day. Its CPU share follows the next hour. Memory in use
// cannot be taken away, so its peak on the node is also the day's.
func TestTheDaysPeakIsTheSeed(t *testing.T) {
	spec := Desired(byNode(t, func(*v1alpha1.AttunePolicySpec) {}))
	target := spec.Containers[0]
	require.NotNil(t, target.Demand)
	assert.Equal(t, "200m", target.Demand.CPUPeak.String())
	assert.Equal(t, "700m", target.Demand.CPUDay.String())
	assert.Equal(t, "300Mi", target.Demand.MemoryPeak.String())
	assert.Equal(t, "700m", target.Target.CPURequest.String())
	assert.Equal(t, "300Mi", target.Target.MemoryRequest.String())
}

// A Guaranteed pod is never resized by its node, and its limit equals its request. It gets the peak of a week: with the
// peak of an idle day as its limit, its next busy hour kills it.
func TestGuaranteedPodsGetTheWeeksPeak(t *testing.T) {
	view := func() View {
		v := byNode(t, func(*v1alpha1.AttunePolicySpec) {})
		day := v.History.Highest
		v.History.Highest = func(container string, r recommender.Resource) node.Span {
			burst := v.Now.Add(-5 * 24 * time.Hour)
			return func(from, to time.Time) (recommender.Usage, bool) {
				if from.Before(burst) && to.After(burst) {
					return []recommender.Usage{900, 500 << 20}[r], true
				}
				return day(container, r)(from, to)
			}
		}
		return v
	}
	v := view()
	v.Workload.Template.Spec.Containers[0].Resources.Limits = nil
	burstable := Desired(v).Containers[0]
	assert.Equal(t, "700m", burstable.Target.CPURequest.String())
	assert.Equal(t, "300Mi", burstable.Target.MemoryRequest.String())

	v = view()
	c := &v.Workload.Template.Spec.Containers[0]
	c.Resources.Limits = c.Resources.Requests.DeepCopy()
	v.Explained = true
	spec := Desired(v)
	guaranteed := spec.Containers[0]
	assert.Equal(t, "900m", guaranteed.Target.CPURequest.String())
	assert.Equal(t, "500Mi", guaranteed.Target.MemoryRequest.String())
	assert.Equal(t, "700m", guaranteed.Demand.CPUDay.String(), "its demand stays: nodes do not share with it")
	assert.Equal(t, "900m", spec.Seed.Containers[0].CPURequest.String())
	assert.Equal(t, "500Mi", spec.Seed.Containers[0].MemoryRequest.String())
	assert.Contains(t, guaranteed.Steps[0].Reason, "7 days")
}

// minAllowed applies to the pods of a policy, but is not demand.
func TestMinAllowedIsNoDemand(t *testing.T) {
	v := byNode(t, func(s *v1alpha1.AttunePolicySpec) {
		s.CPU = &v1alpha1.CPUSettings{}
		s.CPU.MinAllowed = ptr.To(resource.MustParse("6"))
	})
	target := Desired(v).Containers[0]
	assert.Equal(t, "200m", target.Demand.CPUPeak.String())
	assert.Equal(t, "700m", target.Demand.CPUDay.String())
	assert.Equal(t, "6", target.Demand.Least.CPURequest.String())
	assert.Equal(t, "6", target.Target.CPURequest.String())
}

// An OOM kill raises only the memory limit. A floor from any other regression counts as demand.
func TestOnlyKillsMoveTheMemoryLimit(t *testing.T) {
	of := func(reason string) v1alpha1.ContainerTarget {
		v := byNode(t, func(*v1alpha1.AttunePolicySpec) {})
		v.Status.Floors = []v1alpha1.Floor{{Container: Desired(v).Containers[0].Name, Resource: "memory", Amount: resource.MustParse("400Mi"), Reason: reason, LearnedAt: metav1.NewTime(v.Now)}}
		return Desired(v).Containers[0]
	}
	killed := of(string(resize.HarmOOM))
	assert.Equal(t, "300Mi", killed.Demand.MemoryPeak.String())
	assert.Equal(t, "400Mi", killed.Demand.MemoryOOM.String())
	assert.Equal(t, "800Mi", killed.Target.MemoryLimit.String())
	other := of(string(resize.HarmNotReady))
	assert.Equal(t, "400Mi", other.Demand.MemoryPeak.String())
	assert.Nil(t, other.Demand.MemoryOOM)
	assert.Equal(t, "600Mi", other.Target.MemoryLimit.String(), "twice the most in 7 days")
}

func TestTheGroupIsCarried(t *testing.T) {
	v := byNode(t, func(s *v1alpha1.AttunePolicySpec) { s.Node = &v1alpha1.NodeSettings{Group: ptr.To("checkout")} })
	assert.Equal(t, "checkout", Desired(v).NodeGroup)
}

func TestSourceOfAPolicyIsCarried(t *testing.T) {
	v := byNode(t, func(*v1alpha1.AttunePolicySpec) {})
	assert.False(t, Desired(v).PolicySource)
	v.Settings.Source.OfPolicy = true
	assert.True(t, Desired(v).PolicySource)
}

// memory.controlledValues RequestsOnly leaves memory limits alone, also after an OOM kill: no limit is computed, for new
// pods and on nodes.
func TestNodeWithRequestsOnlyComputesNoMemoryLimit(t *testing.T) {
	v := byNode(t, func(s *v1alpha1.AttunePolicySpec) {
		s.Memory = &v1alpha1.MemorySettings{}
		s.Memory.ControlledValues = ptr.To(v1alpha1.ControlledRequestsOnly)
	})
	v.Workload.Template.Spec.Containers[0].Resources.Limits = list("2", "512Mi")
	v.Status.Floors = []v1alpha1.Floor{kill(400 * mi)}
	spec := Desired(v)
	target := spec.Containers[0]
	assert.Nil(t, target.Target.MemoryLimit)
	assert.Nil(t, target.MemoryLimitFloor)
	assert.Nil(t, target.Demand.MemoryMax7d)
	assert.Nil(t, target.Demand.MemoryOOM)
	require.NotNil(t, spec.Seed)
	assert.Equal(t, "300Mi", text(spec.Seed.Containers[0].MemoryRequest))
	assert.Nil(t, spec.Seed.Containers[0].MemoryLimit)
	assert.Nil(t, spec.Seed.Containers[0].MemoryLimitFloor)
}
