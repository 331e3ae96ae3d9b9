package history

import (
	"slices"
	"time"

	"attune.io/attune/usage"
)

// connection holds how a source is reached, and whether it answers. Store.mutex guards it; the read itself runs
// without.
type connection struct {
	// source is nil before the first read, after a failure, and from redialAt on.
	source   usage.Source
	redialAt time.Time
	state    State
	// saidAt is when what state says of a failure was said first, warnedAt the same of warnings.
	saidAt, warnedAt time.Time
	// began is when the source answered first; resumed: a history was restored.
	began   time.Time
	resumed bool
	// failures counts the failures in a row. retryAt is when the source is asked again; zero: at the next refresh.
	failures int
	retryAt  time.Time
	// turn is the number of the last question to the source, of Store.turn. The source that was asked least
	// recently has the lowest one.
	turn int64
}

// calm is how long what is said of a source stays as it is while it goes on to fail, or to complain: texts differ in
// addresses, nodes and counts, and each change is a write to the status of every policy of the source.
const calm = 5 * time.Minute

// saidBefore: something was said a moment ago, by a clock that has not been put back since.
func saidBefore(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < calm }

// fail keeps why a read failed. The source is made anew next time: perhaps a secret has changed.
func (c *connection) fail(err error, now time.Time) {
	if c.state.Err == nil || !saidBefore(c.saidAt, now) {
		c.state.Err, c.saidAt = err, now
	}
	c.source = nil
	c.failures++
	c.retryAt = now.Add(pause(c.failures))
}

const (
	// firstPause is how long a source that has failed three times is left alone, and mostPause the longest that one is.
	firstPause = time.Minute
	mostPause  = 5 * time.Minute
)

// pause after a number of failures in a row: none at first, then twice as long each time.
func pause(failures int) time.Duration {
	if failures < 3 {
		return 0
	}
	return min(firstPause<<min(failures-3, 10), mostPause)
}

// succeed keeps that a read was answered, and the report of it.
func (c *connection) succeed(report usage.Report, now time.Time) {
	c.state.Err = nil
	c.failures, c.retryAt = 0, time.Time{}
	if c.began.IsZero() {
		c.began = now
	}
	c.state.LastSuccess = now
	c.state.Report.Add(report)
	said := c.state.Last.Warnings
	c.state.Last = report
	switch {
	case len(report.Warnings) == 0: // that it is over is said at once
	case saidBefore(c.warnedAt, now):
		c.state.Last.Warnings = said
	case !slices.Equal(said, report.Warnings):
		c.warnedAt = now
	}
}

// settleGrace is what the first answers may be late by, beside the steps that they are about.
const settleGrace = 2 * time.Minute

// settled is when the newest steps of what was restored must have been read: until then they may only be
// late.
func (c *connection) settled(step time.Duration) time.Time {
	if !c.resumed || c.began.IsZero() {
		return time.Time{}
	}
	return c.began.Add(2*step + settleGrace)
}
