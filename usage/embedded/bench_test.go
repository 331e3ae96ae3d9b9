package embedded

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// BenchmarkScrape parses one kubelet's answer about 100 containers, and stores it in memory.
func BenchmarkScrape(b *testing.B) {
	f := newFixture(b, crowd(100), noon)
	var text bytes.Buffer
	writeResource(&text, crowd(100)(noon), noon)
	// Without its own times, the exposition counts as measured now.
	body := bytes.ReplaceAll(text.Bytes(), []byte(" 1748865600000\n"), []byte("\n"))
	target := f.scraper.targets.of[f.node.Name]
	at, batch := noon, []scraped(nil)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Minute)
		target.round++
		r := reader{
			scraper: f.scraper, target: target, node: f.node.Name, now: at.UnixMilli(), batch: batch[:0],
			dropped: map[usage.Drop]int{},
			nodeOf:  func(Pod) (string, error) { return f.node.Name, nil },
		}
		require.NoError(b, parse(body, resourceMetrics, r.take))
		batch = r.batch
		f.recent.append(batch, at)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch)), "ns/sample")
}

// BenchmarkRead runs the store's five-minute query about 1,000 containers.
func BenchmarkRead(b *testing.B) {
	f := newFixture(b, crowd(600), noon)
	at := noon
	for range 30 {
		at = at.Add(time.Minute)
		require.NoError(b, f.scrapeAt(at, nil))
	}
	query := usage.Query{Namespaces: []string{"shop"}, Start: at.Add(-10 * time.Minute), End: at, Step: 5 * time.Minute, RateWindow: 5 * time.Minute}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		_, err := f.Read(context.Background(), query, func(usage.Series) { n++ })
		require.NoError(b, err)
		require.Equal(b, 1200, n)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/600, "µs/container")
}

// canned answers as any kubelet, without its own times, so that samples count as measured now. Each node has its own
// pods in its own namespace, so that the bound of a namespace's samples is not reached.
type canned struct{ perNode int }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	var text bytes.Buffer
	writeResource(&text, c.of(r.URL.Host), time.UnixMilli(1234567890123))
	body := bytes.ReplaceAll(text.Bytes(), []byte(" 1234567890123\n"), []byte("\n"))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (c canned) of(node string) []Measured {
	all := make([]Measured, c.perNode)
	for i := range all {
		all[i] = Measured{Namespace: "shop-" + node, Pod: fmt.Sprintf("web-7d4f8c9b6-%s-%d", node, i), Container: "app", CPUSeconds: float64(time.Now().UnixNano()) / 1e10, MemoryBytes: 1e8 + float64(i)}
	}
	return all
}

// byNamespace places each pod on the node named by its namespace.
type byNamespace struct{ Cluster }

func (byNamespace) NodeOf(_ context.Context, pod Pod) (string, error) {
	return strings.TrimPrefix(pod.Namespace, "shop-"), nil
}

// BenchmarkCarried measures scraping Ceiling containers, 100 per node, including memory: an operation is one scrape of
// all of them. It includes the cost of the simulated kubelets.
func BenchmarkCarried(b *testing.B) {
	const nodes, perNode = 200, 100
	before := heapNow()
	f := newFixture(b, nil, noon)
	f.scraper.kubelets.client.Transport = canned{perNode}
	f.scraper.Cluster = byNamespace{f.scraper.Cluster}
	var all []Node
	for i := range nodes {
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(i % 250)}), 10250)
		all = append(all, Node{Name: address.String(), Address: address})
	}
	f.scraper.targets.follow(all, f.clock.Now())
	at := noon
	scrapeAll := func() {
		at = at.Add(time.Minute)
		f.clock.SetTime(at)
		for _, node := range all {
			t := f.scraper.targets.of[node.Name]
			require.NoError(b, f.scraper.scrape(context.Background(), &job{target: t, node: node, usage: true}, at))
		}
	}
	for range 90 {
		scrapeAll()
	}
	require.Equal(b, 2*nodes*(perNode+1), f.recent.count(""))
	held := heapNow() - before
	b.ReportAllocs()
	scrapes, start := 0, processorTime(b)
	for b.Loop() {
		scrapeAll()
		scrapes++
	}
	spent := processorTime(b) - start
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(scrapes)/(nodes*perNode/1000), "cpu-ms/1000")
	b.ReportMetric(float64(held)/(nodes*perNode), "bytes/container")
}

func heapNow() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
