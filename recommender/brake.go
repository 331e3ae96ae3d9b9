package recommender

// The brake on memory limits. What fills its limit (page cache that counts in the working set, a heap that is sized
// from the limit) would ask for more after each raise, without end. So no limit is raised above MemoryCeiling.

// brakeFactor is the multiple of the template's memory limit to which a limit is raised at most without an OOM kill.
const brakeFactor = 2

// MemoryCeiling is the amount in bytes above which no memory limit of a container is raised: twice its limit in the
// template, or what OOM kills taught (floor), or minAllowed, which a person chose. It is 0, no ceiling, where the
// template has no limit. It never lowers a limit.
func MemoryCeiling(template Allocation, floor Floor, minAllowed Amount) Amount {
	if template.Limit == 0 {
		return 0
	}
	return max(Memory.WholeDown(brakeFactor*min(template.Limit, MaxAmount)), template.Limit, Memory.Whole(max(floor.Taught, floor.Amount)), minAllowed)
}

// Brake is an amount within a ceiling, such as that of MemoryCeiling; 0 is no ceiling.
func Brake(limit, ceiling Amount) Amount {
	if ceiling == 0 {
		return limit
	}
	return min(limit, ceiling)
}

// highestRequest is the highest request under a ceiling; 0: no bound. It stays below the limit where the template's does, since the
// pod's class of quality of service may depend on it.
func highestRequest(template Allocation, ceiling Amount) Amount {
	if ceiling == 0 || template.pinned() {
		return ceiling
	}
	return max(template.Request, ceiling-Memory.grain(ceiling))
}

// braked is the hold of memory whose usage asks for a limit above the ceiling, or nil. New pods still get the target. Usage
// asks for 1.1 times its peak, and for its percentile with the margin; caution about short history is no usage.
func (c *chain) braked() *Hold {
	needed := Memory.Whole(max((c.history.Peak * limitHeadroom).RoundUp(), margin(c, 0)))
	if c.ceiling == 0 || !c.enough() || needed <= c.ceiling {
		return nil
	}
	why := sentence("usage of up to ").usage(Memory, c.history.Peak).text(" asks for a memory limit of ").amount(Memory, needed).
		text(", and without an OOM kill the limit is not raised above ").amount(Memory, c.ceiling)
	if c.ceiling == MemoryCeiling(c.original, Floor{}, 0) {
		why = why.text(", twice the template's ").amount(Memory, c.original.Limit)
	}
	return c.hold(FollowsItsLimit, why.text(": an OOM kill, a higher limit in the template, or memory.controlledValues RequestsOnly lifts this"))
}
