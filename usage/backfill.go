package usage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backfilled combines a source that began at some time with a source of older usage.
type Backfilled struct {
	Source
	// Since is when the source began.
	Since func(context.Context) (time.Time, error)
	// Past is queried only for usage before Since.
	Past Source
}

// leastPast is the number of steps up to which ErrTooMuch of Past is not passed on: a server that rejects so few steps
// has a problem.
const leastPast = 12

// Read queries the source and, if the query starts before it, the past. An answer without the past is partial, so that
// it is queried again.
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
	// The first steps of the source have fewer samples, so both are read: of two values, the higher one counts.
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
		report.Warn(fmt.Sprintf("usage before %s could not be read, retrying: %s", since.Format(time.RFC3339), err))
	}
	return report, nil
}
