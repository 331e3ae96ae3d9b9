package recommender_test

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

var update = flag.Bool("update", false, "write what the scenarios in testdata give as what they shall give")

// TestScenarios runs every scenario in testdata. A scenario is a block of input, a line of dashes and the expected
// trace; testdata/README.md defines the words. Read the difference before -update hides it.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScenarios(t, file) })
	}
}

func runScenarios(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	written := new(strings.Builder)
	for _, block := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
		input, want, _ := strings.Cut(block, "\n----\n")
		if strings.HasPrefix(input, "#") && !strings.Contains(input, "\n") {
			fmt.Fprintf(written, "%s\n\n", input)
			continue
		}
		name, lines, _ := strings.Cut(input, "\n")
		t.Run(name, func(t *testing.T) {
			got := play(t, lines)
			fmt.Fprintf(written, "%s\n----\n%s\n\n", input, got)
			if !*update {
				require.Empty(t, cmp.Diff(strings.TrimSpace(want), got), "want -, got +")
			}
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.TrimSpace(written.String())+"\n"), 0o600))
	}
}

// scenario is one block of input.
type scenario struct {
	input   Input
	live    Size
	history time.Duration
	ended   time.Duration
	usage   [2]*load
	walk    bool
}

// load is the usage of one resource: a constant amount, and the times with other amounts.
type load struct {
	steady float64
	other  []exception
}

type exception struct {
	amount float64
	holds  func(at time.Time) bool
}

func (l *load) at(t time.Time) float64 {
	if l == nil {
		return math.NaN()
	}
	amount := l.steady
	for _, e := range l.other {
		if e.holds(t) {
			amount = e.amount
		}
	}
	return amount
}

func play(t *testing.T, input string) string {
	s := newScenario()
	lines := bufio.NewScanner(strings.NewReader(input))
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "#") {
			s.read(t, lines.Text())
		}
	}
	s.input.Profile = NewProfile(s.steps(), s.input.Settings.QueryStep)
	return s.result()
}

// newScenario has the built-in defaults: a week of history in steps of five minutes.
func newScenario() *scenario {
	return &scenario{
		history: 7 * 24 * time.Hour,
		input: Input{
			Container: "app",
			Now:       time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC),
			Settings: Settings{
				HistoryWindow: 7 * 24 * time.Hour, QueryStep: 5 * time.Minute, MinimumDataPoints: 48,
				Of: [2]ResourceSettings{
					CPU:    {Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1, MaxChangePercent: 50, LimitsFollow: true, AllowDecrease: true},
					Memory: {Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1, MaxChangePercent: 30, LimitsFollow: true},
				},
			},
		},
	}
}

// steps end one step before now.
func (s *scenario) steps() []StepUsage {
	var steps []StepUsage
	end := s.input.Now.Add(-s.ended)
	for at := end.Add(-s.history); at.Before(end); at = at.Add(s.input.Settings.QueryStep) {
		steps = append(steps, StepUsage{
			At:       at,
			CPUCores: s.usage[CPU].at(at) / 1000, MemoryBytes: s.usage[Memory].at(at),
			CPUPeak: math.NaN(), MemoryPeak: math.NaN(),
		})
	}
	return steps
}

func (s *scenario) read(t *testing.T, line string) {
	words := strings.Fields(line)
	require.GreaterOrEqual(t, len(words), 1, line)
	switch words[0] {
	case "history":
		s.history = span(t, words[1])
	case "ended":
		s.ended = span(t, words[1])
	case "window":
		s.input.Settings.HistoryWindow = span(t, words[1])
	case "step":
		s.input.Settings.QueryStep = span(t, words[1])
	case "points":
		s.input.Settings.MinimumDataPoints = number(t, words[1])
	case "usage":
		s.readUsage(t, resource(t, words[1]), strings.Join(words[2:], " "))
	case "set":
		s.readSettings(t, resource(t, words[1]), words[2:])
	case "original":
		s.input.Original[resource(t, words[1])] = allocation(t, words[2])
		s.live[resource(t, words[1])] = allocation(t, words[2])
	case "live":
		s.live[resource(t, words[1])] = allocation(t, words[2])
	case "floor":
		s.input.Floors[resource(t, words[1])] = Floor{Amount: Amount(amount(t, words[2])), Reason: words[3]}
	case "killed":
		s.input.Killed.Amount = Amount(amount(t, words[1]))
	case "held":
		s.input.Held[resource(t, words[1])] = &Hold{Reason: Reason(words[2]), Message: strings.Join(words[3:], " ")}
	case "walk":
		s.walk = true
	default:
		t.Fatalf("unknown word in %q", line)
	}
}

// readUsage reads "200m; 400m from 14:00 to 15:00; 1600m once at 03:05; unmeasured after 40h".
func (s *scenario) readUsage(t *testing.T, r Resource, text string) {
	start := s.input.Now.Add(-s.ended - s.history)
	parts := strings.Split(text, ";")
	l := &load{steady: amount(t, strings.TrimSpace(parts[0]))}
	for _, part := range parts[1:] {
		words := strings.Fields(part)
		e := exception{amount: amount(t, words[0])}
		switch words[1] {
		case "from":
			from, to := clock(t, words[2]), clock(t, words[4])
			e.holds = func(at time.Time) bool { return sinceMidnight(at) >= from && sinceMidnight(at) < to }
		case "once":
			when := start.Add(span(t, words[3]))
			e.holds = func(at time.Time) bool { return at.Equal(when) }
		case "after":
			when := start.Add(span(t, words[2]))
			e.holds = func(at time.Time) bool { return !at.Before(when) }
		default:
			t.Fatalf("unknown time in %q", part)
		}
		l.other = append(l.other, e)
	}
	s.usage[r] = l
}

