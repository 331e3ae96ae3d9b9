package backtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
)

var nan = math.NaN()

// noon is a whole hour.
const noon = int64(1_700_000_000_000) / (24 * 60 * 60 * 1000) * (24 * 60 * 60 * 1000)

// every makes a series with a sample a minute from noon on.
func every(n int, used func(i int) (cores, bytes float64)) Series {
	s := Series{ID: "web"}
	for i := range n {
		cores, bytes := used(i)
		s.Samples = append(s.Samples, Sample{At: noon + int64(i+1)*minute, Used: [2]float64{cores, bytes}})
	}
	return s
}

// scripted wants the sizes of its script, in the order of its decisions, and records its calls.
type scripted struct {
	wants  []Size
	again  bool
	asked  []int64
	seen   []int64
	killed []float64
}

func (s *scripted) Observe(sample Sample, _ Size) { s.seen = append(s.seen, sample.At) }
func (s *scripted) OOM(_ int64, limit float64) bool {
	s.killed = append(s.killed, limit)
	return s.again
}
func (s *scripted) Decide(at int64) Size {
	s.asked = append(s.asked, at)
	return s.wants[min(len(s.asked), len(s.wants))-1]
}

func replayed(series Series, s *scripted, rules Rules) Score {
	return Replay(series, Strategy{Name: "scripted", New: func(Series) Algorithm { return s }}, rules)
}

// hourly decisions, the first an hour after noon.
var hourly = Rules{Warmup: 59 * time.Minute, Cadence: time.Hour}

// A clock was wrong once: the first sample is from 1970, or one in the middle from the year 5000.
func TestAGapCostsABoundedNumberOfDecisions(t *testing.T) {
	day := every(60*24, func(int) (float64, float64) { return 0.5, 50 }).Samples
	minutely := Rules{Warmup: time.Hour, Cadence: time.Minute}
	for name, tc := range map[string]struct {
		samples []Sample
		asked   int
	}{
		"no gap":           {day, 60*23 - 1},
		"1970":             {append([]Sample{{At: minute}}, day...), mostInGap + 60*24 - 1},
		"a gap of 999":     {[]Sample{{At: noon}, {At: noon + 60*minute + 999*minute}}, 999},
		"a gap of 1001":    {[]Sample{{At: noon}, {At: noon + 60*minute + 1001*minute}}, mostInGap},
		"hours apart":      {[]Sample{{At: noon}, {At: noon + 3*hour}, {At: noon + 6*hour}}, 5 * 60},
		"in the year 5000": {append(slices.Clone(day), Sample{At: 95e12}), 60*23 - 1 + mostInGap},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{wants: []Size{{1, 100}}}
			replayed(Series{Samples: tc.samples}, s, minutely)
			assert.Len(t, s.asked, tc.asked)
			assert.True(t, slices.IsSorted(s.asked))
			last := tc.samples[len(tc.samples)-1].At
			assert.Equal(t, above(last, minute)-minute, s.asked[len(s.asked)-1], "the last decision before a sample is made")
		})
	}
}

// Two hours after one of warm-up: half of 1 core is used, then 1.5 of it, and memory exceeds its limit in one hour.
func TestReplay(t *testing.T) {
	series := every(180, func(i int) (float64, float64) {
		switch {
		case i < 120:
			return 0.5, 50
		case i < 150:
			return 1.5, 120
		}
		return 3, nan
	})
	s := &scripted{wants: []Size{{1, 100}}}
	score := replayed(series, s, hourly)
	assert.Equal(t, []int64{noon + hour, noon + 2*hour}, s.asked, "a sample of a whole hour belongs to the hour that ends with it")
	assert.Equal(t, 2*time.Hour, score.Scored)
	assert.Equal(t, ResourceScore{
		Measured: 2 * time.Hour, Requested: 7200, Used: 3600*0.5 + 3600, Slack: 3600 * 0.5, Beyond: time.Hour,
	}, score.Of[recommender.CPU])
	assert.Equal(t, 30*time.Minute, score.Deep)
	assert.Equal(t, ResourceScore{
		Measured: 90 * time.Minute, Requested: 540000, Used: 3600*50 + 1800*100, Slack: 3600 * 0.5, Beyond: 30 * time.Minute,
	}, score.Of[recommender.Memory])
	assert.Equal(t, 1, score.OOMHours, "an hour counts once")
	assert.Len(t, s.killed, 30)
	assert.Zero(t, score.Resizes)
}

