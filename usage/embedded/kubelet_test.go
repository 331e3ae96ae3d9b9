package embedded

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/usage"
	promsource "attune.io/attune/usage/prometheus"
)

// playedKubelet answers like a kubelet, with the state of a world at a time.
type playedKubelet struct {
	*httptest.Server
	mutex sync.Mutex
	world World
	now   func() time.Time
	// instead, if set, answers instead of the exposition.
	instead http.HandlerFunc
	asked   []string
}

func playKubelet(t testing.TB, world World, now func() time.Time) *playedKubelet {
	k := &playedKubelet{world: world, now: now}
	k.Server = httptest.NewServer(k)
	t.Cleanup(k.Close)
	return k
}

func (k *playedKubelet) set(change func(*playedKubelet)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	change(k)
}

func (k *playedKubelet) requests() []string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return append([]string(nil), k.asked...)
}

func (k *playedKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mutex.Lock()
	k.asked = append(k.asked, r.URL.Path)
	instead, world := k.instead, k.world
	k.mutex.Unlock()
	switch {
	case instead != nil:
		instead(w, r)
	case r.URL.Path == "/metrics/resource":
		writeResource(w, world(k.now()), k.now())
	case r.URL.Path == "/metrics/cadvisor":
		writeCadvisor(w, world(k.now()), k.now())
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func writeResource(w io.Writer, measured []Measured, at time.Time) {
	ms := at.UnixMilli()
	fmt.Fprintln(w, "# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds")
	fmt.Fprintln(w, "# TYPE container_cpu_usage_seconds_total counter")
	for _, m := range measured {
		fmt.Fprintf(w, "container_cpu_usage_seconds_total{container=%q,namespace=%q,pod=%q} %g %d\n", m.Container, m.Namespace, m.Pod, m.CPUSeconds, ms)
	}
	fmt.Fprintln(w, "# TYPE container_memory_working_set_bytes gauge")
	for _, m := range measured {
		fmt.Fprintf(w, "container_memory_working_set_bytes{container=%q,namespace=%q,pod=%q} %g %d\n", m.Container, m.Namespace, m.Pod, m.MemoryBytes, ms)
		fmt.Fprintf(w, "container_start_time_seconds{container=%q,namespace=%q,pod=%q} %g\n", m.Container, m.Namespace, m.Pod, 1.7e9)
	}
	fmt.Fprintf(w, "node_cpu_usage_seconds_total %g %d\n", 2*float64(at.Unix()), ms)
	fmt.Fprintf(w, "node_memory_working_set_bytes %g %d\npod_memory_working_set_bytes{namespace=\"shop\",pod=\"x\"} 1 %d\nscrape_error 0\n", 1e9, ms, ms)
}

func writeCadvisor(w io.Writer, measured []Measured, at time.Time) {
	ms := at.UnixMilli()
	for _, m := range measured {
		of := fmt.Sprintf("container=%q,id=\"/kubepods/pod1/abc\",image=\"i\",name=\"abc\",namespace=%q,pod=%q", m.Container, m.Namespace, m.Pod)
		for i := range 20 {
			fmt.Fprintf(w, "container_fs_reads_total{%s,device=\"/dev/%d\"} 0 %d\n", of, i, ms)
		}
		if m.Periods > 0 {
			fmt.Fprintf(w, "container_cpu_cfs_periods_total{%s} %g %d\n", of, m.Periods, ms)
			fmt.Fprintf(w, "container_cpu_cfs_throttled_periods_total{%s} %g %d\n", of, m.Throttled, ms)
		}
	}
}

// oneContainer uses 0.2 cores and 1 MiB.
func oneContainer(at time.Time) []Measured {
	return []Measured{{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app", CPUSeconds: 0.2 * float64(at.Unix()-1.7e9), MemoryBytes: 1 << 20}}
}

// fixture is a source with one node, a stopped clock, and no loop.
type fixture struct {
	*Source
	clock   *clocktesting.FakeClock
	kubelet *playedKubelet
	log     *bytes.Buffer
	node    Node
	// registry has the metrics.
	registry *prometheus.Registry
	// namespaces are those with pods on a node.
	namespaces map[string][]string
}

// dropped is the counter of samples dropped for a reason.
func (f *fixture) dropped(t *testing.T, why usage.Drop) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "attune_usage_samples_dropped_total" && m.Label[0].GetValue() == why.Label() {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

func (f *fixture) Nodes(context.Context) ([]Node, error) { return []Node{f.node}, nil }
func (f *fixture) NamespacesOn(_ context.Context, node string) ([]string, error) {
	return f.namespaces[node], nil
}
func (f *fixture) Watched(context.Context) (map[Pod]string, error) { return nil, nil }
func (f *fixture) Followed(context.Context) (map[Pod]string, error) {
	return nil, nil
}
func (f *fixture) NodeOf(context.Context, Pod) (string, error) { return f.node.Name, nil }

// newFixture returns a source that started at a time.
func newFixture(t testing.TB, world World, start time.Time) *fixture {
	t.Helper()
	f := &fixture{clock: clocktesting.NewFakeClock(start), log: &bytes.Buffer{}, registry: prometheus.NewRegistry()}
	f.kubelet = playKubelet(t, world, f.clock.Now)
	f.node = Node{Name: "node1", Address: netip.MustParseAddrPort(f.kubelet.Listener.Addr().String()), Cores: 64, Bytes: 1 << 40}
	f.Source = New(Options{
		Cluster: f, Transport: http.DefaultTransport, Interval: time.Minute, Clock: f.clock,
		Log:     slog.New(slog.NewTextHandler(&lockedWriter{to: f.log}, nil)),
		Metrics: newMetrics(f.registry),
	})
	f.scraper.kubelets.scheme = "http"
	f.recent.begin(start)
	f.scraper.targets.follow([]Node{f.node}, f.clock.Now())
	close(f.started)
	return f
}

type lockedWriter struct {
	mutex sync.Mutex
	to    io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.to.Write(p)
}

// scrapeAt moves the clock and scrapes the node.
func (f *fixture) scrapeAt(at time.Time, pods map[Pod]bool) error {
	f.clock.SetTime(at)
	target := f.scraper.targets.of[f.node.Name]
	j := &job{target: target, node: target.node, usage: true, pods: pods}
	err := f.scraper.scrape(context.Background(), j, at)
	target.finish(j, at, at, f.options.Interval, err)
	return err
}

func TestKubeletsThatMisbehave(t *testing.T) {
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed")
		writeResource(w, nil, noon)
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"it redirects", http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, "does not follow redirects of kubelets"},
		{"it knows no token", status(http.StatusUnauthorized), "authentication.webhook"},
		{"it has no rights", status(http.StatusForbidden), "nodes/metrics"},
		{"it is broken", status(http.StatusInternalServerError), "500"},
		{"it sends for ever", endless, "larger than 16 MiB and was cut off"},
		{"it sends a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>hello") }, "not the text format"},
		{"it hangs up", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprintln(w, "container_cpu_usage_seconds_total{container=\"a\",namespace=\"b\",pod=\"c\"} 1")
		}, "unexpected EOF"},
		{"its clock is an hour slow", func(w http.ResponseWriter, _ *http.Request) {
			writeResource(w, nil, noon.Add(-time.Hour))
		}, "off the operator's clock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nil, noon)
			f.kubelet.instead = c.answer
			err := f.scrapeAt(noon, nil)
			require.ErrorContains(t, err, c.want)
			assert.Zero(t, f.recent.samples(), "nothing of it is kept")
			failing, _ := f.scraper.targets.failing()
			require.Len(t, failing, 1)
			assert.Contains(t, failing[0], "node node1: /metrics/resource: ")
			assert.NotContains(t, failing[0], "http://", "the address is not what the sentence is about")
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func endless(w http.ResponseWriter, _ *http.Request) {
	line := []byte(strings.Repeat("# "+strings.Repeat("x", 1021)+"\n", 64))
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// TestOddSeries: odd series of one kubelet do not break queries.
func TestOddSeries(t *testing.T) {
	const metric = "container_memory_working_set_bytes"
	for name, c := range map[string]struct {
		text string
		want usage.Report
	}{
		"a label twice":       {`{container="app",container="app",namespace="shop",pod="web"}`, usage.Report{}},
		"its name as a label": {`{__name__="x",container="app",namespace="shop",pod="web"}`, usage.Report{}},
		"labels in another order": {
			`{container="app",namespace="shop",pod="web"} 5` + "\n" + metric + `{pod="web",namespace="shop",container="app"}`, usage.Report{Series: 1, Samples: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, noon)
			f.kubelet.instead = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%s%s 5\n", metric, c.text) }
			require.NoError(t, f.scrapeAt(noon, nil))
			report, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: noon, End: noon, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
			require.NoError(t, err)
			assert.Equal(t, c.want, report)
		})
	}
}

// samples counts the samples in memory.
func (r *recent) samples() int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	n := 0
	for _, s := range r.series {
		n += len(s.samples)
	}
	return n
}

func TestOnlyAddressesOfNodesAreDialled(t *testing.T) {
	for address, ok := range map[string]bool{
		"10.0.0.7:10250": true, "[fd00::7]:10250": true, "203.0.113.7:10250": true,
		"127.0.0.1:10250": false, "[::1]:10250": false, "169.254.169.254:80": false, "[fe80::1]:10250": false,
		"[::ffff:127.0.0.1]:10250": false, "0.0.0.0:10250": false, "100.100.100.200:80": false, "224.0.0.1:10250": false,
	} {
		assert.Equal(t, ok, dialled("tcp", address, nil) == nil, address)
	}
}

// TestKubeletsAreVerified with the API server's authority, with another one, or not at all.
func TestKubeletsAreVerified(t *testing.T) {
	var token string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { token = r.Header.Get("Authorization") }))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, own, 0o600))
	for _, c := range []struct {
		name   string
		ca     []byte
		verify KubeletTLS
		want   string
	}{
		{"the API server's authority signed it", own, KubeletTLS{}, ""},
		{"somebody else signed it", foreign(t), KubeletTLS{}, "set kubelet.tls.caConfigMap"},
		{"whom the file names", foreign(t), KubeletTLS{CAFile: file}, ""},
		{"it is not verified", foreign(t), KubeletTLS{InsecureSkipVerify: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			token = ""
			config := kubeletConfig(&rest.Config{BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: c.ca, ServerName: "kubernetes"}}, c.verify, nil)
			// Tests have only the loopback address, which kubelets cannot have.
			config.Dial = (&net.Dialer{}).DialContext
			transport, err := rest.TransportFor(config)
			require.NoError(t, err)
			var into bytes.Buffer
			node := Node{Address: netip.MustParseAddrPort(server.Listener.Addr().String())}
			err = newKubelets(transport).get(t.Context(), node, "/metrics/resource", 1000, &into)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				assert.Empty(t, token, "nobody else is shown the token")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "Bearer secret", token)
		})
	}
}

