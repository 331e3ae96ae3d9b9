package connect

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
)

// pieces is a source with pieces of one answer.
type pieces []usage.Series

func (p pieces) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	if query.Steps() > 100 {
		return usage.Report{}, usage.ErrTooMuch
	}
	for _, s := range p {
		yield(s)
	}
	return usage.Report{}, nil
}

func TestMoments(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	step := 5 * time.Minute
	at := func(n int) time.Time { return start.Add(time.Duration(n) * step) }
	cpu := func(values ...float64) (all []usage.Sample) { // from the first step on; below 0: not known
		for i, v := range values {
			if v >= 0 {
				all = append(all, usage.Sample{At: at(i + 1).UnixMilli(), Value: v})
			}
		}
		return all
	}
	source := pieces{
		{Pod: "web-7d4f8c9b6-aaaaa", Container: "app", CPU: cpu(0.1, 0.2, 0.3)},
		{Pod: "web-7d4f8c9b6-aaaaa", Container: "app", CPU: cpu(0.1, 0.1, 0.3)}, // again, from another server
		{Pod: "web-7d4f8c9b6-aaaaa", Container: "proxy", CPU: cpu(0.1, 0.1, -1)},
		{Pod: "web-7d4f8c9b6-bbbbb", Container: "app", CPU: cpu(0.4, 900, 0.1)},
		{Pod: "web-v2-7d4f8c9b6-bbbbb", Container: "app", CPU: cpu(5, 5, 5)},
	}
	q := Question{
		Source: source, Of: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}, Step: step,
		Neighbours: workload.NewPodIndex([]workload.KindName{{Kind: v1alpha1.KindDeployment, Name: "web"}, {Kind: v1alpha1.KindDeployment, Name: "web-v2"}}),
		Span:       Span{start, start.Add(24 * time.Hour)},
	}
	moment := func(n int, pods int32, mean float64) replicas.Moment {
		return replicas.Moment{At: at(n), Fleet: replicas.Fleet{Current: pods, Ready: pods, Usage: mean}}
	}
	equal := func(want, got []replicas.Moment) {
		t.Helper()
		require.Len(t, got, len(want))
		for i := range want {
			assert.InDelta(t, want[i].Usage, got[i].Usage, 1e-9)
			want[i].Usage, got[i].Usage = 0, 0
		}
		assert.Equal(t, want, got)
	}
	whole, _, err := Moments(t.Context(), q, "", recommender.CPU, usage.Most{Cores: 64})
	require.NoError(t, err)
	equal([]replicas.Moment{moment(1, 2, 300), moment(2, 1, 300), moment(3, 1, 100)}, whole) // a pod without one of its containers, or with an impossible value, does not count
	one, _, err := Moments(t.Context(), q, "app", recommender.CPU, usage.Most{Cores: 64})
	require.NoError(t, err)
	equal([]replicas.Moment{moment(1, 2, 250), moment(2, 1, 200), moment(3, 2, 200)}, one)
	none, _, err := Moments(t.Context(), q, "", recommender.Memory, usage.Most{})
	require.NoError(t, err)
	assert.Empty(t, none)
}
