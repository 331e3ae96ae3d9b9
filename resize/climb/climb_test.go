package climb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
)

const mi = recommender.Amount(1) << 20

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// life is a simulated container: its memory need since its start, sampled at intervals, and the loop around it. A raise
// takes effect after acts, and no other raise begins before the last one is verified.
type life struct {
	needs    func(time.Duration) recommender.Amount
	limit    recommender.Amount
	every    time.Duration
	most     recommender.Amount
	lasts    time.Duration
	together bool
}

// ended is the result of a life.
type ended struct {
	raises  int
	killed  bool
	at      time.Duration
	refused *resize.Refusal
	limit   recommender.Amount
}

// acts is how long a raise takes, verified the time after which the next one may begin.
const acts, verified = 3 * time.Second, 35 * time.Second

func (l life) play(t *testing.T) (end ended) {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Name, pod.UID = "web-1", "uid"
	var samples []climb.Sample
	var tries []v1alpha1.Try
	var pending recommender.Amount
	limit, applies, free := l.limit, time.Duration(-1), time.Duration(0)
	for at := time.Duration(0); at < l.lasts; at += 250 * time.Millisecond {
		if pending > 0 && at >= applies {
			limit, pending = pending, 0
		}
		if l.needs(at) > limit {
			end.killed, end.at, end.limit = true, at, limit
			return end
		}
		if at%l.every != 0 {
			continue
		}
		now := noon.Add(at)
		samples = append(samples, climb.Sample{At: now, Bytes: l.needs(at)})
		samples = samples[max(0, len(samples)-int(20*time.Minute/l.every)):]
		if at < free {
			continue
		}
		has := recommender.Allocation{Request: limit / 2, Limit: limit}
		if l.together {
			has.Request = limit
		}
		v := climb.Look(climb.Container{
			Name: "app", Has: has, Samples: samples, Most: l.most, Together: l.together, Raises: climb.Of(tries, pod, "app", now),
		}, now)
		if v.Refusal != nil {
			end.refused = v.Refusal
		}
		if v.Raises() {
			require.NotEmpty(t, v.Why)
			end.raises++
			pending, applies, free = v.To.Limit, at+acts, at+verified
			tries = climb.Noted(tries, pod, resize.Plan{PodName: pod.Name, PodUID: pod.UID, Moves: []resize.Move{{
				Container: "app", To: recommender.Size{recommender.Memory: v.To}}}}, now)
		}
	}
	end.limit = limit
	return end
}

// ramp stays at a base for two minutes, climbs at a speed to the top, and stays there.
func ramp(base, top recommender.Amount, perSecond float64) func(time.Duration) recommender.Amount {
	return func(at time.Duration) recommender.Amount {
		climbs := max(0, at-2*time.Minute).Seconds()
		return min(top, base+recommender.Amount(climbs*perSecond*float64(mi)))
	}
}

// TestRamps is the table of avoided kills: a container of 512Mi that finally needs 620Mi, and one of 4Gi that needs
// 5Gi.
func TestRamps(t *testing.T) {
	speeds := []float64{0.1, 0.3, 1, 3, 10, 30, 100}
	intervals := []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}
	// The greatest speed at which every kill is avoided, by interval.
	sure := map[recommender.Amount]map[time.Duration]float64{
		512 * mi:  {time.Second: 10, 5 * time.Second: 10, 15 * time.Second: 3, 30 * time.Second: 3},
		4096 * mi: {time.Second: 100, 5 * time.Second: 100, 15 * time.Second: 30, 30 * time.Second: 10},
	}
	const tried = 8
	for _, limit := range []recommender.Amount{512 * mi, 4096 * mi} {
		var table strings.Builder
		fmt.Fprintf(&table, "\nlimit %dMi, kills avoided of %d\n  MiB/s", limit/mi, tried)
		for _, every := range intervals {
			fmt.Fprintf(&table, "%8s", every)
		}
		for _, speed := range speeds {
			fmt.Fprintf(&table, "\n%7g", speed)
			for _, every := range intervals {
				avoided := 0
				for i := range tried {
					base := limit/5 + recommender.Amount(i)*limit/40 + recommender.Amount(i)*mi/7
					top := limit * 6 / 5
					base = max(base, limit-recommender.Amount(speed*1200*float64(mi)))
					lasts := 10*time.Minute + time.Duration(float64(top-base)/float64(mi)/speed*float64(time.Second))
					end := life{needs: ramp(base, top, speed), limit: limit, every: every, lasts: lasts}.play(t)
					if !end.killed {
						avoided++
						assert.LessOrEqual(t, end.raises, 3)
					}
				}
				fmt.Fprintf(&table, "%8d", avoided)
				if speed <= sure[limit][every] {
					assert.Equal(t, tried, avoided, "%dMi at %gMiB/s, a sample each %s", limit/mi, speed, every)
				}
			}
		}
		t.Log(table.String())
	}
}

