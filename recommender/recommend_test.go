package recommender_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const mi = 1 << 20

// builtIn are the settings of a policy that sets nothing.
func builtIn() Settings { return newScenario().input.Settings }

// flat is a history of n steps of five minutes that ends at now.
func flat(n int, cpuCores, memoryBytes float64) []StepUsage {
	steps := make([]StepUsage, n)
	for i := range steps {
		steps[i] = StepUsage{
			At: now.Add(time.Duration(i-n) * 5 * time.Minute), CPUCores: cpuCores, MemoryBytes: memoryBytes,
			CPUPeak: math.NaN(), MemoryPeak: math.NaN(),
		}
	}
	return steps
}

func input(steps []StepUsage) Input {
	return Input{Container: "app", Profile: NewProfile(steps, 5*time.Minute), Settings: builtIn(), Now: now}
}

func TestRecommendNamesEveryRuleInOrder(t *testing.T) {
	r := Recommend(input(flat(2016, 0.2, 512*mi)))
	var names []string
	for _, step := range r.Steps {
		names = append(names, step.Resource.String()+" "+step.Name)
		assert.NotEmpty(t, step.Reason, step.Name)
	}
	assert.Equal(t, []string{
		"cpu percentile", "cpu margin", "cpu burst", "cpu confidence", "cpu floor", "cpu bounds",
		"memory percentile", "memory margin", "memory burst", "memory confidence", "memory floor", "memory bounds",
	}, names)
}

func TestRecommendStepsAreAChain(t *testing.T) {
	r := Recommend(input(flat(500, 0.2, 512*mi)))
	last := map[Resource]Amount{}
	for _, step := range r.Steps {
		assert.Equal(t, last[step.Resource], step.Before, "%s %s begins where the rule before it ended", step.Resource, step.Name)
		last[step.Resource] = step.After
	}
	for _, resource := range Resources {
		assert.Equal(t, r.Target[resource].Request, last[resource], "the target is what the last rule left")
	}
}

func TestTargetIsRecommendWithoutSteps(t *testing.T) {
	in := input(flat(100, 0.2, 512*mi))
	in.Held[CPU] = &Hold{Reason: "HPA", Message: "scales on cpu"}
	want := Recommend(in)
	require.NotEmpty(t, want.Steps)
	want.Steps = nil
	assert.Equal(t, want, Target(in))
}

func TestRecommendCountsTheLesserEvidence(t *testing.T) {
	steps := flat(2016, 0.2, 512*mi)
	for i := range steps[:1008] {
		steps[i].MemoryBytes = math.NaN()
	}
	r := Recommend(input(steps))
	assert.Equal(t, 1008, r.DataPoints)
	assert.InDelta(t, 0.5, r.Confidence, 1e-9)

	for i := range steps[:1512] {
		steps[i].CPUCores, steps[i].MemoryBytes = math.NaN(), 512*mi
	}
	r = Recommend(input(steps))
	assert.Equal(t, 504, r.DataPoints)
	assert.InDelta(t, 0.25, r.Confidence, 1e-9)

	r = Recommend(input(flat(2016, 0.2, math.NaN())))
	assert.Equal(t, 2016, r.DataPoints, "a resource that was never measured does not count")
	assert.InDelta(t, 1, r.Confidence, 1e-9)
}

func TestMemoryLimitFloor(t *testing.T) {
	const killed = Amount(2000 * mi)
	learned := [2]Floor{Memory: {Amount: killed, Reason: "oomkill"}}
	long, short := flat(2016, 0.2, 1000*mi), flat(20, 0.2, 1000*mi)
	for name, c := range map[string]struct {
		steps  []StepUsage
		floors [2]Floor
		late   time.Duration
		want   Amount
	}{
		"1.1 times the peak":                     {steps: long, want: 1100 * mi},
		"a learned floor above it":               {steps: long, floors: learned, want: killed},
		"no peak of too short a history":         {steps: short, want: 0},
		"a learned floor, however short":         {steps: short, floors: learned, want: killed},
		"no peak of a stale history":             {steps: long, late: time.Hour, want: 0},
		"a learned floor, however stale":         {steps: long, late: time.Hour, floors: learned, want: killed},
		"nothing measured and nothing learned":   {want: 0},
		"nothing measured, but something taught": {floors: learned, want: killed},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.steps)
			in.Floors, in.Now = c.floors, now.Add(c.late)
			assert.Equal(t, c.want, Recommend(in).MemoryLimitFloor)
		})
	}
}