func TestTheDeadBand(t *testing.T) {
	series := every(60*9, func(int) (float64, float64) { return 0.5, 50 })
	wants := []Size{{1, 100}, {1.1, 90}, {1.11, 100}, {1.11, 89}, {nan, 120}, {0, nan}, {nan, nan}, {2, 500}}
	for name, tc := range map[string]struct {
		exact   bool
		resizes int
	}{"of 10 %": {false, 5}, "none": {true, 6}} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{wants: wants}
			score := Replay(series, Strategy{New: func(Series) Algorithm { return s }, Exact: tc.exact}, hourly)
			assert.Len(t, s.asked, len(wants))
			assert.Equal(t, tc.resizes, score.Resizes)
		})
	}
}

func TestAnOOMKillMayBeAnsweredAtOnce(t *testing.T) {
	series := every(120, func(i int) (float64, float64) { return 0.1, float64(100 + i) })
	s := &scripted{wants: []Size{{1, 170}, {1, 1000}}, again: true}
	score := replayed(series, s, hourly)
	assert.Equal(t, []float64{170}, s.killed)
	assert.Equal(t, []int64{noon + hour, noon + 72*minute}, s.asked)
	assert.Equal(t, 1, score.Resizes)
	assert.Equal(t, 1, score.OOMHours)
}

func TestWhatIsNotScored(t *testing.T) {
	short := every(60, func(int) (float64, float64) { return 1, 1 })
	assert.Zero(t, replayed(short, &scripted{wants: []Size{{1, 1}}}, hourly).Scored, "the warm-up alone")
	assert.Zero(t, Replay(Series{}, Peers()[0], hourly))
	unmeasured := every(180, func(int) (float64, float64) { return nan, nan })
	tally := NewTally("x")
	tally.Add(replayed(unmeasured, &scripted{wants: []Size{{1, 1}}}, hourly))
	assert.Equal(t, Report{Name: "x"}, tally.Report())
}

// Fleet slack is a part of all requests, the median is over the containers.
func TestReports(t *testing.T) {
	tally := NewTally("x")
	for _, of := range []struct{ request, used float64 }{{10, 1}, {1, 0.5}, {1, 0.75}} {
		series := every(60*25, func(int) (float64, float64) { return of.used, nan })
		tally.Add(replayed(series, &scripted{wants: []Size{{of.request, nan}}}, hourly))
	}
	report := tally.Report()
	assert.Equal(t, 3, report.Series)
	assert.InDelta(t, 3, report.ContainerDays, 1e-9)
	assert.InDelta(t, 1-2.25/12, report.Of[recommender.CPU].FleetSlack, 1e-9)
	assert.InDelta(t, 0.5, report.Of[recommender.CPU].MedianSlack, 1e-9)
	assert.Equal(t, ResourceReport{}, report.Of[recommender.Memory])
}

// random usage with bursts, gaps and growth.
func random(rng *rand.Rand, n int) Series {
	base, memory := rng.Float64()*2, 50e6*(1+rng.Float64())
	return every(n, func(int) (float64, float64) {
		cores := base * rng.Float64()
		if rng.IntN(200) == 0 {
			cores *= 5
		}
		memory *= 1 + (rng.Float64()-0.49)/100
		if rng.IntN(50) == 0 {
			return nan, memory
		}
		return cores, memory
	})
}

func settings() recommender.Settings {
	return Alone(recommender.Settings{
		HistoryWindow: 36 * time.Hour, QueryStep: 5 * time.Minute,
		Of: [2]recommender.ResourceSettings{{Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1}, {Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1}},
	})
}

func strategies() []Strategy {
	return append(Peers(), Shipped("attune", settings()), Adaptive(1, settings()))
}

// Later samples do not change earlier decisions, except for the oracles. The same input has the same score.
func TestNoStrategyLooksAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		series := random(rng, 60*60)
		cut := len(series.Samples) * 2 / 3
		other := Series{ID: series.ID, Samples: slices.Clone(series.Samples)}
		for i := cut; i < len(other.Samples); i++ {
			other.Samples[i].Used = [2]float64{9, 900e6}
		}
		for _, s := range strategies() {
			if s.Name == "oracle-static" || s.Name == "oracle-1h" {
				continue
			}
			a, b := decisions(series, s, cut), decisions(other, s, cut)
			require.NotEmpty(t, a, s.Name)
			assert.Equal(t, a, b, s.Name)
			assert.Equal(t, Replay(series, s, hourly), Replay(series, s, hourly), s.Name)
		}
	}
}

