package backtest

import "attune.io/attune/recommender"

// Moment is a part of a replay.
type Moment struct {
	// At is the end of the part, in Unix milliseconds.
	At int64
	// Most is the highest usage of the part, in cores and bytes; NaN: not measured.
	Most [2]float64
	// Request is the size in force at the end of the part; 0: none, as within the warm-up. Limit is that of memory.
	Request Size
	Limit   float64
	// Short says whether usage was above the request within the part, of memory above the limit.
	Short [2]bool
}

// Timeline is one replay in few moments, oldest first. Parts without a sample are left out.
type Timeline []Moment

// Drawn is Replay with a timeline of at most so many moments.
func Drawn(series Series, strategy Strategy, rules Rules, most int) (Score, Timeline) {
	if len(series.Samples) == 0 || most < 1 {
		return Replay(series, strategy, rules), nil
	}
	d := &drawn{first: series.Samples[0].At, length: (series.Samples[len(series.Samples)-1].At-series.Samples[0].At)/int64(most) + 1}
	made := strategy.New
	strategy.New = func(s Series) Algorithm {
		d.Algorithm = made(s)
		if own, has := d.Algorithm.(Limiter); has {
			return limiting{d, own}
		}
		return d
	}
	score := Replay(series, strategy, rules)
	return score, d.line
}

// drawn notes what an algorithm is told.
type drawn struct {
	Algorithm
	first, length int64
	part          int64
	line          Timeline
}

// limiting is drawn for an algorithm with a limit of its own.
type limiting struct {
	*drawn
	own Limiter
}

// MemoryLimit implements Limiter.
func (l limiting) MemoryLimit() float64 { return l.own.MemoryLimit() }

// Observe implements Algorithm.
func (d *drawn) Observe(s Sample, inForce Size) {
	part := (s.At - d.first) / d.length
	if len(d.line) == 0 || part != d.part {
		d.part = part
		d.line = append(d.line, Moment{Most: nothing})
	}
	m := &d.line[len(d.line)-1]
	m.At, m.Request, m.Limit = s.At, inForce, inForce[recommender.Memory]
	if own, has := d.Algorithm.(Limiter); has {
		m.Limit = own.MemoryLimit()
	}
	for r, used := range s.Used {
		m.Most[r] = recommender.Highest(m.Most[r], used)
		most := inForce[r]
		if recommender.Resource(r) == recommender.Memory {
			most = m.Limit
		}
		m.Short[r] = m.Short[r] || inForce[r] > 0 && most > 0 && used > most
	}
	d.Algorithm.Observe(s, inForce)
}
