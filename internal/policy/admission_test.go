package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// The modes Initial, Canary and Auto size new pods, unless the highest level that sets admission disables it.
func TestAdmissionSizesNewPodsByModeAndSetting(t *testing.T) {
	sizing := map[v1alpha1.UpdateType]bool{v1alpha1.UpdateInitial: true, v1alpha1.UpdateCanary: true, v1alpha1.UpdateAuto: true,
		v1alpha1.UpdateObserve: false, v1alpha1.UpdateRecommend: false, v1alpha1.UpdateOneShot: false}
	for mode, sizes := range sizing {
		for _, c := range []struct {
			cluster, namespace, own string
			enabled                 bool
		}{
			{"", "", "", true},
			{"", "", "admission: Enabled", true},
			{"", "", "admission: Disabled", false},
			{"admission: Disabled", "", "", false},
			{"admission: Disabled", "admission: Enabled", "", true},
			{"admission: Disabled", "", "admission: Enabled", true},
			{"", "admission: Disabled", "", false},
			{"admission: Enabled", "admission: Enabled", "admission: Disabled", false},
		} {
			p := aPolicy(t, "{targetRef: {kind: Deployment}, updateStrategy: {type: "+string(mode)+"}}")
			if c.own != "" {
				p = aPolicy(t, "{targetRef: {kind: Deployment}, updateStrategy: {type: "+string(mode)+"}, "+c.own+"}")
			}
			s, err := policy.Resolve(clusterDefaults(t, c.cluster), namespaceDefaults(t, c.namespace), p)
			require.NoError(t, err)
			assert.Equal(t, sizes && c.enabled, s.SizesNewPods(), "%s %+v", mode, c)
			assert.Equal(t, sizes && !c.enabled, s.NotSized() != "", "%s %+v", mode, c)
			assert.Equal(t, mode == v1alpha1.UpdateInitial && !c.enabled, s.ChangesNoPods() != "", "%s %+v", mode, c)
		}
	}
}
