package embedded

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
)

// cluster is the cluster state for a running source.
type cluster struct {
	mutex   sync.Mutex
	nodes   []Node
	watched map[Pod]string
	pods    map[Pod]string
	err     error
}

func (c *cluster) set(change func(*cluster)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change(c)
}

func (c *cluster) Nodes(context.Context) ([]Node, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.nodes), c.err
}

// NamespacesOn: every node but the first has pods of shop.
func (c *cluster) NamespacesOn(_ context.Context, node string) ([]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if node == c.nodes[0].Name {
		return nil, c.err
	}
	return []string{"shop"}, c.err
}

func (c *cluster) Followed(context.Context) (map[Pod]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return nil, c.err
}

func (c *cluster) Watched(context.Context) (map[Pod]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.watched, c.err
}

func (c *cluster) NodeOf(_ context.Context, pod Pod) (string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if node, known := c.pods[pod]; known || len(c.nodes) == 0 {
		return node, c.err
	}
	return c.nodes[0].Name, c.err
}

func nodeAt(name string, k *playedKubelet) Node {
	return Node{Name: name, Address: netip.MustParseAddrPort(k.Listener.Addr().String())}
}

// TestLoop runs a source with two kubelets, one of which stops.
func TestLoop(t *testing.T) {
	world := func(at time.Time) []Measured {
		m := oneContainer(at)
		m[0].Periods, m[0].Throttled = float64(at.Unix()), float64(at.Unix())/2
		return m
	}
	good, bad := playKubelet(t, world, time.Now), playKubelet(t, world, time.Now)
	c := &cluster{nodes: []Node{nodeAt("good", good), nodeAt("bad", bad)}}
	source := New(Options{
		Cluster: c, Transport: http.DefaultTransport, Interval: 100 * time.Millisecond, Clock: clock.RealClock{},
		Log: slog.New(slog.DiscardHandler), Metrics: newMetrics(prometheus.NewRegistry()),
	})
	source.scraper.kubelets.scheme = "http"
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Start(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	soon := func(what string, condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 30*time.Second, 10*time.Millisecond, what)
	}
	asked := func(k *playedKubelet, path string) int {
		n := 0
		for _, p := range k.requests() {
			if p == path {
				n++
			}
		}
		return n
	}
	soon("both are asked again and again", func() bool {
		return asked(good, "/metrics/resource") > 2 && asked(bad, "/metrics/resource") > 2
	})
	assert.Zero(t, asked(good, "/metrics/cadvisor"), "nothing is watched")

	bad.set(func(k *playedKubelet) { k.instead = status(http.StatusInternalServerError) })
	var report usage.Report
	read := func() bool {
		var err error
		now := time.Now().Truncate(time.Second)
		report, err = source.Read(ctx, usage.Query{Namespaces: []string{"shop"}, Start: now, End: now, Step: time.Second, RateWindow: time.Second}, func(usage.Series) {})
		require.NoError(t, err)
		return report.Lacks("shop")
	}
	soon("the answer is partial", read)
	assert.Equal(t, []string{"1 of 2 nodes cannot be scraped; the operator's log has their names and the causes"}, report.About("shop").Warnings)

	c.set(func(c *cluster) { c.watched = map[Pod]string{{"shop", "web-7d4f8c9b6-aaaaa"}: "good"} })
	soon("the watched pod's node is asked for more", func() bool { return asked(good, "/metrics/cadvisor") > 1 })
	soon("and that is there", func() bool {
		v, err := source.Value(ctx, `count(container_cpu_cfs_periods_total{pod="web-7d4f8c9b6-aaaaa"})`, time.Now())
		return err == nil && v == 1
	})
	assert.Zero(t, asked(bad, "/metrics/cadvisor"))

	c.set(func(c *cluster) { c.err = errors.New("the API server is away") })
	n := asked(good, "/metrics/resource")
	soon("known nodes are asked all the same", func() bool { return asked(good, "/metrics/resource") > n+2 })

	c.set(func(c *cluster) {
		c.err, c.nodes = nil, []Node{c.nodes[0], {Name: "odd", Unusable: errors.New("node odd has no internal IP")}, {Name: "virtual", Excluded: true}}
	})
	soon("a node that is gone is not missed, one that cannot be asked is", func() bool {
		failing, nodes := source.scraper.targets.failing()
		return read() && nodes == 2 && slices.Equal(failing, []string{"node odd has no internal IP"})
	})
}

func TestNodeOf(t *testing.T) {
	node := func(port int32, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = port
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.9"}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n1"})
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	selector, err := labels.Parse(Scrapeable)
	require.NoError(t, err)
	good := node(10250, "10.0.0.7", "fd00::7")
	want := Node{Name: "n1", Address: netip.MustParseAddrPort("10.0.0.7:10250"), Cores: 3.5, Bytes: 8 << 30}
	assert.Equal(t, want, NodeOf(good, selector))
	want.Excluded = true
	for label, value := range map[string]string{"type": "virtual-kubelet", "eks.amazonaws.com/compute-type": "fargate"} {
		good.Labels = map[string]string{label: value}
		assert.Equal(t, want, NodeOf(good, selector), label)
	}
	good.Labels = map[string]string{"type": "worker", "eks.amazonaws.com/compute-type": "ec2"}
	assert.False(t, NodeOf(good, selector).Excluded)
	for _, c := range []struct {
		node *corev1.Node
		want string
	}{
		{node(0, "10.0.0.7"), "no kubelet port"},
		{node(99999, "10.0.0.7"), "no kubelet port"},
		{node(10250), "no internal IP"},
		{node(10250, "n1.internal"), "must be an IP"},
		{node(10250, "127.0.0.1"), "not loopback"},
		{node(10250, "169.254.169.254"), "link-local"},
		{node(10250, "fe80::1%eth0"), "link-local"},
	} {
		err := NodeOf(c.node, selector).Unusable
		require.ErrorContains(t, err, c.want)
		assert.ErrorContains(t, err, "n1")
	}
}
