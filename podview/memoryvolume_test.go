package podview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

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
