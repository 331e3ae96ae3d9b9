package autoscale

import (
	"cmp"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// OriginalTarget returns the original target of a binding of the HPA of Deployment web, and why attune must not rewrite it.
func OriginalTarget(hpa *autoscalingv2.HorizontalPodAutoscaler, of Binding) (original int32, why string) {
	Autoscalers{}.addTarget(hpa, &of, workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Name: "web"}})
	return of.Original, cmp.Or(of.refused, of.object.foreign)
}
