package constraint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// list parses text such as "cpu=1 memory=1Gi".
func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, amount, _ := strings.Cut(field, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return l
}

func of(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: items}}
}

func TestBoundsTakeTheStrictest(t *testing.T) {
	got := BoundsOf([]*corev1.LimitRange{
		of(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: list("cpu=10m"), Max: list("cpu=4"), MaxLimitRequestRatio: list("cpu=4")},
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("memory=8Gi")},
		),
		of(
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: list("cpu=50m"), Max: list("cpu=2 memory=1Gi"), MaxLimitRequestRatio: list("cpu=10")},
		),
	})
	want := Bounds{
		Container: [2]Bound{{min: 50, max: 2000, ratio: 4000}, {max: 1 << 30}},
		Pod:       [2]Bound{{}, {max: 8 << 30}},
	}
	assert.Equal(t, want, got)
}

// A request that is raised to an odd minimum stays within a limit that equals the minimum.
func TestWholeRequestsStayWithinTheirLimits(t *testing.T) {
	const odd, mi = 333333333, 1 << 20
	for name, tc := range map[string]struct {
		bound  Bound
		a, was recommender.Allocation
		want   recommender.Allocation
	}{
		"a minimum that is the limit": {Bound{min: odd, max: 8192 * mi}, recommender.Allocation{Request: 16 * mi, Limit: odd}, recommender.Allocation{},
			recommender.Allocation{Request: odd, Limit: odd}},
		"a limit with room": {Bound{min: odd}, recommender.Allocation{Request: 16 * mi, Limit: 512 * mi}, recommender.Allocation{},
			recommender.Allocation{Request: 318 * mi, Limit: 512 * mi}},
		"a maximum below a request that is within it": {Bound{max: 500000000}, recommender.Allocation{Request: 499999999, Limit: 1024 * mi}, recommender.Allocation{},
			recommender.Allocation{Request: 499999999, Limit: 500000000}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.bound.Clamp(recommender.Memory, tc.a, tc.was))
		})
	}
}
