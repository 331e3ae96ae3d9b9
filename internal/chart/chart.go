// Package chart turns numbers into the coordinates and labels of an SVG chart. Templates of the pages draw it. The
// package is pure.
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/recommender"
)

// Sizes of a chart over time, in units of its viewBox.
const (
	Wide, High   = 720.0, 200.0
	Left, Right  = 76.0, 12.0
	Above, Below = 14.0, 30.0
)

// Tick is a labelled mark on an axis.
type Tick struct {
	At   Place
	Text string
}

// At returns a tick at a coordinate.
func At(at float64, text string) Tick { return Tick{Place(at), text} }

// Place is a coordinate in the SVG file.
type Place float64

// String has at most one decimal: exact enough for a screen.
func (p Place) String() string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", float64(p)), "0"), ".")
}

// Point is a value at a time in milliseconds since 1970.
type Point struct {
	At    int64
	Value float64
}

// Axes map times and values to coordinates.
type Axes struct {
	X func(at int64) float64
	Y func(value float64) float64
}

// Over returns the axes of a chart between two times, in milliseconds, and from 0 to the value most.
func Over(from, to int64, most float64) Axes {
	return Axes{
		X: func(at int64) float64 { return Left + (Wide-Left-Right)*float64(at-from)/math.Max(1, float64(to-from)) },
		Y: func(v float64) float64 { return High - Below - (High-Above-Below)*v/most },
	}
}

// Amounts are the ticks of an axis of amounts: 0, half and most.
func (a Axes) Amounts(r recommender.Resource, most float64) []Tick {
	return []Tick{{Place(a.Y(0)), "0"}, {Place(a.Y(most / 2)), Amount(r, most/2)}, {Place(a.Y(most)), Amount(r, most)}}
}

// Area returns the SVG path of the area under the points. It has a gap where a value is NaN.
func (a Axes) Area(points []Point) string {
	var out strings.Builder
	var part []string
	began, last := 0.0, 0.0
	end := func() {
		if len(part) > 0 {
			fmt.Fprintf(&out, "M%s %sL%sL%s %sZ", Place(began), Place(a.Y(0)), strings.Join(part, "L"), Place(last), Place(a.Y(0)))
		}
		part = nil
	}
	for _, p := range points {
		if math.IsNaN(p.Value) {
			end()
			continue
		}
		if last = a.X(p.At); len(part) == 0 {
			began = last
		}
		part = append(part, Place(last).String()+" "+Place(a.Y(p.Value)).String())
	}
	end()
	return out.String()
}

// Line returns the SVG path of a step line. It has a gap where a value is 0 or NaN.
func (a Axes) Line(points []Point) string {
	var out strings.Builder
	drawn, at := 0.0, ""
	for _, p := range points {
		if !(p.Value > 0) {
			if drawn > 0 {
				out.WriteString("H" + at)
			}
			drawn = 0
			continue
		}
		at = Place(a.X(p.At)).String()
		switch {
		case drawn == 0:
			fmt.Fprintf(&out, "M%s %s", at, Place(a.Y(p.Value)))
		case p.Value != drawn:
			fmt.Fprintf(&out, "H%sV%s", at, Place(a.Y(p.Value)))
		}
		drawn = p.Value
	}
	if drawn > 0 {
		out.WriteString("H" + at)
	}
	return out.String()
}

// Day formats a time of an axis.
func Day(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02 15:04") }

// Days are ticks at midnights (UTC), at most eight. Without a midnight the ticks are the two ends.
func (a Axes) Days(from, to int64) (ticks []Tick) {
	const midnight = int64(24 * time.Hour / time.Millisecond)
	every := max(1, (to-from)/midnight/8+1) * midnight
	for at := (from + every - 1) / every * every; at <= to; at += every {
		ticks = append(ticks, Tick{Place(a.X(at)), time.UnixMilli(at).UTC().Format("Jan 2")})
	}
	if len(ticks) == 0 {
		return []Tick{{Place(a.X(from)), time.UnixMilli(from).UTC().Format("15:04")}, {Place(a.X(to)), time.UnixMilli(to).UTC().Format("15:04")}}
	}
	return ticks
}

// Figure formats a number with three significant digits and without an exponent.
func Figure(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case size >= 100 || size == 0:
		return strconv.FormatFloat(x, 'f', 0, 64)
	default:
		digits := 2 - int(math.Floor(math.Log10(size)))
		text := strconv.FormatFloat(x, 'f', min(digits, 6), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
}

// Amount formats cores or bytes, rounded.
func Amount(r recommender.Resource, x float64) string {
	if r == recommender.CPU {
		if x < 1 {
			return Figure(x*1000) + "m"
		}
		return Figure(x) + " cores"
	}
	unit, names := 0, []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for x >= 1024 && unit < len(names)-1 {
		x, unit = x/1024, unit+1
	}
	return fmt.Sprintf("%s %s", Figure(x), names[unit])
}
