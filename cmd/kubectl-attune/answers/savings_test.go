package answers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/savings/report"
	"attune.io/attune/internal/workload"
)

// Without the pods nothing is claimed to be realised, and without a workload there is no table.
func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	answer := Savings{Report: report.New([]report.Entry{{Workload: workload.Identity{Namespace: "shop", Name: "web"}, Figures: savings.Figures{Potential: savings.Pair{-200, 1 << 30}}}}, false)}
	assert.Nil(t, answer.Total.Realised)
	assert.Nil(t, answer.Workloads[0].Realised)
	out, err := answer.Human(false)
	require.NoError(t, err)
	assert.Contains(t, out, "Freed on nodes now: not known.\nPotential, not applied yet: -200m of CPU and 1Gi of memory.\nEverything is counted.\n")
	out, err = Savings{Report: report.New(nil, true)}.Human(true)
	require.NoError(t, err)
	assert.Empty(t, out)
}