// quiet has usages that never need more than their limit of 512Mi, so no raise is due.
func quiet() map[string]func(time.Duration) recommender.Amount {
	noisy := func(level, noise float64) func(time.Duration) recommender.Amount {
		return func(at time.Duration) recommender.Amount {
			r := rand.New(rand.NewPCG(7, uint64(at/time.Second)))
			return recommender.Amount((level + noise*(2*r.Float64()-1)) * 512 * float64(mi))
		}
	}
	saw := func(low, high float64, period time.Duration) func(time.Duration) recommender.Amount {
		return func(at time.Duration) recommender.Amount {
			part := float64((at+period/2)%period) / float64(period)
			return recommender.Amount((low + (high-low)*part) * 512 * float64(mi))
		}
	}
	return map[string]func(time.Duration) recommender.Amount{
		"flat at 92 %":         noisy(0.92, 0),
		"noise around 92 %":    noisy(0.92, 0.03),
		"little noise at 98 %": noisy(0.98, 0.004),
		"noise around 50 %":    noisy(0.5, 0.1),
		"a slow drift to 80 %": func(at time.Duration) recommender.Amount {
			return min(410*mi, 300*mi+recommender.Amount(at.Seconds()*0.02)*mi)
		},
		"a wave of an hour": func(at time.Duration) recommender.Amount {
			return recommender.Amount((0.6 + 0.25*math.Sin(at.Hours()*2*math.Pi)) * 512 * float64(mi))
		},
		"a saw of two minutes": saw(0.3, 0.7, 2*time.Minute),
		"a saw of ten minutes": saw(0.45, 0.88, 10*time.Minute),
		"a saw of an hour":     saw(0.3, 0.9, time.Hour),
		"a step to two thirds": func(at time.Duration) recommender.Amount {
			return map[bool]recommender.Amount{true: 200 * mi, false: 240 * mi}[at < 2*time.Hour]
		},
		"page cache at its top": noisy(0.985, 0.01),
	}
}

func TestNothingIsRaisedThatIsQuiet(t *testing.T) {
	for name, needs := range quiet() {
		for _, every := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second} {
			end := life{needs: needs, limit: 512 * mi, every: every, lasts: 3 * time.Hour}.play(t)
			assert.Zero(t, end.raises, "%s, a sample each %s", name, every)
			assert.False(t, end.killed, "%s: the test plays what needs no more than its limit", name)
		}
	}
}

// A sawtooth in a container without a record raises it at most once, if its first tooth is steep. With the
// recommender's peak it is never raised.
func TestTheFirstToothOfASaw(t *testing.T) {
	saw := func(at time.Duration) recommender.Amount {
		return 150*mi + recommender.Amount(float64(at%(2*time.Minute))/float64(2*time.Minute)*330*float64(mi))
	}
	end := life{needs: saw, limit: 512 * mi, every: 5 * time.Second, lasts: 6 * time.Hour}.play(t)
	assert.LessOrEqual(t, end.raises, 1)
	assert.False(t, end.killed)
}

func TestALeakIsRefusedAfterThreeRaises(t *testing.T) {
	end := life{needs: ramp(200*mi, 1<<50, 1), limit: 512 * mi, every: 5 * time.Second, lasts: 6 * time.Hour}.play(t)
	require.True(t, end.killed)
	assert.Equal(t, 3, end.raises)
	require.NotNil(t, end.refused)
	assert.Equal(t, resize.ReasonLeak, end.refused.Reason)
	assert.False(t, end.refused.Transient, "a person is told")
	assert.False(t, end.refused.Until.IsZero())
	assert.Contains(t, end.refused.Message, "container app: its memory was raised 3 times before an OOM kill since 2026-03-04T12:")
	assert.Contains(t, end.refused.Message, "attune raises it again after 2026-03-05T12:")
	assert.GreaterOrEqual(t, end.limit, 512*mi*13/10*13/10*13/10)
}

