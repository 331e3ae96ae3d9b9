// Package tenants shows what tenants can do to each other by their policies and by the usage servers that they name.
package tenants

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/recent"
)

var minutes = flag.Int("minutes", 15, "how many minutes of virtual time the tenants have")

const (
	tenants = 5
	// each tenant has so many workloads, and each of the other namespaces.
	eachHas, othersHave, others = 20, 200, 20
	// memoryLimit of the operator, as the chart has it.
	memoryLimit = 512 << 20
)

// tenantsServer is how tenants name their server.
const tenantsServer = "http://prometheus.tenants:9090"

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// cluster is the operator's own source: it knows every pod of it.
type cluster struct {
	pods map[string][]string
	// read is called at the end of each long answer, while what was read of it is still held.
	read func()
}

func (c *cluster) Read(_ context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	var cpu, memory []usage.Sample
	asked := q.Asked()
	for _, namespace := range q.Namespaces {
		for i, pod := range c.pods[namespace] {
			if !asked.Pod(pod) {
				continue
			}
			cpu, memory = cpu[:0], memory[:0]
			for at := q.Start; !at.After(q.End); at = at.Add(q.Step) {
				value := float64((at.Unix()/60*7919+int64(i)*104729)%1000) / 1000
				cpu = append(cpu, usage.Sample{At: at.UnixMilli(), Value: 0.1 + value})
				memory = append(memory, usage.Sample{At: at.UnixMilli(), Value: 1e8 * (1 + value)})
			}
			yield(usage.Series{Namespace: namespace, Pod: pod, Container: "app", CPU: cpu, Memory: memory})
		}
	}
	if c.read != nil && q.Steps() > 10 {
		c.read()
	}
	return usage.Report{}, nil
}

func (c *cluster) add(namespace string, workloads int) (names []string) {
	for i := range workloads {
		names = append(names, fmt.Sprint("app", i))
		c.pods[namespace] = append(c.pods[namespace], fmt.Sprintf("app%d-7d4f8c9b6-aaaaa", i))
	}
	return names
}

func (c *cluster) there(namespace, pod string) bool {
	for _, name := range c.pods[namespace] {
		if name == pod {
			return true
		}
	}
	return false
}

// liar is a tenant's server. By its path it hangs, has no end, or tells of other namespaces and of pods that nobody has.
type liar struct {
	asked atomic.Int64
	over  chan struct{}
	// answering has a place for each answer that is being written: as many as the operator begins to ask at once. On a busy
	// machine it goes on without answers that take long, and more would be in flight than elsewhere, each with its buffers.
	answering chan struct{}
}

// answer one at a time of as many as there are places, as long as the client waits.
func (l *liar) answer(r *http.Request, write func()) {
	select {
	case l.answering <- struct{}{}:
		defer func() { <-l.answering }()
		write()
	case <-r.Context().Done():
	case <-l.over:
	}
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.asked.Add(1)
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case strings.HasPrefix(r.URL.Path, "/hangs"):
		select {
		case <-l.over:
		case <-r.Context().Done():
		}
	case strings.HasPrefix(r.URL.Path, "/endless"):
		l.answer(r, func() { endless(w) })
	default:
		l.answer(r, func() { ofOthers(w) })
	}
}

