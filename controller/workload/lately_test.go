package workload

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// recentSource yields series, and counts its queries.
type recentSource struct {
	series  []usage.Series
	err     error
	queries []usage.Query
}

func (s *recentSource) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	s.queries = append(s.queries, query)
	for _, series := range s.series {
		yield(series)
	}
	return usage.Report{}, s.err
}

// every returns n samples of a value, the last one at a time.
func every(n int, last time.Time, value float64) (out []usage.Sample) {
	for i := range n {
		out = append(out, usage.Sample{At: last.Add(-time.Duration(n-1-i) * latelyStep).UnixMilli(), Value: value})
	}
	return out
}

func viewOfRecent(at time.Time, names ...string) *tuning.View {
	w := &tuning.View{Now: at, Rec: &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web"}}}
	w.Policy.Settings.Source.RateWindow = 5 * time.Minute
	for _, name := range names {
		w.Pods = append(w.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}})
	}
	return w
}

// The recent usage of a namespace is read with one query per refresh, for all of its pods.
func TestRecentUsageIsReadOncePerNamespaceAndRefresh(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)
	last := at.Truncate(latelyStep)
	source := &recentSource{series: []usage.Series{
		{Namespace: "shop", Pod: "web-1", Container: "app", CPU: every(20, last, 0.033), Memory: every(20, last, 1<<20)},
		{Namespace: "shop", Pod: "web-2", Container: "app", CPU: every(5, last, 0.001)},
		{Namespace: "shop", Pod: "web-2", Container: "app", CPU: every(5, last, 0.002)}, // once more, as another server saw it
	}}
	c := &Controller{Recently: func(policy.Settings) (usage.Source, error) { return source, nil }}
	w := viewOfRecent(at, "web-1", "web-2")
	c.looker().queryLately(t.Context(), w, []types.UID{"web-1", "web-2"})
	require.Len(t, source.queries, 1)
	query := source.queries[0]
	assert.Equal(t, []string{"shop"}, query.Namespaces)
	assert.Equal(t, resize.LatelyWindow, query.End.Sub(query.Start))
	assert.Equal(t, 2*time.Minute, query.RateWindow, "a longer rate shows the time before the window")
	one := w.Usage.Lately["web-1"]["app"]
	assert.Equal(t, [2]int{20, 20}, one.Samples)
	assert.InDelta(t, 33, float64(one.P95[recommender.CPU]), 1e-6)
	assert.InDelta(t, 1<<20, float64(one.P95[recommender.Memory]), 0)
	assert.Equal(t, 5, w.Usage.Lately["web-2"]["app"].Samples[recommender.CPU], "a step counts once")
	assert.InDelta(t, 2, float64(w.Usage.Lately["web-2"]["app"].P95[recommender.CPU]), 1e-6)

	again := viewOfRecent(at.Add(latelyLasts-time.Second), "web-2", "web-3")
	c.looker().queryLately(t.Context(), again, []types.UID{"web-2", "web-3"})
	assert.Len(t, source.queries, 1, "the next workload of the namespace")
	assert.Contains(t, again.Usage.Lately, types.UID("web-3"), "an empty entry: it is not known")
	assert.Empty(t, again.Usage.Lately["web-3"])
	c.looker().queryLately(t.Context(), viewOfRecent(at.Add(latelyLasts), "web-1"), []types.UID{"web-1"})
	assert.Len(t, source.queries, 2, "the next refresh")
}

// A source that fails in the middle, or that repeats one old sample, makes no raise due.
func TestRecentUsageOfASourceThatLies(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)
	last := at.Truncate(latelyStep)
	has := recommender.Allocation{Request: 10}
	started := last.Add(-8 * time.Minute)
	for name, source := range map[string]*recentSource{
		"an incomplete answer":         {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: every(20, last, 9)}}, err: errors.New("reset")},
		"a clock that stands still":    {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: make([]usage.Sample, 20)}}},
		"one time, twenty values":      {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: sameTime(20, last, 9)}}},
		"the past":                     {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: every(20, last.Add(-time.Hour), 9)}}},
		"the future":                   {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: every(20, last.Add(time.Hour), 9)}}},
		"the start of the container":   {series: []usage.Series{{Pod: "web-1", Container: "app", CPU: every(9, started.Add(4*time.Minute), 9), Started: started.UnixMilli()}}},
		"no answer, and then nothing":  {err: errors.New("no route")},
		"nothing about this container": {series: []usage.Series{{Pod: "web-1", Container: "side", CPU: every(20, last, 9)}}},
	} {
		c := &Controller{Recently: func(policy.Settings) (usage.Source, error) { return source, nil }}
		w := viewOfRecent(at, "web-1")
		c.looker().queryLately(t.Context(), w, []types.UID{"web-1"})
		require.Contains(t, w.Usage.Lately, types.UID("web-1"), name)
		assert.False(t, w.Usage.Lately["web-1"]["app"].Above(recommender.CPU, has), name)
	}
}

