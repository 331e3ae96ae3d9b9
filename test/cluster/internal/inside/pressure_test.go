package inside

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParsePressure(t *testing.T) {
	some, full := parsePressure("some avg10=25.96 avg60=21.42 avg300=24.19 total=362966556\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=17\n")
	require.Equal(t, 362966556*time.Microsecond, some)
	require.Equal(t, 17*time.Microsecond, full)
	some, full = parsePressure("nonsense\n")
	require.Zero(t, some)
	require.Zero(t, full)
}
