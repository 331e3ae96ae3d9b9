package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/recommender"
)

// TestRatiosAsLimitRangerSeesThem: the rule that admission and resizes share says what the API server's own plug-in says, at the
// edge above all.
func TestRatiosAsLimitRangerSeesThem(t *testing.T) {
	refused := 0
	const pairs = 200_000
	for number := range uint64(pairs) {
		d := throw(number)
		thousandths := pick(d, int64(1000), 1500, 2000, 2500, 3000, 3333, 5000, 6000, 7000, 10000, 1000+d.Int64N(9000))
		most := *resource.NewMilliQuantity(thousandths, resource.DecimalSI)
		name, request := corev1.ResourceCPU, *resource.NewMilliQuantity(1+d.Int64N(4000), resource.DecimalSI)
		limit := *resource.NewMilliQuantity(max(1, request.MilliValue()*thousandths/1000+d.Int64N(3)-1), resource.DecimalSI)
		if d.chance(50) {
			name, request = corev1.ResourceMemory, *resource.NewQuantity(1+d.Int64N(1<<40), resource.BinarySI)
			limit = *resource.NewQuantity(max(1, int64(float64(request.Value())*float64(thousandths)/1000)+d.Int64N(3)-1), resource.BinarySI)
		}
		item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: corev1.ResourceList{name: most}}
		lr := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
		resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{name: request}, Limits: corev1.ResourceList{name: limit}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: resources}}}}
		says := limitranger.PodValidateLimitFunc(lr, toInternal(pod)) != nil
		require.Equal(t, says, constraint.ExceedsRatio(request, limit, most), "%s %s/%s, at most %s", name, request.String(), limit.String(), most.String())
		require.Equal(t, says, constraint.ViolationOf(item, resources.Requests, resources.Limits) != nil, "%s %s/%s, at most %s, for resizes", name, request.String(), limit.String(), most.String())
		asked, given := recommender.Amount(request.MilliValue()), recommender.Amount(limit.MilliValue())
		if name == corev1.ResourceMemory {
			asked, given = recommender.Amount(request.Value()), recommender.Amount(limit.Value())
		}
		bound := constraint.BoundsOf([]*corev1.LimitRange{lr}).Container[resourceOf(name)]
		require.Equal(t, says, bound.ViolatedBy(recommender.Allocation{Request: asked, Limit: given}), "%s %s/%s, at most %s, for admission", name, request.String(), limit.String(), most.String())
		require.Equal(t, says, constraint.RatioOf(most).Exceeded(asked, given), "%s %s/%s, at most %s, as amounts", name, request.String(), limit.String(), most.String())
		if says {
			refused++
		}
	}
	require.Greater(t, refused, pairs/20, "at the edge some are refused")
	require.Less(t, refused, pairs*19/20)
}

func resourceOf(name corev1.ResourceName) recommender.Resource {
	if name == corev1.ResourceMemory {
		return recommender.Memory
	}
	return recommender.CPU
}