// The samples of a source are those of a name. Only those of the container that runs now make a raise due: not those
// of the pod of a StatefulSet before it, nor CPU of its start, which takes as long as the boost of its entry in
// containerPolicies.
func TestRecentUsageIsThatOfTheRunningContainer(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)
	last := at.Truncate(latelyStep)
	boosted := policy.Settings{StartupBoost: &policy.Boost{Multiplier: 2, Duration: time.Minute}, Containers: map[string]*policy.ContainerSettings{
		"app": {StartupBoost: &policy.Boost{Multiplier: 3, Duration: 8 * time.Minute}}, "quick": {},
	}}
	for name, c := range map[string]struct {
		created, started, known time.Duration
		restarts                int
		settings                policy.Settings
		container               string
		cpu, memory             int
		throttled               float64
	}{
		"an old pod":                           {created: time.Hour, started: time.Hour, cpu: 21, memory: 21, throttled: 0.5},
		"a recreated pod":                      {created: 3 * time.Minute, started: 150 * time.Second, cpu: 0, memory: 5},
		"a recreated pod, by its status":       {created: 8 * time.Minute, started: 7 * time.Minute, known: time.Hour, cpu: 9, memory: 14},
		"a recreated pod, not running yet":     {created: 4 * time.Minute, cpu: 3, memory: 8},
		"a restarted container":                {created: time.Hour, started: 6 * time.Minute, cpu: 7, memory: 12},
		"a restart, by the source alone":       {created: time.Hour, known: 6 * time.Minute, cpu: 7, memory: 12},
		"a container that restarts often":      {created: time.Hour, started: time.Minute, restarts: 9, cpu: 21, memory: 21, throttled: 0.5},
		"... in a pod that was just recreated": {created: 5 * time.Minute, started: time.Minute, restarts: 9, cpu: 9, memory: 10},
		"a boost by containerPolicies":         {created: 9 * time.Minute, started: 9 * time.Minute, settings: boosted, cpu: 1, memory: 18},
		"an entry without a boost":             {created: 9 * time.Minute, started: 9 * time.Minute, settings: boosted, container: "quick", cpu: 13, memory: 18},
		"the boost of the policy":              {created: 9 * time.Minute, started: 9 * time.Minute, settings: boosted, container: "side", cpu: 15, memory: 18},
	} {
		container := cmp.Or(c.container, "app")
		series := usage.Series{Pod: "db-0", Container: container, CPU: every(30, last, 0.1), Memory: every(30, last, 9), Restarts: c.restarts}
		if c.known > 0 {
			series.Started = last.Add(-c.known).UnixMilli()
		}
		source := &recentSource{series: []usage.Series{series}}
		l := &Controller{
			Recently: func(policy.Settings) (usage.Source, error) { return source, nil },
			Gauges: func(policy.Settings) (Gauge, error) {
				return throttles{of: usage.ByContainer{"db-0": {container: 0.5}}}, nil
			},
		}
		w := viewOfRecent(at, "db-0")
		pod := w.Pods[0]
		pod.CreationTimestamp = metav1.NewTime(last.Add(-c.created))
		pod.Spec.Containers = []corev1.Container{{Name: container, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
		if c.started > 0 {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(last.Add(-c.started))}}}}
		}
		c.settings.Source.RateWindow = time.Minute
		w.Policy.Settings = c.settings
		l.looker().queryLately(t.Context(), w, []types.UID{"db-0"})
		lately := w.Usage.Lately["db-0"][container]
		assert.Equal(t, [2]int{c.cpu, c.memory}, lately.Samples, name)
		assert.InDelta(t, c.throttled, lately.Throttled, 0, name)
	}
}

