package recommender

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

// highestRequest is the highest request under a ceiling; 0: no bound. It stays below the limit if the template's
// request does, because the pod's QoS class may depend on it.
func highestRequest(template Allocation, ceiling Amount) Amount {
	if ceiling == 0 || template.pinned() {
		return ceiling
	}
	return max(template.Request, ceiling-Memory.grain(ceiling))
}

// braked returns the hold of memory whose usage needs a limit above the ceiling, or nil. Created pods still get the
// target. The needed limit is 1.1 times the peak, or the percentile with its margin. The factor for low confidence does
// not count, because it is not usage.
func (c *chain) braked() *Hold {
	needed := Memory.Whole(max((c.history.Peak * limitHeadroom).RoundUp(), margin(c, 0)))
	if c.ceiling == 0 || !c.enough() || needed <= c.ceiling {
		return nil
	}
	why := sentence("usage of up to ").usage(Memory, c.history.Peak).text(" needs a memory limit of ").amount(Memory, needed).
		text(", but without an OOM kill attune does not raise the limit above ").amount(Memory, c.ceiling)
	if c.ceiling == MemoryCeiling(c.original, Floor{}, 0) {
		why = why.text(", twice the template's ").amount(Memory, c.original.Limit)
	}
	return c.hold(FollowsItsLimit, why.text(". Lifted by an OOM kill, a higher limit in the template, or memory.controlledValues: RequestsOnly"))
}
