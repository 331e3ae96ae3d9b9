// Package replicas computes how many replicas a HorizontalPodAutoscaler asks for, and which requests keep that number.
//
// An HPA with a utilization target divides usage by the request, so another request may lead to another number of
// replicas. Scaler.Desired is the formula of the HPA controller (k8s.io/kubernetes/pkg/controller/podautoscaler), whose
// own code judges it in test/admission/replicas. Scaler.Keep finds the requests for which the formula asks for the same
// number as now at each moment of a history. The package is pure and imports the standard library only.
package replicas

import (
	"math"
	"time"
)

// Scaler is what an HPA says about one resource that it scales on by utilization.
type Scaler struct {
	// Min and Max are the bounds of the number of replicas; 1 ≤ Min ≤ Max.
	Min, Max int32
	// Target is the utilization that the HPA keeps, in percent of the request; at least 1.
	Target int32
	// Up and Down are the tolerances: as long as usage divided by the target is within 1-Down and 1+Up, the number of
	// replicas stays. DefaultTolerance unless the HPA or the controller says otherwise.
	Up, Down float64
}

// DefaultTolerance is the default of kube-controller-manager's --horizontal-pod-autoscaler-tolerance.
const DefaultTolerance = 0.1

// Fleet is one moment of the pods that an HPA scales, as it sees them.
type Fleet struct {
	// Current is the number of replicas in the spec of the workload.
	Current int32
	// Ready is the number of pods whose usage counts. Unready pods count as idle when the HPA scales out, and not at all
	// otherwise. Missing pods are ready and have no usage: they count as idle when the HPA scales out, and as busy when it
	// scales in.
	Ready, Unready, Missing int32
	// Usage is the mean usage of the ready pods, in millicores or bytes.
	Usage float64
}

// Desired is the number of replicas that the HPA asks for if each pod requests this much, in the unit of usage: before
// behavior and stabilization, which depend on nothing but this number. Without ready pods or a request the HPA does
// nothing, and Desired is Current. A number of replicas that is out of bounds is brought within them, whatever is used.
//
// Two differences are known. HPA rounds the usage that it assumes of a missing pod down to a thousandth of the unit's
// base (1m of CPU), if Target is above 100. And its 32 bits overflow if a utilization, or a number of replicas that is not
// yet bounded by Max, is above most. The requests of Keep stay below.
func (s Scaler) Desired(f Fleet, request float64) int32 {
	switch {
	case f.Current == 0: // which disables the HPA
		return 0
	case f.Current != s.clamp(f.Current):
		return s.clamp(f.Current)
	case f.Ready <= 0 || request <= 0:
		return f.Current
	}
	return s.desired(&f, shares(f.Usage, f.Ready, request))
}

// most is the largest utilization of which HPA computes with, in percent.
const most = math.MaxInt32

// inexact is how far off a result of few floating-point operations may be, with room.
const inexact = 1e-12

// shares is the utilization of the ready pods added up, in whole percent. All that an HPA computes depends on it: it
// divides it by a number of pods and rounds down.
func shares(usage float64, ready int32, request float64) int64 {
	all := 100 * usage * float64(ready) / request
	whole := math.Round(all) // HPA divides integers, so that nothing is missing from a whole number
	if math.Abs(all-whole) > whole*inexact/10 {
		whole = math.Floor(all)
	}
	return int64(min(whole, most*float64(ready)))
}

// desired is Desired at shares.
func (s Scaler) desired(f *Fleet, shares int64) int32 {
	ratio := float64(shares/int64(f.Ready)) / float64(s.Target)
	unready, missing := f.Unready, f.Missing
	if ratio <= 1 {
		unready = 0
	}
	if ratio == 1 {
		missing = 0
	}
	if unready+missing == 0 {
		if s.within(ratio) {
			return s.clamp(f.Current)
		}
		return s.clamp(ceil(ratio * float64(f.Ready)))
	}
	// Pods without a usage of their own take part with an assumed one.
	pods := f.Ready + unready + missing
	if ratio < 1 {
		shares += int64(missing) * int64(max(100, s.Target))
	}
	again := float64(shares/int64(pods)) / float64(s.Target)
	if s.within(again) || ratio < 1 && again > 1 || ratio > 1 && again < 1 {
		return s.clamp(f.Current)
	}
	wanted := ceil(again * float64(pods))
	if again < 1 && wanted > f.Current || again > 1 && wanted < f.Current {
		return s.clamp(f.Current)
	}
	return s.clamp(wanted)
}

func (s Scaler) within(ratio float64) bool { return 1-s.Down <= ratio && ratio <= 1+s.Up }

func (s Scaler) clamp(n int32) int32 { return max(s.Min, min(n, s.Max)) }

func ceil(n float64) int32 { return int32(min(math.Ceil(n), math.MaxInt32)) }

// Span is what was measured of a fleet during some steps with the same number of pods.
type Span struct {
	// Ready and Unready are the number of pods with a usage that counts, and of those that were starting.
	Ready, Unready int32
	// Least and Greatest are the least and the greatest mean usage of the ready pods, in millicores or bytes. They
	// include the error of the measurement.
	Least, Greatest float64
	// LeastAt and GreatestAt are when they were measured, in Unix seconds.
	LeastAt, GreatestAt int64
}

// Kept are the requests that keep the number of replicas.
type Kept struct {
	// Least and Greatest are bounds of the request, in the unit of usage: Least excluded, Greatest included. +Inf: there
	// is no greatest.
	Least, Greatest float64
	// Below is an example of what the HPA would have done with a request of Least, Above with one above Greatest.
	Below, Above Change
	// Points counts the spans.
	Points int
}

