package csvfile_test

import (
	"math"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
)

func TestPoolTakesTheHighestReplica(t *testing.T) {
	all := func() []backtest.Series {
		return []backtest.Series{
			{ID: "shop/web-7c9d8-bcdfg/app", Samples: []backtest.Sample{sample(300, 0.1, 50), sample(600, 0.4, 50)}},
			{ID: "shop/db-0/app", Samples: []backtest.Sample{sample(300, 1, 1)}},
			// Its samples are seconds earlier, and one more.
			{ID: "shop/web-7c9d8-hjklm/app", Samples: []backtest.Sample{sample(290, 0.2, math.NaN()), sample(590, 0.3, 70), sample(890, 0.5, 10)}},
			{ID: "shop/web-7c9d8-hjklm/proxy", Samples: []backtest.Sample{sample(300, 9, 9)}},
		}
	}
	pooled, matches := csvfile.Pool(all(), regexp.MustCompile(`^(shop/web)-[^/]*(.*)$`))
	assert.True(t, matches)
	assert.Empty(t, cmp.Diff([]backtest.Series{
		{ID: "shop/web/app", Samples: []backtest.Sample{sample(300, 0.2, 50), sample(600, 0.4, 70), sample(900, 0.5, 10)}},
		{ID: "shop/db-0/app", Samples: []backtest.Sample{sample(300, 1, 1)}},
		{ID: "shop/web/proxy", Samples: []backtest.Sample{sample(300, 9, 9)}},
	}, pooled, cmpopts.EquateNaNs()))

	pooled, matches = csvfile.Pool(all(), regexp.MustCompile(`web`))
	assert.True(t, matches)
	assert.Len(t, pooled, 2, "without groups, the match is the name")
	_, matches = csvfile.Pool(all(), regexp.MustCompile(`web, api`))
	assert.False(t, matches)
}

func TestReplicasAreRecognised(t *testing.T) {
	for name, tc := range map[string]struct {
		names       []string
		of, pattern string
		pods        int
	}{
		"a Deployment": {
			[]string{"shop/api/app", "shop/web-7c9d8-00000/app", "shop/web-7c9d8-00001/app", "shop/web-5f6f4-00002/app", "shop/web-7c9d8-00003/app", "shop/web-7c9d8-00003/proxy"},
			"shop/web/app", `^(shop/web)-[^/]*(.*)$`, 4,
		},
		"a StatefulSet": {[]string{"db-0", "db-1", "db-2", "db-10"}, "db", `^(db)-[^/]*(.*)$`, 4},
		"a DaemonSet":   {[]string{"kube-system/agent-x7k2p/a", "kube-system/agent-q9z4m/a", "kube-system/agent-bb2cd/a", "kube-system/agent-v8n5t/a"}, "kube-system/agent/a", `^(kube-system/agent)-[^/]*(.*)$`, 4},
		"labels of Prometheus": {
			[]string{`{container="app",pod="web-7c9d8-x7k2p"}`, `{container="app",pod="web-7c9d8-q9z4m"}`, `{container="app",pod="web-7c9d8-bb2cd"}`, `{container="app",pod="web-7c9d8-v8n5t"}`},
			`{container="app",pod="web"}`, `^(\{container="app",pod="web)-[^"]*(.*)$`, 4,
		},
		"words":            {[]string{"shop/web-proxy", "shop/web-cache", "shop/web-store", "shop/web-front"}, "", "", 0},
		"three replicas":   {[]string{"db-0", "db-1", "db-2"}, "", "", 0},
		"containers":       {[]string{"shop/web/app", "shop/web/proxy", "shop/web/cache", "shop/web/init"}, "", "", 0},
		"nothing":          {nil, "", "", 0},
		"names with a dot": {[]string{"a.b-0", "a.b-1", "a.b-2", "a.b-3"}, "a.b", `^(a\.b)-[^/]*(.*)$`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			of, pattern, pods := csvfile.Replicas(tc.names)
			assert.Equal(t, []any{tc.of, tc.pattern, tc.pods}, []any{of, pattern, pods})
		})
	}
}
