package embedded

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// TestSignals: metrics that only cAdvisor has are available after a first query; earlier kills are not counted.
func TestSignals(t *testing.T) {
	f := newFixture(t, nil, noon)
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
	unknown, err := f.Memory(t.Context(), pod.Namespace, []string{pod.Name}, time.Minute, noon)
	require.ErrorIs(t, err, usage.ErrSoon, "nobody has asked before")
	require.Empty(t, unknown)
	f.clock.Step(knownWithin - time.Second)
	_, err = f.Memory(t.Context(), pod.Namespace, []string{pod.Name}, time.Minute, noon)
	require.ErrorIs(t, err, usage.ErrSoon)
	f.clock.Step(time.Second)
	_, err = f.Memory(t.Context(), pod.Namespace, []string{pod.Name}, time.Minute, noon)
	require.NoError(t, err, "it should be known by now, and is not: there is nothing to wait for")
	f.clock.Step(-knownWithin)
	watched, err := f.scraper.watched(t.Context(), noon)
	require.NoError(t, err)
	require.Equal(t, map[string]*extras{"node1": {pods: map[Pod]bool{pod: true}, often: true}}, watched)

	for i := range 5 {
		if i == 3 {
			kills += 2
		}
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*15*time.Second), podsOf(watched["node1"])))
	}
	now := noon.Add(time.Minute)
	for _, c := range []struct {
		name string
		ask  func() (float64, error)
		want float64
	}{
		{"memory", func() (float64, error) {
			held, err := f.Memory(t.Context(), "shop", []string{pod.Name, "gone"}, time.Minute, now)
			assert.Len(t, held, 1, "what is not known is missing")
			assert.ErrorIs(t, err, usage.ErrSoon, "of the other one")
			held, err = f.Memory(t.Context(), "shop", []string{pod.Name}, time.Minute, now)
			return held[pod.Name]["app"], err
		}, 5e7},
		{"kills", func() (float64, error) {
			killed, err := f.OOMKills(t.Context(), "shop", map[string]time.Duration{pod.Name: 5 * time.Minute, "gone": time.Minute}, now)
			assert.Len(t, killed, 1)
			return killed[pod.Name]["app"], err
		}, 2},
		{"waiting", func() (float64, error) {
			waiting, err := f.Waiting(t.Context(), "shop", []string{pod.Name}, time.Minute, now)
			return waiting[pod.Name]["app"], err
		}, 0.25},
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

// Scraped samples give the usage of a container and its node since a time, without another request to a kubelet. The
// usage is unknown with fewer than two scrapes, and if it is impossible.
func TestWhatWasUsedSinceATime(t *testing.T) {
	f := newFixture(t, nil, noon)
	f.node.Cores = 4
	f.scraper.targets.follow([]Node{f.node}, f.clock.Now())
	var app, node float64
	f.kubelet.instead = func(w http.ResponseWriter, _ *http.Request) {
		ms := f.clock.Now().UnixMilli()
		fmt.Fprintf(w, "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"web-1\"} %g %d\n", app, ms)
		fmt.Fprintf(w, "node_cpu_usage_seconds_total %g %d\n", node, ms)
	}
	at := noon
	run := func(minutes int, appCores, nodeCores float64) {
		t.Helper()
		for range minutes {
			require.NoError(t, f.scrapeAt(at, nil))
			at, app, node = at.Add(time.Minute), app+60*appCores, node+60*nodeCores
		}
		f.clock.SetTime(at)
	}
	run(5, 3, 1)
	resized := at
	run(6, 0.4, 3.8)
	used, known := f.CPU(t.Context(), "shop", "web-1", "app", resized, at)
	assert.True(t, known)
	assert.InDelta(t, 400, float64(used), 1e-3, "what was used before does not count")
	busy, known := f.Busy(t.Context(), "node1", resized, at)
	assert.True(t, known)
	assert.InDelta(t, 0.95, busy, 1e-9)

	_, known = f.CPU(t.Context(), "shop", "web-1", "app", at.Add(-90*time.Second), at)
	assert.False(t, known, "one scrape")
	_, known = f.CPU(t.Context(), "shop", "web-1", "proxy", resized, at)
	assert.False(t, known)
	_, known = f.Busy(t.Context(), "node2", resized, at)
	assert.False(t, known)

	resized = at
	run(6, 97, 4.1)
	_, known = f.CPU(t.Context(), "shop", "web-1", "app", resized, at)
	assert.False(t, known, "no node has had so much")
	busy, known = f.Busy(t.Context(), "node1", resized, at)
	assert.True(t, known, "clocks are a little off")
	assert.InDelta(t, 1, busy, 0)
	f.node.Cores = 0
	f.scraper.targets.follow([]Node{f.node}, f.clock.Now())
	_, known = f.Busy(t.Context(), "node1", resized, at)
	assert.False(t, known, "a node that does not say what it has")
}

func TestTooMuchIsSaid(t *testing.T) {
	f := newFixture(t, crowd(600), noon)
	require.NoError(t, f.scrapeAt(noon, nil))
	_, report := points(t, f.Source, noon)
	assert.Empty(t, report.Warnings)
	// The same number of containers, scraped three times too often.
	f.monitor.Interval = time.Minute * 600 / (3 * Ceiling)
	_, report = points(t, f.Source, noon)
	assert.Equal(t, []string{"the scrape load is 3.0 times the load that one operator supports: raise usage.interval, or set usage.source: prometheus"}, report.Warnings)
	assert.False(t, report.Partial)
	f.monitor.logOverload()
	f.monitor.logOverload()
	assert.Contains(t, f.log.String(), "that one operator supports")
}

// If the nodes' own pressure is wanted, it is read from every kubelet, with and without observed pods, and separately
// for each node.
func TestNodePressure(t *testing.T) {
	start := noon
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	f.scraper.NodePressure = true
	f.kubelet.set(func(k *playedKubelet) {
		k.instead = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics/cadvisor" {
				waited := 0.25 * f.clock.Now().Sub(start).Seconds()
				fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} %g\n", waited)
				fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{container=\"\",id=\"/kubepods\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} %g\n", 9*waited)
			}
		}
	})
	target := f.scraper.targets.of[f.node.Name]
	for at := start; !at.After(start.Add(5 * time.Minute)); at = at.Add(time.Minute) {
		f.clock.SetTime(at)
		target.due = at.Add(2 * time.Minute)
		j := target.job(at, nil, f.scraper.NodePressure, time.Minute)
		require.NotNil(t, j, at)
		require.NotNil(t, j.pods, "cAdvisor is asked")
		require.NoError(t, f.scraper.scrape(t.Context(), j, at))
		target.finish(j, at, at, f.options.Interval, nil)
		assert.Nil(t, target.job(at.Add(59*time.Second), nil, true, time.Minute), "no more often than for usage")
	}
	at := f.clock.Now()
	waiting, err := f.AskNodes(t.Context(), prometheus.Everything.NodesPressure(3*time.Minute), at)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	assert.InDelta(t, 0.25, waiting[f.node.Name], 0.001)
	target.due = at.Add(32 * time.Minute)
	assert.Nil(t, target.job(at.Add(30*time.Minute), nil, false, time.Minute), "nobody wants to know")
}

