package pod

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

func TestAppendAmount(t *testing.T) {
	amounts := []recommender.Amount{0, 1, 2, 10, 999, 1000, 1001, 1024, 1025, 2000, 12500, 1 << 20, 3 << 19, 5 << 30, 1<<30 + 1, 1 << 40, 1 << 49}
	for _, r := range recommender.Resources {
		for _, a := range amounts {
			var written string
			require.NoError(t, json.Unmarshal(appendAmount(nil, r, a), &written))
			q, err := resource.ParseQuantity(written)
			require.NoError(t, err, written)
			assert.Equal(t, a, podview.AmountOf(r, q), written)
			if written != "1000" { // canonically 1k, and the API server writes it so
				want := podview.Quantity(r, a)
				assert.Equal(t, want.String(), written)
			}
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("quote \" backslash \\ newline \n nul \x00 umlaut ü")
	f.Fuzz(func(t *testing.T, s string) {
		var valid, back string // the input is always valid UTF-8, because it was decoded from JSON
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &valid))

		require.NoError(t, json.Unmarshal(appendString(nil, valid), &back))
		assert.Equal(t, valid, back)
	})
}
