package recommender_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender"
)

func TestLimitRule(t *testing.T) {
	three, bounds := LimitRule{Thousandths: 3000}, LimitRule{Thousandths: 3000, Min: 500, Max: 2000}
	for name, c := range map[string]struct {
		rule                         LimitRule
		original                     Allocation
		has, request, floor, expects Amount
	}{
		"the ratio":                              {three, Allocation{Request: 100, Limit: 120}, 120, 200, 0, 600},
		"a ratio with decimals":                  {LimitRule{Thousandths: 1500}, Allocation{Request: 100, Limit: 120}, 120, 333, 0, 499},
		"at least min":                           {bounds, Allocation{Request: 100, Limit: 120}, 120, 100, 0, 500},
		"at most max":                            {bounds, Allocation{Request: 100, Limit: 120}, 120, 900, 0, 2000},
		"never below the request":                {bounds, Allocation{Request: 100, Limit: 120}, 120, 3000, 0, 3001},
		"equal only where the original is equal": {LimitRule{Thousandths: 1000}, Allocation{Request: 100, Limit: 100}, 100, 300, 0, 300},
		"above the request otherwise":            {LimitRule{Thousandths: 1000}, Allocation{Request: 100, Limit: 200}, 200, 300, 0, 301},
		"not lowered below the floor":            {bounds, Allocation{Request: 100, Limit: 4000}, 4000, 100, 3300, 3300},
		"never raised by the floor":              {bounds, Allocation{Request: 100, Limit: 400}, 400, 100, 3300, 500},
		"no limit, none added":                   {bounds, Allocation{Request: 100}, 0, 100, 0, 0},
		"the original ratio within bounds":       {LimitRule{Max: 700}, Allocation{Request: 100, Limit: 200}, 200, 400, 0, 700},
		"the original limit above max":           {LimitRule{Max: 700}, Allocation{Request: 100, Limit: 2000}, 2000, 100, 0, 700},
		"a limit alone counts as both":           {three, Allocation{Limit: 100}, 100, 200, 0, 600},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.expects, c.rule.Limit(c.original, c.has, c.request, c.floor))
		})
	}
}

// ruled is a container with flat usage of 200m, a peak of 800m, and the rule.
func ruled(rule LimitRule, original Allocation) Input {
	steps := flat(2016, 0.2, 100*mi)
	steps[1000].CPUPeak = 0.8
	in := input(steps)
	in.Original[CPU], in.Settings.Of[CPU].Limits, in.Settings.Of[CPU].LimitsFollow = original, rule, true
	in.Settings.Of[CPU].BurstSensitivity = 0
	return in
}

// moved is where a running container comes to rest.
func moved(in Input, r Recommendation, live Allocation) (Allocation, string) {
	size := Size{CPU: live}
	why := ""
	for range 40 {
		change := NextStep(Move{
			Target: Size{CPU: r.Target[CPU]}, CPULimitFloor: r.CPULimitFloor, Live: size, Original: Size{CPU: in.Original[CPU]},
			Settings: in.Settings, Guaranteed: in.Guaranteed,
		})
		size, why = change.Next, change.Steps[0].Reason
	}
	return size[CPU], why
}

func TestLimitsByARule(t *testing.T) {
	for name, c := range map[string]struct {
		rule           LimitRule
		guaranteed     bool
		original, live Allocation
		target, rests  Allocation
		says           string
	}{
		"ratio":                              {LimitRule{Thousandths: 5000}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 480, Limit: 960}, Allocation{Request: 240, Limit: 1200}, Allocation{Request: 240, Limit: 1200}, ""},
		"usage keeps a higher limit":         {LimitRule{Max: 300}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 480, Limit: 960}, Allocation{Request: 240, Limit: 880}, Allocation{Request: 240, Limit: 880}, ""},
		"a changed rule alone":               {LimitRule{Thousandths: 5000}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 240, Limit: 480}, Allocation{Request: 240, Limit: 1200}, Allocation{Request: 240, Limit: 1200}, ""},
		"equal in a Burstable pod":           {LimitRule{Thousandths: 5000}, false, Allocation{Request: 480, Limit: 480}, Allocation{Request: 480, Limit: 480}, Allocation{Request: 240, Limit: 1200}, Allocation{Request: 240, Limit: 1200}, ""},
		"Guaranteed":                         {LimitRule{Thousandths: 5000}, true, Allocation{Request: 480, Limit: 480}, Allocation{Request: 480, Limit: 480}, Allocation{Request: 240, Limit: 240}, Allocation{Request: 240, Limit: 240}, ""},
		"no limit, none added":               {LimitRule{Thousandths: 5000}, false, Allocation{Request: 480}, Allocation{Request: 480}, Allocation{Request: 240}, Allocation{Request: 240}, ""},
		"Remove keeps a running pod's":       {LimitRule{Remove: true}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 480, Limit: 960}, Allocation{Request: 240}, Allocation{Request: 240, Limit: 960}, "only new pods have none"},
		"Remove, equal in a Burstable pod":   {LimitRule{Remove: true}, false, Allocation{Request: 480, Limit: 480}, Allocation{Request: 480, Limit: 480}, Allocation{Request: 240}, Allocation{Request: 240, Limit: 480}, "only new pods have none"},
		"Remove raises one with its request": {LimitRule{Remove: true}, false, Allocation{Request: 160, Limit: 320}, Allocation{Request: 160, Limit: 320}, Allocation{Request: 240}, Allocation{Request: 240, Limit: 480}, "only new pods have none"},
		"Remove of a Guaranteed pod":         {LimitRule{Remove: true}, true, Allocation{Request: 480, Limit: 480}, Allocation{Request: 480, Limit: 480}, Allocation{Request: 240, Limit: 240}, Allocation{Request: 240, Limit: 240}, ""},
		"a removed limit does not come back": {LimitRule{}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 480}, Allocation{Request: 240, Limit: 880}, Allocation{Request: 240}, ""},
		"nor by a ratio":                     {LimitRule{Thousandths: 3000}, false, Allocation{Request: 480, Limit: 960}, Allocation{Request: 480}, Allocation{Request: 240, Limit: 880}, Allocation{Request: 240}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := ruled(c.rule, c.original)
			in.Guaranteed = c.guaranteed
			r := Recommend(in)
			assert.Equal(t, c.target, r.Target[CPU])
			rests, why := moved(in, r, c.live)
			assert.Equal(t, c.rests, rests)
			assert.Contains(t, why, c.says)
		})
	}
}

