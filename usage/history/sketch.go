package history

import (
	"sort"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/codec"
)

// sketch is the distribution of some steps: their values are off by codec.MaxError at most. It is a recommender.Distribution,
// and a DDSketch (see package codec) that keeps all of its buckets.
type sketch struct {
	// counts by bucket, in ascending order.
	counts []cumulative
	scale  *scale
}

// cumulative count of the steps that have this bucket or a lower one. Some steps have this one.
type cumulative struct {
	upTo   uint32
	bucket uint16
}

// Count of the steps.
func (s *sketch) Count() int {
	if len(s.counts) == 0 {
		return 0
	}
	return int(s.counts[len(s.counts)-1].upTo)
}

// Quantile interpolates as recommender.Quantile does.
func (s *sketch) Quantile(q float64) recommender.Usage {
	if len(s.counts) == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(s.Count()-1)
	lower := uint32(rank)
	at := sort.Search(len(s.counts), func(i int) bool { return s.counts[i].upTo > lower })
	below := s.scale.amount(s.counts[at].bucket)
	if s.counts[at].upTo > lower+1 || at == len(s.counts)-1 {
		return below
	}
	weight := recommender.Usage(rank - float64(lower))
	return below*(1-weight) + s.scale.amount(s.counts[at+1].bucket)*weight
}

// scale converts buckets to amounts of a resource. Both the hourly sketches and the overall one share it.
type scale struct {
	// unit converts a measured value to recommender.Usage: 1000 for CPU (cores to millicores), 1 for memory
	// (bytes).
	unit float64
	// max is the highest value of the window, as measured. No bucket is converted to more, since the middle of the
	// highest bucket may be above it.
	max float64
	// exact lists buckets whose steps all have one known value. At most mostExact are noted, because amount looks
	// through all of them.
	exact []exact
}

// exact is a bucket that may stand for one value alone.
type exact struct {
	bucket uint16
	value  float64
	// steps that are known to have this value.
	steps uint32
}

// mostExact bounds what is looked through for each bucket.
const mostExact = 64

// addExact notes a step of a bucket with a value that is known exactly. Only the steps of the bucket's first value count.
func (s *scale) addExact(bucket uint16, value float64) {
	for i := range s.exact {
		e := &s.exact[i]
		if e.bucket != bucket {
			continue
		}
		if e.value == value {
			e.steps++
		}
		return
	}
	if len(s.exact) < mostExact {
		s.exact = append(s.exact, exact{bucket, value, 1})
	}
}

// amount that a bucket stands for.
func (s *scale) amount(bucket uint16) recommender.Usage {
	value := codec.Middle(bucket)
	for _, e := range s.exact {
		if e.bucket == bucket {
			value = e.value
			break
		}
	}
	return recommender.Usage(min(value, s.max) * s.unit)
}
