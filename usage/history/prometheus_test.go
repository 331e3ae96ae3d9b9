package history_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/prometheus"
)

// promServer answers range queries with the same usage for every pod at every step.
type promServer struct {
	mutex sync.Mutex
	asked []string
	pods  []string
	// failing, if set, is the status of every answer.
	failing int
	// limit rejects queries with more points.
	limit int64
}

func (p *promServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	query := r.FormValue("query")
	p.asked = append(p.asked, query)
	start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
	end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
	step, _ := strconv.ParseInt(r.FormValue("step"), 10, 64)
	switch {
	case p.failing != 0:
		w.WriteHeader(p.failing)
		return
	case p.limit != 0 && (end-start)/step+1 > p.limit:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`))
		return
	}
	value := "0.2"
	if strings.Contains(query, "memory") {
		value = "104857600"
	}
	var series []string
	for _, pod := range p.pods {
		var points []string
		for at := start; at <= end; at += step {
			points = append(points, fmt.Sprintf(`[%d,%q]`, at, value))
		}
		series = append(series, fmt.Sprintf(`{"metric":{"namespace":"shop","pod":%q,"container":"app"},"values":[%s]}`, pod, strings.Join(points, ",")))
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
}

func (p *promServer) take() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *promServer) set(change func(*promServer)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	change(p)
}

// viaPrometheus returns a store that queries the server, with settings that name it.
func viaPrometheus(t *testing.T, handler *promServer) (*history.Store, usage.SourceSettings) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	settings := settings()
	settings.Prometheus = &v1alpha1.PrometheusSource{Address: server.URL}
	return history.New(history.Options{Dial: func(s usage.SourceSettings) (usage.Source, error) {
		config := prometheus.ConfigOf(*s.Prometheus, prometheus.Credentials{})
		config.Now = func() time.Time { return now }
		return prometheus.New(config)
	}}), settings
}

func TestTwoQueriesForEachMetricAndCycle(t *testing.T) {
	for _, workloads := range []int{1, 60} {
		handler := &promServer{}
		s, settings := viaPrometheus(t, handler)
		interest := history.Interest{Policy: "p", Namespace: "shop", Source: settings}
		for i := range workloads {
			interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: fmt.Sprint("app", i)})
			handler.pods = append(handler.pods, fmt.Sprintf("app%d-7d4f8c9b6-aaaaa", i), fmt.Sprintf("app%d-7d4f8c9b6-bbbbb", i))
		}
		s.Want(interest)
		at, checks := now, 0
		for cycle := range 6 {
			if cycle == 3 {
				// A later workload makes both kinds of query due at once.
				more := interest
				more.Workloads = append([]history.Workload{{Kind: v1alpha1.KindDeployment, Name: "late"}}, interest.Workloads...)
				s.Want(more)
			}
			s.Refresh(context.Background(), at)
			at = at.Add(step)
			cpu, memory := 0, 0
			for _, query := range handler.take() {
				switch {
				case strings.HasPrefix(query, "topk("):
					checks++
				case strings.Contains(query, "container_cpu_usage_seconds_total"):
					cpu++
				default:
					memory++
				}
			}
			want := 1
			if cycle == 3 {
				want = 2
			}
			assert.Equal(t, want, cpu, "cycle %d", cycle)
			assert.Equal(t, want, memory, "cycle %d", cycle)
		}
		assert.Equal(t, 3, checks, "three checks once an hour")
		p, ok := s.Profile(history.Key{Source: settings.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "app0", Container: "app"}, at)
		require.True(t, ok)
		assert.Equal(t, 288, p.Of[recommender.CPU].Points)
		assert.Equal(t, 288, p.Of[recommender.Memory].Points)
		assert.InDelta(t, 104857600, float64(p.Of[recommender.Memory].Peak), 0)
		assert.Equal(t, recommender.Usage(200), p.Of[recommender.CPU].Overall.Quantile(0.95), "200m, not a hair more")
	}
}

func TestAServerThatIsAwayForAWhile(t *testing.T) {
	handler := &promServer{pods: []string{"web-7d4f8c9b6-aaaaa"}}
	s, settings := viaPrometheus(t, handler)
	interest := deployment("web")
	interest.Source = settings
	s.Want(interest)
	fill(t, s, now)
	for i := 1; i <= 12; i++ {
		handler.set(func(p *promServer) { p.failing = http.StatusServiceUnavailable * min(1, 12-i) })
		s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
		state, _ := s.State(settings)
		if i < 12 {
			require.ErrorContains(t, state.Err, "failed (HTTP ")
			assert.Equal(t, now, state.LastSuccess)
		}
	}
	k := key("web")
	k.Source = settings.Digest()
	p, ok := s.Profile(k, now.Add(12*step))
	require.True(t, ok)
	assert.Zero(t, p.Gaps, "what was missed is asked for when the server is back")
	assert.Equal(t, now.Add(12*step), p.Last)
}

func TestAServerWithALimit(t *testing.T) {
	handler := &promServer{pods: []string{"web-7d4f8c9b6-aaaaa"}, limit: 100}
	s, settings := viaPrometheus(t, handler)
	interest := deployment("web")
	interest.Source = settings
	s.Want(interest)
	assert.Equal(t, 6, fill(t, s, now), "288 and 144 are refused, then four times 72")
	k := key("web")
	k.Source = settings.Digest()
	p, ok := s.Profile(k, now)
	require.True(t, ok)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
}
