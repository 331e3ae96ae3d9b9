package demand

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/test/kubelet"
	"attune.io/attune/usage"
)

// monday at midnight.
var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func container(cpuLimit, memoryLimit string) kubelet.Run {
	run := kubelet.Run{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "1"}}, Container: "app", StartedAt: monday}
	run.Actual.Limits = corev1.ResourceList{}
	if cpuLimit != "" {
		run.Actual.Limits[corev1.ResourceCPU] = resource.MustParse(cpuLimit)
	}
	if memoryLimit != "" {
		run.Actual.Limits[corev1.ResourceMemory] = resource.MustParse(memoryLimit)
	}
	return run
}

func running(d Demand) Processes {
	return Processes{Of: func(*corev1.Pod, string) (Demand, bool) { return d, true }}
}

// The means of a week's CPU and its peak are those of the shape, within the tenth that chance adds.
func TestShapes(t *testing.T) {
	for shape, want := range map[Shape]struct{ mean, least, most float64 }{
		Steady:  {1, 0.9, 1.1},
		Diurnal: {0.6, 0.18, 1.1},
		Weekly:  {0.6 * (5 + 2.0/4) / 7, 0.045, 1.1},
		Bursty:  {0.545, 0.45, 2.2},
		Spiky:   {0.535, 0.45, 4.4},
		Idle:    {0.02, 0.018, 0.022},
		Nightly: {0.05 + 1.45/12, 0.045, 1.65},
	} {
		d := Demand{Seed: 3, Shape: shape, CPU: 2}
		sum, least, most, n := 0.0, 100.0, 0.0, 0
		for at := monday; at.Before(monday.Add(7 * 24 * time.Hour)); at = at.Add(time.Minute) {
			cpu := d.CPUAt(at, monday.Add(-time.Hour), "web-1") / 2
			sum, least, most, n = sum+cpu, min(least, cpu), max(most, cpu), n+1
		}
		assert.InEpsilon(t, want.mean, sum/float64(n), 0.05, shape)
		assert.GreaterOrEqual(t, least, want.least, shape)
		assert.LessOrEqual(t, most, want.most, shape)
		assert.Greater(t, most, want.most*0.9, shape)
		assert.Equal(t, d.CPUAt(monday.Add(time.Hour), monday, "web-1"), d.CPUAt(monday.Add(time.Hour), monday, "web-1"))
		assert.NotEqual(t, d.CPUAt(monday.Add(time.Hour), monday, "web-1"), d.CPUAt(monday.Add(time.Hour), monday, "web-2"), "replicas differ")
	}
}

// What is foreseen is what comes: no answer changes before Next, and one does then.
func TestNextForesees(t *testing.T) {
	for name, tc := range map[string]struct {
		d           Demand
		cpu, memory string
		within      time.Duration
		what        string
	}{
		"a leak":               {d: Demand{Memory: 100 << 20, Leak: 50 << 20}, memory: "128Mi", within: time.Hour, what: "memory"},
		"at its start":         {d: Demand{Memory: 200 << 20}, memory: "128Mi", within: 10 * time.Second, what: "memory"},
		"ready":                {d: Demand{Memory: 1 << 20, CPU: 1, ReadyAfter: 20 * time.Second}, cpu: "500m", within: 40 * time.Second, what: "ready"},
		"a burst":              {d: Demand{Memory: 1 << 20, CPU: 1, Shape: Bursty, ReadyWith: 0.9, Seed: 5}, cpu: "1", within: 48 * time.Hour, what: "ready"},
		"a burst that starves": {d: Demand{Memory: 1 << 20, CPU: 1, Shape: Bursty, AliveWith: 0.9, Seed: 5}, cpu: "1", within: 48 * time.Hour, what: "alive"},
		"its work":             {d: Demand{Memory: 1 << 20, CPU: 1, Work: 10 * time.Minute}, cpu: "250m", within: 40 * time.Minute, what: "end"},
		"a step":               {d: Demand{Memory: 100 << 20, Steps: []Step{{monday.Add(30 * time.Minute), 1.5}}}, memory: "108Mi", within: 30 * time.Minute, what: "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			p, run := running(tc.d), container(tc.cpu, tc.memory)
			limit := run.Actual.Limits.Memory().Value()
			answers := func(at time.Time) (memory, ready, dead, end bool) {
				needs, _ := p.Memory(run, at)
				alive, ready := p.Healthy(run, at)
				ends, _ := p.Ends(run)
				return limit > 0 && needs > limit, ready, !alive, !ends.IsZero() && !at.Before(ends)
			}
			at := monday
			memory, ready, dead, end := answers(at)
			for at.Before(monday.Add(tc.within)) {
				next := p.Next(run, at)
				if next.IsZero() {
					next = at.Add(time.Hour)
				}
				require.True(t, next.After(at))
				for between := at; between.Before(next); between = between.Add(5 * time.Second) {
					m, r, d, e := answers(between)
					require.Equal(t, []bool{memory, ready, dead, end}, []bool{m, r, d, e}, "%s changes before it is foreseen", between)
				}
				at = next
				m, r, d, e := answers(at)
				if changed := map[string]bool{"memory": m != memory, "ready": r != ready, "alive": d != dead, "end": e != end}; changed[tc.what] {
					assert.LessOrEqual(t, at.Sub(monday), tc.within)
					return
				}
				memory, ready, dead, end = m, r, d, e
			}
			t.Fatalf("%s never changes", tc.what)
		})
	}
}

