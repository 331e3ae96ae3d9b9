package ui

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// The savings of a cluster policy are one figure for all namespaces. The figure of one namespace is unknown, not 0.
func TestSavedByAClusterPolicy(t *testing.T) {
	wide := policy.AsPolicy(&v1alpha1.AttuneClusterPolicy{})
	rec := v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Spec.Policy.Kind = "shop", v1alpha1.PolicyKindCluster
	c := Cluster{Policies: []v1alpha1.AttunePolicy{*wide}, Recommendations: []v1alpha1.AttuneRecommendation{rec}}
	fleet := fleetOf(c, 1)
	assert.Equal(t, [2]string{"–", "–"}, fleet.Rows[0].Saved())
	assert.Equal(t, [2]string{"0", "0"}, fleet.All.Saved())
	page := namespaceOf(c, "shop", 1, func(*v1alpha1.AttuneRecommendation) Explained { return Explained{} })
	assert.Equal(t, [2]string{"–", "–"}, page.All.Saved())
	assert.Equal(t, 1, page.All.Policies)
}