// at returns samples every five seconds that end at noon.
func at(amounts ...recommender.Amount) (samples []climb.Sample) {
	for i, a := range amounts {
		samples = append(samples, climb.Sample{At: noon.Add(time.Duration(i+1-len(amounts)) * 5 * time.Second), Bytes: a * mi})
	}
	return samples
}

func climbing(edit func(*climb.Container)) climb.Container {
	c := climb.Container{
		Name: "app", Has: recommender.Allocation{Request: 300 * mi, Limit: 450 * mi},
		Samples: at(300, 320, 340, 360, 380, 400, 420),
	}
	edit(&c)
	return c
}

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*climb.Container)
		after   time.Duration
		to      recommender.Allocation
		refused string
		near    bool
	}{
		"it climbs":                       {to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"no limit":                        {edit: func(c *climb.Container) { c.Has.Limit = 0 }},
		"one sample":                      {edit: func(c *climb.Container) { c.Samples = c.Samples[6:] }},
		"the samples are old":             {after: 3 * time.Minute},
		"a container that was higher":     {edit: func(c *climb.Container) { c.Peak = 430 * mi }},
		"a peak that a higher limit had":  {edit: func(c *climb.Container) { c.Peak = 500 * mi }, to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"it was higher a moment ago":      {edit: func(c *climb.Container) { c.Samples = at(425, 300, 330, 360, 390, 420) }},
		"it waits for memory":             {edit: func(c *climb.Container) { c.Peak, c.Stalled = 430*mi, 0.3 }, to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"request and limit stay together": {edit: func(c *climb.Container) { c.Together, c.Has.Request = true, 450*mi }, to: recommender.Allocation{Request: 660 * mi, Limit: 660 * mi}, near: true},
		"maxAllowed leaves some":          {edit: func(c *climb.Container) { c.Most = 500 * mi }, to: recommender.Allocation{Request: 420 * mi, Limit: 500 * mi}, near: true},
		"maxAllowed leaves nothing":       {edit: func(c *climb.Container) { c.Most = 450 * mi }, refused: resize.ReasonClimbBound, near: true},
		"the brake leaves some":           {edit: func(c *climb.Container) { c.Ceiling = 500 * mi }, to: recommender.Allocation{Request: 420 * mi, Limit: 500 * mi}, near: true},
		"the brake leaves nothing":        {edit: func(c *climb.Container) { c.Ceiling = 450 * mi }, refused: resize.ReasonFollowsLimit, near: true},
		"it would be restarted":           {edit: func(c *climb.Container) { c.Restarts = true }, refused: resize.ReasonClimbRestarts, near: true},
		"the policy leaves limits alone": {edit: func(c *climb.Container) {
			c.LimitsLeft, c.Raises = true, climb.Raises{Times: 3, Until: noon.Add(time.Hour)}
		}, refused: resize.ReasonClimbLimits, near: true},
		"its request is scaled on":  {edit: func(c *climb.Container) { c.RequestHeld = true }, to: recommender.Allocation{Request: 300 * mi, Limit: 660 * mi}, near: true},
		"and its pod is Guaranteed": {edit: func(c *climb.Container) { c.RequestHeld, c.Together, c.Has.Request = true, true, 450*mi }, to: recommender.Allocation{Request: 660 * mi, Limit: 660 * mi}, near: true},
		"it was given a higher limit since": {edit: func(c *climb.Container) {
			c.Raises = climb.Raises{Times: 3, Reached: 440 * mi, Until: noon.Add(time.Hour)}
		}, to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"it was raised three times":          {edit: func(c *climb.Container) { c.Raises = climb.Raises{Times: 3, Until: noon.Add(time.Hour)} }, refused: resize.ReasonLeak, near: true},
		"that was a day ago":                 {edit: func(c *climb.Container) { c.Raises = climb.Raises{Times: 3, Until: noon} }, to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"half empty":                         {edit: func(c *climb.Container) { c.Has.Limit = 900 * mi }},
		"slow and far":                       {edit: func(c *climb.Container) { c.Samples = at(400, 401, 402, 403, 404) }},
		"on its way":                         {edit: func(c *climb.Container) { c.Samples = at(380, 383, 386, 389) }, near: true},
		"slow and close":                     {edit: func(c *climb.Container) { c.Samples = at(426, 428, 430, 432, 434) }, to: recommender.Allocation{Request: 434 * mi, Limit: 585 * mi}, near: true},
		"two samples, a process that starts": {edit: func(c *climb.Container) { c.Samples = at(10, 430) }, near: true},
		"it starts, and rests":               {edit: func(c *climb.Container) { c.Samples = at(10, 430, 430, 430, 430) }},
		"after a fall, a great step":         {edit: func(c *climb.Container) { c.Samples = at(280, 200, 300) }, to: recommender.Allocation{Request: 300 * mi, Limit: 900 * mi}, near: true},
		"it fills its memory at its start":   {edit: func(c *climb.Container) { c.Started = c.Samples[len(c.Samples)-1].At.Add(-59 * time.Second) }},
		"its start is a minute ago":          {edit: func(c *climb.Container) { c.Started = c.Samples[0].At.Add(-time.Minute) }, to: recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, near: true},
		"two samples, a small step":          {edit: func(c *climb.Container) { c.Samples = at(410, 420) }, near: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.edit == nil {
				c.edit = func(*climb.Container) {}
			}
			v := climb.Look(climbing(c.edit), noon.Add(c.after))
			assert.Equal(t, c.to, v.To)
			assert.Equal(t, c.near, v.Near)
			assert.Equal(t, c.to.Limit > 0, v.Raises())
			if c.refused == "" {
				assert.Nil(t, v.Refusal)
				return
			}
			require.NotNil(t, v.Refusal)
			assert.Equal(t, c.refused, v.Refusal.Reason)
			assert.Contains(t, v.Refusal.Message, "container app: ")
		})
	}
}

// A sample that no container can have starts no raise, and hides no climb.
func TestImpossibleSamplesStartNoRaise(t *testing.T) {
	steady := []recommender.Amount{300, 300, 300, 300, 300, 300}
	for name, c := range map[string]struct {
		samples []recommender.Amount
		raises  bool
	}{
		"one far above its limit":                    {samples: append(steady, 10<<20)},
		"one at twice its limit":                     {samples: append(steady, 900)},
		"some in a row":                              {samples: append(steady, 900, 1800, 3600)},
		"one of 0, and then a bit more":              {samples: append(steady, 0, 303)},
		"the largest integer, which overflows":       {samples: append(steady, math.MinInt64/mi)},
		"a climb with one of 0":                      {samples: []recommender.Amount{300, 320, 340, 0, 380, 400, 420}, raises: true},
		"a climb with one above its limit":           {samples: []recommender.Amount{300, 320, 340, 900, 380, 400, 420}, raises: true},
		"a climb beyond a limit that is just raised": {samples: []recommender.Amount{300, 320, 340, 360, 400, 440, 480}, raises: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := climb.Look(climbing(func(of *climb.Container) { of.Samples = at(c.samples...) }), noon)
			assert.Equal(t, c.raises, v.Raises(), v.Why)
			assert.Equal(t, c.raises, v.Near)
		})
	}
	unlimited := climbing(func(of *climb.Container) { of.Has.Limit = 9223372036854771712 })
	assert.Equal(t, climb.Verdict{}, climb.Look(unlimited, noon), "the limit of a cgroup without a limit")
}

func TestTheSentenceHasTheFigures(t *testing.T) {
	c := climbing(func(c *climb.Container) { c.Samples = at(381, 396, 412) })
	assert.Equal(t, "memory usage 412Mi of 450Mi grows by 3.1Mi/s and would reach the limit in 12 s", climb.Look(c, noon).Why)
	late := climbing(func(*climb.Container) {})
	assert.Equal(t, "memory usage 420Mi of 450Mi grows by 4.0Mi/s and would reach the limit now, according to a sample from 40 s ago", climb.Look(late, noon.Add(40*time.Second)).Why)
}

func TestSpikeIsRestored(t *testing.T) {
	flat := func(amount recommender.Amount, n int) []climb.Sample {
		all := make([]recommender.Amount, n)
		for i := range all {
			all[i] = amount
		}
		return at(all...)
	}
	for name, c := range map[string]struct {
		samples []climb.Sample
		before  recommender.Amount
		back    bool
	}{
		"it needs little for two minutes": {samples: flat(200, 40), before: 450, back: true},
		"for one minute":                  {samples: flat(200, 13), before: 450},
		"it needs most of the old limit":  {samples: flat(370, 40), before: 450},
		"a moment ago it needed more":     {samples: append(flat(200, 40)[:39], climb.Sample{At: noon, Bytes: 440 * mi}), before: 450},
		"it was not measured":             {samples: flat(0, 40), before: 450},
		"it climbs":                       {samples: at(200, 202, 204, 206, 208, 210, 212, 214, 216, 218, 220, 222, 224, 226, 228, 230, 232, 234, 236, 238, 240, 242, 244, 246, 248, 250), before: 450},
		"nothing is known":                {before: 450},
		"it had no limit":                 {samples: flat(200, 40)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.back, climb.GivesBack(c.samples, c.before*mi, noon))
		})
	}
	assert.False(t, climb.GivesBack(flat(200, 40), 450*mi, noon.Add(5*time.Minute)), "the samples are old")
}