// ofPod has the labels of a container in cAdvisor's form.
const ofPod = `container="app",id="/kubepods/pod1/abc",namespace="shop",pod="web-7d4f8c9b6-aaaaa"`

// follows is a fixture whose kubelet serves these cAdvisor metrics of that container after so many seconds.
func follows(t *testing.T, cadvisor func(w io.Writer, seconds float64)) *fixture {
	t.Helper()
	f := newFixture(t, nil, noon)
	f.kubelet.set(func(k *playedKubelet) {
		k.instead = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics/cadvisor" {
				cadvisor(w, f.clock.Now().Sub(noon).Seconds())
				return
			}
			writeResource(w, oneContainer(f.clock.Now()), f.clock.Now())
		}
	})
	return f
}

// cores is the usage of the only container, with or without its waiting time.
func (f *fixture) cores(t *testing.T, waited bool) (cores float64) {
	t.Helper()
	end := f.clock.Now().Truncate(30 * time.Second)
	_, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: end, End: end, Step: 30 * time.Second, RateWindow: 2 * time.Minute, Waited: waited},
		func(s usage.Series) {
			for _, sample := range s.CPU {
				cores = max(cores, sample.Value)
			}
		})
	require.NoError(t, err)
	require.Positive(t, cores)
	return cores
}

