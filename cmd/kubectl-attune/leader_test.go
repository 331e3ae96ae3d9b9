package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/display"
)

func ledBy(t *testing.T, cli cliTest, namespace, holder string) {
	t.Helper()
	require.NoError(t, cli.client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: decision.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
	}))
}

func amountsOf(cpu, memory, limit string) display.Amounts {
	return display.Amounts{CPURequest: ptr.To(cpu), MemoryRequest: ptr.To(memory), MemoryLimit: ptr.To(limit)}
}

// decidedNode is what a leader says of the node worker.
func decidedNode() decision.Node {
	share := amountsOf("508m", "200Mi", "440Mi")
	container := func(holds, gets string, why ...decision.Why) []decision.Container {
		return []decision.Container{{
			Name: "app", Holds: amountsOf(holds, "200Mi", "440Mi"), Wants: amountsOf("900m", "200Mi", "440Mi"), Gets: amountsOf(gets, "200Mi", "440Mi"),
			Base: &decision.Demand{CPU: ptr.To("400m"), Memory: ptr.To("150Mi")}, Peak: &decision.Demand{CPU: ptr.To("800m"), Memory: ptr.To("200Mi")},
			Share: &share, Why: why, Steps: []display.Step{{Resource: "cpu", Name: "base", Before: "0", After: "400m", Reason: "its base demand"}},
		}}
	}
	return decision.Node{
		Node: "worker", Allocatable: decision.Pair{CPU: "4", Memory: "8Gi"}, Others: decision.Pair{CPU: "100m", Memory: "70Mi"}, Available: decision.Pair{CPU: "3900m", Memory: "8122Mi"},
		Pods: []decision.Pod{
			{Name: "kube-system/stranger", Reason: "NoPolicy", Message: "no policy sizes its workload", Containers: []decision.Container{{
				Name: "dns", Holds: display.Amounts{CPURequest: ptr.To("100m")}, Gets: display.Amounts{CPURequest: ptr.To("100m")},
			}}},
			{Name: "shop/web-7c9-aaaaa", Shares: true, Group: "shop/Deployment/web", Ranking: "Low", Containers: container("800m", "508m")},
			{Name: "shop/web-7c9-bbbbb", Shares: true, Frozen: true, Group: "shop/Deployment/web", Ranking: "Never", Stays: "WorkloadPaused", Reason: "WorkloadPaused",
				Message:    "it may not be changed now: WorkloadPaused",
				Containers: container("800m", "800m", decision.Why{Resource: "cpu", Reason: "Frozen", Message: "it may not be changed now: WorkloadPaused"})},
			{Name: "shop/web-7c9-ccccc", Shares: true, Group: "shop/Deployment/web", Ranking: "Low",
				Containers: container("800m", "800m", decision.Why{Resource: "cpu", Reason: "LoweredLately", Message: "its pod was lowered a while ago, and is not lowered again before 2026-03-02T12:10:00Z"})},
		},
		Evictions: []decision.Eviction{
			{Name: "shop/web-7c9-aaaaa", Ranking: "Low", Reason: "CPU does not fit: …"},
			{Name: "shop/web-7c9-ccccc", Ranking: "Low", Reason: "CPU does not fit: …", Waits: true},
		},
		Decided: &decision.Decided{
			At: testNow.Add(-42 * time.Second), Needed: decision.Pair{CPU: "1924m", Memory: "600Mi"}, Overcommitted: true,
			Holders: []decision.Holder{{Name: "shop/web-7c9-bbbbb", Resource: "cpu", Above: "292m", Reason: "Frozen", Message: "it may not be changed now: WorkloadPaused"}},
		},
	}
}

// theLeader answers about the node worker.
func theLeader(t *testing.T, namespace string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+namespace+"/attune-7c9-xyz/8082/nodes/worker", func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(decidedNode()))
	})
	return mux
}

// What the leader decided is shown as it says it.
func TestNodeAsDecided(t *testing.T) {
	for name, args := range map[string][]string{
		"node-decided.txt": {}, "node-decided-wide.txt": {"-o", "wide"}, "node-decided.json": {"-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			cli := nodeTest(t, interceptor.Funcs{})
			ledBy(t, cli, "attune-system", "attune-7c9-xyz_705ab4f5")
			cli.pods = theLeader(t, "attune-system")
			got := cli.run(append([]string{"node", "worker"}, args...)...)
			require.Equal(t, exitOK, got.code, got.errOut)
			assert.Empty(t, got.errOut)
			golden(t, name, got.out)
		})
	}
	t.Run("elsewhere", func(t *testing.T) {
		cli := nodeTest(t, interceptor.Funcs{})
		ledBy(t, cli, "ops", "attune-7c9-xyz_705ab4f5")
		cli.pods = theLeader(t, "ops")
		got := cli.run("node", "worker", "--operator-namespace", "ops")
		assert.Empty(t, got.errOut)
		assert.Contains(t, got.out, "decided 42s ago")
	})
}

