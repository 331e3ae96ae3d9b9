package workload

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

var errQuota = errors.New("exceeded quota: all, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1")

// The resizes of a workload's pods are counted, and its series are removed with its recommendation, whatever the
// reason of the deletion.
func TestSeriesOfAWorkloadGoWithIt(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = "metrics", "deployment-web"
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	all := []prometheus.Collector{resizes, reverts, raises, evictions, pendingReverts, durations}
	var before []int // other workloads' series
	for _, metric := range all {
		before = append(before, testutil.CollectAndCount(metric))
	}
	var x counted
	for _, n := range []tuning.Count{
		{Resource: "cpu", Result: "success"}, {Resource: "memory", Result: "success"}, {Took: 3 * time.Second},
		{Resource: "cpu", Result: "reverted"}, {Resource: "memory", Result: "reverted"}, {Reason: "oomkill"}, {Raise: "restored"},
	} {
		x.add(n, rec)
	}
	x.eviction(rec, lifecycle.EvictionDenied)
	x.pending(rec, 1)
	of := []string{"metrics", "Deployment", "web"}
	assert.Equal(t, 1.0, testutil.ToFloat64(resizes.WithLabelValues(append(of, "cpu", "success")...)))
	assert.Equal(t, 1.0, testutil.ToFloat64(resizes.WithLabelValues(append(of, "memory", "reverted")...)))
	assert.Equal(t, 1.0, testutil.ToFloat64(reverts.WithLabelValues(append(of, "oomkill")...)))
	for i, metric := range all {
		assert.Greater(t, testutil.CollectAndCount(metric), before[i])
	}
	x.drop(client.ObjectKeyFromObject(rec))
	x.drop(client.ObjectKeyFromObject(rec))
	for i, metric := range all {
		assert.Equal(t, before[i], testutil.CollectAndCount(metric))
	}
}

// The series of a workload are found by the recorded list, not by a search through the series of all workloads.
func TestSeriesAreRecordedBeforeTheyAreWritten(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = "noted", "deployment-web"
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	name := client.ObjectKeyFromObject(rec)
	var x counted
	x.pending(rec, 0)
	assert.Empty(t, x.All(), "nothing is remembered of a workload without series")
	for range 2 {
		x.add(tuning.Count{Resource: "cpu", Result: "success"}, rec)
		x.add(tuning.Count{Reason: ""}, rec)
		x.add(tuning.Count{Took: time.Second}, rec)
	}
	assert.Len(t, x.Of(name), 3)
	assert.Contains(t, x.Of(name), series{metric: resizes.MetricVec, labels: [5]string{"noted", "Deployment", "web", "cpu", "success"}, many: 5})
	x.drop(name)
	assert.Empty(t, x.All())
	assert.Zero(t, resizes.DeletePartialMatch(prometheus.Labels{"namespace": "noted"}))
	assert.Zero(t, reverts.DeletePartialMatch(prometheus.Labels{"namespace": "noted"}))
}

// scraped are the series of attune_resize_total and attune_reverts_total for Deployment web of namespace shop, as the
// registry serves them, by their labels.
func scraped(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "attune_resize_total" && family.GetName() != "attune_reverts_total" {
			continue
		}
		for _, series := range family.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if key := strings.Join(labels, " "); strings.HasPrefix(key, "Deployment shop ") {
				out[strings.TrimPrefix(key, "Deployment shop ")] = series.GetCounter().GetValue()
			}
		}
	}
	return out
}

// Every result of a resize is counted once, including failures.
func TestEveryEndOfAResizeIsCounted(t *testing.T) {
	back := sizeOf(500, 0, 512, 0)
	for name, tc := range map[string]struct {
		phase  v1alpha1.RecordPhase
		reason string
		want   map[string]float64
	}{
		"the node had no room in time":           {v1alpha1.RecordWithdrawing, resize.ReasonDeferred, map[string]float64{"cpu failed web": 1}},
		"the node refused it":                    {v1alpha1.RecordWithdrawing, resize.ReasonInfeasible, map[string]float64{"cpu failed web": 1}},
		"a person took it back":                  {v1alpha1.RecordWithdrawing, lifecycle.ReasonUndo, map[string]float64{}},
		"the kubelet failed":                     {v1alpha1.RecordReverting, resize.ReasonActuation, map[string]float64{"cpu reverted web": 1}},
		"harm is counted when its revert begins": {v1alpha1.RecordReverting, string(resize.HarmOOM), map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := resized(t, tc.phase, back)
			w.Rec.Status.Records[0].Reason = tc.reason
			l := newLab(t, w.Rec, deploymentOf(back, 1), w.Pods[0])
			resizes.Reset()
			reverts.Reset()
			l.storm(3)
			require.NotEmpty(t, l.rec().Status.History, "the record is closed")
			assert.Equal(t, tc.want, scraped(t))
		})
	}
}

// A resize with a regression counts as reverted when the revert starts; if the policy forbids the revert, as failed.
func TestRegressionIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		autoRevert bool
		want       map[string]float64
	}{
		"taken back": {true, map[string]float64{"cpu reverted web": 1, "memory reverted web": 1, "oomkill web": 1}},
		"left":       {false, map[string]float64{"cpu failed web": 1, "memory failed web": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := hurt(t)
			change(l, "all", &v1alpha1.AttunePolicy{}, func(p *v1alpha1.AttunePolicy) { p.Spec.UpdateStrategy.AutoRevert = &tc.autoRevert })
			resizes.Reset()
			reverts.Reset()
			l.pass()
			assert.Equal(t, tc.want, scraped(t))
		})
	}
}

// A resize that the API server rejects counts as failed; a conflict or a busy server does not.
func TestRefusedResizesAreCounted(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want map[string]float64
	}{
		"a quota":  {apierrors.NewForbidden(pods, "web-1", errQuota), map[string]float64{"cpu failed web": 1}},
		"too busy": {apierrors.NewTooManyRequests("later", 1), map[string]float64{}},
		"accepted": {nil, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, heading(seen(t, small), big).Rec, deploymentOf(small, 1), running("web-1", small))
			l.resize = func(client.Object) error { return tc.err }
			resizes.Reset()
			reverts.Reset()
			l.storm(5)
			require.Positive(t, l.patches)
			assert.Equal(t, tc.want, scraped(t))
		})
	}
}
