package crash

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// used is what every container of a workload has used all the time.
type used struct {
	cpu    string
	memory int64
}

// history is a server with the Prometheus HTTP API that knows what workloads used; every pod of theirs was there all the time.
type history struct {
	mutex sync.Mutex
	of    map[string]used
	pods  map[string]string
}

func newHistory(t *testing.T) (*history, string) {
	h := &history{of: map[string]used{}, pods: map[string]string{}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, s.URL
}

// knows a pod of a workload that used some.
func (h *history) knows(pod, workload string, of used) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.of[workload], h.pods[pod] = of, workload
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/query_range") {
		io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		return
	}
	start, end, step := number(r, "start"), number(r, "end"), max(1, number(r, "step"))
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var series []string
	for pod, workload := range h.pods {
		value := h.of[workload].cpu
		if strings.Contains(r.FormValue("query"), "memory") {
			value = strconv.FormatInt(h.of[workload].memory, 10)
		}
		var points []string
		for at := start; at <= end; at += step {
			points = append(points, fmt.Sprintf("[%d,%q]", at, value))
		}
		series = append(series, fmt.Sprintf(`{"metric":{"namespace":"default","pod":%q,"container":"app"},"values":[%s]}`, pod, strings.Join(points, ",")))
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
}

func number(r *http.Request, name string) int64 {
	f, err := strconv.ParseFloat(r.FormValue(name), 64)
	if err != nil {
		return 0
	}
	return int64(f)
}
