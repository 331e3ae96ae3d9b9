package recommender

import (
	"math"
	"time"
)

// A floor fades by a fifth every week: what killed in spring should not size the container in autumn.
const (
	decayFactor = 0.8
	decayPeriod = 7 * 24 * time.Hour
)

// OOMFloor is the memory that a container needs at least after an OOM kill at the given limit: 1.3
// times that limit.
func OOMFloor(limit Amount) Amount { return limit.scaled(1.3) }

// ThrottleFloor is the CPU that a container needs at least after it was throttled at the given limit:
// 1.3 times that limit.
func ThrottleFloor(limit Amount) Amount { return limit.scaled(1.3) }

// Decay is what is left of a floor after a time: it shrinks continuously, by the factor 0.8 every 7 days. A floor
// that was learned in the future (by another clock) has not decayed.
func Decay(amount Amount, learnedAt, now time.Time) Amount {
	age := now.Sub(learnedAt)
	if age <= 0 {
		return amount
	}
	return amount.scaled(math.Pow(decayFactor, float64(age)/float64(decayPeriod)))
}
