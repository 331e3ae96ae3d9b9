package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/internal/answers"
)

func ledBy(t *testing.T, cli cliTest, namespace, holder string) {
	t.Helper()
	require.NoError(t, cli.client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: answers.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
	}))
}

func amountsOf(cpu, memory, limit string) answers.Amounts {
	return answers.Amounts{CPURequest: ptr.To(cpu), MemoryRequest: ptr.To(memory), MemoryLimit: ptr.To(limit)}
}

// decidedNode returns the leader's answer about the node worker.
func decidedNode() answers.NodeAnswer {
	share := amountsOf("508m", "200Mi", "440Mi")
	container := func(holds, gets string, why ...answers.ShareReason) []answers.NodeContainer {
		return []answers.NodeContainer{{
			Name: "app", Holds: amountsOf(holds, "200Mi", "440Mi"), Wants: amountsOf("900m", "200Mi", "440Mi"), Gets: amountsOf(gets, "200Mi", "440Mi"),
			Base: &answers.Quantities{CPU: ptr.To("400m"), Memory: ptr.To("150Mi")}, Peak: &answers.Quantities{CPU: ptr.To("800m"), Memory: ptr.To("200Mi")},
			Share: &share, Why: why, Steps: []answers.Step{{Resource: "cpu", Name: "base", Before: "0", After: "400m", Reason: "its base demand"}},
		}}
	}
	return answers.NodeAnswer{
		Node: "worker", Allocatable: answers.NodeAmounts{CPU: "4", Memory: "8Gi"}, Fixed: answers.NodeAmounts{CPU: "100m", Memory: "70Mi"}, Available: answers.NodeAmounts{CPU: "3900m", Memory: "8122Mi"},
		Pods: []answers.NodePod{
			{Name: "kube-system/stranger", Reason: "NoPolicy", Message: "no policy manages its workload", Containers: []answers.NodeContainer{{
				Name: "dns", Holds: answers.Amounts{CPURequest: ptr.To("100m")}, Gets: answers.Amounts{CPURequest: ptr.To("100m")},
			}}},
			{Name: "shop/web-7c9-aaaaa", Shares: true, Group: "shop/Deployment/web", Ranking: "Low", Containers: container("800m", "508m")},
			{Name: "shop/web-7c9-bbbbb", Shares: true, Frozen: true, Group: "shop/Deployment/web", Ranking: "Never", Stays: "WorkloadPaused", Reason: "WorkloadPaused",
				Message:    "the pod cannot be changed now: WorkloadPaused",
				Containers: container("800m", "800m", answers.ShareReason{Resource: "cpu", Reason: "Frozen", Message: "the pod cannot be changed now: WorkloadPaused"})},
			{Name: "shop/web-7c9-ccccc", Shares: true, Group: "shop/Deployment/web", Ranking: "Low",
				Containers: container("800m", "800m", answers.ShareReason{Resource: "cpu", Reason: "LoweredLately", Message: "its pod was lowered recently, and is not lowered again before 2026-03-02T12:10:00Z"})},
		},
		Evictions: []answers.NodeEviction{
			{Name: "shop/web-7c9-aaaaa", Ranking: "Low", Reason: "CPU does not fit: …"},
			{Name: "shop/web-7c9-ccccc", Ranking: "Low", Reason: "CPU does not fit: …", Waits: true},
		},
		Decided: &answers.NodeDecided{
			At: testNow.Add(-42 * time.Second), Needed: answers.NodeAmounts{CPU: "1924m", Memory: "600Mi"}, Overcommitted: true,
			Holders: []answers.NodeHolder{{Name: "shop/web-7c9-bbbbb", Resource: "cpu", Above: "292m", Reason: "Frozen", Message: "the pod cannot be changed now: WorkloadPaused"}},
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

// The leader's decision is shown unchanged.
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

// If the leader cannot be asked, the answer comes from pods and recommendations, with a note about the reason.
func TestNodeWithoutReachableLeader(t *testing.T) {
	says := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, code) })
	}
	for name, c := range map[string]struct {
		holder string
		pods   http.Handler
		want   string
	}{
		"no lease":      {"", nil, "lease attune.attune.io does not exist in namespace attune-system: specify the operator's namespace with --operator-namespace"},
		"no leader":     {"_", nil, "the operator has no leader at the moment"},
		"no right":      {"attune-7c9-xyz_1", nil, "missing permission: cannot reach the leader, pod attune-7c9-xyz in namespace attune-system: pods/portforward"},
		"another leads": {"attune-7c9-xyz_1", says(503, "this replica does not lead: pod attune-7c9-abc does"), "pod attune-7c9-xyz responded: this replica does not lead: pod attune-7c9-abc does"},
		"not looked at": {"attune-7c9-xyz_1", says(404, `the leader has looked at no node "worker"`), `pod attune-7c9-xyz responded: the leader has looked at no node "worker"`},
		"another server": {"attune-7c9-xyz_1", says(200, "<html>"),
			"the response of pod attune-7c9-xyz cannot be read: use the plugin of the operator's version"},
		"a long page": {"attune-7c9-xyz_1", says(502, strings.Repeat("x", 5000)), "pod attune-7c9-xyz responded: 502 Bad Gateway"},
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

// A node without sharing pods has no decision. Its pods' resources are shown, and nothing is missing.
func TestNodeWithoutSharingPods(t *testing.T) {
	cli := nodeTest(t, interceptor.Funcs{})
	ledBy(t, cli, "attune-system", "attune-7c9-xyz_1")
	cli.pods = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(answers.NodeAnswer{Node: "worker", Decided: &answers.NodeDecided{At: testNow}}))
	})
	got := cli.run("node", "worker")
	assert.Empty(t, got.errOut)
	golden(t, "node-live.txt", got.out)
}
