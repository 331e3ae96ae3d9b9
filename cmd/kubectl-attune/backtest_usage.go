package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
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

// period is the value of a flag with a duration that may be in days, such as 14d.
type period struct {
	time.Duration
	set bool
}

// String implements pflag.Value.
func (p *period) String() string {
	if p.Duration%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(p.Duration/(24*time.Hour)), 10) + "d"
	}
	return p.Duration.String()
}

// Type implements pflag.Value.
func (p *period) Type() string { return "duration" }

// mostPeriod is as much as the longest history window.
const mostPeriod = 90 * 24 * time.Hour

// Set implements pflag.Value.
func (p *period) Set(value string) error {
	text, inDays := strings.CutSuffix(value, "d")
	var of time.Duration
	var err error
	if inDays {
		var days float64
		days, err = strconv.ParseFloat(text, 64)
		of = time.Duration(min(max(days, 0), 1000) * float64(24*time.Hour))
	} else {
		of, err = time.ParseDuration(value)
	}
	if err != nil || of <= 0 || of > mostPeriod {
		return errors.New("write a time of up to 90d, e.g. 14d or 36h")
	}
	*p = period{of, true}
	return nil
}

// tooShort is the error where no container was judged.
func tooShort(of recorded, longest, warmup time.Duration) error {
	return fmt.Errorf("%s: no series is long enough: the longest is %s, and %s of each are its warm-up; give a shorter --warmup", of.name(), longest, warmup)
}
