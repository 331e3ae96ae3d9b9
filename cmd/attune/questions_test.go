package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/recent"
)

// counted is a server that returns the same for each pod, and counts the requests by their metric.
type counted struct {
	mutex sync.Mutex
	about map[string]int
	pods  map[string][]string
}

var metricName = regexp.MustCompile(`(container|kube|node)_[a-z0-9_]+`)

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	query := r.FormValue("query")
	metric := metricName.FindString(query)
	switch {
	case strings.HasPrefix(query, "topk("):
		metric = "checks"
	case metric == "":
		metric = query
	}
	c.about[metric]++
	if strings.HasPrefix(r.URL.Path, "/api/v1/query_range") {
		c.answer(w, r)
		return
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[%d,"0.5"]}}`, time.Now().Unix())
}

func (c *counted) answer(w http.ResponseWriter, r *http.Request) {
	start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
	end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
	step, _ := strconv.ParseInt(r.FormValue("step"), 10, 64)
	fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
	comma := ""
	for namespace, pods := range c.pods {
		for _, pod := range pods {
			fmt.Fprintf(w, `%s{"metric":{"namespace":%q,"pod":%q,"container":"app"},"values":[`, comma, namespace, pod)
			for at := start; at <= end; at += step {
				if at > start {
					fmt.Fprint(w, ",")
				}
				fmt.Fprintf(w, `[%d,"0.5"]`, at)
			}
			fmt.Fprint(w, "]}")
			comma = ","
		}
	}
	fmt.Fprint(w, "]}}")
}

// take returns the counts since the last call.
func (c *counted) take() map[string]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	about := c.about
	c.about = map[string]int{}
	return about
}

// TestQuestionsAboutAThousandWorkloads: the operator's server gets at most two requests about each metric in a cycle,
// including the strategy Node, however many workloads there are. At the end of a wave of 50 pods it gets ten.
func TestQuestionsAboutAThousandWorkloads(t *testing.T) {
	const namespaces, each = 20, 50
	server := &counted{about: map[string]int{}, pods: map[string][]string{}}
	served := httptest.NewServer(server)
	defer served.Close()
	registry := prom.NewRegistry()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	config := prometheus.Config{Address: served.URL, Now: func() time.Time { return at }}
	s := &sources{largest: &board.Largest{}, server: prometheusOptions{Config: config}, meter: prometheus.NewMeter(registry), clients: prometheus.NewClients(clock.RealClock{})}
	s.own = serverSource{servers: s}
	settings, err := policy.Resolve(nil, nil, nil)
	require.NoError(t, err)
	settings.Source.HistoryWindow = 24 * time.Hour
	histories, lately := history.New(history.Options{Dial: s.dial}), recent.New(s.dial)
	for n := range namespaces {
		namespace := fmt.Sprint("team-", n)
		in := history.Interest{Policy: "all", Namespace: namespace, Source: settings.Source}
		followed := recent.Interest{Policy: "all", Namespace: namespace, Source: settings.Source}
		for i := range each {
			name := fmt.Sprint("app", i)
			in.Workloads = append(in.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: name, Containers: []string{"app"}})
			followed.Workloads = append(followed.Workloads, name)
			server.pods[namespace] = append(server.pods[namespace], name+"-7d4f8c9b6-aaaaa")
		}
		require.NoError(t, histories.Want(in))
		lately.Want(followed)
	}
	for histories.Refresh(t.Context(), at) {
	}
	require.NoError(t, lately.Refresh(t.Context(), at))
	assert.Equal(t, 2*3, server.take()["checks"], "each reader makes three checks once an hour")
	for range 3 {
		at = at.Add(settings.Source.QueryStep)
		for histories.Refresh(t.Context(), at) {
		}
		require.NoError(t, lately.Refresh(t.Context(), at))
		asked := server.take()
		assert.Len(t, asked, 2, "CPU and memory: %v", asked)
		for metric, times := range asked {
			assert.LessOrEqual(t, times, 2, metric)
		}
	}
	for n := range namespaces {
		key := history.Key{Source: settings.Source.Digest(), Namespace: fmt.Sprint("team-", n), Kind: v1alpha1.KindDeployment, Workload: "app7", Container: "app"}
		p, known := histories.Profile(key, at)
		require.True(t, known)
		assert.Equal(t, at, p.Last)
	}
	newest := fmt.Sprintf(`
# HELP attune_usage_newest_sample_timestamp_seconds Time of the newest usage sample in Unix seconds, by source.
# TYPE attune_usage_newest_sample_timestamp_seconds gauge
attune_usage_newest_sample_timestamp_seconds{source="prometheus"} %d
`, at.Unix())
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(newest), "attune_usage_newest_sample_timestamp_seconds"), "also after a piece of the past")
	s.endOfAWave(t, settings, server, at)
}

// endOfAWave sends the queries of the workload loop (controller/workload/measure.go): each signal once for all pods,
// and each of two guardrails once.
func (s *sources) endOfAWave(t *testing.T, settings policy.Settings, server *counted, at time.Time) {
	t.Helper()
	gauge, err := s.gauge(settings)
	require.NoError(t, err)
	var pods []string
	windows := map[string]time.Duration{}
	for i := range 50 {
		pods = append(pods, fmt.Sprintf("app7-7d4f8c9b6-%05d", i))
		windows[pods[i]] = time.Duration(300+i) * time.Second
	}
	server.pods = map[string][]string{"team-7": pods}
	for name, ask := range map[string]func() (usage.ByContainer, error){
		"throttled": func() (usage.ByContainer, error) {
			return gauge.Throttled(t.Context(), "team-7", pods, 5*time.Minute, at)
		},
		"waiting": func() (usage.ByContainer, error) {
			return gauge.Waiting(t.Context(), "team-7", pods, 5*time.Minute, at)
		},
		"killed": func() (usage.ByContainer, error) { return gauge.OOMKills(t.Context(), "team-7", windows, at) },
	} {
		answer, err := ask()
		require.NoError(t, err, name)
		assert.Len(t, answer, 50, name)
	}
	for _, query := range []string{"errors", "latency"} {
		_, err := gauge.Value(t.Context(), query, at)
		require.NoError(t, err)
	}
	total := 0
	asked := server.take()
	for _, times := range asked {
		total += times
	}
	assert.LessOrEqual(t, total, 10, "%v", asked)
}
