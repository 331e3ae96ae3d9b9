package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Implausible samples or a small node do not override an OOM kill.
func TestHoldsOfNodesAndSamplesKeepWhatKillsTaught(t *testing.T) {
	for _, reason := range []string{"NoData", "InsufficientData", "StaleData", "UsageImplausible", "NodeCapacity"} {
		t.Run(reason, func(t *testing.T) {
			v := using(t, 0.2, 300*mi, list("100m", "64Mi"), list("1", "512Mi"))
			v.Status.Floors = []v1alpha1.Floor{kill(865 * mi)}
			v.Blocked = func(_ string, r recommender.Resource) *recommender.Hold {
				if r == recommender.Memory {
					return &recommender.Hold{Reason: recommender.Reason(reason), Message: "because"}
				}
				return nil
			}
			spec := Desired(v)
			require.NotNil(t, spec.Seed)
			assert.Equal(t, "865Mi", text(spec.Seed.Containers[0].MemoryLimitFloor))
		})
	}
}

// One small node bounds the requests of a DaemonSet. A limit takes no room on a node, so floors learned from OOM
// kills stay.
func TestSmallNodeDoesNotUndoTheKillsOfADaemonSet(t *testing.T) {
	v := using(t, 0.05, 80*mi, list("100m", "64Mi"), list("1", "512Mi")).of(v1alpha1.KindDaemonSet)
	v.Workload.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("1", "512Mi")}
	v.Status.Floors = []v1alpha1.Floor{kill(865 * mi)}
	v.Largest = [2]recommender.Amount{1000, 112 * mi}
	spec := Desired(v)
	require.NotNil(t, spec.Seed)
	assert.Equal(t, "865Mi", text(spec.Containers[0].MemoryLimitFloor))
	assert.Equal(t, "865Mi", text(spec.Seed.LargestPod.MemoryLimit))
	settings := v.Settings.Recommender
	settings.Of[recommender.Memory].AllowDecrease = true
	change := recommender.NextStep(recommender.Move{
		Container: "app", Target: podview.FromResources(spec.Containers[0].Target), Original: podview.ReadSpec(v.Workload.Template.Spec.Containers[0].Resources),
		Live:    recommender.Size{recommender.CPU: {Request: 100, Limit: 1000}, recommender.Memory: {Request: 160 * mi, Limit: 865 * mi}},
		Largest: podview.LargestNode(spec.LargestNode), MemoryLimitFloor: 865 * mi, Settings: settings,
	})
	assert.GreaterOrEqual(t, change.Next[recommender.Memory].Limit, recommender.Amount(865*mi), "the running pod")
}
