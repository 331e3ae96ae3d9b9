package recommender

// sorted is the exact Distribution: every value, in ascending order.
type sorted []Usage

func (s sorted) Count() int { return len(s) }

func (s sorted) Quantile(q float64) Usage { return Quantile(s, q) }

// Quantile returns the q-quantile (0 to 1) of values in ascending order. It interpolates between the two values
// around rank q × (n − 1), as PromQL's quantile_over_time does; 0 without values.
func Quantile(ascending []Usage, q float64) Usage {
	if len(ascending) == 0 {
		return 0
	}
	last := len(ascending) - 1
	rank := min(max(q, 0), 1) * float64(last)
	lower := int(rank)
	upper := min(lower+1, last)
	weight := Usage(rank - float64(lower))
	return ascending[lower]*(1-weight) + ascending[upper]*weight
}