func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		steps  []StepUsage
		change func(*Input)
		want   []Reason
		target bool
	}{
		"enough":                          {steps: flat(48, 0.2, mi), target: true},
		"one step too few":                {steps: flat(47, 0.2, mi), want: []Reason{InsufficientData}},
		"nothing":                         {want: []Reason{NoData}},
		"minimum of zero still needs one": {change: func(in *Input) { in.Settings.MinimumDataPoints = 0 }, want: []Reason{NoData}},
		"just not stale": {
			steps: flat(100, 0.2, mi), change: func(in *Input) { in.Now = now.Add(15 * time.Minute) }, target: true,
		},
		"just stale": {
			steps: flat(100, 0.2, mi), change: func(in *Input) { in.Now = now.Add(15*time.Minute + 1) },
			want: []Reason{StaleData}, target: true,
		},
		"short and stale is short": {
			steps: flat(10, 0.2, mi), change: func(in *Input) { in.Now = now.Add(time.Hour) }, want: []Reason{InsufficientData},
		},
		"held by the caller": {
			steps: flat(100, 0.2, mi), change: func(in *Input) { in.Held[CPU] = &Hold{Reason: "VPA", Message: "owned by a VPA"} },
			want: []Reason{"VPA"}, target: true,
		},
		"too short, and held": {
			steps: flat(10, 0.2, mi), change: func(in *Input) { in.Held[CPU] = &Hold{Reason: "HPA", Resource: Memory} },
			want: []Reason{InsufficientData, "HPA"},
		},
		"throttled above the maximum": {
			steps: flat(100, 0.2, mi),
			change: func(in *Input) {
				in.Floors[CPU] = Floor{Amount: 501, Reason: "throttle"}
				in.Settings.Of[CPU].MaxAllowed = 500
			},
			want: []Reason{FloorAboveMaximum}, target: true,
		},
		"throttled at the maximum": {
			steps: flat(100, 0.2, mi),
			change: func(in *Input) {
				in.Floors[CPU] = Floor{Amount: 500, Reason: "throttle"}
				in.Settings.Of[CPU].MaxAllowed = 500
			},
			target: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.steps)
			if c.change != nil {
				c.change(&in)
			}
			r := Recommend(in)
			var got []Reason
			for _, hold := range r.Holds {
				if hold.Resource == CPU {
					got = append(got, hold.Reason)
				}
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.target, r.Target[CPU].Request > 0, "target %v", r.Target[CPU])
			if len(c.want) > 0 {
				assert.Zero(t, applicable(r)[CPU], "a held resource is not applied")
			} else {
				assert.Equal(t, r.Target[CPU], applicable(r)[CPU])
			}
		})
	}
}

// A maximum below the peak is the user's choice while the limit stays above the peak. If request and limit are equal,
// the maximum would cause OOM kills.
func TestPeakAboveMaximum(t *testing.T) {
	in := input(flat(2016, 0.2, 1000*mi))
	in.Settings.Of[Memory].MaxAllowed = 900 * mi
	in.Original[Memory] = Allocation{Request: 600 * mi, Limit: 1200 * mi}

	r := Recommend(in)
	assert.Empty(t, r.Holds)
	assert.Equal(t, Allocation{Request: 900 * mi, Limit: 1200 * mi}, r.Target[Memory], "the limit is not raised above maxAllowed")

	in.Original[Memory] = Allocation{Request: 600 * mi, Limit: 700 * mi}
	assert.Equal(t, Allocation{Request: 900 * mi, Limit: 901 * mi}, Recommend(in).Target[Memory], "not even to 1.1 times the peak")

	in.Original[Memory] = Allocation{Request: 1200 * mi, Limit: 1200 * mi}
	r = Recommend(in)
	require.Len(t, r.Holds, 1)
	assert.Equal(t, FloorAboveMaximum, r.Holds[0].Reason)
	assert.Equal(t, Allocation{Request: 900 * mi, Limit: 900 * mi}, r.Target[Memory], "shown, but held")
}

