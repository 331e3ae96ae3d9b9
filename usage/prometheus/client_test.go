package prometheus_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

const pod = "web-7d4f8c9b6-x2x5k"

// cpu answers the CPU query with a file and the memory query with an empty result.
func cpu(t *testing.T, file string) func(int, http.ResponseWriter, *http.Request) {
	answer, empty := recorded(t, file), recorded(t, "prometheus-empty.json")
	return func(n int, w http.ResponseWriter, r *http.Request) {
		text := empty
		if strings.Contains(r.Form.Get("query"), "cpu") {
			text = answer
		}
		sends(http.StatusOK, jsonType, text)(n, w, r)
	}
}

func TestReadTheAnswersOfDifferentServers(t *testing.T) {
	at := func(seconds int64, value float64) usage.Sample { return usage.Sample{At: seconds * 1000, Value: value} }
	app := func(samples ...usage.Sample) usage.Series {
		return usage.Series{Namespace: "shop", Pod: pod, Container: "app", CPU: samples}
	}
	for _, test := range []struct {
		file   string
		want   []usage.Series
		report usage.Report
	}{
		{
			file: "prometheus.json",
			want: []usage.Series{
				app(at(1700000100, 0.0921), at(1700000400, 0.0613)),
				{Namespace: "shop", Pod: pod, Container: "sidecar", CPU: []usage.Sample{at(1700000100, 1.5e-05)}},
			},
			report: usage.Report{Series: 2, Samples: 3, Dropped: map[usage.Drop]int{usage.DropNotANumber: 1}},
		},
		{
			file:   "prometheus-infos.json",
			want:   []usage.Series{app(at(1700000100, 0.25))},
			report: usage.Report{Series: 1, Samples: 1, Warnings: []string{"PromQL warning: encountered a mix of histograms and floats"}},
		},
		{
			file:   "prometheus-histogram.json",
			want:   []usage.Series{app(at(1700000100, 0.25))},
			report: usage.Report{Series: 1, Samples: 1, Dropped: map[usage.Drop]int{usage.DropHistogram: 1}},
		},
		{file: "prometheus-empty.json"},
		{
			file: "thanos-partial.json",
			want: []usage.Series{app(at(1700000100, 0.25), at(1700000400, 0.5))},
			report: usage.Report{Series: 1, Samples: 2, Partial: true, Warnings: []string{
				`receive series from Addr: 10.0.0.7:10901 LabelSets: {replica="a"} MinTime: 0 MaxTime: 9223372036854775807: rpc error: code = Unavailable desc = connection refused`,
			}},
		},
		{
			file:   "mimir.json",
			want:   []usage.Series{app(at(1700000100, 0.25))},
			report: usage.Report{Series: 1, Samples: 1, Dropped: map[usage.Drop]int{usage.DropInfinite: 2}},
		},
		{
			file: "implausible.json",
			want: []usage.Series{{
				Namespace: "shop", Pod: pod, Container: "app", CPU: []usage.Sample{at(1700000100, 0.25)},
				CPUImplausible: []usage.Sample{at(1700000400, 1e300), at(1700000700, 10_001)},
				Why:            usage.DropImplausible, Bound: 10_000,
			}},
			report: usage.Report{Series: 1, Samples: 1, Dropped: map[usage.Drop]int{usage.DropImplausible: 2}},
		},
		{
			file:   "victoriametrics-partial.json",
			want:   []usage.Series{app(at(1700000100, 0.25), at(1700000400, 0.5))},
			report: usage.Report{Series: 1, Samples: 2, Partial: true, Dropped: map[usage.Drop]int{usage.DropOutside: 1}},
		},
		{
			// From Prometheus's own engine: a counter that was reset, a burst of 4 cores for a minute, a restarted
			// container.
			file: "engine-cpu-peaks.json",
			want: []usage.Series{
				{Namespace: "shop", Pod: "db-0", Container: "app", CPUPeak: []usage.Sample{at(1700000400, 0.19999999999999998)}},
				{Namespace: "shop", Pod: pod, Container: "app", CPUPeak: []usage.Sample{at(1700000400, 3.9999999999999996)}},
				{Namespace: "shop", Pod: "db-0", Container: "app", CPU: []usage.Sample{at(1700000400, 0.19999999999999998)}},
				app(at(1700000400, 0.49999999999999994)),
			},
			report: usage.Report{Series: 4, Samples: 4},
		},
		{
			file:   "unnamed.json",
			report: usage.Report{Dropped: map[usage.Drop]int{usage.DropUnnamed: 4}},
		},
		{
			file:   "outside.json",
			want:   []usage.Series{{Namespace: "shop", Pod: "db-0", Container: "app", CPU: []usage.Sample{at(1700000100, 1), at(1700000700, 2)}}},
			report: usage.Report{Series: 1, Samples: 2, Dropped: map[usage.Drop]int{usage.DropOutside: 2}},
		},
	} {
		t.Run(test.file, func(t *testing.T) {
			server := newServer(t, cpu(t, test.file))
			got, report, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), query())
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(test.want, got))
			assert.Empty(t, cmp.Diff(test.report, report))
		})
	}
}

