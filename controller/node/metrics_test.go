package node

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

// The headroom of a node is what its members may have minus what they need. A node without members has no series.
func TestHeadroomOfANode(t *testing.T) {
	s := sceneOf("4", 300, member("web", size(1000, 64, 128)))
	out := s.share(always)
	needed := out.result.Needed
	assert.Positive(t, needed[recommender.CPU])
	showHeadroom("headroom", out)
	assert.InDelta(t, float64(out.ledger.available[recommender.CPU]-needed[recommender.CPU])/1000, testutil.ToFloat64(headroomCPU.WithLabelValues("headroom")), 1e-9)
	assert.Less(t, testutil.ToFloat64(headroomCPU.WithLabelValues("headroom")), 4.0)
	assert.InDelta(t, float64(out.ledger.available[recommender.Memory]-needed[recommender.Memory]), testutil.ToFloat64(headroomMemory.WithLabelValues("headroom")), 1)

	// An hour later, its pods need more than the node has.
	out.result.Needed[recommender.CPU] = out.ledger.available[recommender.CPU] + 500
	showHeadroom("headroom", out)
	assert.InDelta(t, -.5, testutil.ToFloat64(headroomCPU.WithLabelValues("headroom")), 1e-9)

	shown := testutil.CollectAndCount(headroomCPU) + testutil.CollectAndCount(headroomMemory)
	s = sceneOf("4", 300)
	showHeadroom("headroom", s.share(always))
	assert.Equal(t, shown-2, testutil.CollectAndCount(headroomCPU)+testutil.CollectAndCount(headroomMemory))
}
