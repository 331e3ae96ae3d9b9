package output

import (
	"fmt"
	"math"
	"strings"
	"time"

	"attune.io/attune/internal/chart"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// SparklineSpan is the period of a sparkline, with one sign per hour.
const (
	SparklineSpan = signs * time.Hour
	signs         = 24
)

// Signs from the lowest to the highest, for terminals with and without Unicode.
var (
	blocks = []rune("▁▂▃▄▅▆▇█")
	ascii  = []rune("_.,-~=*#")
)

// UTF8 reports whether the locale is UTF-8. getenv reads the environment of the process.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			locale = strings.ToLower(strings.ReplaceAll(locale, "-", ""))
			return strings.Contains(locale, "utf8")
		}
	}
	return false
}

// Sparkline draws one resource over the last SparklineSpan before now. Each sign is the highest value of an hour,
// scaled from 0 to the overall maximum. The text after it has the lowest and the highest value, and the end. It
// returns an empty text without samples.
func Sparkline(samples []backtest.Sample, r recommender.Resource, now time.Time, utf8 bool) string {
	hours, until := hoursOf(samples, r, now)
	first, low, high := -1, math.NaN(), 0.0
	for i, value := range hours {
		if math.IsNaN(value) {
			continue
		}
		if first < 0 {
			first, low = i, value
		}
		low, high = min(low, value), max(high, value)
	}
	if first < 0 {
		return ""
	}
	levels := ascii
	if utf8 {
		levels = blocks
	}
	var drawn strings.Builder
	for _, value := range hours[first:] {
		switch {
		case math.IsNaN(value):
			drawn.WriteByte(' ')
		case high == 0:
			drawn.WriteRune(levels[0])
		default:
			drawn.WriteRune(levels[min(int(value/high*float64(len(levels))), len(levels)-1)])
		}
	}
	return fmt.Sprintf("%s  hourly peaks %s to %s, %dh until %s", drawn.String(), chart.Amount(r, low), chart.Amount(r, high), signs-first, until.UTC().Format("2006-01-02 15:04"))
}

// hoursOf returns the highest value of each hour, NaN without samples, and the time of the last sample.
func hoursOf(samples []backtest.Sample, r recommender.Resource, now time.Time) (hours [signs]float64, until time.Time) {
	for i := range hours {
		hours[i] = math.NaN()
	}
	from := now.Add(-SparklineSpan).UnixMilli()
	for _, s := range samples {
		// An hour excludes its start, as samples do.
		i := (s.At - from - 1) / time.Hour.Milliseconds()
		if s.At <= from || i >= signs || math.IsNaN(s.Used[r]) {
			continue
		}
		hours[i] = recommender.Highest(hours[i], s.Used[r])
		if at := time.UnixMilli(s.At); at.After(until) {
			until = at
		}
	}
	return hours, until
}
