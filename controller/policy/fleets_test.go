package policy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage/history"
)

// TestFleetsAreWantedWhereTheSettingIsKeep: the means of a fleet cost queries of their own.
func TestFleetsAreWantedWhereTheSettingIsKeep(t *testing.T) {
	hpa := func(name string, metrics ...autoscalingv2.MetricSpec) autoscalingv2.HorizontalPodAutoscaler {
		return autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: name}, MinReplicas: ptr.To[int32](2), MaxReplicas: 9, Metrics: metrics,
		}}
	}
	external := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType}
	scalers := held{hpa("on-cpu"), hpa("on-queue", external)}
	var won []workload.Workload
	for _, name := range []string{"free", "on-cpu", "on-queue"} {
		won = append(won, workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: name}})
	}
	of := func(c *Controller, strategy v1alpha1.Strategy, keeps bool) (names []string) {
		settings := policy.Settings{Strategy: strategy}
		settings.Recommender.Of[recommender.CPU].KeepReplicas = keeps
		in := history.Interest{}
		for _, w := range won {
			in.Workloads = append(in.Workloads, history.Workload{Kind: w.Kind, Name: w.Name, Containers: []string{"app"}})
		}
		c.wantFleets(t.Context(), &in, settings, matched{won: won})
		for _, w := range in.Workloads {
			if w.Fleet != nil {
				names = append(names, w.Name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"on-cpu"}, of(&Controller{Autoscalers: scalers}, v1alpha1.StrategyWorkload, true))
	assert.Empty(t, of(&Controller{Autoscalers: scalers}, v1alpha1.StrategyWorkload, false))
	assert.Empty(t, of(&Controller{Autoscalers: scalers}, v1alpha1.StrategyNode, true))
	assert.Empty(t, of(&Controller{}, v1alpha1.StrategyWorkload, true))
	failing := &Controller{Autoscalers: &unlistedAutoscalers{errors.New("timeout")}, History: covering{workload: "on-cpu"}}
	assert.Equal(t, []string{"on-cpu"}, of(failing, v1alpha1.StrategyWorkload, true), "no history is dropped meanwhile, and none is begun")
}

// covering has the history of one fleet.
type covering struct {
	History
	workload string
}

func (c covering) Covered(of history.Key, _ recommender.Resource) (out history.Coverage) {
	if of.Workload == c.workload && of.Namespace == "shop" {
		out.Window = time.Hour
	}
	return out
}