// Margin is for usage that the history does not show: swings within the minutes that it has the means of, and the time
// to come. On public traces the HPAs asked for the same number of replicas at each of their syncs with half of this
// margin, but not without one. Swings of a fifth within a minute need this one (docs/hpa-replicas.md).
const Margin = 0.2

// WithMargin returns the requests that keep the number also if usage is up to a margin above or below what was measured.
// They always include the present request. Below and Above stay as they are: what would have happened at a bound without
// the margin.
func (k Kept) WithMargin(request, margin float64) Kept {
	const included = 1 - 1e-8 // a bound that is not part of the range
	k.Least = max(k.Least, min(k.Least*(1+margin), request*included))
	k.Greatest = max(min(k.Greatest, request), k.Greatest/(1+margin))
	return k
}

// Change is a moment at which another request would have led to another number of replicas.
type Change struct {
	// At is when.
	At time.Time
	// Asked is the number of replicas with the present request, Instead the one with the other.
	Asked, Instead int32
}

// Keep returns the requests for which the HPA asks for the same number of replicas as with the present one, for every
// usage within every span. They always include the present request, and every request between it and another one of
// them: so any mix of pods with requests from this range keeps the number too, since an HPA divides by their sum.
//
// The formula never falls as the utilization rises. So for each span there is one range of utilizations at which the
// HPA asks for the same number as now. Where the usage of a span already leads to two numbers, no other request is
// proven.
func (s Scaler) Keep(spans []Span, request float64) Kept {
	kept := Kept{Greatest: math.Inf(1), Points: len(spans)}
	if request <= 0 {
		return Kept{}
	}
	var known plateaus
	for i := range spans {
		span := &spans[i]
		if span.Ready <= 0 {
			continue
		}
		if !span.valid() {
			return Kept{Least: request, Greatest: request, Points: len(spans)}
		}
		f := Fleet{Current: s.clamp(span.Ready + span.Unready), Ready: span.Ready, Unready: span.Unready}
		least, greatest := span.Least*(1-inexact), span.Greatest*(1+inexact)
		high := shares(greatest, span.Ready, request)
		asked := s.desired(&f, high)
		if other := s.desired(&f, shares(least, span.Ready, request)); other != asked {
			return Kept{Least: request, Greatest: request, Points: len(spans),
				Below: span.greatest(other, asked), Above: span.least(asked, other)}
		}
		p := known.find(s, &f, high, asked)
		sum := 100 * float64(span.Ready)
		if bound := sum * greatest / float64(p.highest+1); bound > kept.Least {
			kept.Least, kept.Below = bound, span.greatest(asked, s.desired(&f, p.highest+1))
		}
		if bound := sum * least / float64(p.lowest); p.lowest > 0 && bound < kept.Greatest {
			kept.Greatest, kept.Above = bound, span.least(asked, s.desired(&f, p.lowest-1))
		}
	}
	kept.Least, kept.Greatest = min(kept.Least, request), max(kept.Greatest, request)
	return kept
}

// valid reports whether the numbers of the span can be: they come from a checkpoint.
func (s *Span) valid() bool {
	return 0 <= s.Least && s.Least <= s.Greatest && !math.IsInf(s.Greatest, 1) && 0 <= s.Unready && s.Ready < most/2 && s.Unready < most/2
}

// greatest and least are changes at the greatest and at the least usage of the span.
func (s *Span) greatest(asked, instead int32) Change {
	return Change{time.Unix(s.GreatestAt, 0).UTC(), asked, instead}
}

func (s *Span) least(asked, instead int32) Change {
	return Change{time.Unix(s.LeastAt, 0).UTC(), asked, instead}
}

// plateau is the range of shares at which an HPA asks a fleet for the same number.
type plateau struct {
	fleet           Fleet
	asked           int32
	lowest, highest int64
}

// plateaus are those found last. A history has few, in any order.
type plateaus [64]plateau

// limit is the largest number of shares with which HPA's 32 bits hold the utilization and the number of replicas.
func (s Scaler) limit(f *Fleet) int64 { return most * int64(min(f.Ready, s.Target)) }

// find the plateau around some shares.
func (known *plateaus) find(s Scaler, f *Fleet, at int64, asked int32) *plateau {
	p := &known[slot(f, asked)]
	if p.fleet != *f || p.asked != asked {
		*p = plateau{*f, asked, s.last(f, at, 0, asked), s.last(f, at, s.limit(f), asked)}
	}
	return p
}

// slot is where a table of 64 keeps a fleet and its number.
func slot(f *Fleet, asked int32) uint32 {
	const odd = 0x9e3779b1 // spreads similar numbers
	return ((uint32(f.Ready)*odd+uint32(f.Unready))*odd + uint32(asked)) * odd >> 26
}

// last returns the shares nearest to an end at which the HPA still asks for a number: from shares at which it does, in
// steps that double, and then by bisection.
func (s Scaler) last(f *Fleet, in, end int64, asked int32) int64 {
	if s.desired(f, end) == asked {
		return end
	}
	out := end
	for step := sign(end - in); ; step *= 2 {
		if next := in + step; (next-end)*step >= 0 {
			break
		} else if s.desired(f, next) == asked {
			in = next
		} else {
			out = next
			break
		}
	}
	for out-in > 1 || in-out > 1 {
		if mid := in + (out-in)/2; s.desired(f, mid) == asked {
			in = mid
		} else {
			out = mid
		}
	}
	return in
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}
