package node

import (
	"math/bits"

	"attune.io/attune/recommender"
)

// rise is what somebody holds without a raise, what he has with his base demand, and what he has with all that
// is his: none less than the one before.
type rise struct{ low, base, top recommender.Amount }

func newRise(low, base, top recommender.Amount) rise {
	top = max(low, top)
	return rise{low, min(max(base, low), top), top}
}

// add joins two.
func (x *rise) add(y rise) { x.low, x.base, x.top = x.low+y.low, x.base+y.base, x.top+y.top }

// atLeast an init request: inside it a pod rises for nothing.
func (x rise) atLeast(a recommender.Amount) rise {
	return rise{max(x.low, a), max(x.base, a), max(x.top, a)}
}

// portion shares room that may be too little for all: what is lacking of the bases comes first, then what is
// missing above them; either in proportion, rounded down.
type portion struct{ room, lacking, climbing recommender.Amount }

func (p *portion) add(x rise) {
	p.room -= x.low
	p.lacking += x.base - x.low
	p.climbing += x.top - x.base
}

// of is what one of those that were added comes to.
func (p *portion) of(x rise) recommender.Amount {
	switch left := p.room - p.lacking; {
	case left >= p.climbing:
		return x.top
	case left >= 0:
		return x.base + proportion(x.top-x.base, left, p.climbing)
	case p.room > 0:
		return x.low + proportion(x.base-x.low, p.room, p.lacking)
	default:
		return x.low
	}
}

// proportion is a × part / whole, rounded down; the part is less than the whole.
func proportion(a, part, whole recommender.Amount) recommender.Amount {
	high, low := bits.Mul64(uint64(a), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return recommender.Amount(quotient)
}

// whole rounds what is less than the top down to whole MiB of memory, which people read in the pod; not below low.
func whole(r recommender.Resource, low, to, top recommender.Amount) recommender.Amount {
	if to >= top {
		return to
	}
	return max(low, r.WholeDown(to))
}
