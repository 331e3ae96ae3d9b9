package embedded

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/sourcetest"
)

// TestSignals: what cAdvisor alone has is there once somebody has asked; kills from before are not counted.
func TestSignals(t *testing.T) {
	f := newFixture(t, nil, noon, "")
	kills := 7
	f.kubelet.instead = func(w http.ResponseWriter, r *http.Request) {
		ms := f.clock.Now().UnixMilli()
		if r.URL.Path == "/metrics/resource" {
			writeResource(w, oneContainer(f.clock.Now()), f.clock.Now())
			return
		}
		for _, pod := range []string{"web-7d4f8c9b6-aaaaa", "other-7d4f8c9b6-aaaaa"} {
			of := fmt.Sprintf(`container="app",id="/x",image="i",name="n",namespace="shop",pod=%q`, pod)
			fmt.Fprintf(w, "container_oom_events_total{%s} %d %d\n", of, kills, ms)
			fmt.Fprintf(w, "container_memory_usage_bytes{%s} 5e+07 %d\n", of, ms)
			fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{%s} %g %d\n", of, 0.25*float64(ms)/1000, ms)
		}
	}
	pod := Pod{"shop", "web-7d4f8c9b6-aaaaa"}
	_, err := f.Memory(t.Context(), pod.Namespace, pod.Name, "app", time.Minute, noon)
	require.ErrorIs(t, err, prometheus.ErrNoValue, "nobody has asked before")
	watched, err := f.scraper.watched(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, map[string]map[Pod]bool{"node1": {pod: true}}, watched)

	for i := range 5 {
		if i == 3 {
			kills += 2
		}
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*15*time.Second), watched["node1"]))
	}
	now := noon.Add(time.Minute)
	for _, c := range []struct {
		name string
		ask  func() (float64, error)
		want float64
	}{
		{"memory", func() (float64, error) { return f.Memory(t.Context(), "shop", pod.Name, "app", time.Minute, now) }, 5e7},
		{"kills", func() (float64, error) { return f.OOMKills(t.Context(), "shop", pod.Name, "app", 5*time.Minute, now) }, 2},
		{"waiting", func() (float64, error) { return f.Waiting(t.Context(), "shop", pod.Name, "app", time.Minute, now) }, 0.25},
	} {
		got, err := c.ask()
		require.NoError(t, err, c.name)
		assert.InDelta(t, c.want, got, 1e-6, c.name)
	}
	got, err := f.Value(t.Context(), `count(container_memory_usage_bytes)`, now)
	require.NoError(t, err)
	assert.InDelta(t, 1, got, 0, "of other pods nothing is kept")

	watched, err = f.scraper.watched(t.Context(), now.Add(16*time.Minute))
	require.NoError(t, err)
	assert.Empty(t, watched, "nobody asks any more")
}

func TestTooMuchIsSaid(t *testing.T) {
	f := newFixture(t, crowd(600), noon, "")
	require.NoError(t, f.scrapeAt(noon, nil))
	_, report := points(t, f.Source, noon)
	assert.Empty(t, report.Warnings)
	// As many containers, three times too often.
	f.options.Interval = time.Minute * 600 / (3 * Ceiling)
	_, report = points(t, f.Source, noon)
	assert.Equal(t, []string{"there is 3.0 times as much to scrape as one operator carries: raise usage.interval, or set usage.source to prometheus"}, report.Warnings)
	assert.False(t, report.Partial)
	f.weigh()
	f.weigh()
	assert.Contains(t, f.log.String(), "as one operator carries")
}

// Where nodes' own pressure is wanted, every kubelet is asked for it, watched pods or none, and each node's is told
// from the others'.
func TestNodePressure(t *testing.T) {
	start := noon
	f := newFixture(t, func(time.Time) []sourcetest.Measured { return nil }, start, "")
	f.scraper.pressure = true
	f.kubelet.set(func(k *playedKubelet) {
		k.instead = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics/cadvisor" {
				waited := 0.25 * f.clock.Now().Sub(start).Seconds()
				fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} %g\n", waited)
				fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{container=\"\",id=\"/kubepods\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} %g\n", 9*waited)
			}
		}
	})
	target := f.scraper.targets[f.node.Name]
	target.due = start
	for at := start; !at.After(start.Add(5 * time.Minute)); at = at.Add(time.Minute) {
		f.clock.SetTime(at)
		j := target.job(at, nil, f.scraper.pressure)
		require.NotNil(t, j, at)
		require.NotNil(t, j.pods, "cAdvisor is asked")
		require.NoError(t, f.scraper.scrape(t.Context(), j, at))
		target.settle(j, at, at, f.options.Interval, nil)
		assert.Equal(t, at.Add(time.Minute), target.watchDue, "no more often than for usage")
	}
	at := f.clock.Now()
	waiting, err := f.Value(t.Context(), prometheus.NodePressure(f.node.Name, 3*time.Minute), at)
	require.NoError(t, err)
	assert.InDelta(t, 0.25, waiting, 0.001)
	_, err = f.Value(t.Context(), prometheus.NodePressure("another", 3*time.Minute), at)
	require.ErrorIs(t, err, prometheus.ErrNoValue)
	assert.Nil(t, target.job(at, nil, false), "nobody wants to know")
}
