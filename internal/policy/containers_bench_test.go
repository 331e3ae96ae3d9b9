package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// BenchmarkContainerPolicies resolves a policy with as many entries as the schema allows.
func BenchmarkContainerPolicies(b *testing.B) {
	for _, entries := range []int{0, 1, 64} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			p := &v1alpha1.AttunePolicy{}
			p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
			for i := range entries {
				most := resource.MustParse("4Gi")
				p.Spec.ContainerPolicies = append(p.Spec.ContainerPolicies, v1alpha1.ContainerPolicy{
					ContainerName: v1alpha1.ContainerName(fmt.Sprintf("app-%d", i)),
					Memory:        &v1alpha1.MemorySettings{ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: &most}},
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				_, err := policy.Resolve(nil, nil, p)
				require.NoError(b, err)
			}
		})
	}
}