// For followed pods the waiting time for CPU is read as often as usage, and no other cAdvisor metric. For pods that are
// also observed, more is read, and more often.
func TestFollowedPods(t *testing.T) {
	f := follows(t, func(w io.Writer, seconds float64) {
		fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{%s} %g\n", ofPod, 0.4*seconds)
		fmt.Fprintf(w, "container_cpu_cfs_periods_total{%s} %g\n", ofPod, 10*seconds)
	})
	pod := Pod{"shop", "web-7d4f8c9b6-aaaaa"}
	target := f.scraper.targets.of[f.node.Name]
	scrape := func(at time.Time, wanted *extras) {
		t.Helper()
		f.clock.SetTime(at)
		target.due = at
		j := target.job(at, wanted, false, time.Minute)
		require.NotNil(t, j, at)
		require.NoError(t, f.scraper.scrape(t.Context(), j, at))
		target.finish(j, at, at, time.Minute, nil)
		target.due = at.Add(2 * time.Minute)
	}
	followed := &extras{pods: map[Pod]bool{pod: false}}
	at := noon
	for range 6 {
		scrape(at, followed)
		assert.Nil(t, target.job(at.Add(30*time.Second), followed, false, time.Minute), "once a minute")
		at = at.Add(time.Minute)
	}
	now := f.clock.Now()
	waiting, err := f.Value(t.Context(), prometheus.Everything.Waiting("shop", []string{pod.Name}, 3*time.Minute), now)
	require.NoError(t, err)
	assert.InDelta(t, 0.4, waiting, 0.001)
	_, err = f.Value(t.Context(), `count(container_cpu_cfs_periods_total)`, now)
	require.ErrorIs(t, err, prometheus.ErrNoValue)

	watched := &extras{pods: map[Pod]bool{pod: true}, often: true}
	j := target.job(now.Add(15*time.Second), watched, false, time.Minute)
	require.NotNil(t, j, "at once")
	assert.False(t, j.usage)
	scrape(now.Add(15*time.Second), watched)
	periods, err := f.Value(t.Context(), `count(container_cpu_cfs_periods_total)`, f.clock.Now())
	require.NoError(t, err)
	assert.InDelta(t, 1, periods, 0)
}

// A container that waited for CPU would have used that much more. The waiting time is at most all of the time, and an
// unmeasured one counts as zero.
func TestWaitedForCPU(t *testing.T) {
	pod := Pod{"shop", "web-7d4f8c9b6-aaaaa"}
	for name, c := range map[string]struct{ rate, want float64 }{
		"two fifths of the time": {0.4, 1.4}, "more than all of it": {3, 2}, "nothing": {0, 1}, "not measured": {math.NaN(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := follows(t, func(w io.Writer, seconds float64) {
				if !math.IsNaN(c.rate) {
					fmt.Fprintf(w, "container_pressure_cpu_waiting_seconds_total{%s} %g\n", ofPod, c.rate*seconds)
				}
			})
			for minute := range time.Duration(6) {
				require.NoError(t, f.scrapeAt(noon.Add(minute*time.Minute), map[Pod]bool{pod: false}))
			}
			assert.InDelta(t, c.want, f.cores(t, true)/f.cores(t, false), 0.001)
		})
	}
}

// podsOf are the pods with wanted extras; nil: none.
func podsOf(e *extras) map[Pod]bool {
	if e == nil {
		return nil
	}
	return e.pods
}