// A raise takes several steps. On the way its CPU limit does not fall below that of the target, which covers the usage: the
// limit of the first step would throttle the container.
func TestARaiseLowersNoLimitBelowTheTargets(t *testing.T) {
	settings := ResourceSettings{LimitsFollow: true, AllowDecrease: true}
	for name, c := range map[string]struct {
		rule     LimitRule
		original Allocation
		live     Allocation
		want     Allocation
		due      bool
	}{
		"a ratio":                    {LimitRule{Thousandths: 1500}, Allocation{Request: 100, Limit: 800}, Allocation{Request: 100, Limit: 800}, Allocation{Request: 150, Limit: 600}, false},
		"a limit below the target's": {LimitRule{Thousandths: 1500}, Allocation{Request: 100, Limit: 400}, Allocation{Request: 100, Limit: 400}, Allocation{Request: 150, Limit: 400}, false},
		"a raise that is due":        {LimitRule{Thousandths: 1500}, Allocation{Request: 100, Limit: 800}, Allocation{Request: 100, Limit: 800}, Allocation{Request: 400, Limit: 800}, true},
		"Keep after a ratio":         {LimitRule{}, Allocation{Request: 500, Limit: 750}, Allocation{Request: 100, Limit: 1000}, Allocation{Request: 150, Limit: 600}, false},
	} {
		m := Move{Target: Size{CPU: {Request: 400}}, Live: Size{CPU: c.live}, Original: Size{CPU: c.original}, Due: [2]bool{CPU: c.due}}
		m.Settings.Of[CPU] = settings
		m.Settings.Of[CPU].Limits, m.Settings.Of[CPU].MaxChangePercent = c.rule, 50
		assert.Equal(t, c.want, NextStep(m).Next[CPU], name)
	}
}

// The explanation names the rule, and usage where that takes precedence.
func TestLimitRuleInTheTrace(t *testing.T) {
	in := ruled(LimitRule{Remove: true}, Allocation{Request: 500, Limit: 500})
	in.Guaranteed = true
	for _, s := range Recommend(in).Steps {
		assert.Equal(t, s.Resource == CPU && s.Name == "bounds", strings.HasSuffix(s.Reason, "; cpu.limits has no effect: the pods are Guaranteed, and their limits stay equal to their requests"), s)
	}
	for rule, says := range map[LimitRule]string{
		{Remove: true}:                         "; cpu.limits Remove: new pods have no CPU limit",
		{Thousandths: 5500}:                    "; the limit is 1320m by cpu.limits (ratio 5.5)",
		{Thousandths: 2000, Min: 50, Max: 300}: "; the limit is 880m by cpu.limits (ratio 2, min 50m, max 300m), not 300m: usage reached 800m",
		{Max: 2000}:                            "; the limit is 880m by cpu.limits (max 2)",
	} {
		r := Recommend(ruled(rule, Allocation{Request: 500, Limit: 1000}))
		reason := ""
		for _, s := range r.Steps {
			if s.Resource == CPU && s.Name == "bounds" {
				reason = s.Reason
			}
		}
		assert.Contains(t, reason, says)
	}
}

// In 100,000 drawn moves: no request above its limit, no limit that appears or vanishes, and limits that differ from
// their requests stay different.
func TestDrawnLimitRules(t *testing.T) {
	d := rand.New(rand.NewPCG(7, 7))
	amount := func() Amount { return []Amount{1, 2, 10, 11, 100, 333, 500, 1000, 1500, 4000, 64000}[d.IntN(11)] }
	maybe := func() Amount { return Amount(d.IntN(2)) * amount() }
	settings := ruled(LimitRule{}, Allocation{}).Settings
	for n := range 100_000 {
		rule := LimitRule{Remove: d.IntN(4) == 0}
		if !rule.Remove {
			rule = LimitRule{Thousandths: Amount(d.IntN(2)) * Amount(1000+d.IntN(9000)), Min: maybe()}
			if most := maybe(); most >= rule.Min {
				rule.Max = most
			}
		}
		original := Allocation{Request: amount()}
		original.Limit = original.Request + Amount(d.IntN(3))*amount()
		live := Allocation{Request: amount()}
		live.Limit = live.Request + max(amount(), 1)
		if d.IntN(5) == 0 {
			live.Limit = 0
		}
		settings.Of[CPU].Limits = rule
		m := Move{Target: Size{CPU: {Request: amount()}}, Live: Size{CPU: live}, Original: Size{CPU: original}, Settings: settings, CPULimitFloor: maybe(), Largest: [2]Amount{CPU: maybe()}}
		for range 5 {
			next := NextStep(m).Next[CPU]
			class := original.Request == original.Limit || rule == (LimitRule{}) || next.Request != next.Limit
			if next.Limit > 0 && next.Request > next.Limit || (live.Limit == 0) != (next.Limit == 0) || !class || rule.Remove && next.Limit < live.Limit {
				t.Fatalf("draw %d: %+v: %+v", n, m, next)
			}
			m.Live[CPU] = next
		}
	}
}
