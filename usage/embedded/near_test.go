package embedded

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// inHaste returns a set of nodes that each have a container with high memory use.
func inHaste(t *testing.T, nodes int, why haste) *targets {
	t.Helper()
	all := &targets{interval: time.Minute, of: map[string]*target{}}
	var list []Node
	for i := range nodes {
		list = append(list, Node{Name: fmt.Sprintf("node-%03d", i)})
	}
	all.follow(list, began)
	for _, of := range all.of {
		all.finish(&job{target: of, node: of.node, usage: true, haste: why}, began, began, nil)
	}
	return all
}

var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestKubeletsAreScrapedMoreOftenWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		nodes      int
		why        haste
		near, high int
	}{
		"none":        {nodes: 10},
		"one is near": {nodes: 1, why: hasteNear, near: 1},
		"one is high": {nodes: 1, why: hasteHigh, high: 1},
		"many are near: the others are as those that are high": {nodes: 80, why: hasteNear, near: mostNear, high: 48},
		"many are high":    {nodes: 80, why: hasteHigh, high: mostHigh},
		"more than enough": {nodes: 200, why: hasteNear, near: mostNear, high: mostHigh},
	} {
		t.Run(name, func(t *testing.T) {
			all := inHaste(t, c.nodes, c.why)
			assert.Equal(t, c.near, all.inHaste(hasteNear))
			assert.Equal(t, c.high, all.inHaste(hasteHigh))
			soon := map[time.Duration]int{}
			for _, of := range all.of {
				assert.LessOrEqual(t, of.due.Sub(began), time.Minute)
				if of.haste != "" {
					soon[of.due.Sub(began).Truncate(time.Second)]++
				}
			}
			for after := range soon {
				assert.LessOrEqual(t, after, highEvery)
			}
		})
	}
}

// A kubelet whose containers use little memory again returns to its usual turn, and another kubelet gets its place.
func TestTheHasteOfAKubeletEnds(t *testing.T) {
	all := inHaste(t, mostNear+1, hasteNear)
	assert.Equal(t, mostNear, all.inHaste(hasteNear))
	for _, of := range all.of {
		all.finish(&job{target: of, node: of.node, usage: true}, began, began, nil)
	}
	assert.Zero(t, all.inHaste(hasteNear))
	assert.Zero(t, all.inHaste(hasteHigh))
}

// The kubelet that has been scraped more often for longest yields to another one, after at least a minute.
func TestTheLongestHasteYields(t *testing.T) {
	for why, most := range map[haste]int{hasteNear: mostNear, hasteHigh: mostHigh} {
		t.Run(string(why), func(t *testing.T) {
			all := inHaste(t, most, why)
			ask := func(name string, at time.Time) {
				of := all.of[name]
				all.finish(&job{target: of, node: of.node, usage: true, haste: why}, at, at, nil)
			}
			for name := range all.of { // all renew their places; one has had its place for less time
				if name == "node-000" {
					of := all.of[name]
					all.finish(&job{target: of, node: of.node, usage: true}, began, began, nil)
					ask(name, began.Add(20*time.Second))
				}
				ask(name, began.Add(30*time.Second))
			}
			all.of["late"] = &target{node: Node{Name: "late"}, due: began}
			ask("late", began.Add(holdsFor-time.Second))
			assert.NotEqual(t, why, all.of["late"].haste, "too soon")

			at := began.Add(holdsFor)
			for _, of := range all.of {
				of.due = at.Add(time.Second)
			}
			ask("late", at)
			assert.Equal(t, why, all.of["late"].haste)
			assert.Equal(t, most, all.inHaste(why))
			assert.Equal(t, haste(""), all.of["node-001"].haste, "the first by name of those that were the first")
			assert.Equal(t, nextAt("node-001", all.interval, at), all.of["node-001"].due)
			for i := range most - 1 {
				name := fmt.Sprintf("later-%d", i)
				all.of[name] = &target{node: Node{Name: name}, due: at}
				ask(name, at)
			}
			assert.Equal(t, why, all.of["node-000"].haste, "the others had theirs before")
		})
	}
}

func TestLately(t *testing.T) {
	r := newRecent(began)
	of := func(metric, pod, container, node string) *series {
		return r.intern(labels.FromStrings(labels.MetricName, metric, "namespace", "shop", "pod", pod, "container", container, "node", node))
	}
	put := func(s *series, values ...float64) {
		var batch []scraped
		for i, v := range values {
			batch = append(batch, scraped{s, promql.FPoint{T: began.Add(time.Duration(i) * 10 * time.Second).UnixMilli(), F: v}})
		}
		require.Len(t, r.append(batch, began.Add(time.Minute)), len(values))
	}
	put(of(workingSet, "web-1", "app", "node-1"), 100, 200, 300)
	put(of(workingSet, "web-1", "app", "node-0"), 100) // it was there before
	put(of(stalled, "web-1", "app", "node-1"), 5, 7, 9)
	put(of(workingSet, "web-2", "app", "node-1"), 100)
	put(of("container_cpu_usage_seconds_total", "web-1", "app", "node-1"), 1)
	at := began.Add(30 * time.Second)
	got := r.traces("shop", []string{"web-1", "web-3"}, at)
	require.Len(t, got, 1)
	sample := func(after time.Duration, value float64) usage.Sample {
		return usage.Sample{At: began.Add(after).UnixMilli(), Value: value}
	}
	assert.Equal(t, map[string]usage.Trace{"app": {
		Samples: []usage.Sample{sample(0, 100), sample(10*time.Second, 200), sample(20*time.Second, 300)}, Stalled: 0.2,
	}}, got["web-1"])
	assert.Empty(t, r.traces("other", []string{"web-1"}, at))
	r.forget(began.Add(3 * time.Hour))
	assert.Empty(t, r.ofPod, "what is gone is forgotten")
}

// A limit that was lowered since the last scrape applies: constant memory may now be close to it.
func TestALimitIsLookedUpAtEachScrape(t *testing.T) {
	start := time.Now().Truncate(time.Hour)
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	f.scraper.Cluster = places{f, map[Pod]string{{"bank", "web-1"}: "node1"}}
	limit, told, looked := 1000.0, []Pod(nil), 0
	f.scraper.Climb = &Climb{
		Limits: func(context.Context, Pod) (map[string]float64, error) {
			looked++
			return map[string]float64{"app": limit}, nil
		},
		Near: func(float64, []usage.Sample, time.Time) bool { return true },
		Tell: func(pod Pod) { told = append(told, pod) },
	}
	scrape := func(minute int) {
		at := start.Add(time.Duration(minute) * time.Minute)
		f.clock.SetTime(at)
		f.tell(t, "node1", fmt.Sprintf(
			"container_cpu_usage_seconds_total{container=\"app\",namespace=\"bank\",pod=\"web-1\"} 1 %[1]d\n"+
				"container_memory_working_set_bytes{container=\"app\",namespace=\"bank\",pod=\"web-1\"} 400 %[1]d\n", at.UnixMilli()))
	}
	scrape(0)
	assert.Empty(t, told)
	limit = 600
	scrape(1)
	assert.Equal(t, []Pod{{"bank", "web-1"}}, told)
	assert.Equal(t, 2, looked, "once for a pod in a scrape")
}