func endless(w io.Writer) {
	fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"tenant-0","pod":"app0-7d4f8c9b6-aaaaa","container":"app"},"values":[`)
	point := []byte(strings.Repeat(`[1767225600,"1"],`, 4096))
	for range 250 << 20 / len(point) {
		if _, err := w.Write(point); err != nil {
			return
		}
	}
}

func ofOthers(w io.Writer) {
	at := time.Now().Unix()
	fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
	for i := range 20_000 {
		namespace := []string{"sixth", "tenant-0", "tenant-1"}[i%3]
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		if _, err := fmt.Fprintf(w, `{"metric":{"namespace":%q,"pod":"app%d-7d4f8c9b6-aaaaa","container":"app"},"values":[[%d,"4000"]]}`, namespace, i, at); err != nil {
			return
		}
	}
	fmt.Fprint(w, `]}}`)
}

// operator is what it has of usage, wired as cmd/attune does.
type operator struct {
	t         *testing.T
	histories *history.Store
	recent    *recent.Store
	cluster   *cluster
	keys      map[string][]history.Key
	// answered are the keys of which the operator's own source tells.
	answered []history.Key
	refused  []error
}

func newOperator(t *testing.T, c *cluster, served string) *operator {
	o := &operator{t: t, cluster: c, keys: map[string][]history.Key{}}
	dial := func(s usage.SourceSettings) (usage.Source, error) {
		if s.Prometheus == nil {
			return c, nil
		}
		config := prometheus.ConfigOf(*s.Prometheus, prometheus.Credentials{})
		// No policy may name a server on loopback, where the tenants' servers are here.
		config.Address = strings.Replace(config.Address, tenantsServer, served, 1)
		config.MaxBytes = prometheus.PolicyMaxBytes
		return prometheus.New(config)
	}
	o.histories = history.New(history.Options{Dial: dial, MaxBytes: memoryLimit / 3, Patience: time.Second})
	o.recent = recent.New(dial)
	o.recent.There, o.recent.Patience = c.there, time.Second
	return o
}

// want what a policy of a namespace wants, as far as the operator allows it.
func (o *operator) want(namespace, name string, from *v1alpha1.MetricsSource, workloads []string) {
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.TargetRef.Kind, p.Spec.MetricsSource = v1alpha1.KindDeployment, from
	settings, err := policy.ResolveAllowed(nil, nil, p, policy.Operator{
		SourceNamespaces: []string{"*"}, Steps: policy.DefaultSteps, RateWindow: policy.DefaultRateWindow,
	})
	if err != nil {
		o.refused = append(o.refused, err)
		return
	}
	in := history.Interest{Policy: name, Namespace: namespace, Source: settings.Source}
	for _, w := range workloads {
		in.Workloads = append(in.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: w, Containers: []string{"app"}})
		o.keys[namespace] = append(o.keys[namespace], history.Key{Source: settings.Source.Digest(), Namespace: namespace, Kind: v1alpha1.KindDeployment, Workload: w, Container: "app"})
	}
	if err := o.histories.Want(in); err != nil {
		o.refused = append(o.refused, err)
		return
	}
	if settings.Source.Prometheus == nil {
		o.answered = append(o.answered, o.keys[namespace][len(o.keys[namespace])-len(workloads):]...)
	}
	o.recent.Want(recent.Interest{Namespace: namespace, Policy: name, Source: settings.Source, Workloads: workloads})
}

// settings of a policy's source.
func span(step, window, rate time.Duration) *v1alpha1.MetricsSource {
	length := func(d time.Duration) *v1alpha1.Duration {
		return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
	}
	return &v1alpha1.MetricsSource{QueryStep: length(step), HistoryWindow: length(window), RateWindow: length(rate)}
}

func served(address, path string) *v1alpha1.MetricsSource {
	return &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{Address: address + path}}
}

// behave: a tenant has one policy with the built-in settings.
func (o *operator) behave(namespace string, workloads []string) {
	o.want(namespace, "all", nil, workloads)
}

// misbehave: a tenant does all that policies and servers can do, each with all of its workloads.
func (o *operator) misbehave(namespace, address string, workloads []string) {
	o.want(namespace, "hangs", served(address, "/hangs/"+namespace), workloads)
	o.want(namespace, "endless", served(address, "/endless/"+namespace), workloads)
	o.want(namespace, "lies", served(address, "/lies/"+namespace), workloads)
	o.want(namespace, "a-month-of-10s", span(10*time.Second, 720*time.Hour, time.Minute), workloads)
	o.want(namespace, "rates-of-months", span(5*time.Minute, 720*time.Hour, 720*time.Hour), workloads)
	o.want(namespace, "long-rates", span(5*time.Minute, 720*time.Hour, 90*time.Minute), workloads)
	o.want(namespace, "as-much-as-is-allowed", span(5*time.Minute, 720*time.Hour, time.Hour), workloads)
	for i := range 20 {
		o.want(namespace, fmt.Sprint("way-", i), span(5*time.Minute, time.Duration(168+i)*time.Hour, 5*time.Minute), nil)
	}
}

// live for a while, and return the most memory that was in use. Each minute the sixth tenant's samples are there.
func (o *operator) live() (most uint64) {
	o.t.Helper()
	var scale scale
	o.cluster.read = scale.weigh
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				scale.weigh()
			}
		}
	}()
	for minute := range *minutes {
		at := noon.Add(time.Duration(minute) * time.Minute)
		o.refresh(at)
		_ = o.recent.Refresh(o.t.Context(), at) // said of others
		for _, key := range o.keys["sixth"] {
			p, known := o.histories.Profile(key, at)
			require.True(o.t, known, "minute %d: %v", minute, o.refused)
			require.LessOrEqual(o.t, at.Sub(p.Last), 10*time.Minute, "minute %d: no later than one step", minute)
			require.Zero(o.t, p.Gaps)
			require.LessOrEqual(o.t, float64(p.Of[0].Peak), 1200.0, "nobody else speaks for it")
			base, known := o.recent.Base("sixth", key.Workload+"-7d4f8c9b6-aaaaa", "app", 0, at)
			require.True(o.t, known, "minute %d", minute)
			require.LessOrEqual(o.t, float64(base), 1200.0)
		}
	}
	close(stop)
	<-stopped
	return scale.most
}

// refresh for as long as there is until the next minute, or until the operator's own source has answered about everything, and
// about the sixth tenant's step.
func (o *operator) refresh(at time.Time) {
	key := o.keys["sixth"][0]
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		more := o.histories.Refresh(o.t.Context(), at)
		p, _ := o.histories.Profile(key, at)
		if !more && !p.Last.Before(at.Truncate(5*time.Minute)) && !slices.ContainsFunc(o.answered, func(k history.Key) bool { return !o.histories.Read(k) }) {
			return
		}
	}
}

// scale keeps the most that was found to live on the heap.
type scale struct {
	mutex sync.Mutex
	most  uint64
}

func (s *scale) weigh() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	s.most = max(s.most, stats.HeapAlloc)
}

// TestFiveTenantsAndASixth: whatever five tenants ask for and answer with, the samples of a sixth one are there no later
// than one step, and the operator takes at most a tenth more memory than for five that behave.
func TestFiveTenantsAndASixth(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the operator's own, whatever the test run has
	server := &liar{over: make(chan struct{}), answering: make(chan struct{}, 8)}
	served := httptest.NewServer(server)
	defer served.Close()
	defer close(server.over)
	life := func(hostile bool) uint64 {
		c := &cluster{pods: map[string][]string{}}
		o := newOperator(t, c, served.URL)
		for i := range others {
			namespace := fmt.Sprint("other-", i)
			o.behave(namespace, c.add(namespace, othersHave))
		}
		o.behave("sixth", c.add("sixth", 5))
		for i := range tenants {
			namespace := fmt.Sprint("tenant-", i)
			workloads := c.add(namespace, eachHas)
			if hostile {
				o.misbehave(namespace, tenantsServer, workloads)
			} else {
				o.behave(namespace, workloads)
			}
		}
		most := o.live()
		if hostile {
			require.GreaterOrEqual(t, len(o.refused), tenants*10, "settings beyond the ceilings, and more than eight ways")
			require.Contains(t, fmt.Sprint(o.refused), "have 8 different metricsSource settings already")
			require.Contains(t, fmt.Sprint(o.refused), "usage.limits.steps")
		}
		runtime.KeepAlive(o)
		return most
	}
	// Answers in flight at the moment of weighing are a part of the heap, and how many there are depends on how busy the
	// machine is: what a life takes at least of three is compared. Memory that is kept would show in each.
	behaved, hostile := life(false), life(true)
	for range 2 {
		if float64(hostile) > 1.1*float64(behaved) {
			behaved, hostile = min(behaved, life(false)), min(hostile, life(true))
		}
	}
	t.Logf("the operator's heap: %.1f MiB where five tenants behave, %.1f MiB where they do not (%+.1f %%), after %d questions to their servers",
		float64(behaved)/(1<<20), float64(hostile)/(1<<20), 100*(float64(hostile)/float64(behaved)-1), server.asked.Load())
	assert.LessOrEqual(t, float64(hostile), 1.1*float64(behaved))
	assert.Positive(t, server.asked.Load())
}
