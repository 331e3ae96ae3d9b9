package podview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

func TestCapLimitNeverRaisesALimit(t *testing.T) {
	for _, tc := range []struct {
		was, to recommender.Allocation
		most    recommender.Amount
		want    recommender.Amount
	}{
		{recommender.Allocation{Request: 20, Limit: 1000}, recommender.Allocation{Request: 983, Limit: 49150}, 8000, 8000},
		{recommender.Allocation{Request: 20, Limit: 1000}, recommender.Allocation{Request: 983, Limit: 49150}, 0, 49150},
		{recommender.Allocation{Request: 20, Limit: 64000}, recommender.Allocation{Request: 10, Limit: 32000}, 8000, 32000},
		{recommender.Allocation{Request: 20, Limit: 1000}, recommender.Allocation{Request: 9000, Limit: 18000}, 8000, 9000},
		{recommender.Allocation{Request: 20}, recommender.Allocation{Request: 30}, 8000, 0},
	} {
		assert.Equal(t, recommender.Allocation{Request: tc.to.Request, Limit: tc.want}, CapLimit(tc.was, tc.to, tc.most), "%+v", tc)
	}
}

// A second call changes nothing, for any amounts: the API server may call admission again with attune's own result.
func TestLeastSizesAreStable(t *testing.T) {
	amounts := []recommender.Amount{0, 1, 2, 5, 10, 100, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 1 << 30}
	for _, r := range recommender.Resources {
		for _, wasRequest := range amounts {
			for _, wasLimit := range amounts {
				for _, toRequest := range amounts {
					for _, toLimit := range amounts {
						was, to := recommender.Allocation{Request: wasRequest, Limit: wasLimit}, recommender.Allocation{Request: toRequest, Limit: toLimit}
						once := RaiseToLeast(r, was, to)
						assert.Equal(t, once, RaiseToLeast(r, was, once), "%v %+v %+v", r, was, to)
						assert.Equal(t, toLimit == 0, once.Limit == 0)
						assert.True(t, once.Limit == 0 || once.Request <= once.Limit)
						assert.True(t, once.Limit == wasLimit || once.Limit == 0 || once.Limit >= least[r].Limit, "%v %+v %+v", r, was, once)
					}
				}
			}
		}
	}
}

func TestMemoryVolumes(t *testing.T) {
	limit, none, huge := resource.MustParse("64Mi"), resource.MustParse("0"), resource.MustParse("8Ei")
	var v MemoryVolumes
	v.Add(corev1.StorageMediumDefault, nil)
	v.Add(corev1.StorageMediumHugePages, nil)
	v.Add("HugePages-2Mi", &limit)
	assert.Equal(t, MemoryVolumes{}, v)
	assert.False(t, v.Exceed(1, 100))
	v.Add(corev1.StorageMediumMemory, &limit)
	v.Add(corev1.StorageMediumMemory, &limit)
	assert.Equal(t, MemoryVolumes{Size: 128 << 20}, v)
	assert.True(t, v.Exceed(228<<20, 100<<20))
	assert.False(t, v.Exceed(229<<20, 100<<20))
	v.Add(corev1.StorageMediumMemory, &huge)
	v.Add(corev1.StorageMediumMemory, &huge)
	assert.Equal(t, recommender.MaxAmount, v.Size, "sums do not overflow")
	v.Add(corev1.StorageMediumMemory, &none)
	assert.True(t, v.Exceed(1<<40, 0), "a limit of 0 is none")
}
