package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// TestStartIsNoSteadyUsage: CPU of a container's start is not in the percentiles. Memory is.
func TestStartIsNoSteadyUsage(t *testing.T) {
	started := now.Add(-time.Hour - time.Minute)
	read := func(kind v1alpha1.WorkloadKind, startup time.Duration, restarts int) (cpu, starts, memory, points int, dropped int) {
		pod := fakePod{namespace: "shop", pod: "web-0", container: "app", started: started, restarts: restarts}
		pod.cpu = func(at time.Time) (float64, bool) {
			if at.After(started) && at.Before(started.Add(12*time.Minute)) {
				return 2, true
			}
			return 0.06, !at.Before(started)
		}
		pod.memory = func(at time.Time) (float64, bool) { v, is := pod.cpu(at); return v * (1 << 30), is }
		if kind == v1alpha1.KindJob {
			pod.pod = "web-aaaaa"
		}
		s := newStore(&fake{pods: []fakePod{pod}})
		s.Want(history.Interest{Policy: "policy", Namespace: "shop", Source: settings(), Startup: startup,
			Workloads: []history.Workload{{Kind: kind, Name: "web", Containers: []string{"app"}}}})
		fill(t, s, now)
		of := key("web")
		of.Kind = kind
		p, is := s.Profile(of, now)
		require.True(t, is)
		state, _ := s.State(settings())
		s.Refresh(context.Background(), now.Add(step))
		return int(p.Of[recommender.CPU].Peak), int(p.Starts), int(p.Of[recommender.Memory].Peak) >> 20, p.Of[recommender.CPU].Points, state.Last.Dropped[usage.DropStartup]
	}
	for name, tc := range map[string]struct {
		kind     v1alpha1.WorkloadKind
		startup  time.Duration
		restarts int
		peak     int // millicores
		starts   int
		points   int
	}{
		// Steps end 1, 6, 11, 16 … minutes after the start, and have the mean of 5 minutes.
		"2 minutes":            {v1alpha1.KindStatefulSet, 0, 1, 2000, 2000, 13 - 2},
		"8 minutes of a boost": {v1alpha1.KindStatefulSet, 8 * time.Minute, 1, 60, 2000, 13 - 3},
		"10 minutes at most":   {v1alpha1.KindStatefulSet, time.Hour, 1, 60, 2000, 13 - 3},
		"many restarts":        {v1alpha1.KindStatefulSet, 8 * time.Minute, 4, 2000, 0, 13},
		"a Job is short":       {v1alpha1.KindJob, 8 * time.Minute, 0, 2000, 0, 13},
	} {
		t.Run(name, func(t *testing.T) {
			peak, starts, memory, points, dropped := read(tc.kind, tc.startup, tc.restarts)
			assert.InDelta(t, tc.peak, peak, 1)
			assert.Equal(t, tc.starts, starts, "bounds decreases of the limit")
			assert.Equal(t, tc.points, points)
			assert.Equal(t, 13-tc.points, dropped)
			assert.Equal(t, 2048, memory, "memory of the start is kept")
		})
	}
}

