package node

import (
	"math/bits"

	"attune.io/attune/recommender"
)

// claim is what a pod or container holds without a raise (low), with its base demand (base), and with all that it is
// granted (top): low ≤ base ≤ top.
type claim struct{ low, base, top recommender.Amount }

func newClaim(low, base, top recommender.Amount) claim {
	top = max(low, top)
	return claim{low, min(max(base, low), top), top}
}

func (x *claim) add(y claim) { x.low, x.base, x.top = x.low+y.low, x.base+y.base, x.top+y.top }

// atLeast an init request, which the scheduler counts anyway: raises within it take no room.
func (x claim) atLeast(a recommender.Amount) claim {
	return claim{max(x.low, a), max(x.base, a), max(x.top, a)}
}

// portion divides room that may be too little for all claims: what they lack of their bases comes first (toBase), then
// what they lack above them (toTop), either in proportion. Each part is rounded down, so the parts are together no more
// than the room, unless the lows alone are.
type portion struct{ room, toBase, toTop recommender.Amount }

func (p *portion) add(x claim) {
	p.room -= x.low
	p.toBase += x.base - x.low
	p.toTop += x.top - x.base
}

// of is what one of the claims that were added comes to.
func (p *portion) of(x claim) recommender.Amount {
	switch left := p.room - p.toBase; {
	case left >= p.toTop:
		return x.top
	case left >= 0:
		return x.base + proportion(x.top-x.base, left, p.toTop)
	case p.room > 0:
		return x.low + proportion(x.base-x.low, p.room, p.toBase)
	default:
		return x.low
	}
}

// proportion is a × part / whole, rounded down, with a product of 126 bits; 0 ≤ part < whole.
func proportion(a, part, whole recommender.Amount) recommender.Amount {
	high, low := bits.Mul64(uint64(a), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return recommender.Amount(quotient)
}

// whole rounds an amount below the top down to a whole one (memory: MiB), as people read it in the pod; not below low.
func whole(r recommender.Resource, low, to, top recommender.Amount) recommender.Amount {
	if to >= top {
		return to
	}
	return max(low, r.WholeDown(to))
}
