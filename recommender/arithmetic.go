package recommender

import (
	"math"
	"math/bits"
)

// MaxAmount is the greatest amount that is computed with: 9 PB of memory, 9 billion cores. Every amount up to it
// is exact as a float64.
const MaxAmount Amount = 1 << 53

// RoundUp is the least amount that is not below the usage, between 0 and MaxAmount; NaN and negative usage count
// as 0. A usage that exceeds a whole amount only by the noise of floating-point arithmetic (0.07 cores are
// 70.00000000000001 millicores) gives that whole amount.
func (u Usage) RoundUp() Amount {
	x := float64(u)
	switch {
	case !(x > 0):
		return 0
	case x >= float64(MaxAmount):
		return MaxAmount
	}
	if whole := math.Round(x); whole > 0 && math.Abs(x-whole) <= min(x*1e-12, 0.01) {
		return Amount(whole)
	}
	return Amount(math.Ceil(x))
}

// times is a × num / den, rounded down, without overflow in between, and at most MaxAmount. The arguments must not
// be negative, and den not 0.
func (a Amount) times(num, den Amount) Amount {
	high, low := bits.Mul64(uint64(a), uint64(num))
	if high >= uint64(den) {
		return MaxAmount
	}
	quotient, _ := bits.Div64(high, low, uint64(den))
	return Amount(min(quotient, uint64(MaxAmount)))
}

// scaled is a × factor, rounded up.
func (a Amount) scaled(factor float64) Amount { return Usage(float64(a) * factor).RoundUp() }
