package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

const fiveMinutes = 5 * time.Minute

// wave returns the usage of a container of deployment/web in the test data: cores and bytes at a time.
func wave(at time.Time) (cores, bytes float64) {
	swing := 1 + 0.5*math.Sin(2*math.Pi*float64(at.Unix())/86400)
	return 0.2 * swing, 300 * swing * (1 << 20)
}

// remembered gives the container app of deployment/web a checkpoint of so many days.
func (c cliTest) remembered(days int) { c.rememberedWith(days, nil) }

// rememberedWith changes the checkpoint of remembered, if change is not nil.
func (c cliTest) rememberedWith(days int, change func(*codec.Checkpoint)) {
	c.t.Helper()
	n := days * 288
	last := usage.StepOf(testNow, fiveMinutes)
	past := codec.Checkpoint{Step: fiveMinutes, First: last - int64(n) + 1, CPU: make([]float64, n), Memory: make([]float64, n)}
	for i := range n {
		past.CPU[i], past.Memory[i] = wave(usage.StepEnd(past.First+int64(i), fiveMinutes))
	}
	if change != nil {
		change(&past)
	}
	packed := codec.PackCheckpoint(past, 2048)
	require.NotNil(c.t, packed)
	c.change(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.Checkpoints = []v1alpha1.Checkpoint{{Name: "app", At: metav1.NewTime(testNow), Data: packed}}
	})
}

// change changes the recommendation of deployment/web.
func (c cliTest) change(change func(*v1alpha1.AttuneRecommendation)) {
	c.t.Helper()
	var rec v1alpha1.AttuneRecommendation
	require.NoError(c.t, c.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: "deployment-web"}, &rec))
	change(&rec)
	require.NoError(c.t, c.client.Update(context.Background(), &rec))
}

func decoded(t *testing.T, got answer) (of backtestAnswer) {
	t.Helper()
	require.Equal(t, exitOK, got.code, got.errOut)
	require.NoError(t, json.Unmarshal([]byte(got.out), &of))
	return of
}

// The history of the cluster's own containers is judged and compared with the requests of their templates.
func TestBacktestFromCheckpoints(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	got := c.run("backtest", "--from", "embedded", "api", "-o", "json")
	of := decoded(t, got)
	assert.Equal(t, 1, of.Series)
	assert.InDelta(t, 6, of.ContainerDays, 0.1, "a day of seven is the warm-up")
	require.Len(t, of.Peers, 1)
	assert.Equal(t, "current", of.Peers[0].Name)
	assert.InDelta(t, 1-0.2/0.5, of.Peers[0].CPU.FleetSlack, 0.02, "the template asks for 500m, 200m are used")
	assert.Zero(t, of.Peers[0].ResizesPerDay)
	assert.Less(t, of.CPU.FleetSlack, of.Peers[0].CPU.FleetSlack)
	assert.Equal(t, "shop/Deployment/gone/app: no usage data in the requested period (--last)\n"+
		"shop/Deployment/web/proxy: no usage data in the requested period (--last)\n", got.errOut)

	recent := decoded(t, c.run("backtest", "--from", "embedded", "--last", "3d", "api", "-o", "json"))
	assert.InDelta(t, 2, recent.ContainerDays, 0.1)
	whole := decoded(t, c.run("backtest", "--from", "embedded", "-A", "-l", "team=web", "-o", "json"))
	assert.Equal(t, of, whole, "by the label of the policy")
	assert.Equal(t, exitFinding, c.run("backtest", "--from", "embedded", "api", "--max-cpu-slack", "0.01").code)
	page := c.run("backtest", "--from", "embedded", "api", "-o", "html")
	assert.Equal(t, exitOK, page.code, page.errOut)
	assert.Contains(t, page.out, "requested by the templates")
	assert.Contains(t, page.out, "shop/Deployment/web/app: typical, with the median slack")
}