// Page cache fills what the limit leaves, does not shrink by itself, and kills nobody.
func TestPageCache(t *testing.T) {
	p := running(Demand{Memory: 100 << 20, Cache: 1 << 30})
	for limit, want := range map[string]int64{"": 100<<20 + 1<<30, "512Mi": 511 << 20, "200Mi": 199 << 20} {
		run := container("", limit)
		needs, holds := p.Memory(run, monday.Add(3*time.Hour))
		assert.LessOrEqual(t, needs, int64(110<<20))
		assert.InDelta(t, float64(want), float64(holds), 11<<20, limit)
	}
	_, early := p.Memory(container("", "512Mi"), monday.Add(time.Minute))
	assert.Less(t, early, int64(200<<20), "it takes its time")
}

// pod is one that runs with a CPU limit.
func pod(cpu string, restarts int32, started time.Time) *corev1.Pod {
	p := container(cpu, "1Gi").Pod
	s := corev1.ContainerStatus{Name: "app", RestartCount: restarts, Resources: &corev1.ResourceRequirements{Limits: container(cpu, "1Gi").Actual.Limits}}
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}
	if restarts > 0 {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.NewTime(started)}
	}
	p.Spec.NodeName, p.Status.ContainerStatuses = "node-0", []corev1.ContainerStatus{s}
	return p
}

// A source answers what a container used up to its limits, as they were then, and nothing of the time that it did not
// run; it may be down, late, or know only a part.
func TestMeter(t *testing.T) {
	now := monday
	m := &Meter{Of: func(*corev1.Pod, string) (Demand, bool) { return Demand{CPU: 1, Memory: 100 << 20}, true },
		Now: func() time.Time { return now }, Capacity: func(string) float64 { return 2 }}
	m.Observe(now, []*corev1.Pod{pod("2", 0, monday)})
	now = monday.Add(time.Hour)
	m.Observe(now, []*corev1.Pod{pod("500m", 0, monday)})
	now = monday.Add(2 * time.Hour)
	m.Observe(now, []*corev1.Pod{pod("500m", 1, now)})
	now = monday.Add(3 * time.Hour)
	m.Observe(now, nil)
	now = monday.Add(4 * time.Hour)

	query := usage.Query{Namespaces: []string{"shop"}, Start: monday, End: now, Step: 5 * time.Minute, RateWindow: 5 * time.Minute}
	var got []usage.Series
	report, err := m.Read(t.Context(), query, func(s usage.Series) { got = append(got, s) })
	require.NoError(t, err)
	assert.False(t, report.Partial)
	require.Len(t, got, 1)
	require.Len(t, got[0].CPU, 36, "three hours, and none of the fourth")
	for _, s := range got[0].CPU {
		want, delta := 1.0, 0.1
		if s.Time().After(monday.Add(time.Hour)) {
			want, delta = 0.5, 0
		}
		assert.InDelta(t, want, s.Value, delta+1e-9, s.Time())
	}
	for _, s := range got[0].Memory {
		assert.InDelta(t, 100<<20, s.Value, 8<<20)
	}

	ctx, at := t.Context(), monday.Add(time.Hour)
	throttled, err := m.Throttled(ctx, "shop", "web-1", "app", 10*time.Minute, at)
	require.NoError(t, err)
	assert.Zero(t, throttled, "half of its limit")
	throttled, err = m.Throttled(ctx, "shop", "web-1", "app", 10*time.Minute, at.Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, 1.0, throttled)
	kills, err := m.OOMKills(ctx, "shop", "web-1", "app", 10*time.Minute, monday.Add(2*time.Hour+5*time.Minute))
	require.NoError(t, err)
	assert.Equal(t, 1.0, kills)
	used, known := m.CPU(ctx, "shop", "web-1", "app", at, at.Add(time.Hour))
	assert.True(t, known)
	assert.InDelta(t, 500, float64(used), 1)
	busy, known := m.Busy(ctx, "node-0", at, at.Add(time.Hour))
	assert.True(t, known)
	assert.InDelta(t, 0.25, busy, 0.001)
	_, err = m.Memory(ctx, "shop", "other", "app", time.Minute, at)
	assert.ErrorIs(t, err, errNoSeries)

	m.Late = 2 * time.Hour
	got = nil
	_, err = m.Read(ctx, query, func(s usage.Series) { got = append(got, s) })
	require.NoError(t, err)
	assert.Len(t, got[0].CPU, 24)
	m.Late, m.Missing = 0, func(_, pod string) bool { return pod == "web-1" }
	report, err = m.Read(ctx, query, func(usage.Series) { t.Error("it is left out") })
	require.NoError(t, err)
	assert.True(t, report.Partial)
	m.Down = true
	_, err = m.Read(ctx, query, nil)
	assert.ErrorIs(t, err, ErrDown)
	_, known = m.Busy(ctx, "node-0", at, now)
	assert.False(t, known)

	m.Down, m.Missing = false, nil
	now = monday.Add(30 * 24 * time.Hour)
	m.Observe(now, nil)
	assert.Empty(t, m.lives, "what is gone is forgotten")
}

// A container that is ended again and again is remembered for as long as it lasts, and no longer.
func TestMeterForgetsOldRuns(t *testing.T) {
	now := monday
	m := &Meter{Of: func(*corev1.Pod, string) (Demand, bool) { return Demand{CPU: 1}, true }, Now: func() time.Time { return now }, Keep: 24 * time.Hour}
	for n := range int32(2000) {
		m.Observe(now, []*corev1.Pod{pod("2", n, now)})
		now = now.Add(5 * time.Minute)
	}
	for _, l := range m.lives {
		assert.LessOrEqual(t, len(l.runs), 24*12+2)
		assert.LessOrEqual(t, len(l.kills), 24*12+2)
	}
}
