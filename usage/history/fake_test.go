package history_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

const step = 5 * time.Minute

// now is the end of a step.
var now = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// fake is a source with pods whose usage is a function of time.
type fake struct {
	mutex   sync.Mutex
	queries []usage.Query
	pods    []fakePod
	// fail decides about each query; nil: no query fails.
	fail   func(usage.Query) error
	report usage.Report
}

type fakePod struct {
	namespace, pod, container string
	// cpu, peak and memory of the step that ends at a time; nil or false: no sample.
	cpu, peak, memory func(time.Time) (float64, bool)
	// implausible returns the dropped samples of CPU.
	implausible func(time.Time) (float64, bool)
	// why they were dropped; empty: usage.DropImplausible.
	why usage.Drop
	// started is when the container started; zero: not known.
	started  time.Time
	restarts int
	// gone: see usage.Series.
	gone bool
}

func (f *fake) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.queries = append(f.queries, query)
	asked := query.Asked()
	for _, pod := range f.pods {
		if !asked.Namespace(pod.namespace) || !asked.Pod(pod.pod) {
			continue
		}
		// One piece per measure, like a Prometheus server.
		started := int64(0)
		if !pod.started.IsZero() {
			started = pod.started.UnixMilli()
		}
		yield(usage.Series{Namespace: pod.namespace, Pod: pod.pod, Container: pod.container, Started: started, Restarts: pod.restarts, Gone: pod.gone, CPU: samples(query, pod.cpu), CPUImplausible: samples(query, pod.implausible),
			Why: cmp.Or(pod.why, usage.DropImplausible), Bound: query.Most.Of(false)})
		yield(usage.Series{Namespace: pod.namespace, Pod: pod.pod, Container: pod.container, Started: started, Restarts: pod.restarts, Gone: pod.gone, CPUPeak: samples(query, pod.peak)})
		yield(usage.Series{Namespace: pod.namespace, Pod: pod.pod, Container: pod.container, Memory: samples(query, pod.memory)})
	}
	if f.fail != nil {
		if err := f.fail(query); err != nil {
			return f.report, err
		}
	}
	return f.report, nil
}

// take returns the queries since the previous call.
func (f *fake) take() []usage.Query {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	queries := f.queries
	f.queries = nil
	return queries
}

func (f *fake) set(change func(*fake)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change(f)
}

func samples(query usage.Query, value func(time.Time) (float64, bool)) []usage.Sample {
	var all []usage.Sample
	for at := query.Start; value != nil && !at.After(query.End); at = at.Add(query.Step) {
		if v, ok := value(at); ok {
			all = append(all, usage.Sample{At: at.UnixMilli(), Value: v})
		}
	}
	return all
}

// always is the same value at each step.
func always(value float64) func(time.Time) (float64, bool) {
	return func(time.Time) (float64, bool) { return value, true }
}

// between has the value from the first to the last time, both included.
func between(first, last time.Time, value float64) func(time.Time) (float64, bool) {
	return func(at time.Time) (float64, bool) { return value, !at.Before(first) && !at.After(last) }
}

// web is a pod of the Deployment web in shop.
func web(id string, cpu func(time.Time) (float64, bool)) fakePod {
	return fakePod{namespace: "shop", pod: "web-7d4f8c9b6-" + id, container: "app", cpu: cpu, memory: always(1 << 20)}
}

func settings() usage.SourceSettings {
	return usage.SourceSettings{HistoryWindow: 24 * time.Hour, QueryStep: step, RateWindow: step}
}

// deployment wants the app containers of Deployments in shop.
func deployment(names ...string) history.Interest {
	interest := history.Interest{Policy: "policy", Namespace: "shop", Source: settings()}
	for _, name := range names {
		interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: name, Containers: []string{"app"}})
	}
	return interest
}

func key(workload string) history.Key {
	return history.Key{Source: settings().Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: workload, Container: "app"}
}

// newStore uses the fake for all settings.
func newStore(source usage.Source) *history.Store {
	return history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil }})
}

// fill refreshes until the past is complete, and returns the number of refreshes.
func fill(t *testing.T, s *history.Store, now time.Time) int {
	t.Helper()
	for n := 1; n < 1000; n++ {
		if !s.Refresh(context.Background(), now) {
			return n
		}
	}
	t.Fatal("the past never ends")
	return 0
}

// profile is the profile of web's app container.
func profile(t *testing.T, s *history.Store, now time.Time) recommender.Profile {
	t.Helper()
	p, ok := s.Profile(key("web"), now)
	if !ok {
		t.Fatal("no profile")
	}
	return p
}

var errDown = errors.New("the server is down")

func daemonSet(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindDaemonSet, Name: name}
}