// spy records the decisions of an algorithm.
type spy struct {
	Algorithm
	made []Size
}

func (s *spy) Decide(at int64) Size {
	size := s.Algorithm.Decide(at)
	for r := range size {
		if size[r] != size[r] {
			size[r] = -1 // NaN is not equal to itself
		}
	}
	s.made = append(s.made, size)
	return size
}

// decisions until a sample.
func decisions(series Series, s Strategy, until int) []Size {
	var of *spy
	short := Series{ID: series.ID, Samples: series.Samples[:until]}
	Replay(short, Strategy{New: func(Series) Algorithm {
		of = &spy{Algorithm: s.New(series)}
		return of
	}}, hourly)
	return of.made
}

// Both oracles have no CPU shortage, and the one that may change its size each hour has less slack.
func TestOracles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	scores := map[string]Score{}
	series := random(rng, 60*48)
	for _, s := range Peers() {
		scores[s.Name] = Replay(series, s, hourly)
	}
	for _, name := range []string{"oracle-static", "oracle-1h"} {
		assert.Zero(t, scores[name].Of[recommender.CPU].Beyond, name)
		assert.Zero(t, scores[name].OOMHours, name)
	}
	assert.Zero(t, scores["oracle-static"].Resizes)
	assert.Less(t, scores["oracle-1h"].Of[recommender.CPU].Slack, scores["oracle-static"].Of[recommender.CPU].Slack)
	assert.LessOrEqual(t, scores["oracle-static"].Of[recommender.Memory].Slack, scores["static-max1.2"].Of[recommender.Memory].Slack)
}

// Steps as old as the window are not used.
func TestTheChainsWindowHasAnEnd(t *testing.T) {
	c := newChain(Series{}, settings())
	at := time.UnixMilli(noon).UTC()
	for i := range 1000 {
		c.add(recommender.SingleStep(at.Add(time.Duration(i)*5*time.Minute), 1, 1))
	}
	assert.Len(t, c.steps, 36*12)
	assert.Equal(t, at.Add((1000-36*12)*5*time.Minute), c.steps[0].At)
}

// In a replay the chain gives the same result as the shipped function for the same steps.
func TestTheChainIsTheShippedOne(t *testing.T) {
	adaptiveSettings := settings()
	adaptiveSettings.Adaptive.Risk = 1
	for _, settings := range []recommender.Settings{settings(), adaptiveSettings} {
		theChainIsTheShippedOne(t, settings)
	}
}

func theChainIsTheShippedOne(t *testing.T, settings recommender.Settings) {
	series := random(rand.New(rand.NewPCG(7, 8)), 60*30)
	c := newChain(series, settings)
	var steps []recommender.StepUsage
	for from := 0; from < len(series.Samples); from += 5 {
		step := recommender.StepUsage{At: time.UnixMilli(series.Samples[from+4].At).UTC(), MemoryBytes: nan, CPUPeak: nan, MemoryPeak: nan}
		n := 0.0
		for _, s := range series.Samples[from : from+5] {
			if s.Used[0] == s.Used[0] {
				step.CPUCores += s.Used[0]
				n++
			}
			step.CPUPeak, step.MemoryBytes = recommender.Highest(step.CPUPeak, s.Used[0]), recommender.Highest(step.MemoryBytes, s.Used[1])
		}
		step.CPUCores = min(step.CPUCores/n, step.CPUPeak)
		steps = append(steps, step)
	}
	for _, s := range series.Samples {
		c.Observe(s, Size{})
	}
	last := series.Samples[len(series.Samples)-1].At
	got := c.Decide(last)
	want := recommender.Recommend(recommender.Input{Profile: recommender.NewProfile(steps, 5*time.Minute), Settings: settings, Now: time.UnixMilli(last), Estimates: adaptive.Of(steps, settings)}).Target
	assert.Equal(t, float64(want[recommender.CPU].Request)/1000, got[recommender.CPU])
	assert.Equal(t, float64(want[recommender.Memory].Request), got[recommender.Memory])

	assert.True(t, c.OOM(last, 4e9))
	assert.InDelta(t, 1.3*4e9, c.Decide(last)[recommender.Memory], 1<<20, "the floor of an OOM kill")
}
