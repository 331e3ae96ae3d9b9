package crash

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/fault"
	"attune.io/attune/test/kubelet"
)

// all: every call of every kind of workload, not a sample.
var all = flag.Bool("all", false, "kill the operator at every call, not at a sample of them")

// sampled are calls of a resize, its watch and its revert. A kill before the first patch of a resize is not among
// them: what was never sent is waited for for a minute.
var sampled = []struct {
	kind
	fault.Point
	after bool
}{
	{reverted, fault.Point{Kind: "create attunerecommendations", N: 1}, true},
	{reverted, fault.Point{Kind: "patch attunerecommendations", N: 1}, true},
	{reverted, fault.Point{Kind: "patch pods/resize", N: 1}, true},
	{reverted, fault.Point{Kind: "update attunerecommendations/status", N: 4}, false},
	{reverted, fault.Point{Kind: "update attunerecommendations/status", N: 5}, true},
	{reverted, fault.Point{Kind: "patch pods/resize", N: 2}, true},
	{reverted, fault.Point{Kind: "update attunerecommendations/status", N: 5}, false},
	{reverted, fault.Point{Kind: "patch pods/resize", N: 2}, false},
	{reverted, fault.Point{Kind: "update attunerecommendations/status", N: 3}, true},
	{reverted, fault.Point{Kind: "patch attunerecommendations", N: 2}, false},
	{kept, fault.Point{Kind: "update attunerecommendations/status", N: 4}, true},
	{kept, fault.Point{Kind: "patch attunerecommendations", N: 2}, false},
}

// TestKilledBySignal kills the operator with SIGKILL at a call about one workload after another, before the API
// server hears of it or after: each workload suffers from the kills at the calls of all others too.
func TestKilledBySignal(t *testing.T) {
	t.Parallel()
	if !*all {
		t.Run("sample", func(t *testing.T) {
			s := newSite(t)
			workloads := map[string]kind{}
			for i, at := range sampled {
				s.killAt(workloads, fmt.Sprintf("w%02d", i), at.kind, at.Point, at.after)
			}
			s.tell(workloads)
			assert.Equal(t, len(sampled), s.link.Struck(), "points that were reached; calls of each workload:\n%s", s.callsOf(workloads))
		})
		return
	}
	for _, k := range []kind{reverted, kept, withdrawn} {
		t.Run(k.name, func(t *testing.T) {
			s := newSite(t)
			workloads := map[string]kind{}
			const most = 24
			for n := 1; n <= most; n++ {
				s.killAt(workloads, fmt.Sprintf("b%02d", n), k, fault.Point{N: n}, false)
				s.killAt(workloads, fmt.Sprintf("a%02d", n), k, fault.Point{N: n}, true)
			}
			s.tell(workloads)
		})
	}
}

// callsOf counts the calls of each kind about each workload.
func (s *site) callsOf(workloads map[string]kind) string {
	var out strings.Builder
	for name := range workloads {
		counts := map[string]int{}
		for _, call := range s.link.Calls() {
			if strings.Contains(call.Name, name) {
				counts[call.Kind()]++
			}
		}
		fmt.Fprintln(&out, name, counts)
	}
	return out.String()
}

// killAt makes a workload at one of whose calls the operator is killed.
func (s *site) killAt(workloads map[string]kind, name string, k kind, at fault.Point, after bool) {
	s.t.Helper()
	at.Name = name
	strike := fault.Before(s.operator.kill)
	if after {
		strike = fault.After(s.operator.kill)
	}
	s.link.Strike(at, 1, strike)
	workloads[name] = k
}

// tell starts the operator among workloads, waits until the resizes of all are finished, and looks at how.
func (s *site) tell(workloads map[string]kind) {
	s.t.Helper()
	s.node(roomyNode, kubelet.Options{})
	s.node(spareNode, kubelet.Options{})
	for name, k := range workloads {
		s.workload(name, k)
	}
	s.live()
	s.operator.died = func() { s.isRecoverable(workloads) }
	require.NoError(s.t, s.operator.start())
	began := time.Now()
	s.begin(workloads)
	s.end(workloads)
	s.t.Logf("%d workloads, %d deaths at %d points, all ended well after %s", len(workloads), s.operator.deaths, s.link.Struck(), time.Since(began).Round(time.Second))
}

