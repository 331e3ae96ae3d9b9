package harm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

func TestAddVerified(t *testing.T) {
	kept := AddVerified(nil, recorded(desired), nil, noon)
	want := []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(desired), Since: metav1.NewTime(noon), TemplateHash: "abc"}}
	require.Equal(t, want, kept)
	assert.Equal(t, want, AddVerified(kept, recorded(desired), nil, noon.Add(time.Hour)), "kept since the first time")
	smaller := size(200, 400, 512, 1024)
	again := AddVerified(kept, recorded(smaller), nil, noon.Add(time.Hour))
	require.Len(t, again, 1)
	assert.Equal(t, podview.ToResources(smaller), again[0].Size)
	assert.Equal(t, noon.Add(time.Hour), again[0].Since.Time)
	other := AddVerified(kept, recorded(desired, func(r *v1alpha1.ResizeRecord) { r.TemplateHash = "def" }), nil, noon.Add(time.Hour))
	assert.Equal(t, "def", other[0].TemplateHash, "a new template generation")
	assert.Equal(t, want, kept, "the list given stays as it is")

	// desired has a CPU request of 250m and a limit of 500m, and 512 MiB of memory with a limit of 1 GiB.
	for _, tc := range []struct {
		harm     resize.Harm
		resource recommender.Resource
		amount   recommender.Amount
		keeps    bool
	}{
		{resize.HarmThrottle, recommender.CPU, 501, false}, {resize.HarmThrottle, recommender.CPU, 500, true},
		{resize.HarmOOM, recommender.Memory, 1025 * mi, false}, {resize.HarmOOM, recommender.Memory, 1000 * mi, true},
		{resize.HarmNotReady, recommender.CPU, 251, false}, {resize.HarmRestart, recommender.Memory, 513 * mi, false}, {resize.HarmSLO, recommender.CPU, 250, true},
	} {
		floor := v1alpha1.Floor{Container: "app", Resource: tc.resource.String(), Amount: podview.Quantity(tc.resource, tc.amount), Reason: string(tc.harm), LearnedAt: metav1.NewTime(noon)}
		assert.Equal(t, tc.keeps, len(AddVerified(nil, recorded(desired), []v1alpha1.Floor{floor}, noon)) == 1, "%s %d", tc.harm, tc.amount)
		floor.Container = "other"
		assert.Len(t, AddVerified(nil, recorded(desired), []v1alpha1.Floor{floor}, noon), 1, "another container's")
	}
}
