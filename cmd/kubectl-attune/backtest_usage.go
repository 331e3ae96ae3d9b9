package main

import (
	"context"
	"fmt"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
)

// container is one series that is replayed, and what it is judged by.
type container struct {
	backtest.Series
	// settings of the policy that is judged.
	settings recommender.Settings
	// current are the requests of its template; 0: not known.
	current backtest.Size
	// part of all usage that has been read with it, 0 to 1; 0: not known.
	part float64
}

// recorded is usage that can be read as often as it is needed, one container at a time.
type recorded interface {
	// each yields every container that want accepts by the name of its series, in the same order each time. Its samples
	// are valid during the call only.
	each(ctx context.Context, want func(series string) bool, yield func(container) error) error
	// name is that of the usage, for sentences.
	name() string
}

// everything is wanted.
func everything(string) bool { return true }

// traceFile is a recorded file.
type traceFile struct {
	env  *environment
	path string
	// settings that are judged; a sweep looks at none.
	settings recommender.Settings
	bounds   usage.Most // of plausible samples, by --node
	// told: what is unusual in the file has been said.
	told bool
}

func (t *traceFile) name() string { return t.path }

func (t *traceFile) each(_ context.Context, want func(string) bool, yield func(container) error) error {
	part := 0.0
	report, err := csvfile.EachTold(t.path, func(read float64) { part = read }, func(of csvfile.Series) error {
		if !want(of.ID) {
			return nil
		}
		if dropped := of.DropImplausible(t.bounds); !t.told {
			t.env.noteDropped(of.ID, dropped)
		}
		return yield(container{Series: of.Replayed(), settings: t.settings, part: part})
	})
	if err != nil {
		return err
	}
	if odd := oddities(report); odd != "" && !t.told {
		t.env.note("%s: %d rows, %s", t.path, report.Rows, odd)
	}
	t.told = true
	return nil
}

// tooShort is the error where no container was judged.
type tooShort struct {
	of              string
	longest, warmup time.Duration
}

func (e tooShort) Error() string {
	return fmt.Sprintf("%s: no series is long enough: the longest is %s, and %s of each are its warm-up; give a shorter --warmup", e.of, e.longest, e.warmup)
}
