package chart

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFigures(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.5", 12.345: "12.3", 0.0123456: "0.0123", 1234.5: "1234", 0.00001234: "0.000012", -2.5: "-2.5", 10: "10", math.Inf(-1): "-Inf"} {
		if math.IsInf(x, 0) {
			continue
		}
		assert.Equal(t, want, Figure(x))
	}
	assert.Equal(t, "–", Figure(math.NaN()))
	assert.Equal(t, "1.5 GiB", Amount(1, 1.5*(1<<30)))
	assert.Equal(t, "250m", Amount(0, 0.25))
	assert.Equal(t, "2.5 cores", Amount(0, 2.5))
}

// Lines have gaps where the value was not measured or not set.
func TestGaps(t *testing.T) {
	axes := Over(0, 4, 10)
	points := []Point{{0, 1}, {1, math.NaN()}, {2, 5}, {3, 5}, {4, 0}}
	assert.Equal(t, "M76 170L76 154.4L76 170ZM392 170L392 92L550 92L708 170L708 170Z", axes.Area(points))
	assert.Equal(t, "M76 154.4H76M392 92H550", axes.Line(points))
}
