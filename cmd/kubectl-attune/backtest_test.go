package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender/backtest"
)

// daily returns a series with a sample every 5 minutes over some days, with a daily cycle and one spike.
func daily(series string, days int, cores, mib float64) string {
	var text strings.Builder
	began := testNow.Add(-time.Duration(days) * 24 * time.Hour)
	for i := range days * 24 * 12 {
		wave := 1 + 0.5*math.Sin(2*math.Pi*float64(i)/288)
		if i == days*24*12-100 {
			wave = 4
		}
		fmt.Fprintf(&text, "%s,%d,%.4f,%.0f\n", series, began.Add(time.Duration(i)*5*time.Minute).Unix(), cores*wave, mib*wave*(1<<20))
	}
	return text.String()
}

// backtest runs the verb without a cluster, and removes the names of the temporary files.
func (f files) backtest(args ...string) answer {
	f.t.Helper()
	got := cliTest{t: f.t}.run(append([]string{"backtest", "--trace", f.usage}, args...)...)
	got.errOut = strings.ReplaceAll(got.errOut, filepath.Dir(f.usage)+string(filepath.Separator), "")
	return got
}

func TestBacktest(t *testing.T) {
	f := newFiles(t, daily("web", 4, 0.4, 200)+daily("db", 3, 2, 3000), anyPolicy)
	for name, args := range map[string][]string{
		"backtest.txt":        {"--peers"},
		"backtest-wide.txt":   {"--peers", "-o", "wide"},
		"backtest.json":       {"--peers", "-o", "json"},
		"backtest-sweep.txt":  {"--sweep", "risk=0.1,1,10"},
		"backtest-sweep.json": {"--sweep", "risk=0.25,4", "-o", "json"},
		"backtest-one.json":   {"--warmup", "48h", "--cadence", "24h", "--policy", f.policy, "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.backtest(args...)
			assert.Equal(t, exitOK, got.code)
			assert.Empty(t, got.errOut)
			golden(t, name, got.out)
		})
	}
}

// The settings of the policy take effect: more overhead has more slack and starves less.
func TestBacktestJudgesThePolicy(t *testing.T) {
	judged := func(spec string) (decoded backtestAnswer) {
		f := newFiles(t, daily("web", 4, 0.4, 200), policyHeader+"spec: {targetRef: {kind: Deployment}, "+spec+"}\n")
		got := f.backtest("--policy", f.policy, "-o", "json")
		require.Equal(t, exitOK, got.code, got.errOut)
		require.NoError(t, json.Unmarshal([]byte(got.out), &decoded))
		return decoded
	}
	little, much := judged("cpu: {overhead: \"5\"}"), judged("cpu: {overhead: \"200\"}")
	assert.Less(t, little.CPU.FleetSlack, much.CPU.FleetSlack)
	assert.GreaterOrEqual(t, little.CPU.StarvedMinutesPerDay, much.CPU.StarvedMinutesPerDay)
	assert.Equal(t, little.Memory, much.Memory)
	assert.Nil(t, little.Peers)
}

// Budgets just below, at and above the figures of a policy. The answer is always printed.
func TestBacktestBudgets(t *testing.T) {
	f := newFiles(t, daily("web", 4, 0.4, 200)+daily("db", 3, 2, 3000), anyPolicy)
	var of backtestAnswer
	plain := f.backtest("-o", "json")
	require.NoError(t, json.Unmarshal([]byte(plain.out), &of))
	require.Positive(t, of.Memory.OOMHoursPerDay)
	at := func(x float64) string { return figure(x) }
	below := func(x float64) string { return figure(x - 1e-6) }
	for name, tc := range map[string]struct {
		args []string
		code int
		note string
	}{
		"at the figures": {[]string{
			"--max-starved-minutes-per-day", at(of.CPU.StarvedMinutesPerDay), "--max-deep-minutes-per-day", at(of.CPU.DeepMinutesPerDay),
			"--max-oom-hours-per-day", at(of.Memory.OOMHoursPerDay), "--max-resizes-per-day", at(of.ResizesPerDay),
			"--max-cpu-slack", at(of.CPU.FleetSlack), "--max-memory-slack", at(of.Memory.FleetSlack),
		}, exitOK, ""},
		"no budget": {nil, exitOK, ""},
		"one": {[]string{"--max-oom-hours-per-day", "0"}, exitFinding,
			"budget exceeded: " + at(of.Memory.OOMHoursPerDay) + " hours per container-day with memory usage above the limit; --max-oom-hours-per-day allows 0\n"},
		"three": {[]string{
			"--max-starved-minutes-per-day", below(of.CPU.StarvedMinutesPerDay), "--max-resizes-per-day", "0.1", "--max-oom-hours-per-day", "24", "--max-cpu-slack", "0.1",
		}, exitFinding,
			"budget exceeded: " + at(of.CPU.StarvedMinutesPerDay) + " minutes per container-day with CPU usage above the request; --max-starved-minutes-per-day allows " + below(of.CPU.StarvedMinutesPerDay) + "\n" +
				"budget exceeded: " + at(of.ResizesPerDay) + " resizes per container-day; --max-resizes-per-day allows 0.1\n" +
				"budget exceeded: " + at(of.CPU.FleetSlack) + " of the requested CPU is not used; --max-cpu-slack allows 0.1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.backtest(append(tc.args, "-o", "json")...)
			assert.Equal(t, tc.code, got.code)
			assert.Equal(t, tc.note, got.errOut)
			assert.Equal(t, plain.out, got.out)
		})
	}
}