// The replay of a workload drops what its largest node cannot have, as the operator does.
func TestBacktestFromDropsWhatNoNodeHas(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	want := decoded(t, c.run("backtest", "--from", "embedded", "api", "-o", "json"))
	c.change(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.LargestNode = &v1alpha1.LargestNode{CPU: ptr.To(resource.MustParse("180m")), Memory: ptr.To(resource.MustParse("64Gi")), SeenAt: metav1.NewTime(testNow)}
	})
	got := c.run("backtest", "--from", "embedded", "api", "-o", "json")
	assert.Regexp(t, `shop/Deployment/web/app: \d+ cpu samples were dropped, up to 0\.3 cores: no container can use more than 0\.27 cores`, got.errOut)
	assert.NotEqual(t, want.CPU, decoded(t, got).CPU)
	assert.Equal(t, want.Memory, decoded(t, got).Memory)
}

// A strategy that does not depend on the node is replayed.
func TestBacktestFromReplaysAdaptive(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	f := newFiles(t, "", policyHeader+"spec: {targetRef: {kind: Deployment}, strategy: Adaptive}\n")
	workload := decoded(t, c.run("backtest", "--from", "embedded", "api", "-o", "json"))
	adaptive := c.run("backtest", "--from", "embedded", "api", "--policy", f.policy, "-o", "json")
	assert.NotContains(t, adaptive.errOut, "is skipped")
	assert.NotEqual(t, workload.CPU, decoded(t, adaptive).CPU)
}

// With a file, backtest judges another policy on the cluster's usage.
func TestBacktestOfAFileFromTheCluster(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	f := newFiles(t, "", policyHeader+"spec: {targetRef: {kind: Deployment}, cpu: {overhead: \"200\"}}\n")
	own := decoded(t, c.run("backtest", "--from", "embedded", "api", "-o", "json"))
	other := decoded(t, c.run("backtest", "--from", "embedded", "api", "--policy", f.policy, "-o", "json"))
	assert.Greater(t, other.CPU.FleetSlack, own.CPU.FleetSlack+0.1)
	assert.Equal(t, own.Memory, other.Memory)
}

// prometheusPod is a server behind the Service prometheus.monitoring. It answers range queries about two pods of
// deployment/web, and about one pod of another workload.
type prometheusPod struct {
	t *testing.T
	// most limits the points of a response.
	most    int
	queries int
}