// TestProperties: for all samples, a raise is bounded and keeps the pod's class.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	raised := 0
	for range 20_000 {
		limit := mi + recommender.Amount(r.Int64N(int64(4096*mi)))
		c := climb.Container{
			Name: "app", Has: recommender.Allocation{Request: recommender.Amount(r.Int64N(int64(limit))) + 1, Limit: limit},
			Stalled: r.Float64() * 0.2, Peak: recommender.Amount(r.Int64N(int64(limit) * 2)), Together: r.IntN(3) == 0,
			Most: recommender.Amount(r.IntN(2)) * (limit/2 + recommender.Amount(r.Int64N(int64(limit)*2))),
		}
		if c.Together {
			c.Has.Request = limit
		}
		level, when := r.Float64(), noon
		for range r.IntN(30) {
			when = when.Add(time.Duration(r.Int64N(int64(40 * time.Second))))
			level = max(0, level+r.Float64()*0.3-0.1)
			c.Samples = append(c.Samples, climb.Sample{At: when, Bytes: recommender.Amount(min(level, 1) * float64(limit))})
		}
		v := climb.Look(c, when.Add(time.Duration(r.Int64N(int64(time.Minute)))))
		require.False(t, v.Raises() && v.Refusal != nil)
		require.Equal(t, v.Raises() || v.Refusal != nil, v.Why != "")
		if !v.Raises() {
			continue
		}
		raised++
		require.Greater(t, v.To.Limit, limit)
		require.LessOrEqual(t, v.To.Limit, 2*limit+mi)
		require.LessOrEqual(t, v.To.Request, v.To.Limit)
		require.GreaterOrEqual(t, v.To.Request, c.Has.Request)
		require.True(t, c.Most == 0 || v.To.Limit <= c.Most)
		require.Equal(t, c.Together, v.To.Request == v.To.Limit, "%+v %+v", c.Has, v.To)
	}
	assert.Greater(t, raised, 500)
}

