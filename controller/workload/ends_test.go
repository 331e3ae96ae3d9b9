package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// The last sample before a kill, and the workloads killed beside it, tell a kill of the node.
func TestKillsAreObserved(t *testing.T) {
	limited := sizeOf(200, 0, 512, 1024)
	w := heading(seen(t, limited, endedBefore(running("web-1", limited), "OOMKilled", 1, 5*time.Second)), limited)
	l := newLab(t, w.Rec)
	beside := func(name, owner string, ago time.Duration) {
		pod := endedBefore(running(name, limited), "OOMKilled", 1, ago)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
		require.NoError(t, l.api.Create(t.Context(), pod))
	}
	evidence := podview.OOMKills(w.Pods[0])[0].Evidence
	samples := func(all ...climb.Sample) {
		w.Usage.Ends, w.Usage.Climbs = nil, nil
		w.SetClimb(w.Pods[0].UID, "app", tuning.Climb{Samples: all})
		l.c.observeKills(t.Context(), &w)
	}
	at := func(ago time.Duration, mib int) climb.Sample {
		return climb.Sample{At: now.Add(-ago), Bytes: recommender.Amount(mib) * mi}
	}
	beside("db-0", "db", 9*time.Second)
	beside("db-1", "db", 2*time.Second)
	beside("cache-0", "cache", 14*time.Second)
	beside("old-0", "old", time.Minute)

	samples(at(10*time.Minute, 1), at(20*time.Second, 80), at(8*time.Second, 90), at(time.Second, 5))
	assert.Equal(t, map[string]harm.KillFacts{evidence: {Used: 90 * mi, Workloads: 2}}, w.Usage.Ends, "two StatefulSets; the Deployment's own pod is not in the cache")
	samples(at(time.Second, 5))
	assert.Equal(t, map[string]harm.KillFacts{evidence: {Used: 90 * mi, Workloads: 2}}, w.Usage.Ends, "the sample is remembered while the new run has newer ones")

	samples(at(8*time.Second, 90), at(6*time.Second, 700))
	assert.Equal(t, recommender.Amount(700*mi), w.Usage.Ends[evidence].Used, "a sample before the kill that the source had later")
	beside("queue-0", "queue", 0)
	samples(at(8*time.Second, 90))
	assert.Equal(t, 2, w.Usage.Ends[evidence].Workloads, "no three within 10 s: cache 14 s ago, db 9 s and 2 s ago, queue now, each pair of them with another")
	beside("web-9", "web-9", 6*time.Second)
	samples(at(8*time.Second, 90))
	assert.Equal(t, 3, w.Usage.Ends[evidence].Workloads)

	endedBefore(w.Pods[0], "OOMKilled", 2, 4*time.Second)
	samples(at(35*time.Second, 80), at(time.Second, 5))
	assert.Empty(t, w.Usage.Ends, "without a sample of the 30 s before it, nothing is known")
	endedBefore(w.Pods[0], "OOMKilled", 3, 3*time.Minute)
	samples(at(4*time.Minute, 80))
	assert.Empty(t, w.Usage.Ends, "an old kill")
}

// A sample of another run says nothing about the killed one: it would make a kill at the limit one of the node.
func TestTheLastSampleIsOneOfTheKilledRun(t *testing.T) {
	k := podview.OOM{Started: now.Add(-25 * time.Second), At: now}
	at := func(after time.Duration, mib int) climb.Sample {
		return climb.Sample{At: now.Add(after), Bytes: recommender.Amount(mib) * mi}
	}
	for name, tc := range map[string]struct {
		samples []climb.Sample
		want    recommender.Amount
	}{
		"none":                                     {nil, 0},
		"of this run":                              {[]climb.Sample{at(-20*time.Second, 80), at(-5*time.Second, 90)}, 90 * mi},
		"of the run before":                        {[]climb.Sample{at(-26*time.Second, 80)}, 0},
		"of the run before and of this":            {[]climb.Sample{at(-26*time.Second, 80), at(-20*time.Second, 90)}, 90 * mi},
		"of the run after":                         {[]climb.Sample{at(-20*time.Second, 90), at(5*time.Second, 700)}, 90 * mi},
		"within the second of the kill, higher":    {[]climb.Sample{at(-20*time.Second, 90), at(500*time.Millisecond, 700)}, 700 * mi},
		"within the second of the kill, lower":     {[]climb.Sample{at(-20*time.Second, 900), at(500*time.Millisecond, 5)}, 900 * mi},
		"within the second of the kill, and alone": {[]climb.Sample{at(500*time.Millisecond, 5)}, 0},
	} {
		assert.Equal(t, tc.want, lastBefore(tc.samples, k), name)
	}
	k.Started = now.Add(-time.Hour)
	assert.Equal(t, recommender.Amount(90*mi), lastBefore([]climb.Sample{at(-30*time.Second, 90)}, k))
	assert.Zero(t, lastBefore([]climb.Sample{at(-31*time.Second, 90)}, k), "much is filled in half a minute")
}

// OOM events are asked for only where exit code 137 has another reason.
func TestOOMEventsOfEndsAreMeasured(t *testing.T) {
	limited := sizeOf(200, 0, 512, 1024)
	for name, tc := range map[string]struct {
		reason string
		code   int32
		ago    time.Duration
		err    error
		asked  int
		want   float64
	}{
		"137, Error":       {"Error", 137, 5 * time.Second, nil, 1, 2},
		"a clock ahead":    {"Error", 137, -90 * time.Second, nil, 1, 2},
		"no answer":        {"Error", 137, 5 * time.Second, errors.New("timeout"), 1, 0},
		"long ago":         {"Error", 137, 5 * time.Minute, nil, 0, 0},
		"another error":    {"Error", 1, 5 * time.Second, nil, 0, 0},
		"known OOM killed": {"OOMKilled", 137, 5 * time.Second, nil, 0, 0},
	} {
		pod := endedBefore(running("web-1", limited), tc.reason, 1, tc.ago)
		end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
		end.ExitCode = tc.code
		w := heading(seen(t, limited, pod), limited)
		s := &source{killed: map[string]float64{"app": 2}, err: tc.err}
		if tc.err != nil {
			s.killed = nil
		}
		measurer{gauges: func(policy.Settings) (Gauge, error) { return s, nil }}.measureEnds(t.Context(), &w)
		assert.Equal(t, tc.asked, s.asked, name)
		for _, window := range s.windows {
			assert.GreaterOrEqual(t, window, eventBefore, "%s: PromQL has no range without a length", name)
		}
		assert.InDelta(t, tc.want, w.Usage.Ends[podview.Evidence(end)].Events, 0, name)
	}
}

// A run that ends with exit code 137 and an invented event would teach a minimum.
func TestAPolicysServerReportsNoOOMKills(t *testing.T) {
	limited := sizeOf(200, 0, 512, 1024)
	pod := endedBefore(running("web-1", limited), "Error", 1, 5*time.Second)
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = podview.Sigkill
	w := heading(seen(t, limited, pod), limited)
	w.Policy.Settings.Source = usage.SourceSettings{Prometheus: &v1alpha1.PrometheusSource{Address: "http://prometheus.shop:9090"}, OfPolicy: true, QueryStep: time.Minute}
	var of []usage.SourceSettings
	measurer{gauges: func(s policy.Settings) (Gauge, error) { of = append(of, s.Source); return &source{}, nil }}.measureEnds(t.Context(), &w)
	assert.Equal(t, []usage.SourceSettings{{QueryStep: time.Minute}}, of, "the operator's own source is asked")
}
