package recommender

// Grains of what is stored, shown and applied of memory. A CPU amount is in whole millicores already.
const (
	kibibyte Amount = 1 << 10
	mebibyte Amount = 1 << 20
	// coarseFrom is the least memory that is in whole MiB; less is in whole KiB, where a MiB would be much.
	coarseFrom = 16 * mebibyte
)

// grain is the unit of a whole amount of that size, in millicores or bytes.
func (r Resource) grain(a Amount) Amount {
	switch {
	case r == CPU:
		return 1
	case a < coarseFrom:
		return kibibyte
	default:
		return mebibyte
	}
}

// Whole is the least whole amount that is not below a: whole millicores of CPU, whole MiB of memory, below 16 MiB
// whole KiB. What is beyond MaxAmount stays as it is.
func (r Resource) Whole(a Amount) Amount {
	if a >= MaxAmount {
		return a
	}
	g := r.grain(a)
	return (a + g - 1) / g * g
}

// WholeDown is the greatest whole amount that is not above a. It is 0 for less than 1 KiB of memory.
func (r Resource) WholeDown(a Amount) Amount { return a - a%r.grain(a) }

// WholeWithin is Whole of an amount within two bounds, or WholeDown where Whole would pass highest (0: no bound). It
// is a itself where neither is within the bounds, and never zero unless a is. A lowest above highest does not count.
func (r Resource) WholeWithin(a, lowest, highest Amount) Amount {
	up, down := r.Whole(a), r.WholeDown(a)
	switch {
	case highest == 0 || up <= highest:
		return up
	case down > 0 && (down >= lowest || lowest > highest):
		return down
	default:
		return a
	}
}