func TestRaisesAreCountedByPodAndContainer(t *testing.T) {
	pod, other := &corev1.Pod{}, &corev1.Pod{}
	pod.Name, pod.UID, other.Name, other.UID = "web-1", "1", "web-2", "2"
	plan := resize.Plan{PodName: "web-1", PodUID: "1", Moves: []resize.Move{{
		Container: "app", From: recommender.Size{recommender.Memory: {Request: 300 * mi, Limit: 450 * mi}}, To: recommender.Size{recommender.Memory: {Limit: 585 * mi}},
	}}}
	tries := climb.Noted(nil, pod, plan, noon)
	tries = climb.Noted(tries, pod, plan, noon.Add(time.Hour))
	require.Len(t, tries, 1)
	r := climb.Of(tries, pod, "app", noon.Add(2*time.Hour))
	assert.Equal(t, climb.Raises{Times: 2, Since: noon, Reached: 585 * mi, Until: noon.Add(24 * time.Hour),
		Before: recommender.Allocation{Request: 300 * mi, Limit: 450 * mi}}, r)
	assert.Zero(t, climb.Of(climb.GivenBack(tries, pod, noon), pod, "app", noon).Before)
	assert.Equal(t, r, climb.Of(climb.GivenBack(tries, other, noon), pod, "app", noon.Add(2*time.Hour)))
	assert.Zero(t, climb.Of(tries, other, "app", noon.Add(2*time.Hour)))
	assert.Zero(t, climb.Of(tries, pod, "side", noon.Add(2*time.Hour)))
	assert.Zero(t, climb.Of(tries, pod, "app", noon.Add(25*time.Hour)), "a day later")
	tries = climb.Noted(tries, pod, plan, noon.Add(26*time.Hour))
	require.Len(t, tries, 1)
	assert.EqualValues(t, 1, tries[0].Times, "what is over is counted anew")
}

