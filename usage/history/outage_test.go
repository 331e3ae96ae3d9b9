package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// atMost rejects queries for more values than this: steps times namespaces.
func atMost(values int64) func(usage.Query) error {
	return func(q usage.Query) error {
		if q.Steps()*int64(len(q.Namespaces)) > values {
			return fmt.Errorf("422: %w", usage.ErrTooMuch)
		}
		return nil
	}
}

// After an outage longer than one answer, new steps are queried in pieces until all are read.
func TestWhatIsNewIsCutAfterAnOutage(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.set(func(f *fake) { f.fail = atMost(50) })
	source.take()
	later := now.Add(60 * step)
	fill(t, s, later)

	p := profile(t, s, later)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
	assert.Zero(t, p.Gaps)
	assert.Less(t, len(source.take()), 10)
	state, _ := s.State(settings())
	assert.NoError(t, state.Err)

	source.set(func(f *fake) { f.fail = nil })
	s.Refresh(context.Background(), later.Add(step))
	fill(t, s, later.Add(30*step))
	queries := source.take()
	assert.Equal(t, int64(31), queries[len(queries)-1].Steps(), "what was too much then is tried again")
}

// If the shortest span of all namespaces is too large, they are queried in parts. A namespace that is too large by
// itself is reported, and does not stop the others.
func TestWhatIsNewIsCutByNamespaces(t *testing.T) {
	source := &fake{}
	s := newStore(source)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		interest := deployment("web")
		interest.Namespace = name
		s.Want(interest)
		pod := web("aaaaa", always(0.2))
		pod.namespace = name
		source.pods = append(source.pods, pod)
	}
	fill(t, s, now)
	source.set(func(f *fake) {
		f.fail = func(q usage.Query) error {
			if len(q.Namespaces) > 2 || q.Namespaces[0] == "c" {
				return fmt.Errorf("422: %w", usage.ErrTooMuch)
			}
			return nil
		}
	})
	later := now
	var told bool
	for range 12 {
		later = later.Add(step)
		for range 20 {
			if !s.Refresh(context.Background(), later) {
				break
			}
		}
		told = told || errors.Is(s.Unanswered(settings(), "c"), usage.ErrTooMuch)
		assert.NoError(t, s.Unanswered(settings(), "a"))
	}
	assert.True(t, told, "that one is too much")
	for _, name := range names {
		of := key("web")
		of.Namespace = name
		p, known := s.Profile(of, later)
		require.True(t, known)
		if name == "c" {
			assert.Equal(t, now, p.Last)
			continue
		}
		assert.Less(t, later.Sub(p.Last), 3*step, name)
		assert.LessOrEqual(t, p.Gaps, 3, name)
	}
}

// A clock that was ahead for a moment has no cost after it was corrected, however far ahead it was.
func TestAClockThatWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, 12 * time.Hour, 30 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			source := &fake{pods: []fakePod{web("aaaaa", func(at time.Time) (float64, bool) { return 0.2, !at.After(now.Add(time.Hour)) })}}
			s := newStore(source)
			s.Want(deployment("web"))
			fill(t, s, now)
			s.Refresh(context.Background(), now.Add(ahead))

			later := now.Add(step)
			fill(t, s, later)
			p := profile(t, s, later)
			assert.Equal(t, later, p.Last)
			assert.Equal(t, 288, p.Of[recommender.CPU].Points)
			assert.Zero(t, p.Gaps)
			assert.True(t, s.Read(key("web")))
		})
	}
}

// New steps with partial answers are queried again after a complete answer: a peak of that time counts.
func TestWhatIsNewAndPartialIsReadAgain(t *testing.T) {
	peak := now.Add(4 * step)
	busy := func(at time.Time) (float64, bool) {
		if at.Equal(peak) {
			return 4, true
		}
		return 0.2, true
	}
	source := &fake{pods: []fakePod{web("aaaaa", busy)}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.set(func(f *fake) { f.report, f.pods = usage.Report{Partial: true}, nil })
	for i := range 8 {
		s.Refresh(context.Background(), now.Add(time.Duration(i)*step))
	}
	source.set(func(f *fake) { f.report, f.pods = usage.Report{}, []fakePod{web("aaaaa", busy)} })
	later := now.Add(8 * step)
	fill(t, s, later)
	p := profile(t, s, later)
	assert.Zero(t, p.Gaps)
	assert.InDelta(t, 4000, float64(p.Of[recommender.CPU].Peak), 100)

	source.take()
	fill(t, s, later.Add(step))
	assert.Len(t, source.take(), 1, "once")
}

// The backoff of a source that is always partial grows.
func TestASourceThatIsAlwaysPartial(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}, report: usage.Report{Partial: true}}
	s := newStore(source)
	s.Want(deployment("web"))
	fill(t, s, now)
	source.take()
	long := 0
	for at := now; at.Before(now.Add(10 * 24 * time.Hour)); at = at.Add(step) {
		fill(t, s, at)
		for _, query := range source.take() {
			if query.Steps() > 100 {
				long++
			}
		}
	}
	assert.Equal(t, 11, long, "after 1, 2, 4, 8, 16 hours, and then each 32")
}

// A past that was partial for hours or days is read again within an hour after the source gives complete answers.
func TestAPastThatWasPartialIsReadAgainSoon(t *testing.T) {
	for _, length := range []time.Duration{12 * time.Hour, 72 * time.Hour} {
		t.Run(length.String(), func(t *testing.T) { partialPast(t, length) })
	}
}

func partialPast(t *testing.T, length time.Duration) {
	t.Helper()
	source := &fake{pods: nil, report: usage.Report{Partial: true}}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	at := now
	for ; at.Before(now.Add(length)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	source.set(func(f *fake) { f.report, f.pods = usage.Report{}, []fakePod{web("aaaaa", always(0.2))} })
	well := at
	for ; at.Before(well.Add(time.Hour)); at = at.Add(time.Minute) {
		fill(t, s, at)
	}
	p := profile(t, s, at)
	assert.Equal(t, 288, p.Of[recommender.CPU].Points)
}

// A source that rejects all queries about the past is still queried for new steps.
func TestWhatIsNewDoesNotWaitForThePast(t *testing.T) {
	source := &fake{pods: []fakePod{web("aaaaa", always(0.2))}, fail: func(q usage.Query) error { return tooMuchIf(q.Steps() > 4) }}
	s := newStore(source)
	require.NoError(t, s.Want(deployment("web")))
	at := minutes(s, now, 30)
	p := profile(t, s, at)
	assert.LessOrEqual(t, at.Sub(p.Last), 2*step)
	assert.ErrorIs(t, s.Unanswered(settings(), "shop"), usage.ErrTooMuch)
}
