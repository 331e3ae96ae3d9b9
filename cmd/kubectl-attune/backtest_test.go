package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// daily is a series of a sample each 5 minutes over some days, with a cycle of a day and one spike.
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

// backtest runs the verb without a cluster; the names of the temporary files are cut off.
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

// What the policy says counts: more overhead has more slack and starves less.
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

func TestBacktestMistakes(t *testing.T) {
	day := daily("web", 1, 0.4, 200)
	for name, tc := range map[string]struct {
		rows   string
		args   []string
		errOut string
	}{
		"too short":        {day, nil, "error: samples.csv: no series is long enough: the longest is 23h55m0s, and 24h0m0s of each are its warm-up; give a shorter --warmup\n"},
		"no samples":       {"", nil, "error: samples.csv: no series is long enough: the longest is 0s, and 24h0m0s of each are its warm-up; give a shorter --warmup\n"},
		"a negative start": {day, []string{"--warmup", "-1h"}, "error: --warmup -1h0m0s is negative: give 0s or more, e.g. 24h\n"},
		"too often":        {day, []string{"--cadence", "1s"}, "error: --cadence 1s is too short: give 1m or more, e.g. 1h\n"},
		"a bad row":        {"web,1,x,1\n", nil, "error: samples.csv: line 2: cpu_cores"},
		"mixed series":     {"a,1,1,1\nb,1,1,1\na,2,1,1\n", nil, "error: samples.csv: line 4: series \"a\" goes on after it ended at line 2: put the rows of a series next to each other"},
		"no knob":          {day, []string{"--sweep", "size=1"}, "error: invalid argument \"size=1\" for \"--sweep\" flag: \"size=1\" names no knob that can be swept: write e.g. risk=0.1,1,10"},
		"no risk":          {day, []string{"--sweep", "risk=1,0"}, "error: invalid argument \"risk=1,0\" for \"--sweep\" flag: risk \"0\" is not a positive number: write e.g. risk=0.1,1,10"},
		"a sweep of peers": {day, []string{"--sweep", "risk=1", "--peers"}, "error: --sweep judges the estimator alone: leave --policy and --peers out\n"},
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
	assert.Equal(t, "error: which trace? give a file with --trace trace.csv.gz\n", got.errOut)
}
