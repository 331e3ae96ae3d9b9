package embedded

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/usagetest"
)

// TestBothSourcesHaveTheSameSpans scrapes a fleet that scales out and in, with both sources.
func TestBothSourcesHaveTheSameSpans(t *testing.T) {
	world := func(at time.Time) (out []Measured) {
		since := at.Sub(noon.Add(-2 * time.Hour))
		pod := func(id string, cores float64) {
			for _, container := range []string{"app", "proxy"} {
				out = append(out, Measured{Namespace: "shop", Pod: "web-7d4f8c9b6-" + id, Container: container, CPUSeconds: cores * since.Seconds(), MemoryBytes: cores * (1 << 30)})
				cores /= 4
			}
		}
		pod("aaaaa", 0.4)
		pod("bbbbb", 0.6)
		if at.After(noon.Add(-45*time.Minute)) && at.Before(noon.Add(-15*time.Minute)) {
			pod("ccccc", 0.2)
		}
		return out
	}
	past := usagetest.Past{From: noon.Add(-70 * time.Minute), To: noon, Every: time.Minute, World: world}
	own := newFixture(t, world, past.From)
	measure(t, own, past)
	all := memory{}
	for at := past.From; !at.After(past.To); at = at.Add(past.Every) {
		all.scrape(at, world(at))
	}
	server := httptest.NewServer(api{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}), all})
	t.Cleanup(server.Close)
	client, err := prometheus.New(prometheus.Config{Address: server.URL})
	require.NoError(t, err)

	interest := history.Interest{Policy: "p", Namespace: "shop", Source: usage.SourceSettings{HistoryWindow: 24 * time.Hour, QueryStep: 5 * time.Minute, RateWindow: 5 * time.Minute},
		Workloads: []history.Workload{{Kind: v1alpha1.KindDeployment, Name: "web", Containers: []string{"app", "proxy"}, Fleet: &history.Fleet{}}}}
	spansOf := func(source usage.Source, container string, r recommender.Resource) []replicas.Span {
		s := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
		require.NoError(t, s.Want(interest))
		for s.Refresh(t.Context(), noon) {
		}
		key := history.Key{Source: interest.Source.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "web", Container: container}
		assert.GreaterOrEqual(t, s.Covered(key, r).Known, 50)
		return s.Spans(key, r)
	}
	for _, container := range []string{"", "app", "proxy"} {
		share := map[string]float64{"": 1.25, "app": 1, "proxy": 0.25}[container]
		for _, r := range recommender.Resources {
			unit := share * 1000
			if r == recommender.Memory {
				unit = share * (1 << 30)
			}
			scraped, served := spansOf(own, container, r), spansOf(client, container, r)
			assert.Equal(t, scraped, served, "container %q, %s", container, r)
			found := map[int32]bool{}
			for _, span := range scraped {
				found[span.Ready] = true
				mean := map[int32]float64{2: 0.5, 3: 0.4}[span.Ready] * unit
				assert.True(t, span.Least <= mean && mean <= span.Greatest, "%+v has %g", span, mean)
				assert.InEpsilon(t, span.Least, span.Greatest, 0.07)
			}
			assert.Equal(t, map[int32]bool{2: true, 3: true}, found)
		}
	}
}
