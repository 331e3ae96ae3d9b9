package embedded

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// places maps pods to nodes.
type places struct {
	*fixture
	of map[Pod]string
}

func (p places) NodeOf(_ context.Context, pod Pod) (string, error) { return p.of[pod], nil }

// tell scrapes a kubelet that answers with a text.
func (f *fixture) tell(t *testing.T, node, text string) {
	t.Helper()
	f.kubelet.set(func(k *playedKubelet) {
		k.instead = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	})
	target := f.scraper.targets.of[node]
	if target == nil {
		target = newTarget()
		f.scraper.targets.of[node] = target
	}
	of := f.node
	of.Name = node
	require.NoError(t, f.scraper.scrape(t.Context(), &job{target: target, node: of, usage: true}, f.clock.Now()))
}

func newTarget() *target { return &target{known: map[string]*known{}} }

// told is the CPU usage, in cores, of the newest step, by pod.
func (f *fixture) told(t *testing.T) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	now := f.clock.Now()
	_, err := f.Read(t.Context(), usage.Query{
		Namespaces: []string{"bank"}, Start: now, End: now, Step: 5 * time.Minute, RateWindow: 5 * time.Minute,
	}, func(s usage.Series) {
		for _, sample := range s.CPU {
			got[s.Pod] = sample.Value
		}
	})
	require.NoError(t, err)
	return got
}

const counted = "container_cpu_usage_seconds_total{container=\"app\",namespace=\"bank\",pod=%q} %g %d\n"

// TestAKubeletIsBelievedOfItsOwnPods: data of a node about pods of other nodes is dropped.
func TestAKubeletIsBelievedOfItsOwnPods(t *testing.T) {
	start := time.Now().Truncate(time.Hour)
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	where := places{f, map[Pod]string{{"bank", "ours"}: "node1", {"bank", "theirs"}: "node2"}}
	f.scraper.Cluster = where
	for minute := range 6 {
		at := start.Add(time.Duration(minute) * time.Minute)
		f.clock.SetTime(at)
		ms, seconds := at.UnixMilli(), float64(60*minute)
		f.tell(t, "node1", fmt.Sprintf(counted, "ours", seconds/10, ms)+
			fmt.Sprintf(counted, "theirs", seconds*30, ms)+fmt.Sprintf(counted, "nobody", seconds*30, ms)+
			fmt.Sprintf("container_cpu_usage_seconds_total{container=\"app\",namespace=\"bank\",node=\"node2\",pod=\"theirs\"} %g %d\n", seconds*40, ms)+
			fmt.Sprintf("container_cpu_usage_seconds_total{container=\"app\",namespace=\"bank\"} %g %d\n", seconds*40, ms))
		f.tell(t, "node2", fmt.Sprintf(counted, "theirs", seconds/5, ms))
	}
	got := f.told(t)
	assert.Len(t, got, 2)
	assert.InDelta(t, 0.1, got["ours"], 0.001)
	assert.InDelta(t, 0.2, got["theirs"], 0.001)
	assert.Equal(t, 24.0, f.dropped(t, usage.DropElsewhere))
}

// TestAPodThatMoves: for a pod that moved to another node, only data of the new node counts, even while both kubelets
// report it. This happens when a StatefulSet's pod was force-deleted.
func TestAPodThatMoves(t *testing.T) {
	start := time.Now().Truncate(time.Hour)
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	where := places{f, map[Pod]string{{"bank", "db-0"}: "node1"}}
	f.scraper.Cluster = where
	for minute := range 30 {
		at := start.Add(time.Duration(minute) * time.Minute)
		f.clock.SetTime(at)
		if minute == 5 {
			where.of[Pod{"bank", "db-0"}] = "node2"
		}
		seconds := float64(60 * minute)
		f.tell(t, "node1", fmt.Sprintf(counted, "db-0", 2000+seconds/10, at.UnixMilli()))
		if minute >= 5 {
			f.tell(t, "node2", fmt.Sprintf(counted, "db-0", (seconds-300)/10, at.UnixMilli()))
		}
		if minute > 4 {
			assert.InDelta(t, 0.1, f.told(t)["db-0"], 0.03, "minute %d", minute)
		}
	}
	assert.Equal(t, usage.DropElsewhere, f.scraper.targets.of["node1"].known[`container_cpu_usage_seconds_total{container="app",namespace="bank",pod="db-0"}`].drop)
}

// TestANodeHasSoManySeries: one node's kubelet cannot fill the memory.
func TestANodeHasSoManySeries(t *testing.T) {
	start := time.Now().Truncate(time.Hour)
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	var text strings.Builder
	for i := range maxSeries + 50 {
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total{container=\"app\",id=\"%d\",namespace=\"bank\",pod=\"ours\"} 1 %d\n", i, start.UnixMilli())
	}
	f.tell(t, "node1", text.String())
	assert.Equal(t, maxSeries, f.recent.count(""))
	assert.Equal(t, 50.0, f.dropped(t, usage.DropFull))
}

// TestANodeHasSoManyBytesOfSeries: few long series, new ones at each scrape, do not fill the memory either.
func TestANodeHasSoManyBytesOfSeries(t *testing.T) {
	start := time.Now().Truncate(time.Hour)
	f := newFixture(t, func(time.Time) []Measured { return nil }, start)
	long := strings.Repeat("x", 1<<20)
	for round := range 2 * forgetAfter {
		var text strings.Builder
		for i := range 4 {
			fmt.Fprintf(&text, "node_memory_working_set_bytes{id=\"%d-%d-%s\"} 1 %d\n", round, i, long, start.UnixMilli())
		}
		f.tell(t, "node1", text.String())
		held := 0
		for text := range f.scraper.targets.of["node1"].known {
			held += len(text)
		}
		require.LessOrEqual(t, held, maxSeriesBytes, "round %d", round)
	}
	assert.Positive(t, f.dropped(t, usage.DropFull))
	for range 2 * forgetAfter {
		f.tell(t, "node1", "")
	}
	f.tell(t, "node1", fmt.Sprintf("node_memory_working_set_bytes{id=\"new\"} 1 %d\n", start.UnixMilli()))
	assert.Equal(t, usage.Drop(""), f.scraper.targets.of["node1"].known[`node_memory_working_set_bytes{id="new"}`].drop, "forgotten texts make room")
}