// TestCPUThatIsZeroEverywhereIsNotMeasured: a broken sensor is not an idle cluster.
func TestCPUThatIsZeroEverywhereIsNotMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		containers, busy int
		dropped          bool
	}{
		"10 of 10":  {10, 0, true},
		"19 of 20":  {20, 1, true},
		"18 of 20":  {20, 2, false},
		"all of 9":  {9, 0, false},
		"10 of 214": {214, 204, false},
	} {
		t.Run(name, func(t *testing.T) {
			source := &fake{}
			var names []string
			for i := range tc.containers {
				value := 0.0
				if i < tc.busy {
					value = 0.3
				}
				names = append(names, fmt.Sprintf("web%03d", i))
				source.pods = append(source.pods, fakePod{namespace: "shop", pod: names[i] + "-7d4f8c9b6-aaaaa", container: "app", cpu: always(value), memory: always(1 << 28)})
			}
			s := newStore(source)
			s.Want(deployment(names...))
			fill(t, s, now)
			idle := key(names[tc.containers-1])
			p, is := s.Profile(idle, now)
			require.True(t, is, "memory is measured")
			state, _ := s.State(settings())
			got := s.Implausible(idle, now)[recommender.CPU]
			assert.Equal(t, tc.dropped, got.Blocks())
			if !tc.dropped {
				assert.Equal(t, 288, p.Of[recommender.CPU].Points)
				assert.Empty(t, state.Last.Warnings)
				return
			}
			assert.Zero(t, p.Of[recommender.CPU].Points)
			assert.Equal(t, got.Of, got.Zeros)
			assert.Equal(t, []string{fmt.Sprintf("CPU of %d of %d containers is 0, so attune does not use it: it is not measured. Check the kubelets and the container runtime",
				tc.containers-tc.busy, tc.containers)}, state.Last.Warnings)
			assert.Positive(t, state.Last.Dropped[usage.DropIdle])
			if tc.busy > 0 {
				assert.False(t, s.Implausible(key(names[0]), now)[recommender.CPU].Blocks(), "what is above 0 was measured")
			}
		})
	}
}

// TestImpossibleValuesAreNotRestored: a checkpoint may be older than the checks, or than the known nodes.
func TestImpossibleValuesAreNotRestored(t *testing.T) {
	old := forgetful(&fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) {
		if at.Equal(now.Add(-3 * time.Hour)) {
			return 1600, true
		}
		return 0.2, true
	})}})
	old.Want(deployment("web"))
	fill(t, old, now)
	packed := old.Checkpoint(key("web"), history.MaxCheckpoint, nil)
	s := history.New(history.Options{
		Dial: func(usage.SourceSettings) (usage.Source, error) { return &fake{}, nil }, Forgets: func(usage.SourceSettings) bool { return true },
		Most: func() usage.Most { return usage.MostOn(48, 192<<30) },
	})
	s.Want(deployment("web"))
	require.NoError(t, s.Restore(key("web"), packed, now))
	p := profile(t, s, now)
	assert.InEpsilon(t, 200, float64(p.Of[recommender.CPU].Peak), 0.01)
	assert.Equal(t, 287, p.Of[recommender.CPU].Points)
	assert.Equal(t, 288, p.Of[recommender.Memory].Points)
}

// TestQueriesSayWhatWasCounted: of the overlap with earlier steps, no dropped sample counts again.
func TestQueriesSayWhatWasCounted(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	for _, query := range source.take() {
		assert.True(t, query.Counted.IsZero() || query.Counted.Before(query.End))
	}
	s.Refresh(context.Background(), now.Add(step))
	queries := source.take()
	require.Len(t, queries, 1)
	assert.Equal(t, now, queries[0].Counted)
	assert.Equal(t, now.Add(-step), queries[0].Start)
	assert.Equal(t, now.Add(step), queries[0].End)
}

// TestDropsOfHistoriesAreCountedOnce: samples that only the history can judge are counted by reason, once where reads
// overlap.
func TestDropsOfHistoriesAreCountedOnce(t *testing.T) {
	idle := func(at time.Time) (float64, bool) { return 0, at.After(now.Add(-30 * time.Minute)) }
	source := &fake{pods: []fakePod{{namespace: "shop", pod: "db-x2x5k", container: "app", cpu: idle}}}
	var names []string
	for i := range 11 {
		names = append(names, fmt.Sprintf("web%d", i))
		source.pods = append(source.pods, fakePod{namespace: "shop", pod: names[i] + "-7d4f8c9b6-aaaaa", container: "app", cpu: idle})
	}
	source.pods[1].started = now.Add(-11 * time.Minute) // the steps that ended 10 and 5 minutes ago
	interest := deployment(names...)
	interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDaemonSet, Name: "db"}, history.Workload{Kind: v1alpha1.KindReplicaSet, Name: "db"})
	counts := map[usage.Drop]int{}
	s := history.New(history.Options{
		Dial: func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Dropped: func(of usage.SourceSettings, dropped map[usage.Drop]int) {
			assert.Equal(t, settings(), of)
			for why, n := range dropped {
				counts[why] += n
			}
		},
	})
	require.NoError(t, s.Want(interest))
	for i := range 4 {
		at := now.Add(time.Duration(i) * step)
		fill(t, s, at)
		fill(t, s, at.Add(time.Minute))
		assert.Equal(t, map[usage.Drop]int{usage.DropIdle: 64 + 11*i, usage.DropStartup: 2, usage.DropAmbiguous: 6 + i}, counts)
	}
}