// Where the leader cannot be asked, what pods and recommendations tell is shown, and the reason is said.
func TestNodeWhereTheLeaderCannotBeAsked(t *testing.T) {
	says := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, code) })
	}
	for name, c := range map[string]struct {
		holder string
		pods   http.Handler
		want   string
	}{
		"no lease":      {"", nil, "there is no lease attune.attune.io in namespace attune-system: say where the operator is with --operator-namespace"},
		"no leader":     {"_", nil, "no replica of the operator leads at the moment"},
		"no right":      {"attune-7c9-xyz_1", nil, "your user lacks a right that this needs: asking the leader, pod attune-7c9-xyz in namespace attune-system: pods/portforward"},
		"another leads": {"attune-7c9-xyz_1", says(503, "this replica does not lead: pod attune-7c9-abc does"), "pod attune-7c9-xyz says: this replica does not lead: pod attune-7c9-abc does"},
		"not looked at": {"attune-7c9-xyz_1", says(404, `the leader has looked at no node "worker"`), `pod attune-7c9-xyz says: the leader has looked at no node "worker"`},
		"another server": {"attune-7c9-xyz_1", says(200, "<html>"),
			"pod attune-7c9-xyz answers what is not understood here: use a plugin of the operator's version"},
		"a long page": {"attune-7c9-xyz_1", says(502, strings.Repeat("x", 5000)), "pod attune-7c9-xyz says: 502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			cli := nodeTest(t, interceptor.Funcs{})
			cli.pods = c.pods
			if c.holder != "" {
				ledBy(t, cli, "attune-system", c.holder)
			}
			got := cli.run("node", "worker")
			assert.Equal(t, exitOK, got.code)
			assert.Contains(t, got.errOut, "grants are not shown: "+c.want)
			assert.Equal(t, 1, strings.Count(got.errOut, "\n"), "one line")
			golden(t, "node-live.txt", got.out)
		})
	}
}

// Of a node where nobody shares nothing was decided: what its pods hold is shown, and nothing is missing.
func TestNodeWhereNobodyShares(t *testing.T) {
	cli := nodeTest(t, interceptor.Funcs{})
	ledBy(t, cli, "attune-system", "attune-7c9-xyz_1")
	cli.pods = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(decision.Node{Node: "worker", Decided: &decision.Decided{At: testNow}}))
	})
	got := cli.run("node", "worker")
	assert.Empty(t, got.errOut)
	golden(t, "node-live.txt", got.out)
}

// forwarder is an API server that forwards ports of the pod attune-system/leader over SPDY to a server, as those do that
// know no websockets. What went wrong it says on the error stream.
func forwarder(t *testing.T, to string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/attune-system/pods/leader/portforward" || r.Method != http.MethodPost {
			http.Error(w, "no such pod", http.StatusNotFound)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		defer func() { _ = connection.Close() }()
		failed, data := <-streams, <-streams
		assert.Equal(t, "8082", data.Headers().Get(corev1.PortHeader))
		pod, err := net.Dial("tcp", to)
		if err != nil {
			_, _ = io.WriteString(failed, "error forwarding port 8082 to pod: connection refused")
			_ = failed.Close()
			_ = data.Close()
			<-connection.CloseChan()
			return
		}
		_ = failed.Close()
		go func() { _, _ = io.Copy(pod, data) }()
		_, _ = io.Copy(data, pod)
		_ = data.Close()
		<-connection.CloseChan()
	}))
	t.Cleanup(server.Close)
	return server
}

// A pod is asked through the API server, on the port that it listens at.
func TestAskPod(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(" and more", 10_000))
	}))
	defer pod.Close()
	config := &rest.Config{Host: forwarder(t, pod.Listener.Addr().String()).URL}
	status, body, err := askPod(t.Context(), config, "attune-system", "leader", 8082, "/nodes/worker")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, status)
	assert.Equal(t, "/nodes/worker"+strings.Repeat(" and more", 10_000), string(body))

	_, _, err = askPod(t.Context(), config, "attune-system", "other", 8082, "/nodes/worker")
	assert.ErrorContains(t, err, "no such pod")
}

// Nobody listens, as in a version of the operator that does not answer: what the node says of it is the error.
func TestAskPodThatDoesNotListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	config := &rest.Config{Host: forwarder(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))).URL}
	_, _, err = askPod(t.Context(), config, "attune-system", "leader", 8082, "/nodes/worker")
	assert.EqualError(t, err, "error forwarding port 8082 to pod: connection refused")
}

// A server that never answers is not waited for.
func TestAskPodEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, _, err := askPod(ctx, &rest.Config{Host: silent.URL}, "attune-system", "leader", 8082, "/")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Neither is a pod that stops in the middle of its answer.
func TestAskPodThatStops(t *testing.T) {
	release := make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer pod.Close()
	defer close(release)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	_, _, err := askPod(ctx, &rest.Config{Host: forwarder(t, pod.Listener.Addr().String()).URL}, "attune-system", "leader", 8082, "/")
	assert.Error(t, err)
}
