package usage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// asked is a source that yields its name as a pod, and records its queries.
type asked struct {
	name    string
	queries []usage.Query
	err     error
}

func (a *asked) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	a.queries = append(a.queries, query)
	if a.err != nil {
		return usage.Report{}, a.err
	}
	yield(usage.Series{Pod: a.name})
	return usage.Report{Samples: 1}, nil
}

func TestBackfilled(t *testing.T) {
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	step := 5 * time.Minute
	query := func(from, to time.Duration) usage.Query {
		return usage.Query{Namespaces: []string{"shop"}, Start: noon.Add(from), End: noon.Add(to), Step: step, RateWindow: step}
	}
	for _, c := range []struct {
		name  string
		query usage.Query
		err   error
		// until is the end of the query to the past; zero: no query.
		until   time.Time
		partial bool
		fails   error
	}{
		{name: "what is new", query: query(10*time.Minute, 20*time.Minute)},
		{name: "the past", query: query(-5*time.Hour, -time.Hour), until: noon.Add(-time.Hour)},
		{name: "across the beginning", query: query(-5*time.Hour, time.Hour), until: noon.Add(step)},
		{name: "the past does not answer", query: query(-5*time.Hour, time.Hour), err: errors.New("gone"), until: noon.Add(step), partial: true},
		{name: "too much of the past", query: query(-5*time.Hour, time.Hour), err: usage.ErrTooMuch, until: noon.Add(step), fails: usage.ErrTooMuch},
		{name: "a past in trouble finds an hour too much", query: query(-time.Hour, time.Hour), err: fmt.Errorf("504: %w", usage.ErrTooMuch), until: noon.Add(step), fails: usage.ErrTooMuch},
		{name: "and little too", query: query(-50*time.Minute, time.Hour), err: fmt.Errorf("504: %w", usage.ErrTooMuch), until: noon.Add(step), partial: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, past := &asked{name: "own"}, &asked{name: "past", err: c.err}
			source := usage.Backfilled{Source: own, Past: past, Since: func(context.Context) (time.Time, error) { return noon.Add(time.Second), nil }}
			var pods []string
			report, err := source.Read(t.Context(), c.query, func(s usage.Series) { pods = append(pods, s.Pod) })
			require.ErrorIs(t, err, c.fails)
			assert.Equal(t, []usage.Query{c.query}, own.queries)
			if c.until.IsZero() {
				assert.Empty(t, past.queries)
			} else {
				require.Len(t, past.queries, 1)
				assert.Equal(t, c.query.Start, past.queries[0].Start)
				assert.Equal(t, c.until, past.queries[0].End)
			}
			assert.Equal(t, c.partial, report.Partial)
			if c.partial {
				assert.Contains(t, report.Warnings[0], "before 2025-06-02T12:00:01Z could not be read")
			}
			if c.err == nil && !c.until.IsZero() {
				assert.Equal(t, []string{"own", "past"}, pods)
				assert.Equal(t, 2, report.Samples)
			}
		})
	}
}