// throttles answers about throttling.
type throttles struct {
	Gauge
	of usage.ByContainer
}

func (s throttles) Throttled(context.Context, string, []string, time.Duration, time.Time) (usage.ByContainer, error) {
	return s.of, nil
}

func sameTime(n int, at time.Time, value float64) (out []usage.Sample) {
	for range n {
		out = append(out, usage.Sample{At: at.UnixMilli(), Value: value})
	}
	return out
}

// hangs is a source that answers nothing before the deadline.
type hangs struct {
	Gauge
	asked int
}

func (s *hangs) Read(ctx context.Context, _ usage.Query, _ func(usage.Series)) (usage.Report, error) {
	s.asked++
	return usage.Report{}, ctx.Err()
}

func (s *hangs) Throttled(ctx context.Context, _ string, _ []string, _ time.Duration, _ time.Time) (usage.ByContainer, error) {
	s.asked++
	return nil, ctx.Err()
}

// A source that hangs is asked once, not by each workload whose raise waits: they would occupy all workers, and answers
// to OOM kills would wait for one.
func TestRecentUsageOfASourceThatHangs(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)
	source := &hangs{}
	c := &Controller{
		Recently: func(policy.Settings) (usage.Source, error) { return source, nil },
		Gauges:   func(policy.Settings) (Gauge, error) { return source, nil },
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	query := func(after time.Duration, name string) {
		w := viewOfRecent(at.Add(after), name)
		w.Pods[0].Spec.Containers = []corev1.Container{{Name: "app", Resources: limits}}
		c.looker().queryLately(over, w, []types.UID{types.UID(name)})
		assert.Contains(t, w.Usage.Lately, types.UID(name), "an empty answer, or the pass asks again")
	}
	query(0, "web-1")
	query(time.Second, "api-1")
	query(latelyLasts, "web-1")
	query(silentFor-time.Second, "api-1")
	assert.Equal(t, 1, source.asked)
	query(silentFor, "web-1")
	assert.Equal(t, 2, source.asked)
}

// Without recent samples, whatever the cause, a raise in a cooldown is not due: nothing is written until the cooldown ends,
// and then the raise takes its step. Only a source that may answer later is asked again before.
func TestRaisesWithoutRecentUsage(t *testing.T) {
	tiny := sizeOf(10, 0, 512, 0)
	last := now.Add(time.Hour).Truncate(latelyStep)
	full := []usage.Series{{Namespace: "shop", Pod: "web-1", Container: "app", CPU: every(200, last, 0.033)}}
	const raised, step = int64(38), int64(15)
	for name, c := range map[string]struct {
		recently func(policy.Settings) (usage.Source, error)
		wakes    time.Duration
		cpu      int64
	}{
		"no source":             {nil, 2 * time.Minute, step},
		"a source that is gone": {func(policy.Settings) (usage.Source, error) { return nil, errors.New("no such Secret") }, 30 * time.Second, step},
		"a source that fails": {func(policy.Settings) (usage.Source, error) {
			return &recentSource{series: full, err: errors.New("reset")}, nil
		}, 30 * time.Second, step},
		"a source without data":  {func(policy.Settings) (usage.Source, error) { return &recentSource{}, nil }, 30 * time.Second, step},
		"a source with its data": {func(policy.Settings) (usage.Source, error) { return &recentSource{series: full}, nil }, 0, raised},
	} {
		t.Run(name, func(t *testing.T) {
			rec := heading(seen(t, tiny), sizeOf(38, 0, 512, 0)).Rec
			rec.Status.CooldownFrom = &metav1.Time{Time: now.Add(-58 * time.Minute)}
			l := newLab(t, rec, deploymentOf(tiny, 1), running("web-1", tiny))
			l.c.Recently = c.recently
			cpu := func() int64 { return l.pod("web-1").Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }
			wakes := l.pass().RequeueAfter
			if c.cpu == raised {
				assert.Equal(t, raised, cpu(), "at once, and past the cap of a step")
				return
			}
			assert.Equal(t, c.wakes, wakes)
			l.live(110 * time.Second)
			assert.Zero(t, l.patches)
			assert.LessOrEqual(t, l.status, 1, "nothing is new, and nothing is written")
			assert.Zero(t, l.events)
			l.live(time.Minute)
			assert.Equal(t, c.cpu, cpu(), "one step, after the cooldown")
		})
	}
}
