package prometheus_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// server answers like a Prometheus server and records its requests.
type server struct {
	*httptest.Server
	mutex    sync.Mutex
	requests []request
	// answer writes the answer to the n-th request, counted from 0.
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

type request struct {
	method, path, query string
	form                map[string]string
	header              http.Header
}

func newServer(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := map[string]string{}
	for name := range r.Form {
		form[name] = r.Form.Get(name)
	}
	s.mutex.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, request{r.Method, r.URL.Path, r.URL.RawQuery, form, r.Header.Clone()})
	s.mutex.Unlock()
	s.answer(n, w, r)
}

// asked returns the requests, except for the hourly checks (checks_test.go).
func (s *server) asked() []request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r request) bool {
		return strings.HasPrefix(r.form["query"], "topk(")
	})
}

// sends answers every request with the text.
func sends(status int, contentType, text string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

const jsonType = "application/json"

// recorded is a file of testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(content)
}

// query spans three steps.
func query() usage.Query {
	return usage.Query{
		Namespaces: []string{"shop"},
		Start:      time.Unix(1700000100, 0), End: time.Unix(1700000700, 0),
		Step: 5 * time.Minute, RateWindow: 5 * time.Minute,
	}
}

func newClient(t *testing.T, config prometheus.Config) *prometheus.Client {
	t.Helper()
	client, err := prometheus.New(config)
	require.NoError(t, err)
	return client
}

// read collects the yielded series of a source, with copies of the samples.
func read(t *testing.T, source usage.Source, query usage.Query) ([]usage.Series, usage.Report, error) {
	t.Helper()
	var all []usage.Series
	report, err := source.Read(context.Background(), query, func(s usage.Series) {
		s.CPU, s.CPUPeak, s.Memory = slices.Clone(s.CPU), slices.Clone(s.CPUPeak), slices.Clone(s.Memory)
		all = append(all, s)
	})
	return all, report, err
}