func TestReadAsksOnceForEachMetric(t *testing.T) {
	server := newServer(t, cpu(t, "prometheus.json"))
	q := query()
	for i := range 500 {
		q.Namespaces = append(q.Namespaces, strings.Repeat("n", 1+i%60))
	}
	_, _, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), q)
	require.NoError(t, err)

	asked := server.asked()
	require.Len(t, asked, 2, "whatever the number of namespaces")
	for i, expression := range []string{prometheus.ScopeOf(nil).CPU(q), prometheus.ScopeOf(nil).Memory(q)} {
		want := map[string]string{"query": expression, "start": "1700000100", "end": "1700000700", "step": "300", "timeout": "1m0s"}
		assert.Empty(t, cmp.Diff(want, asked[i].form))
		assert.Equal(t, http.MethodPost, asked[i].method)
		assert.Equal(t, "/api/v1/query_range", asked[i].path)
		assert.Empty(t, asked[i].query)
	}
}

func TestReadTellsCPUItsPeaksAndMemoryApart(t *testing.T) {
	server := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
		answers := []string{
			`{"status":"success","data":{"resultType":"matrix","result":[
				{"metric":{"namespace":"shop","pod":"db-0","container":"app"},"values":[[1700000100,"1"]]},
				{"metric":{"namespace":"shop","pod":"db-0","container":"app","attune_peak":"true"},"values":[[1700000100,"3"]]}]}}`,
			`{"status":"success","data":{"resultType":"matrix","result":[
				{"metric":{"namespace":"shop","pod":"db-0","container":"app"},"values":[[1700000100,"1048576"]]}]}}`,
		}
		sends(http.StatusOK, jsonType, answers[n])(n, w, r)
	})
	got, _, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), query())
	require.NoError(t, err)
	one := func(value float64) []usage.Sample { return []usage.Sample{{At: 1700000100000, Value: value}} }
	assert.Empty(t, cmp.Diff([]usage.Series{
		{Namespace: "shop", Pod: "db-0", Container: "app", CPU: one(1)},
		{Namespace: "shop", Pod: "db-0", Container: "app", CPUPeak: one(3)},
		{Namespace: "shop", Pod: "db-0", Container: "app", Memory: one(1048576)},
	}, got))
}

func TestReadOfNoNamespaceAsksNothing(t *testing.T) {
	server := newServer(t, cpu(t, "prometheus.json"))
	q := query()
	q.Namespaces = nil
	got, report, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), q)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Zero(t, report)
	assert.Empty(t, server.asked(), "no namespace is not every namespace")
}

func TestReadSplitsWhatServersWouldRefuse(t *testing.T) {
	server := newServer(t, cpu(t, "prometheus-empty.json"))
	q := query()
	q.Start = q.End.Add(-25_000 * q.Step)
	_, _, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), q)
	require.NoError(t, err)

	points := int64(0)
	asked := server.asked()
	require.Len(t, asked, 6, "three parts of two metrics")
	for i := 0; i < len(asked); i += 2 {
		start, end := asked[i].form["start"], asked[i].form["end"]
		assert.Equal(t, []string{start, end}, []string{asked[i+1].form["start"], asked[i+1].form["end"]}, "memory of the same part")
		part := (unix(t, end)-unix(t, start))/300 + 1
		assert.LessOrEqual(t, part, int64(11_000))
		points += part
	}
	assert.Equal(t, q.Steps(), points, "every step once")
}

