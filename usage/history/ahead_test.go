package history_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// While a clock is ahead a source fails, for example because of an expired certificate. After the clock was corrected,
// it is queried at once.
func TestNothingWaitsForATimeThatAClockAheadHasSet(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	fill(t, s, now)
	source.set(func(f *fake) { f.fail = func(usage.Query) error { return errDown } })
	for i := range 4 {
		s.Refresh(context.Background(), now.Add(12*time.Hour+time.Duration(i)*time.Minute))
	}
	source.set(func(f *fake) { f.fail = nil })
	at := minutes(s, now.Add(5*time.Minute), 11)
	assert.LessOrEqual(t, at.Sub(profile(t, s, at).Last), 2*step)
}

// Values that were read while the clock was ahead become visible at their time. They count as news then, although the
// source returns the same values and nothing leaves the window.
func TestWhatWasReadAheadIsNewsWhenItsTimeHasCome(t *testing.T) {
	young := func(at time.Time) (float64, bool) { return 0.2, at.After(now.Add(-6 * time.Hour)) }
	pod := web("aaaaa", young)
	pod.memory = young
	s := newStore(&fake{pods: []fakePod{pod}})
	require.NoError(t, s.Want(deployment("web")))
	fill(t, s, now)
	minutes(s, now.Add(2*time.Hour), 1)
	at := minutes(s, now.Add(time.Minute), 1)
	for range 6 {
		before, news := profile(t, s, at), s.News(key("web"))
		at = minutes(s, at, 5)
		after := profile(t, s, at)
		assert.Equal(t, before.Last.Add(step), after.Last)
		assert.Equal(t, before.Of[recommender.CPU].Points+1, after.Of[recommender.CPU].Points)
		assert.NotEqual(t, news, s.News(key("web")))
	}
}

// A workload whose past was too large while a clock was ahead is queried after the clock was corrected.
func TestWhatRestsIsAskedForOnceTheClockIsRight(t *testing.T) {
	shop, pod, _ := webIn("shop", "web")
	ci, job, ofCI := webIn("ci", "job")
	source := &fake{pods: []fakePod{pod, job}}
	s := newStore(source)
	require.NoError(t, s.Want(shop))
	fill(t, s, now)
	source.set(func(f *fake) {
		f.fail = func(q usage.Query) error { return tooMuchIf(slices.Contains(q.Namespaces, "ci") && q.Steps() > 6) }
	})
	require.NoError(t, s.Want(ci))
	minutes(s, now.Add(12*time.Hour), 1)
	source.set(func(f *fake) { f.fail = nil })
	minutes(s, now.Add(5*time.Minute), 10)
	assert.True(t, s.Read(ofCI))
}

// A checkpoint that was restored under a clock that was ahead does not keep the window there.
func TestACheckpointThatWasRestoredAhead(t *testing.T) {
	for _, ahead := range []time.Duration{12 * time.Hour, 30 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			source := &fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) { return 0.3, at.After(now) })}}
			s := forgetful(source)
			require.NoError(t, s.Want(deployment("web")))
			require.NoError(t, s.Restore(key("web"), aDay(t), now.Add(ahead)))
			at := minutes(s, now.Add(5*time.Minute), 60)
			require.NoError(t, s.Restore(key("web"), aDay(t), at))
			p := profile(t, s, at)
			assert.LessOrEqual(t, at.Sub(p.Last), 2*step)
			assert.GreaterOrEqual(t, p.Of[recommender.CPU].Points, 270, "and what it had is taken again")
		})
	}
}

// A clock is ahead while new steps are read in parts, and is corrected before the last part.
func TestAClockThatWasAheadInTheMiddleOfASpan(t *testing.T) {
	a, podA, ofA := webIn("a", "web")
	b, podB, _ := webIn("b", "web")
	source := &fake{pods: []fakePod{podA, podB}}
	s := newStore(source)
	require.NoError(t, s.Want(a))
	require.NoError(t, s.Want(b))
	fill(t, s, now)
	source.set(func(f *fake) {
		f.fail = func(q usage.Query) error {
			if q.Namespaces[0] == "b" && q.Start.After(now.Add(24*time.Hour)) {
				return errDown
			}
			return tooMuchIf(len(q.Namespaces) > 1)
		}
	})
	for range 20 {
		s.Refresh(context.Background(), now.Add(30*24*time.Hour))
	}
	source.set(func(f *fake) { f.fail = nil })
	at := minutes(s, now.Add(5*time.Minute), 60)
	p, known := s.Profile(ofA, at)
	require.True(t, known)
	assert.LessOrEqual(t, at.Sub(p.Last), 2*step)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
}

// sidecar answers only about its newest two hours while a store is down.
type sidecar struct {
	fake
	down bool
}

func (s *sidecar) Read(ctx context.Context, q usage.Query, yield func(usage.Series)) (usage.Report, error) {
	if !s.down || q.Steps() <= 24 {
		return s.fake.Read(ctx, q, yield)
	}
	q.Start = q.End.Add(-2 * time.Hour)
	report, err := s.fake.Read(ctx, q, yield)
	report.Partial = true
	return report, err
}