func (p *prometheusPod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	assert.Equal(p.t, "/monitoring/prom-0/9091/api/v1/query_range", r.URL.Path)
	assert.Equal(p.t, http.MethodGet, r.Method)
	p.queries++
	query := r.URL.Query()
	start, end, step := number(query, "start"), number(query, "end"), number(query, "step")
	if (end-start)/step+1 > float64(p.most) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`)
		return
	}
	var all []string
	for pod, factor := range map[string]float64{"web-7d4f8c9b6-x2x5k": 1, "web-7d4f8c9b6-abcde": 0.5, "web-v2-7d4f8c9b6-x2x5k": 9} {
		var values []string
		for at := start; at <= end; at += step {
			cores, bytes := wave(time.Unix(int64(at), 0))
			if strings.Contains(query.Get("query"), "memory_working_set") {
				cores = bytes
			}
			values = append(values, fmt.Sprintf(`[%.0f,"%g"]`, at, cores*factor))
		}
		all = append(all, fmt.Sprintf(`{"metric":{"namespace":"shop","pod":%q,"container":"app"},"values":[%s]}`, pod, strings.Join(values, ",")))
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(all, ","))
}

func number(of url.Values, name string) float64 {
	x, _ := strconv.ParseFloat(of.Get(name), 64)
	return x
}

// served returns a cluster with the Service of a Prometheus server and its pod.
func served(t *testing.T, pod *prometheusPod) cliTest {
	t.Helper()
	c := newCLITest(t, interceptor.Funcs{})
	c.pods = pod
	labels := map[string]string{"app": "prom"}
	for _, object := range []client.Object{
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"}, Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}},
		}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prom-0", Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "p", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 9091}}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		},
	} {
		require.NoError(t, c.client.Create(context.Background(), object))
	}
	return c
}

// The highest replica counts, pods of other workloads do not, and a query that is too large is split.
func TestBacktestFromPrometheus(t *testing.T) {
	args := []string{"backtest", "--from", "prometheus", "--address", "http://prometheus.monitoring", "--last", "7d", "api", "-o", "json"}
	var whole backtestAnswer
	for _, most := range []int{100_000, 700} {
		pod := &prometheusPod{t: t, most: most}
		c := served(t, pod)
		of := decoded(t, c.run(args...))
		assert.Equal(t, 1, of.Series)
		assert.InDelta(t, 6, of.ContainerDays, 0.1)
		if whole.Series == 0 {
			whole = of
		}
		assert.Equal(t, whole, of)
	}
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	stored := decoded(t, c.run("backtest", "--from", "embedded", "api", "-o", "json"))
	assert.InDelta(t, stored.CPU.FleetSlack, whole.CPU.FleetSlack, 0.02, "the same usage, but for the error of checkpoints")
	assert.InDelta(t, stored.Memory.FleetSlack, whole.Memory.FleetSlack, 0.02)
}

func TestBacktestFromMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		errOut string
	}{
		"both":            {[]string{"--trace", "x.csv", "--from", "embedded"}, "--trace and --from cannot be combined: specify one of them"},
		"no source":       {[]string{"--from", "vpa"}, `--from "vpa" is not a usage source: use embedded or prometheus, as in the chart's value usage.source`},
		"a policy's name": {[]string{"--trace", "x.csv", "api"}, "policy api cannot be read from the cluster with --trace: specify a file with --policy policy.yaml"},
		"last of a file":  {[]string{"--trace", "x.csv", "--last", "3d"}, "--last and --address need the usage of the cluster: add --from embedded or --from prometheus"},
		"an address":      {[]string{"--from", "embedded", "--address", "http://x"}, "--address needs a Prometheus server as usage source: add --from prometheus"},
		"no time":         {[]string{"--from", "embedded", "--last", "fortnight"}, `invalid argument "fortnight" for "--last" flag: must be a duration of at most 90d, e.g. 14d or 36h: see kubectl attune backtest --help`},
		"no such policy":  {[]string{"--from", "embedded", "nothing"}, "policy nothing does not exist in namespace shop: kubectl attune status lists the policies"},
		"a name and -A":   {[]string{"--from", "embedded", "api", "-A"}, "policy names cannot be combined with -A or -l: specify the namespace with -n"},
		"none selected":   {[]string{"--from", "embedded", "-l", "team=x"}, "no policy in namespace shop can be replayed: specify a policy, or select others with -n, -A or -l; kubectl attune status lists them"},
		"nothing sized":   {[]string{"--from", "embedded", "db"}, "no workload of these policies has a recommendation yet: kubectl attune status shows why"},
		"no address":      {[]string{"--from", "prometheus", "api"}, "the policy does not name a Prometheus server: specify the operator's server with --address, e.g. http://prometheus.monitoring:9090"},
		"no port": {[]string{"--from", "prometheus", "api", "--address", "http://prometheus.monitoring:9090"},
			"cannot reach http://prometheus.monitoring:9090: Service prometheus in namespace monitoring has no port 9090 that leads to pods; fix this, or use --address with a server that this machine reaches"},
	} {
		t.Run(name, func(t *testing.T) {
			got := served(t, &prometheusPod{t: t, most: 1}).run(append([]string{"backtest"}, tc.args...)...)
			assert.Equal(t, exitError, got.code)
			assert.Empty(t, got.out)
			assert.Equal(t, "error: "+tc.errOut+"\n", got.errOut)
		})
	}
}

// A checkpoint that a user has changed gets a note, and its usage is not judged.
func TestBacktestFromABrokenCheckpoint(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.change(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.Checkpoints = []v1alpha1.Checkpoint{{Name: "app", Data: []byte("\x01nonsense")}}
	})
	got := c.run("backtest", "--from", "embedded", "api")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "Deployment/web in namespace shop: the checkpoint of container app cannot be used: corrupt data\n")
	assert.Contains(t, got.errOut, "error: usage of the cluster (embedded): all series are too short: the longest is 0s")
}
