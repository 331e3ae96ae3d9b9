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

// SparklineSpan is how much is drawn: a sign for each hour.
const (
	SparklineSpan = signs * time.Hour
	signs         = 24
)

// Signs from the lowest to the highest. Those of terminals that do not show Unicode are of ASCII.
var (
	blocks = []rune("▁▂▃▄▅▆▇█")
	ascii  = []rune("_.,-~=*#")
)

// UTF8 reports whether a locale's characters are those of Unicode. getenv is that of the process.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			locale = strings.ToLower(strings.ReplaceAll(locale, "-", ""))
			return strings.Contains(locale, "utf8")
		}
	}
	return false
}

// Sparkline draws the last SparklineSpan of one resource up to now, each hour by its highest value from 0 to the highest of all, and tells
// the lowest and the highest of these and the end. Empty: nothing was measured.
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
	return fmt.Sprintf("%s  %s to %s by the hour, %dh until %s", drawn.String(), chart.Amount(r, low), chart.Amount(r, high), signs-first, until.UTC().Format("2006-01-02 15:04"))
}

// hoursOf are the highest values of each hour, NaN where nothing was measured, and the time of the last of them.
func hoursOf(samples []backtest.Sample, r recommender.Resource, now time.Time) (hours [signs]float64, until time.Time) {
	for i := range hours {
		hours[i] = math.NaN()
	}
	from := now.Add(-SparklineSpan).UnixMilli()
	for _, s := range samples {
		// An hour excludes its beginning, as steps do.
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