func TestTargetLimits(t *testing.T) {
	steps := flat(2016, 0.2, 1000*mi) // 240m and 1300Mi
	for name, c := range map[string]struct {
		original Size
		follow   bool
		want     Size
	}{
		"the ratio is kept": {
			Size{{Request: 500, Limit: 1000}, {Request: 800 * mi, Limit: 1200 * mi}}, true,
			Size{{Request: 240, Limit: 480}, {Request: 1300 * mi, Limit: 1950 * mi}},
		},
		"no limits, none added": {
			Size{{Request: 500}, {Request: 400 * mi}}, true,
			Size{{Request: 240}, {Request: 1300 * mi}},
		},
		"equal ones stay equal": {
			Size{{Request: 500, Limit: 500}, {Request: 800 * mi, Limit: 800 * mi}}, true,
			Size{{Request: 240, Limit: 240}, {Request: 1300 * mi, Limit: 1300 * mi}},
		},
		"a limit without a request counts as both": {
			Size{{Limit: 500}, {Limit: 800 * mi}}, true,
			Size{{Request: 240, Limit: 240}, {Request: 1300 * mi, Limit: 1300 * mi}},
		},
		"limits left alone bound the request": {
			Size{{Request: 100, Limit: 200}, {Request: 400 * mi, Limit: 2000 * mi}}, false,
			Size{{Request: 200, Limit: 200}, {Request: 1300 * mi, Limit: 2000 * mi}},
		},
		"nothing known": {Size{}, true, Size{{Request: 240}, {Request: 1300 * mi}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(steps)
			in.Original = c.original
			in.Settings.Of[CPU].LimitsFollow, in.Settings.Of[Memory].LimitsFollow = c.follow, c.follow
			assert.Equal(t, c.want, Recommend(in).Target)
		})
	}
}

// With little headroom the limit's own floor, 1.1 times the peak, decides.
func TestLimitFloorDecides(t *testing.T) {
	in := input(flat(2016, 0.2, 1000*mi))
	in.Settings.Of[Memory].OverheadPercent = 5

	in.Original[Memory] = Allocation{Request: 900 * mi, Limit: 901 * mi}
	assert.Equal(t, Allocation{Request: 1050 * mi, Limit: 1100 * mi}, Recommend(in).Target[Memory])

	in.Original[Memory] = Allocation{Request: 900 * mi, Limit: 900 * mi}
	assert.Equal(t, Allocation{Request: 1100 * mi, Limit: 1100 * mi}, Recommend(in).Target[Memory])

	in.Settings.Of[Memory].LimitsFollow = false
	in.Original[Memory] = Allocation{Request: 500 * mi, Limit: 1060 * mi}
	assert.Equal(t, Allocation{Request: 1050 * mi, Limit: 1060 * mi}, Recommend(in).Target[Memory], "a limit that is left alone has no floor")
}

// applicable is the target without held resources: the part that may be applied.
func applicable(r Recommendation) Size {
	target := r.Target
	for _, hold := range r.Holds {
		target[hold.Resource] = Allocation{}
	}
	return target
}

