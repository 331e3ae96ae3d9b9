package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// A pause at any level removes the seed in every mode that sizes new pods. The recommendation stays.
func TestNothingIsSeededWhilePaused(t *testing.T) {
	on := ptr.To(true)
	levels := map[string]func(*v1alpha1.AttuneDefaults, *v1alpha1.AttuneNamespaceDefaults, *v1alpha1.AttunePolicy){
		"cluster": func(c *v1alpha1.AttuneDefaults, _ *v1alpha1.AttuneNamespaceDefaults, _ *v1alpha1.AttunePolicy) {
			c.Spec.Paused = on
		},
		"namespace": func(_ *v1alpha1.AttuneDefaults, n *v1alpha1.AttuneNamespaceDefaults, _ *v1alpha1.AttunePolicy) {
			n.Spec.Paused = on
		},
		"policy": func(_ *v1alpha1.AttuneDefaults, _ *v1alpha1.AttuneNamespaceDefaults, p *v1alpha1.AttunePolicy) {
			p.Spec.Paused = on
		},
	}
	for level, pause := range levels {
		for _, of := range []v1alpha1.UpdateType{v1alpha1.UpdateInitial, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto} {
			t.Run(level+"/"+string(of), func(t *testing.T) {
				v := sizing(t, nil).with(t, mode(of))
				before := Desired(v)
				require.NotNil(t, before.Seed)
				cluster, namespace := &v1alpha1.AttuneDefaults{}, &v1alpha1.AttuneNamespaceDefaults{}
				cluster.Name, namespace.Name = v1alpha1.DefaultsName, v1alpha1.DefaultsName
				pause(cluster, namespace, v.Policy)
				settings, err := policy.Resolve(cluster, namespace, v.Policy)
				require.NoError(t, err)
				v.Settings = settings
				after := Desired(v)
				assert.Nil(t, after.Seed)
				assert.Equal(t, v1alpha1.ReasonPaused, after.SeedBlocked)
				assert.Equal(t, before.Containers, after.Containers)
			})
		}
	}
}
