package prometheus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// TestForeignNamespaces: a server is believed of the namespaces alone that it was asked about.
func TestForeignNamespaces(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	query := usage.Query{Namespaces: []string{"shop"}, Start: at, End: at, Step: time.Minute, RateWindow: time.Minute}
	var got []string
	report, err := Read(t.Context(), Everything, query, func(_ context.Context, _ string, _ usage.Query, yield func(Element)) (Said, error) {
		for _, namespace := range []string{"shop", "bank", "Shop", "shop "} {
			yield(Element{
				Labels:  Labels{Namespace: namespace, Pod: "web-7d4f8c9b6-aaaaa", Container: "app"},
				Samples: []usage.Sample{{At: at.UnixMilli(), Value: 4_294_967}, {At: at.UnixMilli(), Value: 1}},
			})
		}
		return Said{}, nil
	}, func(s usage.Series) { got = append(got, s.Namespace) })
	require.NoError(t, err)
	assert.Equal(t, []string{"shop", "shop"}, got, "CPU and memory")
	assert.Equal(t, 2*3*2, report.Dropped[usage.DropForeign])
}
