package answers

import (
	"bytes"
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
	var out bytes.Buffer
	require.NoError(t, answer.Human(&out, false))
	assert.Contains(t, out.String(), "Freed on nodes now: not known.\nPotential, not applied yet: -200m of CPU and 1Gi of memory.\nEverything is counted.\n")
	out.Reset()
	require.NoError(t, Savings{Report: report.New(nil, true)}.Human(&out, true))
	assert.Empty(t, out.String())
}
