package output

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// hours returns hourly samples of CPU in cores. The last hour ends now.
func hours(values ...float64) (samples []backtest.Sample) {
	for i, value := range values {
		at := now.Add(time.Duration(i+1-len(values)) * time.Hour)
		samples = append(samples, backtest.Sample{At: at.UnixMilli(), Used: [2]float64{recommender.CPU: value, recommender.Memory: value * (1 << 30)}})
	}
	return samples
}

func TestLines(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		samples       []backtest.Sample
		unicode, text string
	}{
		{nil, "", ""},
		{hours(nan, nan), "", ""},
		{hours(0.1, 0.2, 0.4, 0.8), "▂▃▅█  hourly peaks 100m to 800m, 4h until 2026-03-02 12:00", ".,~#  hourly peaks 100m to 800m, 4h until 2026-03-02 12:00"},
		{hours(0.5, nan, 1), "▅ █  hourly peaks 500m to 1 cores, 3h until 2026-03-02 12:00", "~ #  hourly peaks 500m to 1 cores, 3h until 2026-03-02 12:00"},
		{hours(0, 0), "▁▁  hourly peaks 0m to 0m, 2h until 2026-03-02 12:00", "__  hourly peaks 0m to 0m, 2h until 2026-03-02 12:00"},
	} {
		assert.Equal(t, test.unicode, Sparkline(test.samples, recommender.CPU, now, true))
		assert.Equal(t, test.text, Sparkline(test.samples, recommender.CPU, now, false))
	}
	assert.Equal(t, "▅█  hourly peaks 512 MiB to 1 GiB, 2h until 2026-03-02 12:00", Sparkline(hours(0.5, 1), recommender.Memory, now, true))
}

// A line has a sign for the maximum of each hour, covers at most a day, and fits next to its label.
func TestADayAtMost(t *testing.T) {
	var long []float64
	for i := range 100 {
		long = append(long, 1000+float64(i))
	}
	line := Sparkline(hours(long...), recommender.Memory, now, true)
	drawn, _, _ := strings.Cut(line, "  ")
	assert.Equal(t, signs, utf8.RuneCountInString(drawn))
	assert.LessOrEqual(t, utf8.RuneCountInString("    usage  "+line), 100)
	assert.Contains(t, line, "24h until")

	twice := append(hours(0.1, 0.1), backtest.Sample{At: now.Add(-time.Minute).UnixMilli(), Used: [2]float64{0.4, 0}})
	assert.Contains(t, Sparkline(twice, recommender.CPU, now, true), "▃█  hourly peaks 100m to 400m")
	assert.Empty(t, Sparkline(hours(1), recommender.CPU, now.Add(25*time.Hour), true), "older than a day")
	assert.Empty(t, Sparkline(hours(1), recommender.CPU, now.Add(-2*time.Hour), true), "of a clock that is ahead")
}

func TestLocales(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "de_DE.UTF-8"}, true},
		{map[string]string{"LANG": "en_US.utf8"}, true},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "C.UTF-8"}, true},
		{map[string]string{"LC_CTYPE": "POSIX", "LANG": "C.UTF-8"}, false},
	} {
		assert.Equal(t, test.want, UTF8(func(name string) string { return test.env[name] }), test.env)
	}
}