// The page has the policy, the peers and the sweep in one chart, the harmed containers, and the series to draw, with
// names chosen by a user.
func TestBacktestPage(t *testing.T) {
	evil := "<b>\x1b[31m&\"'"
	f := newFiles(t, daily("web", 4, 0.4, 200)+daily("db", 3, 2, 3000)+strings.ReplaceAll(daily("EVIL", 4, 0.1, 50), "EVIL", `"`+strings.ReplaceAll(evil, `"`, `""`)+`"`), anyPolicy)
	got := f.backtest("-o", "html", "--peers", "--sweep", "risk=0.1,1,10", "--max-oom-hours-per-day", "0.01")
	assert.Equal(t, exitFinding, got.code)
	assert.Contains(t, got.errOut, "budget exceeded: ")
	for _, part := range []string{
		"<h1>Backtest of ", "vpa-nofloor", "adaptive-10", "maximum usage plus 20 %", "among the largest shortages", "Predicted and observed shortage", "budget exceeded: ",
		`&lt;b&gt;\x1b[31m&amp;&#34;&#39;`, "<title id=\"frontier-cpu-title\">", "<title id=\"series-0-memory-title\">",
	} {
		assert.Contains(t, got.out, part)
	}
	assert.NotContains(t, got.out, "<b>")
	assert.NotContains(t, got.out, "\x1b")

	small := f.backtest("-o", "html")
	assert.Equal(t, exitOK, small.code, small.errOut)
	assert.Contains(t, small.out, "maximum usage plus 20 %", "what the saving is compared with")
	assert.NotContains(t, small.out, "vpa")
	assert.NotContains(t, small.out, "Predicted and observed shortage")
	assert.Equal(t, small.out, f.backtest("-o", "html").out, "it is the same each time")
}

// The series with the most harm come first, and the typical one has the median slack.
func TestDrawnSeries(t *testing.T) {
	p := &played{tallies: []*backtest.Tally{backtest.NewTally("attune")}}
	for i, of := range []struct {
		oom     int
		starved time.Duration
		slack   float64
	}{{0, time.Minute, 0.1}, {2, 0, 0.9}, {0, time.Hour, 0.8}, {0, 0, 0.3}, {1, 0, 0.5}, {0, 0, 0.6}} {
		s := backtest.Score{Scored: 24 * time.Hour, OOMHours: of.oom}
		s.Of[0] = backtest.ResourceScore{Measured: 24 * time.Hour, Beyond: of.starved, Slack: of.slack * 86400}
		p.tallies[0].Add(s)
		p.series = append(p.series, fmt.Sprint(i))
	}
	assert.Equal(t, []int{1, 4, 2, 0}, p.byHarm())
	assert.Equal(t, 4, p.typical())
	var names []string
	for _, of := range p.chosen(p.byHarm()) {
		names = append(names, of.Series)
	}
	assert.Equal(t, []string{"1", "4", "2"}, names, "the typical one is among them")
	assert.Equal(t, "4", p.chosen(nil)[0].Series)
}

// A budget without measured usage is an error, not a success.
func TestBacktestBudgetsOfNothing(t *testing.T) {
	rows := regexp.MustCompile(`(?m),[0-9]+$`).ReplaceAllString(daily("web", 2, 0.4, 200), ",")
	got := newFiles(t, rows, anyPolicy).backtest("--max-oom-hours-per-day", "1")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "error: --max-oom-hours-per-day 1 cannot be checked: the usage has no samples of this resource; remove the flag, or use other usage\n")
}

// A trace of replicas, each too short, says that they can be pooled; pooled, they are one container.
func TestBacktestPoolsReplicas(t *testing.T) {
	var rows strings.Builder
	for i := range 30 {
		began := testNow.Add(-time.Duration(30-i) * 4 * time.Hour)
		for j := range 48 {
			fmt.Fprintf(&rows, "web-7c9d8-%05d,%d,0.2,300000000\n", i, began.Add(time.Duration(j)*5*time.Minute).Unix())
		}
	}
	f := newFiles(t, rows.String(), anyPolicy)
	assert.Equal(t, "error: samples.csv: all series are too short: 30 series seem to be replicas of web: pool them with --pool '^(web)-[^/]*(.*)$'\n", f.backtest().errOut)
	got := decoded(t, f.backtest("--pool", "^(web)-[^/]*(.*)$", "-o", "json"))
	assert.Equal(t, 1, got.Series)
	assert.InDelta(t, 4, got.ContainerDays, 0.1, "a day of five is the warm-up")
}

