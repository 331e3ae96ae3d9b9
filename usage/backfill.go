package usage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backfilled is a source that began at some time, together with one that knows what was before.
type Backfilled struct {
	Source
	// Since is when the source began.
	Since func(context.Context) (time.Time, error)
	// Past is asked for what was before only.
	Past Source
}

// leastPast is how many steps of the past are no reason to ask for less: a server that finds so few too much is in trouble.
const leastPast = 12

// Read asks the source and, where the question reaches further back than it does, the past. An answer that
// lacks the past is partial, so that it is asked for again.
func (b Backfilled) Read(ctx context.Context, query Query, yield func(Series)) (Report, error) {
	since, err := b.Since(ctx)
	if err != nil {
		return Report{}, err
	}
	report, err := b.Source.Read(ctx, query, yield)
	if err != nil {
		return report, err
	}
	before := query
	// The first steps of the source are made of fewer samples: of two values, the higher one counts.
	last := max(StepHolding(since, query.Step), StepOf(since.Add(query.RateWindow), query.Step))
	if end := StepEnd(last, query.Step); end.Before(query.End) {
		before.End = end
	}
	if before.End.Before(before.Start) {
		return report, nil
	}
	past, err := b.Past.Read(ctx, before, yield)
	switch {
	case err == nil:
		report.Add(past)
	case errors.Is(err, ErrTooMuch) && before.Steps() > leastPast, ctx.Err() != nil:
		return report, err
	default:
		report.Partial = true
		report.Warn(fmt.Sprintf("what was used before %s could not be read, and is asked for again: %s", since.Format(time.RFC3339), err))
	}
	return report, nil
}
