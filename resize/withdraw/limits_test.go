package withdraw

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize/resizetest"
)

// An admission policy that requires CPU limits rejects pods without one, also if no request changes.
func TestARemovedCPULimitMayBeRejected(t *testing.T) {
	request := resource.MustParse("480m")
	template := func(limit int64) *corev1.PodTemplateSpec {
		size := resizetest.Size(480, 0, 512, 1024)
		size[0].Limit += podview.AmountOf(0, *resource.NewMilliQuantity(limit, resource.DecimalSI))
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(size)}}}}
	}
	seed := func(rule *v1alpha1.CPULimitRule) *v1alpha1.Seed {
		return &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &request, CPULimitRule: rule}}}
	}
	assert.Equal(t, SeedEffect{}, EffectOf(seed(nil), template(960)))
	assert.Equal(t, SeedEffect{Lowers: true}, EffectOf(seed(&v1alpha1.CPULimitRule{Remove: true}), template(960)))
	assert.Equal(t, SeedEffect{Raises: true, Lowers: true}, EffectOf(seed(&v1alpha1.CPULimitRule{RatioThousandths: 9000}), template(960)))
	assert.Equal(t, SeedEffect{}, EffectOf(seed(&v1alpha1.CPULimitRule{Remove: true}), template(0)))
	assert.True(t, MayReject(`Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: validation error: CPU limits are required`, SeedEffect{Lowers: true}))
}