// Series of replicas that are long enough are judged one by one, with a note.
func TestBacktestNotesReplicas(t *testing.T) {
	var rows strings.Builder
	for i := range 4 {
		rows.WriteString(steadyCSV(fmt.Sprintf("db-%d", i), 864, 5*time.Minute, "0.2,300000000"))
	}
	f := newFiles(t, rows.String(), anyPolicy)
	assert.Equal(t, "samples.csv: 4 series seem to be replicas of db: pool them with --pool '^(db)-[^/]*(.*)$'\n", f.backtest().errOut)
	assert.Empty(t, f.backtest("--pool", "^(db)-[^/]*(.*)$").errOut)
}

// The replay names the cause where no sample is plausible, and absurd samples cost no panic.
func TestBacktestOfImplausibleSamples(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 864, 5*time.Minute, "1e308,1e308"), anyPolicy)
	got := f.backtest("--peers")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "error: samples.csv: no series has a plausible sample after the warm-up: correct the samples that were dropped\n")

	rows := steadyCSV("app", 864, 5*time.Minute, "0.2,300000000") + steadyCSV("big", 864, 5*time.Minute, "1e308,1e300")
	got = newFiles(t, rows, anyPolicy).backtest("--peers")
	assert.Equal(t, exitOK, got.code, got.errOut)
}

func TestBacktestMistakes(t *testing.T) {
	day := daily("web", 1, 0.4, 200)
	for name, tc := range map[string]struct {
		rows   string
		args   []string
		errOut string
	}{
		"too short":        {day, nil, "error: samples.csv: all series are too short: the longest is 23h55m0s, and the warm-up is 24h0m0s; use more usage, or a shorter --warmup\n"},
		"no samples":       {"", nil, "error: samples.csv: the file has no samples: add one row per sample below the header\n"},
		"a negative start": {day, []string{"--warmup", "-1h"}, "error: --warmup -1h0m0s is negative: use 0s or more, e.g. 24h\n"},
		"too often":        {day, []string{"--cadence", "1s"}, "error: --cadence 1s is too short: use 1m or more, e.g. 1h\n"},
		"a bad row":        {"web,1,x,1\n", nil, "error: samples.csv: line 2: cpu_cores"},
		"mixed series":     {"a,1,1,1\nb,1,1,1\na,2,1,1\n", nil, "error: samples.csv: line 4: series \"a\" continues after it ended at line 2: put the rows of a series next to each other"},
		"no knob":          {day, []string{"--sweep", "size=1"}, "error: invalid argument \"size=1\" for \"--sweep\" flag: \"size=1\" is not a list of risks: write e.g. risk=0.1,1,10"},
		"no risk":          {day, []string{"--sweep", "risk=1,0"}, "error: invalid argument \"risk=1,0\" for \"--sweep\" flag: risk \"0\" is not a positive number: write e.g. risk=0.1,1,10"},
		"a sweep of peers": {day, []string{"--sweep", "risk=1", "--peers"}, "error: --sweep cannot be combined with --policy or --peers, except with -o html\n"},
		"budget of a word": {day, []string{"--max-cpu-slack", "much"}, "error: invalid argument \"much\" for \"--max-cpu-slack\" flag: must be a number of 0 or more, e.g. 0.5"},
		"less than none":   {day, []string{"--max-resizes-per-day", "-1"}, "error: invalid argument \"-1\" for \"--max-resizes-per-day\" flag: must be a number of 0 or more, e.g. 0.5"},
		"a percentage":     {day, []string{"--max-cpu-slack", "50"}, "error: --max-cpu-slack 50 is above 1: slack is a fraction from 0 to 1, e.g. 0.5 for 50 %\n"},
		"a budgeted sweep": {day, []string{"--sweep", "risk=1", "--max-cpu-slack", "0.5"}, "error: --sweep cannot be combined with budgets (--max-…), except with -o html\n"},
		"no policy":        {day, []string{"--policy", "nowhere.yaml"}, "error: reading the policy: open nowhere.yaml: no such file or directory\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newFiles(t, tc.rows, anyPolicy).backtest(tc.args...)
			assert.Equal(t, exitError, got.code)
			assert.Empty(t, got.out)
			assert.True(t, strings.HasPrefix(got.errOut, tc.errOut), got.errOut)
		})
	}
	got := cliTest{t: t}.run("backtest")
	assert.Equal(t, exitError, got.code)
	assert.Equal(t, "error: no usage specified: use --trace trace.csv.gz for a file, or --from embedded or --from prometheus for the cluster\n", got.errOut)
}