// A past that is incomplete for days while new steps are complete is read within a day and a half after that.
func TestAPastThatLacksSomethingForDays(t *testing.T) {
	for _, days := range []int{1, 2, 3} {
		source := &sidecar{fake: fake{pods: []fakePod{web("aaaaa", always(0.2))}}, down: true}
		s := newStore(source)
		require.NoError(t, s.Want(deployment("web")))
		at := minutes(s, now, days*24*60)
		source.down = false
		at = minutes(s, at, 36*60)
		assert.Equal(t, 288, profile(t, s, at).Of[recommender.CPU].Points, "%d days", days)
	}
}

// One workload that is always too large hardly delays the past of the others.
func TestOneThatIsTooMuchCutsNobodyElse(t *testing.T) {
	source := &fake{fail: func(q usage.Query) error { return tooMuchIf(slices.Contains(q.Namespaces, "ci") && q.Steps() > 6) }}
	s := newStore(source)
	want := func(namespace string, workloads int) {
		interest := deployment()
		interest.Namespace = namespace
		for i := range workloads {
			interest.Workloads = append(interest.Workloads, deployment(fmt.Sprint("w", i)).Workloads...)
		}
		require.NoError(t, s.Want(interest))
	}
	for i := range 20 {
		want(fmt.Sprint("n", i), 5)
	}
	want("ci", 1)
	at := minutes(s, now, 120)
	assert.Less(t, len(source.take()), 120, "questions in two hours, of which 24 are about what is new")
	for hour := range 3 {
		for i := range 5 {
			want(fmt.Sprint("n", i), 10+5*hour)
		}
		at = minutes(s, at, 60)
		assert.Less(t, len(source.take()), 25, "questions about 25 new workloads in hour %d", hour)
	}
}

// A source that fails and recovers for days is read again within an hour after it has recovered.
func TestASourceThatComesAndGoes(t *testing.T) {
	source := &fake{}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	good := []fakePod{web("aaaaa", always(0.2))}
	source.pods = good
	fill(t, s, now)
	at := now
	for i := range 48 * 60 {
		source.set(func(f *fake) {
			f.pods, f.report = good, usage.Report{}
			if i%30 < 20 {
				f.pods, f.report = nil, usage.Report{Partial: true}
			}
		})
		at = minutes(s, at, 1)
	}
	source.set(func(f *fake) { f.pods, f.report = good, usage.Report{} })
	at = minutes(s, at, 61)
	assert.Zero(t, profile(t, s, at).Gaps)
}

// The same for one namespace that is too large at times.
func TestANamespaceThatIsTooMuchAtTimes(t *testing.T) {
	a, podA, _ := webIn("a", "web")
	b, podB, of := webIn("b", "web")
	source := &fake{pods: []fakePod{podA, podB}}
	s := newStore(source)
	require.NoError(t, s.Want(a))
	require.NoError(t, s.Want(b))
	fill(t, s, now)
	at := now
	for range 12 {
		source.set(func(f *fake) {
			f.fail = func(q usage.Query) error { return tooMuchIf(slices.Contains(q.Namespaces, "b")) }
		})
		at = minutes(s, at, 40)
		source.set(func(f *fake) { f.fail = nil })
		at = minutes(s, at, 70)
		p, _ := s.Profile(of, at)
		require.Zero(t, p.Gaps)
	}
}

// After an outage that ended with a few timeouts, new steps are queried in growing pieces.
func TestCatchingUpGrows(t *testing.T) {
	for _, timeouts := range []int{0, 3, 6, 9, 12} {
		source := &fake{}
		s := newStore(source)
		for i := range 50 {
			interest, pod, _ := webIn(fmt.Sprint("n", i), "web")
			source.pods = append(source.pods, pod)
			require.NoError(t, s.Want(interest))
		}
		fill(t, s, now)
		source.take()
		left := timeouts
		source.set(func(f *fake) {
			f.fail = func(usage.Query) error {
				left--
				return tooMuchIf(left >= 0)
			}
		})
		fill(t, s, now.Add(12*time.Hour))
		assert.LessOrEqual(t, len(source.take()), 60, "%d time-outs", timeouts)
	}
}

// A rejected past is not reported any more after its window has passed.
func TestWhatIsNotAnsweredIsSaidForAsLongAsItLasts(t *testing.T) {
	a, podA, _ := webIn("a", "web")
	b, podB, of := webIn("b", "web")
	source := &fake{pods: []fakePod{podA, podB}}
	s := newStore(source)
	require.NoError(t, s.Want(a))
	fill(t, s, now)
	source.set(func(f *fake) {
		f.fail = func(q usage.Query) error {
			return tooMuchIf(slices.Contains(q.Namespaces, "b") && q.Steps() > 6 && q.Start.Before(now.Add(-12*time.Hour)))
		}
	})
	require.NoError(t, s.Want(b))
	at := minutes(s, now, 60)
	require.Error(t, s.Unanswered(settings(), "b"))
	minutes(s, at, 25*60)
	assert.True(t, s.Read(of))
	assert.NoError(t, s.Unanswered(settings(), "b"))
}
