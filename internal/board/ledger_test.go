package board

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Loop and plugin use the same figures: the overhead of a member, nothing for an ended pod, and the scheduler's
// footprint of every other pod, even if the sum exceeds the node.
func TestTheLedgerOfANode(t *testing.T) {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
	pod := func(name, cpu string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Overhead: list("100m"), Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list(cpu)}}}},
		}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: list("4")}}
	member, other, ended := pod("member", "3", corev1.PodRunning), pod("other", "4", corev1.PodRunning), pod("ended", "2", corev1.PodSucceeded)
	peak := resource.MustParse("1")
	shares := &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{
		Strategy: v1alpha1.StrategyNode, Mode: v1alpha1.UpdateAuto,
		Containers: []v1alpha1.ContainerTarget{{Name: "app", Demand: &v1alpha1.ContainerDemand{CPUPeak: &peak}}},
	}}
	l := LedgerOf(node, []*corev1.Pod{ended, other, member}, func(p *corev1.Pod) *v1alpha1.AttuneRecommendation {
		if p == other {
			return nil
		}
		return shares
	})
	assert.Equal(t, []*corev1.Pod{member}, l.Members)
	assert.EqualValues(t, 4000, l.Allocatable[recommender.CPU])
	assert.EqualValues(t, 4100+100, l.Fixed[recommender.CPU])
	assert.EqualValues(t, -200, l.Available()[recommender.CPU])
}

// The loop and the plugin show the same sizes of new pods.
func TestWantsOfContainers(t *testing.T) {
	two := resource.MustParse("2")
	rec := &v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{
		Strategy: v1alpha1.StrategyNode, Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: &two}}},
	}}
	of := []podview.Container{{Name: "side"}, {Name: "app"}}
	assert.Equal(t, []recommender.Size{{}, {recommender.CPU: {Request: 2000}}}, Wants(rec, of))
	assert.Nil(t, Wants(nil, of))
	rec.Spec.Strategy = v1alpha1.StrategyWorkload
	assert.Nil(t, Wants(rec, of))
}
