package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/codec"
)

func hpas(t *testing.T, got answer) []hpaResult {
	t.Helper()
	var of hpaAnswer
	require.Equal(t, exitOK, got.code, got.errOut)
	require.NoError(t, json.Unmarshal([]byte(got.out), &of))
	return of.HPAs
}

// scaled adds an HPA for the CPU of the container app of deployment/web.
func (c cliTest) scaled() cliTest {
	c.t.Helper()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-hpa"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: ptr.To[int32](2), MaxReplicas: 10,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "cpu", Container: "app", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
		}}},
	}}
	require.NoError(c.t, c.client.Create(context.Background(), hpa))
	return c
}

// The series of a file are the pods of a workload: 2 of them, in the last two minutes a third.
func TestBacktestHPAOfAFile(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("series_id,timestamp,cpu_cores,memory_bytes\n")
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for pod, cores := range [][]float64{{0.1, 0.3, 0.4, 0.4}, {0.1, 0.3, 0.4, 0.4}, {0, 0, 0.4, 0.1}} {
		for minute, used := range cores {
			if used > 0 {
				fmt.Fprintf(&csv, "web-%d,%d,%g,1\n", pod, start.Add(time.Duration(minute)*time.Minute+time.Duration(pod)*time.Second).Unix(), used)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "pods.csv")
	require.NoError(t, os.WriteFile(file, []byte(csv.String()), 0o600))
	c := newCLITest(t, interceptor.Funcs{})
	args := []string{"backtest", "--trace", file, "--hpa", "min=2,max=10,target=70,request=1,instead=400m"}
	// With 1 CPU: 2 replicas at each step. With 400m: 2; 2 at 75 %, within the tolerance; 5 at 100 %; 3 at 75 %.
	assert.Equal(t, []hpaResult{{
		Workload: file, Resource: "cpu", MinReplicas: 2, MaxReplicas: 10, Target: 70, ToleranceUp: 0.1, ToleranceDown: 0.1, Request: "1", Instead: "400m",
		Steps: 4, Differ: 2, More: 2, Freed: "800m",
		First: []hpaChange{{start.Add(2 * time.Minute), 2, 5}, {start.Add(3 * time.Minute), 2, 3}},
	}}, hpas(t, c.run(append(args, "-o", "json")...)))
	text := c.run(args...)
	assert.Contains(t, text.out, "5 replicas instead of 2 at 2026-03-02 09:02 UTC, 3 replicas instead of 2 at 2026-03-02 09:03 UTC")
	assert.Contains(t, text.out, "by the formula of the HPA controller")
}

// The HPA of the cluster, with the present requests of the pods and the recommended ones.
func TestBacktestHPAFromPrometheus(t *testing.T) {
	args := []string{"backtest", "--from", "prometheus", "--address", "http://prometheus.monitoring", "--last", "2d", "api", "--hpa", "live", "-o", "json"}
	var whole []hpaResult
	for _, most := range []int{100_000, 40} {
		got := hpas(t, served(t, &prometheusPod{t: t, most: most}).scaled().run(args...))
		require.Len(t, got, 1)
		if whole == nil {
			whole = got
		}
		assert.Equal(t, whole, got, "a query that is too large is split")
	}
	web := whole[0]
	assert.Equal(t, [3]string{"shop/Deployment/web", "web-hpa", "app"}, [3]string{web.Workload, web.HPA, web.Container})
	assert.Equal(t, [2]string{"375m", "200m"}, [2]string{web.Request, web.Instead}, "the mean of two pods, and the target")
	assert.Equal(t, 576, web.Steps)
	assert.Equal(t, web.Differ, web.More)
	assert.InDelta(t, 273, web.Differ, 2, "two pods use from 75m to 225m; from 156m on the HPA asks for more than 2")
	require.Len(t, web.First, mostHPAChanges)
	assert.EqualValues(t, 2, web.First[0].Asked)

	none := served(t, &prometheusPod{t: t, most: 100_000}).run(args...)
	assert.Equal(t, exitError, none.code)
	assert.Equal(t, "error: no HorizontalPodAutoscaler scales one of these workloads on the utilization of a request\n", none.errOut)
}

// The history that the operator stores for its proofs has the extremes of each number of pods.
func TestBacktestHPAFromCheckpoints(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{}).scaled()
	args := []string{"backtest", "--from", "embedded", "api", "--hpa", "live", "-o", "json"}
	unknown := hpas(t, c.run(args...))
	require.Len(t, unknown, 1)
	assert.Contains(t, unknown[0].Why, "the usage of its pods is not known: the operator stores it if ")
	assert.Empty(t, unknown[0].Freed)

	minute := testNow.Unix() / 60
	fleet := codec.Fleet{Step: time.Minute, At: minute / 60 * 60, Sole: "app"}
	for i, mean := range []float64{0.05, 0.06, 0.2} {
		fleet.Pods.Add(false, 2, 0, mean, fleet.At-int64(50-i))
		fleet.Known[0].Add(fleet.At/60-1, 60)
	}
	c.change(func(rec *v1alpha1.AttuneRecommendation) {
		rec.Spec.Checkpoints = []v1alpha1.Checkpoint{{Name: "app", At: metav1.NewTime(testNow), Replicas: codec.PackFleet(fleet, 4096)}}
	})
	got := c.run(args...)
	web := hpas(t, got)[0]
	require.NotContains(t, got.errOut, "history of the replicas")
	assert.Empty(t, web.Why)
	assert.True(t, web.Extremes)
	assert.Positive(t, web.Steps)
	assert.Positive(t, web.Differ)
	assert.Less(t, web.Differ, web.Steps, "the usage of 50m keeps 2 replicas")
	assert.EqualValues(t, 3, web.First[0].Instead)
	text := c.run("backtest", "--from", "embedded", "api", "--hpa", "live")
	assert.Contains(t, text.out, "STEPS are only the moments of the lowest and the highest mean usage")
}

func TestBacktestHPAMistakes(t *testing.T) {
	const example = "write live, or e.g. min=2,max=10,target=70,request=1,instead=462m"
	for name, tc := range map[string]struct {
		args   []string
		errOut string
	}{
		"nothing":          {[]string{"--trace", "x.csv", "--hpa", "max=3"}, example},
		"bounds":           {[]string{"--trace", "x.csv", "--hpa", "min=4,max=3,target=70,request=1,instead=2"}, example},
		"no number":        {[]string{"--trace", "x.csv", "--hpa", "max=x"}, `"x" is not a whole number above 0`},
		"no request":       {[]string{"--trace", "x.csv", "--hpa", "max=3,request=-1,instead=1"}, `"-1" is not a request, e.g. 500m`},
		"no tolerance":     {[]string{"--trace", "x.csv", "--hpa", "tolerance=NaN"}, `"NaN" is not a tolerance from 0 to below 1, e.g. 0.1`},
		"another word":     {[]string{"--trace", "x.csv", "--hpa", "web"}, `"web" is neither live nor one of min, max, target, tolerance, resource, request and instead`},
		"live and a bound": {[]string{"--from", "embedded", "--hpa", "live,max=3"}, "live reads the HPAs of the cluster: only tolerance can be added"},
		"live of a file":   {[]string{"--trace", "x.csv", "--hpa", "live"}, "--hpa live needs the usage of the cluster"},
		"described":        {[]string{"--from", "embedded", "--hpa", "max=3,target=70,request=1,instead=2"}, "with --from, backtest reads the HPAs of the cluster: use --hpa live"},
		"and peers":        {[]string{"--from", "embedded", "--hpa", "live", "--peers"}, "--hpa cannot be combined with --policy, --peers"},
		"and html":         {[]string{"--from", "embedded", "--hpa", "live", "-o", "html"}, "--hpa cannot be combined with --policy, --peers"},
		"no file":          {[]string{"--trace", "x.csv", "--hpa", "max=3,target=70,request=1,instead=2"}, "x.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newCLITest(t, interceptor.Funcs{}).run(append([]string{"backtest"}, tc.args...)...)
			assert.Equal(t, exitError, got.code)
			assert.Empty(t, got.out)
			assert.Contains(t, got.errOut, tc.errOut)
		})
	}
}
