// Package demand plays what containers need of CPU and memory over time, and what a usage source says of it. All of it
// is worked out from a seed and a time: equal questions have equal answers, whenever they are asked.
package demand

import (
	"hash/fnv"
	"math"
	"time"
)

// Shape is how a load moves over time, around 1.
type Shape string

// Shapes of loads.
const (
	Steady  Shape = "steady"  // always 1
	Diurnal Shape = "diurnal" // 0.2 at night, 1 at noon
	Weekly  Shape = "weekly"  // diurnal, and a quarter of it at weekends
	Bursty  Shape = "bursty"  // 0.5, and 2 for ten minutes now and then
	Spiky   Shape = "spiky"   // 0.5, and 4 for one minute now and then
	Idle    Shape = "idle"    // 0.02
	Nightly Shape = "nightly" // 0.05, and 1.5 from two to four in the morning
)

// Demand is what the processes of a container need. The amounts are those at a load of 1.
type Demand struct {
	Seed  uint64
	Shape Shape
	// CPU in cores; Memory in bytes, all of it anonymous.
	CPU, Memory float64
	// Cache is the page cache that files fill within an hour, in bytes; it gives way to what the processes need.
	Cache float64
	// Leak is lost memory an hour, in bytes, until the container starts anew.
	Leak float64
	// StartCPU is how many times the CPU is needed for the first two minutes; 0: no more than later.
	StartCPU float64
	// ReadyAfter is how long a start takes with all the CPU it needs.
	ReadyAfter time.Duration
	// ReadyWith and AliveWith are the fractions of the CPU needed, below which the readiness probe and the liveness
	// probe fail; 0: they never do.
	ReadyWith, AliveWith float64
	// Work is how long the container runs, with all the CPU it needs, before it ends by itself; 0: it runs on. Fails is
	// the fraction of runs that end with an error.
	Work  time.Duration
	Fails float64
	// Steps change the load for good, in order.
	Steps []Step
}

// Step is a change of a load by a factor.
type Step struct {
	At     time.Time
	Factor float64
}

// fillsIn is how long a process takes until it has most of its memory, startsFor how long a start needs more CPU.
const (
	fillsIn   = 10 * time.Second
	startsFor = 2 * time.Minute
)

// load of a replica in a minute.
func (d Demand) load(replica string, minute int64) float64 {
	at := time.Unix(minute*60, 0).UTC()
	load := d.Shape.at(d.Seed, at, minute)
	for _, step := range d.Steps {
		if !at.Before(step.At) {
			load *= step.Factor
		}
	}
	return load * (0.9 + 0.2*noise(d.Seed, replica, minute))
}

func (s Shape) at(seed uint64, at time.Time, minute int64) float64 {
	day := 0.6 - 0.4*math.Cos(2*math.Pi*float64(minute%1440)/1440)
	switch s {
	case Diurnal:
		return day
	case Weekly:
		if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			return day / 4
		}
		return day
	case Bursty:
		if noise(seed, "burst", minute/10) > 0.97 {
			return 2
		}
		return 0.5
	case Spiky:
		if noise(seed, "spike", minute) > 0.99 {
			return 4
		}
		return 0.5
	case Idle:
		return 0.02
	case Nightly:
		if at.Hour() >= 2 && at.Hour() < 4 {
			return 1.5
		}
		return 0.05
	}
	return 1
}

// CPUAt is the CPU in cores that a replica needs which started at a time. It is the same within a minute, but for the
// end of its start.
func (d Demand) CPUAt(now, started time.Time, replica string) float64 {
	cpu := d.CPU * d.load(replica, minuteOf(now))
	if d.StartCPU > 1 && now.Sub(started) < startsFor {
		return max(cpu, d.CPU*d.StartCPU)
	}
	return cpu
}

// MemoryAt is the memory in bytes that a replica needs which started at a time, and the page cache that it would fill.
// Both are the same within a minute, but for the beginning.
func (d Demand) MemoryAt(now, started time.Time, replica string) (needs, cache float64) {
	minute, age := minuteOf(now), minuteOf(now)-minuteOf(started)
	needs = d.Memory * (0.7 + 0.3*min(d.load(replica, minute/5*5), 1.5)) * (0.98 + 0.02*noise(d.Seed, replica+"/m", minute/5))
	needs += d.Leak * float64(age) / 60
	if now.Sub(started) < fillsIn {
		needs *= 0.3
	}
	return needs, d.Cache * min(1, float64(age)/60)
}

// slowed is how many times longer something takes with so much CPU; a limit of 0 is none.
func slowed(needs, limit float64) float64 {
	if limit == 0 || needs <= limit {
		return 1
	}
	return needs / limit
}

// Throttled is the fraction of periods in which a container is throttled that needs so much CPU: none up to 70 % of
// the limit, for demand comes in bursts shorter than a period, and all from the limit on. A limit of 0 is none.
func Throttled(needs, limit float64) float64 {
	if limit == 0 {
		return 0
	}
	return min(1, max(0, (needs/limit-0.7)/0.3))
}

func minuteOf(t time.Time) int64 { return int64(math.Floor(float64(t.Unix()) / 60)) }

// noise is a number from 0 up to 1 that is the same whenever it is asked for (splitmix64).
func noise(seed uint64, of string, n int64) float64 {
	h := fnv.New64a()
	h.Write([]byte(of))
	x := h.Sum64() ^ seed + uint64(n)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
