package constraint

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// A limit at the maximum ratio of a LimitRange passes, for all amounts: the gate computes the same ratio as the API
// server.
func TestStepsAtALimitRangesRatio(t *testing.T) {
	for _, most := range []string{"1.5", "3", "5", "6", "7"} {
		ratio := resource.MustParse(most)
		item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: corev1.ResourceList{corev1.ResourceCPU: ratio}}
		for request := int64(10); request <= 1000; request += 2 {
			limit := request * ratio.MilliValue() / 1000
			list := func(m int64) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(m, resource.DecimalSI)}
			}
			assert.Nil(t, ViolationOf(item, list(request), list(limit)), "%s: %dm/%dm", most, request, limit)
			assert.NotNil(t, ViolationOf(item, list(request), list(limit+1)), "%s: %dm/%dm", most, request, limit+1)
			to := recommender.Allocation{Request: recommender.Amount(request), Limit: recommender.Amount(limit)}
			assert.Equal(t, to, Within(item, recommender.CPU, recommender.Allocation{Request: 2000, Limit: 14000}, to), "%s: %dm", most, request)
		}
	}
}
