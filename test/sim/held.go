package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/usage"
)

// Memory is what the containers' cgroups hold.
func (g gauge) Memory(_ context.Context, namespace string, pods []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	return g.each(namespace, pods, func(pod *corev1.Pod, container string) float64 { return float64(g.of.w.held(pod, container)) })
}
