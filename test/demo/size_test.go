package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestSizeOf(t *testing.T) {
	both := corev1.ResourceRequirements{Requests: amounts("100m", "64Mi"), Limits: amounts("1", "1Gi")}
	assert.Equal(t, size{cpu: 100, cpuLimit: 1000, memory: 64 * mebibyte, memoryLimit: 1024 * mebibyte}, sizeOf(both))
	assert.Equal(t, size{cpu: 100, memory: 64 * mebibyte}, sizeOf(corev1.ResourceRequirements{Requests: amounts("100m", "64Mi")}))
	assert.Equal(t, size{}, sizeOf(corev1.ResourceRequirements{}))
}

func TestTargetOf(t *testing.T) {
	target := v1alpha1.Resources{
		CPURequest: ptr.To(resource.MustParse("26m")), CPULimit: ptr.To(resource.MustParse("52m")),
		MemoryRequest: ptr.To(resource.MustParse("78Mi")), MemoryLimit: ptr.To(resource.MustParse("156Mi")),
	}
	assert.Equal(t, size{cpu: 26, cpuLimit: 52, memory: 78 * mebibyte, memoryLimit: 156 * mebibyte}, targetOf(target))
	assert.Equal(t, size{}, targetOf(v1alpha1.Resources{}))
}

func TestNear(t *testing.T) {
	target := size{cpu: 1000, cpuLimit: 2000, memory: 1000, memoryLimit: 2000}
	for name, c := range map[string]struct {
		s    size
		want string // of the error
	}{
		"there":              {target, ""},
		"a tenth away":       {size{1100, 1820, 910, 2200}, ""},
		"CPU request":        {size{1200, 2000, 1000, 2000}, "CPU request"},
		"CPU limit":          {size{1000, 1800, 1000, 2000}, "CPU limit"},
		"memory request":     {size{1000, 2000, 500, 2000}, "memory request"},
		"memory limit":       {size{1000, 2000, 1000, 4000}, "memory limit"},
		"a limit is missing": {size{1000, 0, 1000, 2000}, "CPU limit"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.s.near(target)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestSizesAreShownRoundedUp(t *testing.T) {
	assert.Equal(t, "cpu 26m/-, memory 79Mi/156Mi", size{cpu: 26, memory: 78*mebibyte + 1, memoryLimit: 156 * mebibyte}.String())
}
