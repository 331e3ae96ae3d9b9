package autoscale_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
)

// The keys find every autoscaler that can hold a workload: those that target it, and those that target the custom
// object that owns it, with any group or version.
func TestTargetKeysFindEveryBlockingAutoscaler(t *testing.T) {
	owned := web()
	owned.OwnedBy = workload.Owner{GroupKind: schema.GroupKind{Group: "example.org", Kind: "Shop"}, Name: "corner"}
	for _, version := range []string{"apps/v1", "extensions/v1beta1", ""} {
		h, v := hpa("a"), vpa("a", "")
		h.Spec.ScaleTargetRef.APIVersion = version
		assert.NotEmpty(t, autoscale.Bindings(&h, web()))
		assert.Equal(t, []string{autoscale.TargetKey(&h)}, autoscale.TargetKeys(web()))
		assert.Equal(t, []string{autoscale.TargetKey(&v)}, autoscale.TargetKeys(web()))
		assert.Contains(t, autoscale.TargetKeys(owned), autoscale.TargetKey(&h))
	}
	ofOwner := hpa("a")
	ofOwner.Spec.ScaleTargetRef.APIVersion, ofOwner.Spec.ScaleTargetRef.Kind, ofOwner.Spec.ScaleTargetRef.Name = "example.org/v1", "Shop", "corner"
	assert.NotEmpty(t, autoscale.Bindings(&ofOwner, owned))
	assert.Contains(t, autoscale.TargetKeys(owned), autoscale.TargetKey(&ofOwner))
	assert.NotContains(t, autoscale.TargetKeys(web()), autoscale.TargetKey(&ofOwner))
}
