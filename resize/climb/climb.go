// Package climb decides whether a container is raised before the kernel kills it: its memory climbs towards its
// limit, beyond what it is known to have held, and would reach it soon.
//
// Look decides by values alone: samples with their times, the limit, the container's own record, and the raises
// before. GivesBack decides whether a raise is taken back, because the growth was a spike. row.go keeps the raises of a
// day as tries of the status, so that a restart forgets none of them.
//
// What a raise has to pass beside that, is what an answer to an OOM kill has to pass: package resize, the gates.
package climb

import (
	"fmt"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Sample is the memory that a container needed at a moment: its working set, in bytes.
type Sample struct {
	At    time.Time
	Bytes recommender.Amount
}

// Container is what is known of one container with a memory limit. The zero value of a field: not known.
type Container struct {
	// Name of the container.
	Name string
	// Has is its memory request and limit. Without a limit there is no kill to forestall.
	Has recommender.Allocation
	// Samples are the newest ones, the oldest first.
	Samples []Sample
	// Started is when it began to run.
	Started time.Time
	// Stalled is the fraction, 0 to 1, of the time in which its tasks waited for memory (PSI).
	Stalled float64
	// Peak is the most that the workload's containers of this name are known to have held.
	Peak recommender.Amount
	// Most is the maxAllowed of the policy.
	Most recommender.Amount
	// Ceiling is what its limit is not raised above without a kill, in bytes (recommender.MemoryCeiling); 0: none.
	Ceiling recommender.Amount
	// Together: request and limit are one amount, which keeps the pod's class (Guaranteed).
	Together bool
	// Restarts: a change of its memory restarts it.
	Restarts bool
	// LimitsLeft: the policy leaves limits alone.
	LimitsLeft bool
	// RequestHeld: a HorizontalPodAutoscaler scales on its memory, as a part of its request.
	RequestHeld bool
	// Raises are those of the last day.
	Raises Raises
}

// Verdict is what a look at a container came to. The zero value: nothing is done, and nothing is near.
type Verdict struct {
	// To is the memory that the container is raised to; zero: it is not raised.
	To recommender.Allocation
	// Why is one sentence with the figures; empty: the container does not climb towards its limit.
	Why string
	// Refusal is why a container that climbs towards its limit is not raised; nil: it is, or it does not.
	Refusal *resize.Refusal
	// Near: it is to be looked at again soon.
	Near bool
}

// Raises reports whether the container is to be raised.
func (v Verdict) Raises() bool { return v.To.Limit > 0 }

const (
	// starts is how long a container fills its memory for the first time. That is no climb, wherever it ends: what rests at
	// 90 % of its limit has not been on its way to a kill.
	starts = time.Minute
	// tooOld is the age from which on a sample says nothing about now.
	tooOld = 2 * time.Minute
	// least and most bound how far ahead is looked: beyond the next looks, so that none comes too late.
	leastAhead, mostAhead = 30 * time.Second, 2 * time.Minute
	// reacts is how long it takes at most from a sample to a limit that is raised.
	reacts = 15 * time.Second
	// shortest is the time over which a speed is measured at least, where samples are closer.
	shortest = 8 * time.Second
	// lasts is for how long a raise is to be enough: until it is verified and the container was looked at again.
	lasts = time.Minute
	// steadyAhead is how far ahead is looked in a container that is close to its limit and climbs steadily.
	steadyAhead = 10 * time.Minute
	// stalling is the fraction of time from which on waiting for memory says that the kernel finds no more to reclaim.
	stalling = 0.1
)

// Look decides about a container at a time.
//
// It raises where all of this holds:
//   - the newest samples climb, without a fall between them that is more than noise;
//   - they are beyond what the container held before this climb, so that a plateau, page cache or the saw of a
//     garbage collector is nothing new, however close to the limit;
//   - at the present speed the limit would be reached before the looks that follow could do anything about it.
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

// growth is what the samples of a container say.
type growth struct {
	// limit and latest are its memory limit and the newest sample, record what it held before this climb.
	limit, latest, record recommender.Amount
	// noise is how much a fall or a new record has to be to count as one.
	noise recommender.Amount
	// rise is how much it climbed, over samples of them; speed is in bytes per second.
	rise    recommender.Amount
	samples int
	// young: nothing is known of before the climb.
	young bool
	speed float64
	// age is that of the newest sample, apart the time between the two newest.
	age, apart time.Duration
	stalled    float64
}

// measure the growth of a container; false: too little is known, or too old.
func measure(c Container, now time.Time) (growth, bool) {
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
	if c.Peak < c.Has.Limit { // what is above the limit was held, or learned, with another one
		g.record = c.Peak
	}
	for _, s := range c.Samples[:first] {
		g.record = max(g.record, s.Bytes)
	}
	g.rise, g.samples, g.young = last.Bytes-c.Samples[first].Bytes, n-first, first == 0
	g.speed = speedOf(c.Samples[first:])
	return g, true
}

// Noise is how much a fall or a new record has to be to count as one, in the unit of its arguments: 1 % of the limit, and less
// where little is left, because the last steps of a slow climb are small.
func Noise(left, limit float64) float64 { return min(max(left/4, limit/400), limit/100) }

// start is the last sample of the container's start; the first one where that is not among them.
func (c Container) start() (last int) {
	for i, s := range c.Samples {
		if s.At.Sub(c.Started) < starts {
			last = i
		}
	}
	return last
}

// beginOf is the first sample of the climb that the newest one belongs to: the longest end of the samples in which
// none falls by more than noise.
func beginOf(samples []Sample, noise recommender.Amount) int {
	first := len(samples) - 1
	lowest := samples[first].Bytes
	begin := first
	for i := first - 1; i >= 0 && samples[i].Bytes <= lowest+noise && samples[i+1].At.Sub(samples[i].At) <= tooOld; i-- {
		if samples[i].Bytes <= lowest {
			lowest, begin = samples[i].Bytes, i
		}
	}
	return begin
}

// speedOf a climb in bytes per second: up to the newest sample, over a time that is not too short.
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

// left is what is left to the limit.
func (g growth) left() recommender.Amount { return max(0, g.limit-g.latest) }

// reachedIn is how long it takes from now until the limit is reached; false: it is not.
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

// near reports whether the container is worth looking at often: it is on its way to its limit, and where it has not been
// before. One that rests close to its limit is not.
func (g growth) near() bool {
	in, reached := g.reachedIn()
	return reached && in <= steadyAhead && g.latest*2 >= g.limit && g.latest >= g.record && g.rise >= g.noise
}

// imminent reports whether the limit would be reached before the next looks could do anything about it.
func (g growth) imminent() bool {
	in, reached := g.reachedIn()
	switch {
	case !reached, g.latest*2 < g.limit, g.rise < 2*g.noise:
		return false
	case g.stalled >= stalling && g.latest*10 >= g.limit*9:
		return in <= mostAhead // the kernel has nothing left to reclaim, whatever was held before
	case g.latest < g.record+g.noise:
		return false
	case g.samples < 3: // two samples are a climb only where it is a great one, not a start, and the next look would be too late
		return !g.young && g.rise*10 >= g.limit && in <= g.apart+reacts
	case g.samples >= 4 && g.latest*20 >= g.limit*19:
		return in <= steadyAhead
	}
	return in <= min(max(2*g.apart+reacts, leastAhead), mostAhead)
}

// sentence says what the samples say, with the figures.
func (g growth) sentence() string {
	in, _ := g.reachedIn()
	when := fmt.Sprintf("in %d s", int(in.Seconds()))
	if in < time.Second {
		when = "now"
	}
	text := fmt.Sprintf("usage %s of %s climbs %.1fMi/s: the limit would be reached %s",
		inMi(g.latest), recommender.Readable(recommender.Memory, g.limit), g.speed/(1<<20), when)
	if g.age >= leastAhead {
		text += fmt.Sprintf(", by a sample of %d s ago", int(g.age.Seconds()))
	}
	return text
}

func inMi(a recommender.Amount) string { return fmt.Sprintf("%dMi", a>>20) }

// size is what the container is raised to: at least what an answer to an OOM kill would give it, more where its speed
// asks for that, and at most twice what it has.
func size(c Container, g growth, now time.Time) (recommender.Allocation, *resize.Refusal) {
	refused := func(reason, why string, args ...any) (recommender.Allocation, *resize.Refusal) {
		climbs := "it climbs towards its memory limit of " + recommender.Readable(recommender.Memory, g.limit) + ", and "
		return recommender.Allocation{}, refuse(c.Name, reason, "%s"+why, append([]any{climbs}, args...)...)
	}
	if c.LimitsLeft {
		return refused(resize.ReasonClimbLimits, "the policy leaves limits alone: controlledValues RequestsAndLimits lets it be raised before an OOM kill")
	}
	if refusal := c.Raises.refusal(c.Name, g.limit, now); refusal != nil {
		return recommender.Allocation{}, refusal
	}
	if c.Restarts {
		return refused(resize.ReasonClimbRestarts,
			"its resizePolicy restarts it for another one: a resizePolicy of NotRequired for memory lets it be raised before an OOM kill")
	}
	needs := g.latest + recommender.Amount(g.speed*(g.age+lasts).Seconds())
	limit, least := rounded(min(max(recommender.OOMFloor(g.limit), needs), 2*g.limit)), g.limit+g.limit/20
	if c.Most > 0 {
		limit = min(limit, c.Most)
	}
	if limit < least {
		return refused(resize.ReasonClimbBound, "maxAllowed is %s: a higher maxAllowed lets it be raised before an OOM kill",
			recommender.Readable(recommender.Memory, c.Most))
	}
	if limit = recommender.Brake(limit, c.Ceiling); limit < least {
		return refused(resize.ReasonFollowsLimit, "without an OOM kill its limit is not raised above %s: an OOM kill, a higher limit in the template, "+
			"or memory.controlledValues RequestsOnly lifts this", recommender.Readable(recommender.Memory, c.Ceiling))
	}
	return recommender.Allocation{Request: c.request(g, limit), Limit: limit}, nil
}

// request is what the container requests with a limit. In a Guaranteed pod it goes with the limit whoever scales on it, as
// after an OOM kill: the pod's class never changes, and without the raise the kill comes.
func (c Container) request(g growth, limit recommender.Amount) recommender.Amount {
	switch uses := rounded(g.latest); {
	case c.Together:
		return limit
	case c.RequestHeld: // another one would change the number of replicas
		return c.Has.Request
	case uses < limit: // what it uses is asked for too: the node keeps it, and evicts other pods first
		return max(c.Has.Request, uses)
	}
	return c.Has.Request
}

// refuse is the refusal to raise one container: a person can lift it. Its words have no figure that changes with each look.
func refuse(container, reason, format string, args ...any) *resize.Refusal {
	r := resize.Refuse(reason, format, args...)
	r.Message = "container " + container + ": " + r.Message
	r.Container = container
	return r
}

// rounded up to a whole mebibyte.
func rounded(a recommender.Amount) recommender.Amount { return (a + 1<<20 - 1) >> 20 << 20 }

// calmFor is how long a container has to need much less than its old limit before a raise is taken back.
const calmFor = 2 * time.Minute

// GivesBack reports whether a raise is taken back: for a while the container has needed well under the limit that it
// had before, as far as the samples tell, and it does not climb.
func GivesBack(samples []Sample, before recommender.Amount, now time.Time) bool {
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
	return false // too little is known
}
