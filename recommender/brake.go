package recommender

import "math"

// The brake on memory limits. Usage that fills its limit (page cache that counts in the working set, a heap sized from
// the limit) would ask for more after each raise, without end. So no limit is raised above MemoryCeiling.

// brakeFactor is the largest multiple of the template's memory limit without an OOM kill.
const brakeFactor = 2

// MemoryCeiling is the amount in bytes above which no memory limit of a container is raised. It is the highest of twice
// the template's limit, the minimum learned from OOM kills (floor), and minAllowed, which a user set. It is 0, no
// ceiling, if the template has no limit. It never lowers a limit.
func MemoryCeiling(template Allocation, floor Floor, minAllowed Amount) Amount {
	if template.Limit == 0 {
		return 0
	}
	return max(Memory.WholeDown(brakeFactor*min(template.Limit, MaxAmount)), template.Limit, Memory.Whole(max(floor.Taught, floor.Amount, minAllowed)))
}

// Brake bounds an amount by a ceiling, such as MemoryCeiling; 0 means no ceiling.
func Brake(limit, ceiling Amount) Amount {
	if ceiling == 0 {
		return limit
	}
	return min(limit, ceiling)
}

// Each of the followed limits is at least anotherLimit times the one before: resize steps leave out changes below 10 %,
// and the limit is rounded. The shares of them that usage filled differ by sameShare at most.
const (
	followedLimits = 3
	anotherLimit   = 1.09
	sameShare      = 1.05
)

// LimitUsage is a memory limit that was in force, and the usage under it, in bytes. Usage is 0 if it was not constant, or
// was not measured for long enough.
type LimitUsage struct{ Limit, Usage Amount }

// FollowedLimit returns the last of three memory limits that usage filled to the same share, one after the other; 0: usage
// does not follow its limit. Constant usage fills a smaller share of a higher limit, and usage that grows is not constant
// under one limit. A limit no higher than one at which a container was killed (taught is OOMFloor of that limit) shows
// nothing, because the raise was needed.
func FollowedLimit(limits []LimitUsage, taught Amount) Amount {
	least, most := math.Inf(1), 0.0
	for i, l := range limits {
		if l.Usage == 0 || OOMFloor(l.Limit) <= taught || i > 0 && l.Limit < limits[i-1].Limit.scaled(anotherLimit) {
			return 0
		}
		share := float64(l.Usage) / float64(l.Limit)
		least, most = min(least, share), max(most, share)
	}
	if len(limits) != followedLimits || most > least*sameShare {
		return 0
	}
	return limits[followedLimits-1].Limit
}

// highestRequest is the highest request under a ceiling; 0: no bound. It stays below the limit if the template's
// request does, because the pod's QoS class may depend on it.
func highestRequest(template Allocation, ceiling Amount) Amount {
	if ceiling == 0 || template.pinned() {
		return ceiling
	}
	return max(template.Request, ceiling-Memory.grain(ceiling))
}

const liftsBrake = ". Lifted by an OOM kill, a higher limit in the template, or memory.controlledValues: RequestsOnly"

// braked returns the hold of memory whose usage needs a limit above the ceiling, or nil. Created pods still get the
// target. The needed limit is 1.1 times the peak, or the percentile with its margin. The factor for low confidence does
// not count, because it is not usage.
func (c *chain) braked() *Hold {
	needed := Memory.Whole(max((c.history.Peak * limitHeadroom).RoundUp(), margin(c, 0)))
	if c.ceiling == 0 || !c.enough() || needed <= c.ceiling {
		return nil
	}
	if c.followed != nil {
		last, limits := c.followed[followedLimits-1], sentence(nil)
		for i, l := range c.followed {
			limits = limits.text([...]string{"", ", ", " and "}[i]).amount(Memory, l.Limit)
		}
		return c.hold(FollowsItsLimit, sentence("memory stays at ").number(100*float64(last.Usage)/float64(last.Limit), 0).text(" % of its limit at ").text(string(limits)).
			text(": it follows its limit, so attune keeps the limit ").amount(Memory, c.ceiling).
			text(". Set memory.maxAllowed, or the heap or cache size of the program").text(liftsBrake))
	}
	why := sentence("usage of up to ").usage(Memory, c.history.Peak).text(" needs a memory limit of ").amount(Memory, needed).
		text(", but without an OOM kill attune does not raise the limit above ").amount(Memory, c.ceiling)
	if c.ceiling == MemoryCeiling(c.original, Floor{}, 0) {
		why = why.text(", twice the template's ").amount(Memory, c.original.Limit)
	}
	return c.hold(FollowsItsLimit, why.text(liftsBrake))
}
