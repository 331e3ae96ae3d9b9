package codec

import "math"

// quantiser maps positive values to buckets whose middles are a fixed ratio apart: bucket n has the middle unit·e^(n·width).
// It computes in floats, since a bucket may be infinite; both formats store what it returns, so its rounding never changes.
type quantiser struct {
	unit float64
	// width is the natural logarithm of the ratio of a middle to the one before.
	width float64
}

// newQuantiser has a relative error of maxError at most: a bucket reaches that far to both sides of its middle.
func newQuantiser(unit, maxError float64) quantiser {
	return quantiser{unit: unit, width: 2 * math.Log1p(maxError)}
}

// bucket of a value; below zero where the value is less than unit.
func (q quantiser) bucket(value float64) float64 { return math.Round(math.Log(value/q.unit) / q.width) }

// middle of a bucket.
func (q quantiser) middle(bucket float64) float64 { return q.unit * math.Exp(bucket*q.width) }

// zigzag makes small numbers of both signs small: 0, -1, 1, -2 become 0, 1, 2, 3.
func zigzag(n int64) uint64 { return uint64(n<<1 ^ n>>63) }

// unzigzag undoes zigzag.
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