// TestStartsOfPodsThatAreGoneStayLeftOut: a Deployment is rolled every 10 minutes. A pod starts with 2 cores and works with
// 0.1. A step is read again after its pod is gone, and then the pod's start is not known. Nor does the step forget what a
// pod that is gone used.
func TestStartsOfPodsThatAreGoneStayLeftOut(t *testing.T) {
	for name, work := range map[string]float64{"the pod before works alike": 0.1, "it works more": 0.3} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			s := newStore(f)
			s.Want(deployment("web"))
			begin := now.Add(-6 * time.Hour)
			for at := begin; at.Before(now); at = at.Add(time.Minute) {
				f.set(func(f *fake) {
					f.pods = nil
					for n := range 36 {
						born := begin.Add(time.Duration(n)*10*time.Minute + 30*time.Second)
						gone := born.Add(10*time.Minute + 30*time.Second)
						if born.After(at) {
							break
						}
						pod := web(fmt.Sprintf("aaa%02d", n), func(at time.Time) (float64, bool) {
							if at.Before(born.Add(2*time.Minute + step)) {
								return 2, !at.Before(born)
							}
							if n%2 == 0 {
								return work, !at.After(gone)
							}
							return 0.1, !at.After(gone)
						})
						pod.memory = func(at time.Time) (float64, bool) { return 1 << 20, !at.Before(born) && !at.After(gone) }
						if pod.gone = !at.Before(gone); !pod.gone {
							pod.started = born
						}
						f.pods = append(f.pods, pod)
					}
				})
				s.Refresh(t.Context(), at)
			}
			assert.InEpsilon(t, work*1000, float64(profile(t, s, now).Of[recommender.CPU].Peak), 0.01)
		})
	}
}

// The highest CPU of starts outlives the operator where the source forgets, and is forgotten after two windows.
func TestStartsAreRestored(t *testing.T) {
	pod := web("aaaaa", func(at time.Time) (float64, bool) {
		if at.Before(now.Add(-time.Hour)) {
			return 2, !at.Before(now.Add(-time.Hour - 5*time.Minute))
		}
		return 0.1, true
	})
	pod.started = now.Add(-time.Hour - 6*time.Minute)
	old, s := forgetful(&fake{pods: []fakePod{pod}}), forgetful(&fake{})
	old.Want(deployment("web"))
	fill(t, old, now)
	require.InDelta(t, 2000, float64(profile(t, old, now).Starts), 1)
	s.Want(deployment("web"))
	require.NoError(t, s.Restore(key("web"), old.Checkpoint(key("web"), history.MaxCheckpoint, nil), now))
	p := profile(t, s, now)
	assert.InDelta(t, 2000, float64(p.Starts), 1)
	assert.InDelta(t, 100, float64(p.Of[recommender.CPU].Peak), 1)

	idle := web("aaaaa", always(0.1))
	source := &fake{pods: []fakePod{idle}}
	s = forgetful(source)
	s.Want(deployment("web"))
	require.NoError(t, s.Restore(key("web"), old.Checkpoint(key("web"), history.MaxCheckpoint, nil), now))
	for at := now; !at.After(now.Add(48 * time.Hour)); at = at.Add(6 * time.Hour) {
		fill(t, s, at)
		if known := profile(t, s, at).Starts > 0; at.Sub(now) < 22*time.Hour {
			assert.True(t, known, at)
		} else if at.Sub(now) >= 48*time.Hour {
			assert.False(t, known, at)
		}
	}
}