// foreign is an authority that has signed nothing.
func foreign(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// newMetrics registers metrics in a registry.
func newMetrics(registry *prometheus.Registry) *Metrics {
	return NewMetrics(registry, promsource.NewMeter(registry))
}

// The log names the nodes that do not answer, and why: when that begins, changes and ends. Owners of policies with pods
// there read only their number.
func TestNodesThatDoNotAnswerAreNamedInTheLogAlone(t *testing.T) {
	f := newFixture(t, nothing, time.Now())
	broken := Node{Name: "secret-node", Unusable: errors.New("node secret-node has the internal address 127.0.0.1")}
	f.namespaces = map[string][]string{"secret-node": {"shop"}}
	f.scraper.targets.follow([]Node{f.node, broken}, f.clock.Now())
	var report usage.Report
	f.monitor.warn(t.Context(), &report)
	assert.Equal(t, []string{"1 of 2 nodes cannot be scraped; the operator's log has their names and the causes"}, report.About("shop").Warnings)
	assert.True(t, report.Lacks("shop"))
	assert.False(t, report.Lacks("other"), "no pod of it is there")
	assert.Empty(t, report.About("other").Warnings)
	f.monitor.logFailing()
	f.monitor.logFailing()
	assert.Equal(t, 1, strings.Count(f.log.String(), "secret-node has the internal address"), "it is said once: %s", f.log)
	f.scraper.targets.follow([]Node{f.node}, f.clock.Now())
	f.monitor.logFailing()
	f.monitor.logFailing()
	assert.Equal(t, 1, strings.Count(f.log.String(), "All nodes can be scraped again"), "%s", f.log)
}

func nothing(time.Time) []Measured { return nil }
