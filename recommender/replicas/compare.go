package replicas

import "time"

// Moment is a fleet at a time.
type Moment struct {
	At time.Time
	Fleet
}

// Setting is what an HPA says, and the request of a pod.
type Setting struct {
	Scaler
	// Request is in the unit of usage.
	Request float64
}

// Comparison is what an HPA would have done with another setting.
type Comparison struct {
	// Moments counts the compared ones. At Differ of them, another number of replicas would have been asked for; at More
	// of these, a higher one.
	Moments, Differ, More int
	// First are the first changes.
	First []Change
	// Asked and Instead are the mean requests of all replicas, with the one setting and with the other, in the unit of
	// usage.
	Asked, Instead float64
}

// Compare computes what an HPA would have asked for with one setting and with another, and keeps so many examples. The
// fleet is the measured one at each moment: a number of replicas that differs changes no later moment. As with Desired,
// behavior and stabilization are left out. Moments without a usage or with an impossible one do not count.
func Compare(moments []Moment, with, other Setting, examples int) Comparison {
	var c Comparison
	for _, m := range moments {
		if m.Ready <= 0 || m.Current <= 0 || !(m.Usage >= 0) {
			continue
		}
		asked, instead := with.Desired(m.Fleet, with.Request), other.Desired(m.Fleet, other.Request)
		c.Moments++
		c.Asked += float64(asked) * with.Request
		c.Instead += float64(instead) * other.Request
		if asked == instead {
			continue
		}
		c.Differ++
		if instead > asked {
			c.More++
		}
		if len(c.First) < examples {
			c.First = append(c.First, Change{m.At, asked, instead})
		}
	}
	if c.Moments > 0 {
		c.Asked /= float64(c.Moments)
		c.Instead /= float64(c.Moments)
	}
	return c
}

// Moments are the extremes of spans: of each, the moments of the least and of the greatest usage. The number of replicas
// of the spec is not known: it is that of the pods.
func Moments(spans []Span) []Moment {
	all := make([]Moment, 0, 2*len(spans))
	for i := range spans {
		s := &spans[i]
		if !s.valid() {
			continue
		}
		f := Fleet{Current: s.Ready + s.Unready, Ready: s.Ready, Unready: s.Unready}
		for _, m := range [2]struct {
			at    int64
			usage float64
		}{{s.LeastAt, s.Least}, {s.GreatestAt, s.Greatest}} {
			f.Usage = m.usage
			all = append(all, Moment{time.Unix(m.at, 0).UTC(), f})
		}
	}
	return all
}
