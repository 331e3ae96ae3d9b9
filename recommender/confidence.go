package recommender

import (
	"math"
	"time"
)

const (
	day = 24 * time.Hour
	// fullDays is how many days of history give full confidence.
	fullDays = 7
)

// confidence in a history, from 0 to 1: clamp(min(days, √(steps/24)) / min(7, history window in days)). The days
// run from the beginning of the first step to the end of the last one, so that a window without gaps gives exactly
// 1. The VerticalPodAutoscaler measures confidence in a similar way, by days and number of samples.
func (p *ResourceProfile) confidence(s *Settings) float64 {
	if p.Points == 0 {
		return 0
	}
	needed := fullDays * 1.0
	if s.HistoryWindow > 0 {
		needed = min(needed, inDays(s.HistoryWindow))
	}
	evidence := min(p.days(s.QueryStep), math.Sqrt(float64(p.Points)/24))
	return min(max(evidence/needed, 0), 1)
}

// MostConfidence is the confidence of a full history window without gaps, from 0 to 1. It is below 1 where the
// window or the number of its steps is too small. Without a query step it is 1.
func (s *Settings) MostConfidence() float64 {
	if s.QueryStep <= 0 {
		return 1
	}
	end := time.Time{}.Add(s.HistoryWindow)
	whole := ResourceProfile{Points: int(s.HistoryWindow / s.QueryStep), Last: end.Add(-s.QueryStep)}
	return whole.confidence(s)
}

func (p *ResourceProfile) days(step time.Duration) float64 { return inDays(p.Last.Sub(p.First) + step) }

func inDays(d time.Duration) float64 { return float64(d) / float64(day) }

// caution is the factor that compensates missing confidence c, from 2 at c = 0 to 1 at c = 1: 1 + m·(1 − c)^e with
// m = 1 and e = 2.
func caution(confidence float64) float64 {
	missing := 1 - confidence
	return 1 + missing*missing
}
