package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
	"attune.io/attune/usage/history"
)

// forgetful is a store with a source that does not keep the past.
func forgetful(source usage.Source) *history.Store {
	return history.New(history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Forgets: func(usage.SourceSettings) bool { return true },
	})
}

// aDay is the checkpoint of a day with a peak.
func aDay(t *testing.T) []byte {
	t.Helper()
	peak := now.Add(-3 * time.Hour)
	s := forgetful(&fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) {
		if at.Equal(peak) {
			return 0.9, true
		}
		return 0.2, true
	})}})
	s.Want(deployment("web"))
	fill(t, s, now)
	packed := s.Checkpoint(key("web"), history.MaxCheckpoint, nil)
	require.NotEmpty(t, packed)
	return packed
}

func TestAHistoryIsRestored(t *testing.T) {
	s := forgetful(&fake{})
	s.Want(deployment("web"))
	later := now.Add(30 * time.Minute)
	require.NoError(t, s.Restore(key("web"), aDay(t), later))
	p := profile(t, s, later)
	assert.Equal(t, 288-6, p.Of[recommender.CPU].Points, "what fell out of the window meanwhile is not there")
	assert.InDelta(t, 900, float64(p.Of[recommender.CPU].Peak), 0)
	assert.InEpsilon(t, 200, float64(p.Of[recommender.CPU].Overall.Quantile(0.95)), 0.0025)
	assert.Equal(t, now, p.Last)

	state, _ := s.State(settings())
	assert.Zero(t, state.SettledAt, "nothing has been read")
	fill(t, s, later)
	state, _ = s.State(settings())
	assert.Equal(t, later.Add(2*step+2*time.Minute), state.SettledAt)
	assert.Equal(t, 288-6, profile(t, s, later).Of[recommender.CPU].Points, "reading nothing takes nothing away")
}

// A process reads the checkpoints that it wrote itself. Nothing was restored then, so the first targets of its
// workloads must not wait.
func TestOnesOwnCheckpointRestoresNothing(t *testing.T) {
	s := forgetful(&fake{pods: []fakePod{web("aaaaa", between(now.Add(-time.Hour), now, 0.5))}})
	s.Want(deployment("web"))
	fill(t, s, now)
	before := profile(t, s, now)
	require.NoError(t, s.Restore(key("web"), s.Checkpoint(key("web"), history.MaxCheckpoint, nil), now))
	assert.Equal(t, before, profile(t, s, now))
	state, _ := s.State(settings())
	assert.Zero(t, state.SettledAt)
}

func TestWhatWasMeasuredWins(t *testing.T) {
	read := func(s *history.Store) { fill(t, s, now) }
	restore := func(s *history.Store) { require.NoError(t, s.Restore(key("web"), aDay(t), now)) }
	for name, order := range map[string][2]func(*history.Store){"read first": {read, restore}, "restored first": {restore, read}} {
		t.Run(name, func(t *testing.T) {
			s := forgetful(&fake{pods: []fakePod{web("aaaaa", between(now.Add(-time.Hour), now, 0.5))}})
			s.Want(deployment("web"))
			order[0](s)
			order[1](s)
			steps := s.Steps(key("web"))
			require.Len(t, steps, 288)
			for _, step := range steps {
				want := 0.2
				switch {
				case !step.At.Before(now.Add(-time.Hour)):
					want = 0.5
				case step.At.Equal(now.Add(-3 * time.Hour)):
					want = 0.9
				}
				assert.InEpsilon(t, want, step.CPUCores, 0.0025, "%s", step.At)
			}
		})
	}
}

func TestShortStepsMakeLongOnes(t *testing.T) {
	packed := codec.PackCheckpoint(codec.Checkpoint{
		Step: time.Minute, First: usage.StepOf(now, time.Minute) - 9,
		CPU: []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, .1}, Memory: []float64{1e6, 9e6, 1e6, 1e6, 1e6, 1e6, 1e6, 2e6, 1e6, 1e6},
	}, history.MaxCheckpoint)
	s := forgetful(&fake{})
	s.Want(deployment("web"))
	require.NoError(t, s.Restore(key("web"), packed, now))
	steps := s.Steps(key("web"))
	require.Len(t, steps, 2)
	assert.InEpsilon(t, .5, steps[0].CPUCores, 0.0025)
	assert.InEpsilon(t, .9, steps[1].CPUCores, 0.0025)
	assert.InEpsilon(t, 9e6, steps[0].MemoryBytes, 0.0025)
	assert.InEpsilon(t, 2e6, steps[1].MemoryBytes, 0.0025)
}

func TestCheckpointsOfNoUse(t *testing.T) {
	s := forgetful(&fake{})
	s.Want(deployment("web"))
	long := codec.PackCheckpoint(codec.Checkpoint{Step: time.Hour, CPU: []float64{1}}, history.MaxCheckpoint)
	assert.ErrorContains(t, s.Restore(key("web"), long, now), "a checkpoint with queryStep 1h0m0s cannot be used for queryStep 5m0s")
	assert.NoError(t, s.Restore(key("web"), long, now), "it is said once")
	assert.NoError(t, s.Restore(key("nobody"), long, now), "nobody wants it")
	other := key("web")
	other.Container = "sidecar"
	assert.NoError(t, s.Restore(other, aDay(t), now))
	assert.Empty(t, s.Steps(other), "nor this")
	assert.Nil(t, s.Checkpoint(key("nobody"), history.MaxCheckpoint, nil))

	s = forgetful(&fake{})
	s.Want(deployment("web"))
	assert.ErrorContains(t, s.Restore(key("web"), []byte("noise"), now), "the checkpoint of container app cannot be used")
	_, ok := s.Profile(key("web"), now)
	assert.False(t, ok)

	kept := newStore(&fake{pods: []fakePod{web("aaaaa", always(0.2))}})
	kept.Want(deployment("web"))
	fill(t, kept, now)
	assert.Nil(t, kept.Checkpoint(key("web"), history.MaxCheckpoint, nil), "this source keeps the past itself")
}

// TestAnIdleHistoryIsPackedOnce: without changes, Checkpoint returns the stored checkpoint.
func TestAnIdleHistoryIsPackedOnce(t *testing.T) {
	source := &fake{pods: []fakePod{{namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.2), memory: always(1 << 20)}}}
	s := history.New(history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return source, nil },
		Forgets: func(usage.SourceSettings) bool { return true },
	})
	require.NoError(t, s.Want(deployment("web")))
	fill(t, s, now)
	stored := s.Checkpoint(key("web"), history.MaxCheckpoint, nil)
	require.NotEmpty(t, stored)
	for range 10 {
		again := s.Checkpoint(key("web"), history.MaxCheckpoint, stored)
		require.Same(t, &stored[0], &again[0], "the very one")
	}
	of := key("web")
	assert.Zero(t, testing.AllocsPerRun(10, func() { s.Checkpoint(of, history.MaxCheckpoint, stored) }))

	other := append([]byte{0}, stored...)
	again := s.Checkpoint(key("web"), history.MaxCheckpoint, other)
	assert.Equal(t, stored, again, "somebody has written another one")
	less := s.Checkpoint(key("web"), len(stored)-1, stored)
	assert.Less(t, len(less), len(stored), "there is less room")

	s.Checkpoint(key("web"), history.MaxCheckpoint, nil)
	source.set(func(f *fake) { f.pods[0].cpu = always(0.9) })
	s.Refresh(context.Background(), now.Add(step))
	assert.NotEqual(t, stored, s.Checkpoint(key("web"), history.MaxCheckpoint, stored), "there is news")
}