// TestBlocksNameTheirCause: a resource most of whose samples were dropped is blocked, with the cause and the fix.
func TestBlocksNameTheirCause(t *testing.T) {
	const lifted = ". Lifted when half of a day's samples are plausible: "
	for name, c := range map[string]struct {
		resource    Resource
		steps       int
		implausible Implausible
		want        Hold // the zero value: no hold
	}{
		"above every node": {
			CPU, 100, Implausible{Dropped: 139, Of: 277, Highest: 1_602_000, Most: 96_000},
			Hold{Reason: UsageImplausible, Message: "50 % of the cpu samples of the last day were dropped, up to 1602 cores: no container can use more than 96 cores" + lifted + "fix the usage source, or set a larger node (nodes.largest, --node)"},
		},
		"above its node": {
			Memory, 100, Implausible{Dropped: 277, Of: 277, Highest: 9500 * mi, Most: 8192 * mi, Bound: OfNode},
			Hold{Reason: UsageImplausible, Message: "100 % of the memory samples of the last day were dropped, up to 9500Mi: on its node, no container can use more than 8Gi" + lifted + "fix the usage source. If the node has grown, restart its kubelet"},
		},
		"above its limit": {
			CPU, 100, Implausible{Dropped: 277, Of: 277, Highest: 20_000, Most: 3000, Bound: OfLimit},
			Hold{Reason: UsageImplausible, Message: "100 % of the cpu samples of the last day were dropped, up to 20 cores: the limit of the container allows no more than 3 cores" + lifted + "fix the usage source. If the node enforces no CPU limits, remove the limit"},
		},
		"often above its limit": {
			CPU, 100, Implausible{Dropped: 109, AboveLimit: 109, Of: 277, Highest: 1000, Most: 300, Bound: OfLimit},
			Hold{Reason: UsageImplausible, Message: "39 % of the cpu samples of the last day were dropped, up to 1 cores: the limit of the container allows no more than 0.3 cores. Lifted when 95 % of a day's samples are plausible: fix the usage source. If the node enforces no CPU limits, remove the limit"},
		},
		"often above a small limit": {
			CPU, 100, Implausible{Dropped: 109, AboveLimit: 109, Of: 277, Highest: 40, Most: 32, Bound: OfLimit},
			Hold{Reason: UsageImplausible, Message: "39 % of the cpu samples of the last day were dropped, up to 0.04 cores: the limit of the container allows no more than 0.032 cores. Lifted when 95 % of a day's samples are plausible: fix the usage source. If the node enforces no CPU limits, remove the limit"},
		},
		"95 % below its limit":         {CPU, 100, Implausible{Dropped: 13, AboveLimit: 13, Of: 277, Highest: 1000, Most: 300, Bound: OfLimit}, Hold{}},
		"glitches of a young workload": {CPU, 100, Implausible{Dropped: 3, AboveLimit: 3, Of: 12, Highest: 1000, Most: 300, Bound: OfLimit}, Hold{}},
		"mostly 0": {
			Memory, 100, Implausible{Dropped: 200, Of: 277, Zeros: 190, Highest: 1 << 50, Most: 1 << 40},
			Hold{Reason: UsageImplausible, Message: "68 % of the memory samples of the last day were 0 bytes: the kubelet reports no working set" + lifted + "check the container runtime of the node"},
		},
		"always 0": {
			Memory, 0, Implausible{Dropped: 12, Of: 12, Zeros: 12},
			Hold{Reason: NoData, Message: "no memory usage was measured: 100 % of the memory samples of the last day were 0 bytes: the kubelet reports no working set. To fix, check the container runtime of the node"},
		},
		"CPU of 0 everywhere": {
			CPU, 0, Implausible{Dropped: 12, Of: 12, Zeros: 12},
			Hold{Reason: NoData, Message: "no cpu usage was measured: 100 % of the cpu samples of the last day were 0, like those of almost all containers: the usage source does not measure CPU. To fix, check the kubelets and the container runtime"},
		},
		"0 on this day, and measured before": {
			Memory, 100, Implausible{Dropped: 12, Of: 12, Zeros: 12},
			Hold{Reason: UsageImplausible, Message: "100 % of the memory samples of the last day were 0 bytes: the kubelet reports no working set" + lifted + "check the container runtime of the node"},
		},
		"half of them": {CPU, 100, Implausible{Dropped: 138, Of: 276, Highest: 1_602_000, Most: 96_000}, Hold{}},
		"some 0":       {Memory, 100, Implausible{Dropped: 100, Of: 277, Zeros: 100}, Hold{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(flat(c.steps, 0.2, 512*mi))
			in.Implausible[c.resource] = c.implausible
			var got Hold
			for _, hold := range Recommend(in).Holds {
				if hold.Resource == c.resource {
					assert.Empty(t, got.Reason, "one hold")
					got = Hold{Reason: hold.Reason, Message: hold.Message}
				}
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// A message that changes with each sample is a write to the API server for each.
func TestSentencesOfDroppedSamplesAreCalm(t *testing.T) {
	sentences := map[string]int{}
	for of := 100; of <= 288; of++ {
		sentences[Implausible{Dropped: 11, Of: of, Highest: 40, Most: 32, Bound: OfLimit}.Sentence(CPU)]++
	}
	assert.LessOrEqual(t, len(sentences), 9)
	assert.Contains(t, Implausible{Dropped: 1, Of: 277}.Sentence(Memory), "less than 1 % of the memory samples of the last day were dropped")
}

// The newest sample may lie within a step: the next one is read when that step has ended. Minutes are rounded up.
func TestEnoughHistoryIsExpectedAtTheEndOfAStep(t *testing.T) {
	for late, want := range map[time.Duration]string{0: "enough after 2026-03-02 12:00 UTC", 2*time.Minute + 10*time.Second: "enough after 2026-03-02 12:00 UTC"} {
		in := input(flat(47, 0.2, mi))
		for r := range in.Profile.Of {
			in.Profile.Of[r].Last = in.Profile.Of[r].Last.Add(late)
		}
		holds := Recommend(in).Holds
		require.NotEmpty(t, holds)
		assert.Contains(t, holds[0].Message, want, late)
	}
}
