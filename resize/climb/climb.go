// Package climb decides whether attune raises a container before the kernel kills it. It does so if the container's
// memory climbs towards its limit, above its record, and would reach the limit soon.
//
// Look decides from values only: samples with their times, the limit, the container's record, and earlier raises.
// GivesBack decides whether a raise is reverted, because the growth was a spike. row.go stores the raises of a day as
// tries in the status, so that a restart of attune loses none of them.
//
// A raise also has to pass the gates of package resize, like an answer to an OOM kill.
package climb

import (
	"fmt"
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Sample is a container's memory need at one time: its working set, in bytes.
type Sample struct {
	At    time.Time
	Bytes recommender.Amount
}

// Container has the known facts about one container with a memory limit. The zero value of a field: not known.
type Container struct {
	// Name of the container.
	Name string
	// Has is its memory request and limit. Without a limit the kernel does not kill it at a limit.
	Has recommender.Allocation
	// Samples are the newest samples, the oldest first.
	Samples []Sample
	// Started is when it started.
	Started time.Time
	// Stalled is the fraction (0 to 1) of time in which its tasks waited for memory (PSI).
	Stalled float64
	// Peak is the highest known memory usage of the workload's containers of this name.
	Peak recommender.Amount
	// Most is the maxAllowed of the policy.
	Most recommender.Amount
	// Ceiling is the limit in bytes above which only an OOM kill raises it (recommender.MemoryCeiling); 0: no ceiling.
	Ceiling recommender.Amount
	// Together: request and limit stay equal, which keeps the pod's class (Guaranteed).
	Together bool
	// Restarts: a change of its memory restarts it.
	Restarts bool
	// LimitsLeft: the policy does not change limits.
	LimitsLeft bool
	// RequestHeld: a HorizontalPodAutoscaler scales on its memory utilization, which depends on its request.
	RequestHeld bool
	// Raises are the raises of the last day.
	Raises Raises
}

// Verdict is the decision about a container. The zero value: no raise, and the limit is not near.
type Verdict struct {
	// To is the memory request and limit after the raise; zero: it is not raised.
	To recommender.Allocation
	// Why is one sentence with the figures; empty: the container does not climb towards its limit.
	Why string
	// Refusal is why a container that climbs towards its limit is not raised; nil: it is raised, or does not climb.
	Refusal *resize.Refusal
	// Near: check it again soon.
	Near bool
}

// Raises reports whether to raise the container.
func (v Verdict) Raises() bool { return v.To.Limit > 0 }

const (
	// starts is how long a container fills its memory after its start. That is not a climb, even up to 90 % of the
	// limit: usage that then stays there was never close to a kill.
	starts = time.Minute
	// tooOld is the age from which a sample no longer shows the current usage.
	tooOld = 2 * time.Minute
	// leastAhead and mostAhead bound the prediction: beyond the next checks, so that none of them comes too late.
	leastAhead, mostAhead = 30 * time.Second, 2 * time.Minute
	// reacts is the maximum time from a sample to a raised limit.
	reacts = 15 * time.Second
	// shortest is the minimum time over which speed is measured, if samples are closer together.
	shortest = 8 * time.Second
	// lasts is how long a raise should suffice: until it is verified and the container was checked again.
	lasts = time.Minute
	// steadyAhead is the prediction for a container that is close to its limit and climbs steadily.
	steadyAhead = 10 * time.Minute
	// stalling is the fraction of time waiting for memory from which the kernel finds nothing more to reclaim.
	stalling = 0.1
)

// Look decides about a container at a time.
//
// It raises the container if all of these hold:
//   - The newest samples climb, without a fall between them that exceeds noise.
//   - They exceed the container's usage before this climb. So a plateau, page cache or the sawtooth of a garbage
//     collector is not a climb, even close to the limit.
//   - At the current speed the limit would be reached before the next checks could prevent it.
func Look(c Container, now time.Time) Verdict {
	g, known := measure(c, now)
	if !known {
		return Verdict{}
	}
	v := Verdict{Near: g.near()}
	if !g.imminent() {
		return v
	}
	v.Near, v.Why = true, g.sentence()
	v.To, v.Refusal = size(c, g, now)
	return v
}

// growth is computed from the samples of a container.
type growth struct {
	// limit is its memory limit, latest the newest sample, record the highest usage before this climb.
	limit, latest, record recommender.Amount
	// noise is the minimum difference that counts as a fall or as a new record.
	noise recommender.Amount
	// rise is the growth over the climb's samples; speed is in bytes per second.
	rise    recommender.Amount
	samples int
	// young: no sample is older than the climb.
	young bool
	speed float64
	// age is the age of the newest sample, apart the time between the two newest samples.
	age, apart time.Duration
	stalled    float64
}

// measure computes the growth of a container; false: there are too few samples, or they are too old.
func measure(c Container, now time.Time) (growth, bool) {
	c.Samples = plausible(c.Samples, c.Has.Limit+c.Has.Limit/2)
	n := len(c.Samples)
	if c.Has.Limit == 0 || n < 2 {
		return growth{}, false
	}
	last := c.Samples[n-1]
	g := growth{limit: c.Has.Limit, latest: last.Bytes, stalled: c.Stalled, age: max(0, now.Sub(last.At)), apart: last.At.Sub(c.Samples[n-2].At)}
	if g.age > tooOld || g.apart <= 0 {
		return growth{}, false
	}
	g.noise = recommender.Amount(Noise(float64(g.left()), float64(g.limit)))
	first := max(beginOf(c.Samples, g.noise), c.start())
	if c.Peak < c.Has.Limit { // usage above the limit was reached, or learned, with another limit
		g.record = c.Peak
	}
	for _, s := range c.Samples[:first] {
		g.record = max(g.record, s.Bytes)
	}
	g.rise, g.samples, g.young = last.Bytes-c.Samples[first].Bytes, n-first, first == 0
	g.speed = speedOf(c.Samples[first:])
	return g, true
}

// plausible returns the samples that a running container can have. It uses more than 0 bytes, and no more than most: the
// kernel kills it at its limit, which a resize in progress may just be changing.
func plausible(samples []Sample, most recommender.Amount) []Sample {
	impossible := func(s Sample) bool { return s.Bytes <= 0 || s.Bytes > most }
	if !slices.ContainsFunc(samples, impossible) {
		return samples
	}
	return slices.DeleteFunc(slices.Clone(samples), impossible)
}

// Noise returns the minimum difference that counts as a fall or as a new record, in the unit of its arguments: 1 % of
// the limit, and less close to the limit, because the last samples of a slow climb differ little.
func Noise(left, limit float64) float64 { return min(max(left/4, limit/400), limit/100) }

// start returns the last sample of the container's start phase, or the first sample if no sample is from that phase.
func (c Container) start() int {
	started := c.Started.Add(starts)
	for i := len(c.Samples) - 1; i > 0; i-- {
		if c.Samples[i].At.Before(started) {
			return i
		}
	}
	return 0
}

// beginOf returns the first sample of the current climb: the longest run of samples up to the newest one in which none
// falls by more than noise.
func beginOf(samples []Sample, noise recommender.Amount) int {
	first := len(samples) - 1
	lowest := samples[first].Bytes
	begin := first
	for i := first - 1; i >= 0 && samples[i].Bytes <= lowest+noise && !samples[i+1].At.After(samples[i].At.Add(tooOld)); i-- {
		if samples[i].Bytes <= lowest {
			lowest, begin = samples[i].Bytes, i
		}
	}
	return begin
}

// speedOf returns the speed of a climb in bytes per second up to the newest sample, measured over at least shortest if
// the samples reach back that far.
func speedOf(climb []Sample) float64 {
	last := climb[len(climb)-1]
	for i := len(climb) - 2; i >= 0; i-- {
		took := last.At.Sub(climb[i].At)
		if took >= shortest || i == 0 {
			return float64(last.Bytes-climb[i].Bytes) / took.Seconds()
		}
	}
	return 0
}

// left returns the memory left below the limit.
func (g growth) left() recommender.Amount { return max(0, g.limit-g.latest) }

// reachedIn returns the time until the limit is reached; false: usage does not climb, or needs more than an hour.
func (g growth) reachedIn() (time.Duration, bool) {
	if g.speed <= 0 {
		return 0, false
	}
	seconds := float64(g.left()) / g.speed
	if seconds > time.Hour.Seconds() {
		return 0, false
	}
	return max(0, time.Duration(seconds*float64(time.Second))-g.age), true
}

// near reports whether to check the container often: it climbs at or above its record, over half of its limit, and
// would reach the limit within steadyAhead. Steady usage close to the limit is not near.
func (g growth) near() bool {
	in, reached := g.reachedIn()
	return reached && in <= steadyAhead && g.latest*2 >= g.limit && g.latest >= g.record && g.rise >= g.noise
}

// imminent reports whether the limit would be reached before the next checks could prevent it.
func (g growth) imminent() bool {
	in, reached := g.reachedIn()
	switch {
	case !reached, g.latest*2 < g.limit, g.rise < 2*g.noise:
		return false
	case g.stalled >= stalling && g.latest*10 >= g.limit*9:
		return in <= mostAhead // the kernel has nothing left to reclaim, so the record does not matter
	case g.latest < g.record+g.noise:
		return false
	case g.samples < 3: // two samples count only for a large climb that is not a start, if the next check would be too late
		return !g.young && g.rise*10 >= g.limit && in <= g.apart+reacts
	case g.samples >= 4 && g.latest*20 >= g.limit*19:
		return in <= steadyAhead
	}
	return in <= min(max(2*g.apart+reacts, leastAhead), mostAhead)
}

// sentence describes the climb, with the figures.
func (g growth) sentence() string {
	in, _ := g.reachedIn()
	when := fmt.Sprintf("in %d s", int(in.Seconds()))
	if in < time.Second {
		when = "now"
	}
	text := fmt.Sprintf("memory usage %s of %s grows by %.1fMi/s and would reach the limit %s",
		inMi(g.latest), recommender.Readable(recommender.Memory, g.limit), g.speed/(1<<20), when)
	if g.age >= leastAhead {
		text += fmt.Sprintf(", according to a sample from %d s ago", int(g.age.Seconds()))
	}
	return text
}

func inMi(a recommender.Amount) string { return fmt.Sprintf("%dMi", a>>20) }

// size returns the memory after a raise: the limit after an OOM kill, more if the speed requires it, and at most twice
// the current limit. maxAllowed and Ceiling may lower it.
func size(c Container, g growth, now time.Time) (recommender.Allocation, *resize.Refusal) {
	refused := func(reason, why string, args ...any) (recommender.Allocation, *resize.Refusal) {
		climbs := "its memory usage approaches the limit of " + recommender.Readable(recommender.Memory, g.limit) + ", but "
		return recommender.Allocation{}, refuse(c.Name, reason, "%s"+why, append([]any{climbs}, args...)...)
	}
	if c.LimitsLeft {
		return refused(resize.ReasonClimbLimits, "the policy does not change limits. Set memory.controlledValues: RequestsAndLimits to allow a raise before an OOM kill")
	}
	if refusal := c.Raises.refusal(c.Name, g.limit, now); refusal != nil {
		return recommender.Allocation{}, refusal
	}
	if c.Restarts {
		return refused(resize.ReasonClimbRestarts,
			"its resizePolicy restarts it for a new limit. Set resizePolicy NotRequired for memory to allow a raise before an OOM kill")
	}
	needs := g.latest + recommender.Amount(g.speed*(g.age+lasts).Seconds())
	limit, least := recommender.WholeMiB(min(max(recommender.OOMFloor(g.limit), needs), 2*g.limit)), g.limit+g.limit/20
	if c.Most > 0 {
		limit = min(limit, c.Most)
	}
	if limit < least {
		return refused(resize.ReasonClimbBound, "memory.maxAllowed is %s. Set a higher maxAllowed to allow a raise before an OOM kill",
			recommender.Readable(recommender.Memory, c.Most))
	}
	if limit = recommender.Brake(limit, c.Ceiling); limit < least {
		return refused(resize.ReasonFollowsLimit, "attune raises its limit above %s only after an OOM kill. Set a higher limit in the template, "+
			"or memory.controlledValues: RequestsOnly", recommender.Readable(recommender.Memory, c.Ceiling))
	}
	return recommender.Allocation{Request: c.request(g, limit), Limit: limit}, nil
}

// request returns the request for a limit. In a Guaranteed pod it always equals the limit, even if an HPA scales on it,
// as after an OOM kill: the pod's class never changes, and without the raise the pod would be killed.
func (c Container) request(g growth, limit recommender.Amount) recommender.Amount {
	switch uses := recommender.WholeMiB(g.latest); {
	case c.Together:
		return limit
	case c.RequestHeld: // another request would change the number of replicas
		return c.Has.Request
	case uses < limit: // the request covers the usage, so that the kubelet evicts other pods first
		return max(c.Has.Request, uses)
	}
	return c.Has.Request
}

// refuse returns the refusal to raise one container; a user can lift it. Its text has no figure that changes with each
// check.
func refuse(container, reason, format string, args ...any) *resize.Refusal {
	r := resize.Refuse(reason, format, args...)
	r.Message = "container " + container + ": " + r.Message
	r.Container = container
	return r
}

// calmFor is how long a container has to need much less than its old limit before a raise is reverted.
const calmFor = 2 * time.Minute

// GivesBack reports whether a raise is reverted: for calmFor all samples were at most 80 % of the old limit (before, in
// bytes), and usage does not climb.
func GivesBack(samples []Sample, before recommender.Amount, now time.Time) bool {
	samples = plausible(samples, math.MaxInt64)
	n := len(samples)
	if n < 2 || before == 0 || now.Sub(samples[n-1].At) > tooOld {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if samples[i].Bytes*5 > before*4 {
			return false
		}
		if now.Sub(samples[i].At) >= calmFor {
			return samples[n-1].Bytes <= samples[i].Bytes+before/20
		}
	}
	return false // too few samples
}
