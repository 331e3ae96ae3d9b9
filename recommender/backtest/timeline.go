package backtest

import "attune.io/attune/recommender"

// Moment is a part of a replay.
type Moment struct {
	// At is the end of the part, in Unix milliseconds.
	At int64
	// Most is the highest usage of the part, in cores and bytes; NaN: not measured.
	Most [2]float64
	// Request is the size in force at the end of the part; 0 within the warm-up. Limit is the memory limit.
	Request Size
	Limit   float64
	// Short says whether usage exceeded the request within the part; for memory, the limit.
	Short [2]bool
}

// Timeline is one replay as a few moments, oldest first. Parts without a sample are omitted.
type Timeline []Moment

// Drawn is Replay with a timeline of at most most moments.
func Drawn(series Series, strategy Strategy, rules Rules, most int) (Score, Timeline) {
	if len(series.Samples) == 0 || most < 1 {
		return Replay(series, strategy, rules), nil
	}
	first, last := series.Samples[0].At, series.Samples[len(series.Samples)-1].At
	length, part := (last-first)/int64(most)+1, int64(-1)
	var line Timeline
	p := NewPlayer(series, strategy)
	p.seen = func(s Sample, inForce Size, limit float64) {
		if of := (s.At - first) / length; of != part {
			part = of
			line = append(line, Moment{Most: nothing})
		}
		line[len(line)-1].add(s, inForce, limit)
	}
	return p.replay(series.Samples, rules), line
}

// add a sample to the part that it ends.
func (m *Moment) add(s Sample, inForce Size, limit float64) {
	m.At, m.Request, m.Limit = s.At, inForce, limit
	for r, used := range s.Used {
		m.Most[r] = recommender.Highest(m.Most[r], used)
		most := inForce[r]
		if recommender.Resource(r) == recommender.Memory {
			most = limit
		}
		m.Short[r] = m.Short[r] || inForce[r] > 0 && most > 0 && used > most
	}
}