func (s *scenario) readSettings(t *testing.T, r Resource, words []string) {
	of := &s.input.Settings.Of[r]
	for i := 0; i+1 < len(words); i += 2 {
		switch value := words[i+1]; words[i] {
		case "percentile":
			of.Percentile = number(t, value)
		case "overhead":
			of.OverheadPercent = decimal(t, value)
		case "burst":
			of.BurstSensitivity = decimal(t, value)
		case "min":
			of.MinAllowed = Amount(amount(t, value))
		case "max":
			of.MaxAllowed = Amount(amount(t, value))
		case "change":
			of.MaxChangePercent = number(t, value)
		case "limits":
			of.LimitsFollow = value == "follow"
		case "decrease":
			of.AllowDecrease = value == "allowed"
		default:
			t.Fatalf("unknown setting %q", words[i])
		}
	}
}

func (s *scenario) result() string {
	out := new(strings.Builder)
	r := Recommend(s.input)
	fmt.Fprintf(out, "confidence %s, %d steps\n", strconv.FormatFloat(math.Round(r.Confidence*1000)/1000, 'f', -1, 64), r.DataPoints)
	move := Move{
		Container: r.Container, Target: applicable(r), CPULimitFloor: r.CPULimitFloor, MemoryLimitFloor: r.MemoryLimitFloor,
		OOMFloor: max(s.input.Floors[Memory].Amount, s.input.Killed.Amount),
		Live:     s.live, Original: s.input.Original, Settings: s.input.Settings,
	}
	change := NextStep(move)
	for _, of := range Resources {
		s.show(out, of, r, change)
	}
	if s.walk {
		showWalk(out, move)
	}
	return strings.TrimSpace(out.String())
}

func (s *scenario) show(out *strings.Builder, of Resource, r Recommendation, change Change) {
	for _, step := range append(r.Steps, change.Steps...) {
		if step.Resource == of {
			fmt.Fprintf(out, "%-6s %-10s %7s → %-7s %s\n", of, step.Name, Format(of, step.Before), Format(of, step.After), step.Reason)
		}
	}
	for _, hold := range append(r.Holds, change.Holds...) {
		if hold.Resource == of {
			fmt.Fprintf(out, "%-6s hold %s: %s\n", of, hold.Reason, hold.Message)
		}
	}
	if s.live[of] != (Allocation{}) || r.Target[of] != (Allocation{}) {
		fmt.Fprintf(out, "%-6s live %s, target %s, next %s\n", of, size(of, s.live[of]), size(of, r.Target[of]), size(of, change.Next[of]))
	}
}

func showWalk(out *strings.Builder, move Move) {
	for _, of := range Resources {
		if move.Live[of] == (Allocation{}) {
			continue
		}
		fmt.Fprintf(out, "%-6s walk %s\n", of, strings.Join(walk(move, of), ", "))
	}
}

// walk repeats the change until nothing changes.
func walk(move Move, of Resource) []string {
	path := []string{size(of, move.Live[of])}
	for range 1000 {
		next := NextStep(move).Next
		if next == move.Live {
			return path
		}
		if next[of] != move.Live[of] {
			path = append(path, size(of, next[of]))
		}
		move.Live = next
	}
	return append(path, "never settles")
}

func size(r Resource, a Allocation) string {
	text := "none"
	if a.Request > 0 {
		text = Format(r, a.Request)
	}
	if a.Limit > 0 {
		text += "/" + Format(r, a.Limit)
	}
	return text
}

func resource(t *testing.T, word string) Resource {
	for _, r := range Resources {
		if r.String() == word {
			return r
		}
	}
	t.Fatalf("%q is no resource", word)
	return CPU
}

// amount parses 200m, 2 (cores), 512Mi, or "unmeasured".
func amount(t *testing.T, word string) float64 {
	if word == "unmeasured" {
		return math.NaN()
	}
	for suffix, factor := range map[string]float64{"m": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if digits, ok := strings.CutSuffix(word, suffix); ok {
			return decimal(t, digits) * factor
		}
	}
	return decimal(t, word) * 1000
}

// allocation parses request/limit; a missing part is not set.
func allocation(t *testing.T, word string) Allocation {
	request, limit, _ := strings.Cut(word, "/")
	var a Allocation
	if request != "" {
		a.Request = Amount(amount(t, request))
	}
	if limit != "" {
		a.Limit = Amount(amount(t, limit))
	}
	return a
}

func span(t *testing.T, word string) time.Duration {
	if days, ok := strings.CutSuffix(word, "d"); ok {
		return time.Duration(decimal(t, days) * float64(24*time.Hour))
	}
	d, err := time.ParseDuration(word)
	require.NoError(t, err)
	return d
}

func clock(t *testing.T, word string) time.Duration {
	at, err := time.Parse("15:04", word)
	require.NoError(t, err)
	return sinceMidnight(at)
}

func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

func number(t *testing.T, word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	return n
}

func decimal(t *testing.T, word string) float64 {
	x, err := strconv.ParseFloat(word, 64)
	require.NoError(t, err)
	return x
}
