package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// history is a server with the Prometheus HTTP API. Every pod uses the same, over and over again, unless something
// is wrong with the server.
type history struct {
	mutex sync.Mutex
	// pods by namespace.
	pods  map[string][]string
	wrong fault
}

// fault is what is wrong with a usage source.
type fault string

const (
	nothing  fault = ""
	slow     fault = "slow"
	empty    fault = "empty"
	negative fault = "negative"
	huge     fault = "huge"
	stale    fault = "stale"
	gone     fault = "gone"
)

var faults = []fault{slow, empty, negative, huge, stale, gone}

func (h *history) know(pods []corev1.Pod) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.pods = map[string][]string{}
	for _, pod := range pods {
		h.pods[pod.Namespace] = append(h.pods[pod.Namespace], pod.Name)
	}
}

func (h *history) is(wrong fault) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.wrong = wrong
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mutex.Lock()
	wrong, pods := h.wrong, h.pods
	h.mutex.Unlock()
	switch wrong {
	case gone:
		panic(http.ErrAbortHandler)
	case slow:
		select {
		case <-r.Context().Done():
			return
		case <-time.After(15 * time.Second):
		}
	}
	if !strings.HasSuffix(r.URL.Path, "/query_range") {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		return
	}
	query := r.FormValue("query")
	values := points(r, usual(query), wrong)
	_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
	comma := ""
	for namespace, names := range pods {
		if values == "" || !strings.Contains(query, namespace) {
			continue
		}
		for _, pod := range names {
			_, _ = fmt.Fprintf(w, `%s{"metric":{"namespace":%q,"pod":%q,"container":"app"},"values":[%s]}`, comma, namespace, pod, values)
			comma = ","
		}
	}
	_, _ = io.WriteString(w, `]}}`)
}

// usual is what a container uses on average, in cores or bytes.
func usual(query string) float64 {
	if strings.Contains(query, "memory") {
		return 200 << 20
	}
	return 0.1
}

// swing is what is used of the usual in one step after another. Histories, hours and days are as many times as long
// in all steps that are asked for here, so that nothing changes as they slide along.
var swing = [24]float64{
	1, 0.81, 1.13, 0.94, 0.72, 1.27, 1.05, 0.88, 0.97, 1.19, 0.76, 1.02, 0.9, 1.3, 0.84, 1.08, 0.7, 0.99, 1.16, 0.92, 1.23, 0.79, 1.1, 0.86,
}

// points of a query's steps: all series have the same.
func points(r *http.Request, usual float64, wrong fault) string {
	if wrong == empty {
		return ""
	}
	start, end, step := number(r, "start"), number(r, "end"), max(1, number(r, "step"))
	if wrong == stale {
		end = min(end, time.Now().Add(-2*time.Hour).Unix())
	}
	var b []byte
	for at := start; at <= end; at += step {
		value := usual * swing[at/step%int64(len(swing))]
		switch wrong {
		case negative:
			value = -5
		case huge:
			value = 1e300
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, '['), at, 10), `,"`...)
		b = append(strconv.AppendFloat(b, value, 'g', -1, 64), `"]`...)
	}
	return string(b)
}

func number(r *http.Request, name string) int64 {
	f, err := strconv.ParseFloat(r.FormValue(name), 64)
	if err != nil {
		return 0
	}
	return int64(f)
}

// percentile of durations.
func percentile(of []time.Duration, p float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[int(p*float64(len(of)-1))].Round(10 * time.Microsecond)
}