// end waits for the end of each workload's resize, which is its kind's.
func (s *site) end(workloads map[string]kind) {
	s.t.Helper()
	for name := range workloads {
		awaited(s.t, "the end of "+name, func() error { return s.finished(name) })
	}
	for name, k := range workloads {
		s.endsWell(name, k)
		different, n := s.resizesOf(name)
		assert.LessOrEqual(s.t, len(different), 3, "%s: %s", name, different)
		assert.LessOrEqual(s.t, n, 3+s.operator.deaths+s.link.Struck(), name)
	}
	s.nothingEvicted()
}

// TestRoughRoad: watches end every second, the API server is stopped and started during a watch, and what it says
// is slow, lost, or a refusal. No pod is evicted for any of that, although all that would let it be is there:
// TestAPodIsEvicted evicts one.
func TestRoughRoad(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const always = 1 << 20
	s.link.Strike(fault.Point{Kind: "watch "}, always, fault.Short(time.Second))
	slow := fault.Slow(func() { time.Sleep(2 * time.Second) })
	workloads := map[string]kind{"watched": kept, "slow": reverted}
	s.link.Strike(fault.Point{Kind: "patch pods/resize", Name: "slow", N: 1}, always, slow)
	for name, f := range map[string]fault.Fault{
		"lost": fault.Lost, "broken": fault.Instead(http.StatusInternalServerError, -1), "done": fault.Although(http.StatusInternalServerError),
		"busy": fault.Instead(http.StatusTooManyRequests, 1), "conflict": fault.Instead(http.StatusConflict, -1),
	} {
		workloads[name] = evictable
		s.link.Strike(fault.Point{Kind: "patch pods/resize", Name: name, N: 1}, 1, f)
	}
	if *all {
		// Its first answer never comes, on a connection that stands: the operator gives up waiting after minutes.
		workloads["silent"] = reverted
		s.link.Strike(fault.Point{Kind: "patch pods/resize", Name: "silent", N: 1}, 1, fault.Silent)
	}
	workloads["storm"] = reverted
	s.link.Strike(fault.Point{Kind: "update attunerecommendations/status", Name: "storm", N: 2}, 20, fault.Instead(http.StatusConflict, -1))

	done := make(chan struct{})
	go func() {
		defer close(done)
		awaited(t, "a watch", func() error { return s.inPhase("watched", v1alpha1.RecordWatching) })
		s.restartAPIServer()
	}()
	s.tell(maps.Clone(workloads))
	<-done
}

// TestAPodIsEvicted shows that the operator of these tests evicts where it has to: a pod that can never grow on its node,
// while another one of its workload runs elsewhere.
func TestAPodIsEvicted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cramped := kind{requests: "cpu=500m,memory=512Mi", used: used{twoCores, 200 << 20}}
	cramped.policy = strings.Replace(once, "canary: {", "maxConcurrentResizes: 100%, canary: {", 1) + growing
	s.node("tight", kubelet.Options{CPU: "1"})
	s.workload("web", cramped)
	require.NoError(t, s.sync(time.Now().Add(-3*time.Minute)))
	s.node(spareNode, kubelet.Options{})
	d := &appsv1.Deployment{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, d))
	d.Spec.Replicas = ptr.To[int32](2)
	require.NoError(t, s.client.Update(t.Context(), d))
	s.live()
	require.NoError(t, s.operator.start())
	s.begin(map[string]kind{"web": cramped})
	awaited(t, "an eviction", func() error {
		for _, call := range s.link.Calls() {
			if call.Subresource == "eviction" {
				return nil
			}
		}
		rec, err := s.recommendation("web")
		return errors.Join(fmt.Errorf("none was asked for: %v", rec), err)
	})
}

// inPhase: the workload has one open record, and it is in a phase.
func (s *site) inPhase(workload string, phase v1alpha1.RecordPhase) error {
	rec, err := s.recommendation(workload)
	if err != nil || rec == nil || len(rec.Status.Records) != 1 || rec.Status.Records[0].Phase != phase {
		return fmt.Errorf("%s is not in phase %s: %v, %w", workload, phase, rec, err)
	}
	return nil
}