// The day begins with the first raise. If another size was chosen since, a revert restores that size.
func TestRaisesOfADay(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name, pod.UID = "web-1", "1"
	raise := func(tries []v1alpha1.Try, from, to recommender.Amount, at time.Time) []v1alpha1.Try {
		return climb.Noted(tries, pod, resize.Plan{PodName: "web-1", PodUID: "1", Moves: []resize.Move{{
			Container: "app", From: recommender.Size{recommender.Memory: {Request: from * mi / 2, Limit: from * mi}}, To: recommender.Size{recommender.Memory: {Limit: to * mi}},
		}}}, at)
	}
	first := raise(nil, 450, 600, noon)
	of := func(tries []v1alpha1.Try) climb.Raises { return climb.Of(tries, pod, "app", noon.Add(23*time.Hour)) }
	before := func(limit recommender.Amount) recommender.Allocation {
		return recommender.Allocation{Request: limit * mi / 2, Limit: limit * mi}
	}

	climbs := of(raise(first, 600, 800, noon.Add(20*time.Hour)))
	assert.Equal(t, climb.Raises{Times: 2, Since: noon, Reached: 800 * mi, Until: noon.Add(24 * time.Hour), Before: before(450)}, climbs)
	assert.Zero(t, climb.Of(raise(first, 600, 800, noon.Add(20*time.Hour)), pod, "app", noon.Add(25*time.Hour)), "the day does not slide")

	lowered := of(raise(first, 500, 650, noon.Add(20*time.Hour)))
	assert.Equal(t, climb.Raises{Times: 2, Since: noon, Reached: 650 * mi, Until: noon.Add(24 * time.Hour), Before: before(500)}, lowered)

	higher := of(raise(first, 700, 900, noon.Add(20*time.Hour)))
	assert.Equal(t, climb.Raises{Times: 1, Since: noon.Add(20 * time.Hour), Reached: 900 * mi, Until: noon.Add(44 * time.Hour), Before: before(700)}, higher)

	again := of(raise(climb.GivenBack(first, pod, noon), 450, 600, noon.Add(20*time.Hour)))
	assert.Zero(t, again.Before, "what was given back within the day stays the next time")
}

// Even if many pods of a workload climb, the rows are bounded, and each row counts only for its own pod.
func TestRowsOfManyPodsAreBounded(t *testing.T) {
	var tries []v1alpha1.Try
	var pods []*corev1.Pod
	for i := range 100 {
		pod := &corev1.Pod{}
		pod.Name = fmt.Sprintf("web-%d", i)
		pod.UID = types.UID(pod.Name)
		pods = append(pods, pod)
		plan := resize.Plan{PodName: pod.Name, PodUID: pod.UID, Moves: []resize.Move{{Container: "app", To: recommender.Size{recommender.Memory: {Limit: 585 * mi}}}}}
		for range 2 {
			tries = climb.Noted(tries, pod, plan, noon.Add(time.Duration(i)*time.Second))
		}
		require.LessOrEqual(t, len(tries), v1alpha1.MaxTries)
	}
	for i, pod := range pods {
		want := 0
		if i > 100-v1alpha1.MaxTries { // one row sums up the others
			want = 2
		}
		assert.Equal(t, want, climb.Of(tries, pod, "app", noon.Add(time.Hour)).Times, i)
	}
	fresh := &corev1.Pod{}
	fresh.Name, fresh.UID = "web-100", "web-100"
	assert.Zero(t, climb.Of(tries, fresh, "app", noon))
	all := []v1alpha1.Try{{What: v1alpha1.TryClimb, Times: 3, Until: metav1.NewTime(noon.Add(time.Hour))}}
	assert.Zero(t, climb.Of(all, fresh, "app", noon), "a row of several pods that were merged")
	left := climb.OfLive(append(tries, v1alpha1.Try{What: v1alpha1.TryResize, Pod: "web-1", PodUID: "web-1"}), pods[98:])
	assert.Len(t, left, 4, "those of the pods that are there, of those that were added up, and what is no raise")
}

