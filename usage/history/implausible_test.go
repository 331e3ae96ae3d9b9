package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

func TestStepsOfTheLastDayThatCannotBeTrueAreCounted(t *testing.T) {
	const day = 277 // of whole hours
	for name, tc := range map[string]struct {
		pod    fakePod
		want   recommender.Implausible
		blocks bool
	}{
		"none":              {pod: web("aaaaa", always(0.2))},
		"all":               {pod: fakePod{implausible: always(1600)}, want: recommender.Implausible{Dropped: day, Of: day, Highest: 1_600_000, Most: 10_000_000}, blocks: true},
		"one":               {pod: fakePod{cpu: always(0.2), implausible: between(now.Add(-time.Hour), now.Add(-time.Hour), 166)}, want: recommender.Implausible{Dropped: 1, Of: day + 1, Highest: 166_000, Most: 10_000_000}},
		"as many as others": {pod: fakePod{cpu: always(0.2), implausible: always(1600)}, want: recommender.Implausible{Dropped: day, Of: 2 * day, Highest: 1_600_000, Most: 10_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod
			pod.namespace, pod.pod, pod.container = "shop", "web-7d4f8c9b6-aaaaa", "app"
			s := newStore(&fake{pods: []fakePod{pod}})
			s.Want(deployment("web"))
			fill(t, s, now)
			// Steps that are read again count once.
			s.Refresh(context.Background(), now.Add(time.Second))
			got := s.Implausible(key("web"), now)[recommender.CPU]
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.blocks, got.Blocks())
			assert.Zero(t, s.Implausible(key("web"), now.Add(26*time.Hour)), "a day later nothing of it is left")
			assert.Zero(t, s.Implausible(key("api"), now))
		})
	}
}

func TestDroppedStepsThatAreReadAgainCountOnce(t *testing.T) {
	source := &fake{pods: []fakePod{{namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "app", implausible: always(1600)}}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	before := s.News(key("web"))
	for i := 1; i <= 3; i++ {
		s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
	}
	assert.NotEqual(t, before, s.News(key("web")), "what was dropped is news")
	// Whole hours are counted: three steps were added, and up to an hour has left.
	got := s.Implausible(key("web"), now.Add(3*step))[recommender.CPU]
	assert.LessOrEqual(t, got.Dropped, 288)
	assert.Greater(t, got.Dropped, 288-12)
}

// The counts of a process go back to its first answer.
func TestAProcessIsYoungForADay(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	young := func() bool {
		state, _ := s.State(settings())
		return state.Young
	}
	source.set(func(f *fake) { f.fail = func(usage.Query) error { return errDown } })
	s.Refresh(context.Background(), now.Add(-25*time.Hour))
	assert.True(t, young(), "no answer")
	source.set(func(f *fake) { f.fail = nil })
	s.Refresh(context.Background(), now)
	for at := time.Duration(0); at <= 25*time.Hour; at += time.Hour {
		s.Refresh(context.Background(), now.Add(at))
		assert.Equal(t, at < 24*time.Hour, young(), at)
	}
}

func TestZerosDoNotHideWhatWasDropped(t *testing.T) {
	source := &fake{pods: []fakePod{{namespace: "shop", pod: "web-7d4f8c9b6-aaaaa", container: "app", implausible: func(at time.Time) (float64, bool) {
		if at.After(now) {
			return 0, true
		}
		return 1600, true
	}}}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	for _, steps := range []time.Duration{4, 8} {
		s.Refresh(context.Background(), now.Add(steps*step))
	}
	got := s.Implausible(key("web"), now.Add(8*step))[recommender.CPU]
	assert.Equal(t, 8, got.Zeros)
	assert.EqualValues(t, 1_600_000, got.Highest)
	assert.EqualValues(t, 10_000_000, got.Most)
}

// TestWorkAboveALimitThatIsNotEnforcedBlocks: kubelets with --cpu-cfs-quota=false. A container with a limit of 0.2 cores
// idles at 0.1 for 14 hours and works at 1 for 10 hours; without the samples of the work it would be sized for its idle
// hours.
func TestWorkAboveALimitThatIsNotEnforcedBlocks(t *testing.T) {
	read := func(above func(at time.Time) bool) recommender.Implausible {
		pod := web("aaaaa", func(at time.Time) (float64, bool) { return 0.1, !above(at) })
		pod.implausible, pod.why = func(at time.Time) (float64, bool) { return 1, above(at) }, usage.DropLimit
		s := newStore(&fake{pods: []fakePod{pod}})
		s.Want(deployment("web"))
		fill(t, s, now)
		return s.Implausible(key("web"), now)[recommender.CPU]
	}
	work := read(func(at time.Time) bool { return at.Hour() >= 8 && at.Hour() < 18 })
	assert.Equal(t, recommender.Implausible{Dropped: 109, AboveLimit: 109, Of: 277, Highest: 1000, Most: 10_000_000, Bound: recommender.OfLimit}, work)
	assert.True(t, work.Blocks())
	glitch := read(func(at time.Time) bool { return at.Equal(now.Add(-time.Hour)) })
	assert.Equal(t, 1, glitch.AboveLimit)
	assert.False(t, glitch.Blocks(), "a glitch")
}