func unix(t *testing.T, seconds string) int64 {
	t.Helper()
	d, err := time.ParseDuration(seconds + "s")
	require.NoError(t, err)
	return int64(d / time.Second)
}

func TestReadEndsWithTheCallersContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server := newServer(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := newClient(t, prometheus.Config{Address: server.URL}).Read(ctx, query(), func(usage.Series) {})
	assert.Equal(t, context.Canceled, err, "nothing is wrong with the server")
}

func TestSettingsAreSentWithEveryRequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		config prometheus.Config
		header map[string]string
		query  string
		path   string
	}{
		{name: "nothing", header: map[string]string{"User-Agent": "attune", "Authorization": ""}},
		{
			name:   "basic authentication; the line end of a secret is not part of it",
			config: prometheus.Config{Username: "me", Credentials: prometheus.Credentials{Password: "secret word\n"}},
			header: map[string]string{"Authorization": "Basic bWU6c2VjcmV0IHdvcmQ="},
		},
		{
			name:   "bearer token",
			config: prometheus.Config{Credentials: prometheus.Credentials{BearerToken: "token\n"}},
			header: map[string]string{"Authorization": "Bearer token"},
		},
		{
			name:   "headers",
			config: prometheus.Config{Headers: map[string]string{"x-scope-orgid": "team", "Authorization": "Custom x"}},
			header: map[string]string{"X-Scope-Orgid": "team", "Authorization": "Custom x"},
		},
		{
			name:   "parameters",
			config: prometheus.Config{Parameters: map[string]string{"dedup": "true", "max_source_resolution": "5m"}},
			query:  "dedup=true&max_source_resolution=5m",
		},
		{name: "a path in the address", config: prometheus.Config{Address: "/prometheus/"}, path: "/prometheus/api/v1/query_range"},
		{name: "the whole path in the address", config: prometheus.Config{Address: "/prometheus/api/v1/"}, path: "/prometheus/api/v1/query_range"},
		{name: "parameters in the address", config: prometheus.Config{Address: "/?tenant=a"}, query: "tenant=a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newServer(t, cpu(t, "prometheus.json"))
			test.config.Address = server.URL + test.config.Address
			_, _, err := read(t, newClient(t, test.config), query())
			require.NoError(t, err)
			require.Len(t, server.asked(), 2)
			for _, asked := range server.asked() {
				assert.Equal(t, test.query, asked.query)
				for name, value := range test.header {
					assert.Equal(t, value, asked.header.Get(name), name)
				}
				if test.path != "" {
					assert.Equal(t, test.path, asked.path)
				}
			}
		})
	}
}

func TestReadFallsBackToGet(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			answer := recorded(t, "prometheus.json")
			server := newServer(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(status)
					return
				}
				sends(http.StatusOK, jsonType, answer)(n, w, r)
			})
			client := newClient(t, prometheus.Config{Address: server.URL, Parameters: map[string]string{"dedup": "true"}})
			_, report, err := read(t, client, query())
			require.NoError(t, err)
			assert.Equal(t, 4, report.Series)

			var methods []string
			for _, asked := range server.asked() {
				methods = append(methods, asked.method)
				assert.Equal(t, "true", asked.form["dedup"])
				assert.NotEmpty(t, asked.form["query"])
			}
			assert.Equal(t, []string{"POST", "GET", "GET"}, methods, "POST is tried once")
		})
	}
}

// The author of the policy reads that others may read the credentials.
func TestExposedCredentialsAreReported(t *testing.T) {
	const warning = "attune sends the credentials without encryption"
	server := newServer(t, sends(200, jsonType, `{"status":"success","data":{"resultType":"matrix","result":[]}}`))
	token := prometheus.Credentials{BearerToken: "hush"}
	for name, test := range map[string]struct {
		config prometheus.Config
		warned bool
	}{
		"a policy's": {prometheus.Config{PolicySource: true, Credentials: token}, true}, "without credentials": {prometheus.Config{PolicySource: true}, false},
		"the operator's own": {prometheus.Config{Credentials: token}, false},
	} {
		test.config.Address, test.config.Through = server.URL, http.DefaultTransport
		_, report, err := read(t, newClient(t, test.config), query())
		require.NoError(t, err)
		assert.Equal(t, test.warned, strings.Contains(strings.Join(report.Warnings, "; "), warning), "%s: %v", name, report.Warnings)
	}
}
