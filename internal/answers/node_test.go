package answers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

// A script must not read a demand that was not measured as 0.
func TestDemandThatWasNotMeasuredIsNull(t *testing.T) {
	body, err := json.Marshal(QuantitiesOf([2]recommender.Amount{recommender.CPU: 250, recommender.Memory: 5}, [2]bool{recommender.CPU: true}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"cpu":"250m","memory":null}`, string(body))
}

func TestPairsAreWrittenAsQuantities(t *testing.T) {
	assert.Equal(t, NodeAmounts{CPU: "1500m", Memory: "512Mi"}, NodeAmountsOf([2]recommender.Amount{1500, 512 << 20}))
}

// A holder identity is the pod's name and a suffix of the process. A released lease names no pod.
func TestLeaderOfALease(t *testing.T) {
	lease := &coordinationv1.Lease{}
	assert.Empty(t, LeaderOf(lease))
	lease.Spec.HolderIdentity = ptr.To("")
	assert.Empty(t, LeaderOf(lease))
	lease.Spec.HolderIdentity = ptr.To("attune-controller-5d9c_8f0e-11")
	assert.Equal(t, "attune-controller-5d9c", LeaderOf(lease))
}