// A workload with more pods than rows in the status is also raised three times a day per pod: on average, if all climb.
func TestManyPodsAreRaisedThriceEach(t *testing.T) {
	const pods = 100
	var tries []v1alpha1.Try
	raised, limits := map[string]int{}, [pods]recommender.Amount{}
	var live []*corev1.Pod
	for i := range pods {
		live = append(live, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("web-%d", i))}})
	}
	now := noon
	for range 8 {
		for i, pod := range live {
			counted := climb.OfAll(tries, pod, "app", now, func() []*corev1.Pod { return live })
			limit := max(500*mi, limits[i])
			v := climb.Look(climb.Container{Name: "app", Has: recommender.Allocation{Limit: limit}, Samples: climbTo(limit, now), Raises: counted}, now)
			if !v.Raises() {
				require.Equal(t, resize.ReasonLeak, v.Refusal.Reason)
				assert.Equal(t, noon.Add(24*time.Hour), v.Refusal.Until)
				continue
			}
			raised[pod.Name]++
			limits[i] = limit + 100*mi
			move := resize.Move{Container: "app", From: recommender.Size{recommender.Memory: {Limit: limit}}, To: recommender.Size{recommender.Memory: {Limit: limit + 100*mi}}}
			tries = climb.Noted(tries, pod, resize.Plan{PodName: pod.Name, PodUID: pod.UID, Moves: []resize.Move{move}}, now)
			require.LessOrEqual(t, len(tries), v1alpha1.MaxTries)
		}
		now = now.Add(time.Minute)
	}
	total := 0
	for name, times := range raised {
		total += times
		assert.LessOrEqual(t, times, 4, name)
	}
	assert.Len(t, raised, pods)
	assert.LessOrEqual(t, total, 3*pods+v1alpha1.MaxTries)
	next := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "next", UID: "next"}}}
	assert.Zero(t, climb.OfAll(tries, next[0], "app", now, func() []*corev1.Pod { return next }), "all of those are gone")
}

// climbTo returns samples that climb to just below a limit.
func climbTo(limit recommender.Amount, now time.Time) (out []climb.Sample) {
	for i := range recommender.Amount(12) {
		out = append(out, climb.Sample{At: now.Add(time.Duration(i-11) * 5 * time.Second), Bytes: limit * (80 + i) / 92})
	}
	return out
}

// Page cache fills any limit at some speed, and the kernel then reclaims it: such a container is never killed. In three
// days its limit is raised to the ceiling and no further.
func TestPageCacheIsRaisedToItsCeiling(t *testing.T) {
	for _, speed := range []float64{0.05, 0.2, 1, 5} { // MiB/s
		pod := &corev1.Pod{}
		pod.Name, pod.UID = "kafka-0", "uid"
		var samples []climb.Sample
		var tries []v1alpha1.Try
		var refused *resize.Refusal
		limit, free, held := 512*mi, time.Duration(0), 200*mi
		for at := time.Duration(0); at < 72*time.Hour; at += 5 * time.Second {
			held = min(held+recommender.Amount(speed*5*float64(mi)), limit*995/1000)
			now := noon.Add(at)
			samples = append(samples, climb.Sample{At: now, Bytes: held})
			samples = samples[max(0, len(samples)-240):]
			if at < free {
				continue
			}
			has := recommender.Allocation{Request: limit / 2, Limit: limit}
			v := climb.Look(climb.Container{Name: "app", Has: has, Samples: samples, Started: noon.Add(-time.Hour), Ceiling: 1024 * mi,
				Raises: climb.Of(tries, pod, "app", now)}, now)
			if v.Refusal != nil {
				refused = v.Refusal
			}
			if v.Raises() {
				tries = climb.Noted(tries, pod, resize.Plan{PodName: pod.Name, PodUID: pod.UID, Moves: []resize.Move{{
					Container: "app", From: recommender.Size{recommender.Memory: has}, To: recommender.Size{recommender.Memory: v.To}}}}, now)
				limit, free = v.To.Limit, at+verified
			}
		}
		assert.LessOrEqual(t, limit, 1024*mi, "%v MiB/s", speed)
		if limit == 1024*mi && assert.NotNil(t, refused, "%v MiB/s", speed) {
			assert.Contains(t, []string{resize.ReasonFollowsLimit, resize.ReasonLeak}, refused.Reason)
		}
	}
}
