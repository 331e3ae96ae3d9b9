package embedded

import (
	"bytes"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

func TestLabelOf(t *testing.T) {
	text := []byte(`x{my_pod="no",id="pod=1",namespace="shop",pod="web"}`)
	assert.Equal(t, "web", string(labelOf(text, "pod")))
	assert.Equal(t, "shop", string(labelOf(text, "namespace")))
	assert.Empty(t, labelOf(text, "container"))
	assert.Empty(t, labelOf([]byte(`pod="x"`), "pod"))
}

func TestParseKeepsWhatIsWanted(t *testing.T) {
	text := `# HELP container_cpu_usage_seconds_total x
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="shop",pod="web"} 12.5 1748865600123
container_memory_working_set_bytes{container="app",namespace="shop",pod="web"} 1e+06
pod_cpu_usage_seconds_total{namespace="shop",pod="web"} 1
node_cpu_usage_seconds_total 99 1748865600000
`
	var got []string
	require.NoError(t, parse([]byte(text), resourceMetrics, func(p point) {
		var of labels.Labels
		p.labels(&of)
		got = append(got, of.String()+time.UnixMilli(p.at).UTC().Format(" 15:04:05.000"))
	}))
	assert.Equal(t, []string{
		`{__name__="container_cpu_usage_seconds_total", container="app", namespace="shop", pod="web"} 12:00:00.123`,
		`{__name__="container_memory_working_set_bytes", container="app", namespace="shop", pod="web"} 00:00:00.000`,
		`{__name__="node_cpu_usage_seconds_total"} 12:00:00.000`,
	}, got)
}

// FuzzScrape: any kubelet answer is read or rejected. Stored data can be queried and stored in a history: no duplicate
// label, no two series with the same labels.
func FuzzScrape(f *testing.F) {
	var text bytes.Buffer
	writeResource(&text, oneContainer(noon), noon)
	f.Add(text.Bytes())
	for _, text := range []string{
		`container_cpu_usage_seconds_total{pod="\"x",namespace=""} NaN`,
		"container_memory_working_set_bytes -1e999 99999999999999999",
		`node_cpu_usage_seconds_total{node="other"} 0x1p4`,
		"container_memory_working_set_bytes{namespace=\"shop\",pod=\"web\"} 1\ncontainer_memory_working_set_bytes{pod=\"web\",namespace=\"shop\"} 2",
		`container_memory_working_set_bytes{namespace="shop",pod="web",pod="api"} 1`,
		`container_cpu_usage_seconds_total{__name__="x",namespace="shop"} 1`,
		`container_oom_events_total{namespace="shop",pod="web",container="app",id="/a"} 1`,
		`container_pressure_cpu_waiting_seconds_total{id="/",container=""} 0.5 1748865600000`,
	} {
		f.Add([]byte(text + "\n"))
	}
	fix := newFixture(f, nil, noon)
	fix.scraper.NodePressure = true
	pods := map[Pod]bool{{"shop", "web"}: true}
	query := usage.Query{Namespaces: []string{"shop"}, Start: noon, End: noon, Step: time.Minute, RateWindow: time.Minute, Waited: true}
	f.Fuzz(func(t *testing.T, text []byte) {
		fix.recent.forget(noon.Add(2 * keptFor))
		require.Zero(t, fix.recent.count(""), "what was read before")
		r := reader{
			scraper: fix.scraper, target: &target{known: map[string]*known{}}, node: "n", dropped: map[usage.Drop]int{},
			nodeOf: func(Pod) (string, error) { return "n", nil },
		}
		for _, at := range []time.Time{noon.Add(-time.Minute), noon} {
			r.now, r.batch, r.pods = at.UnixMilli(), nil, nil
			_ = parse(bytes.Clone(text), resourceMetrics, r.take)
			r.pods = pods
			_ = parse(bytes.Clone(text), cadvisorMetrics, r.take)
			fix.recent.append(r.batch, noon)
		}
		requireSound(t, fix.recent)
		_, err := fix.Read(t.Context(), query, func(usage.Series) {})
		require.NoError(t, err)
	})
}

func requireSound(t *testing.T, in *recent) {
	t.Helper()
	seen := map[string]bool{}
	all, err := in.matching(t.Context(), nil)
	require.NoError(t, err)
	for _, s := range all {
		twice, has := s.labels.HasDuplicateLabelNames()
		require.False(t, has, "%s: label %s", s.labels, twice)
		require.False(t, seen[s.labels.String()], "twice: %s", s.labels)
		seen[s.labels.String()] = true
	}
}

// crowd is a node full of containers.
func crowd(n int) World {
	return func(at time.Time) []Measured {
		var all []Measured
		for i := range n {
			m := oneContainer(at)[0]
			m.Pod = "web-7d4f8c9b6-" + string([]byte{byte('a' + i%26), byte('a' + i/26%26), 'x', 'y', 'z'})
			all = append(all, m)
		}
		return all
	}
}
