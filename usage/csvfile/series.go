package csvfile

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"
)

// EachFrom is Each on a reader whose bytes are unpacked already; name is for errors.
func EachFrom(name string, r io.Reader, yield func(Series) error) (Report, error) {
	rows, err := newRows(name, r)
	if err != nil {
		return Report{}, err
	}
	var current Series
	// ended has the line at which each series ended, so that a series that goes on later is found. It is all that
	// is kept of the series before.
	ended := map[string]int{}
	line := 0
	for {
		row, more, err := rows.next()
		if err != nil {
			return rows.report, err
		}
		// The series has ended with the row before.
		if current.ID != "" && (!more || row.id != current.ID) {
			ended[current.ID] = line
			if err := rows.finish(&current, yield); err != nil {
				return rows.report, err
			}
		}
		if !more {
			return rows.report, nil
		}
		if row.id != current.ID {
			if last, before := ended[row.id]; before {
				return rows.report, rows.wrong(row.line, "series %q goes on after it ended at line %d: put the rows of a series next to each other, e.g. sort by series_id", row.id, last)
			}
			current = Series{ID: strings.Clone(row.id), Samples: current.Samples[:0]}
		}
		current.Samples = append(current.Samples, row.sample)
		line = row.line
	}
}

// finish sorts a series whose last row has been read, and yields it.
func (r *rows) finish(series *Series, yield func(Series) error) error {
	r.report.Series++
	series.Samples = r.inOrder(series.Samples)
	return yield(*series)
}

// AllFrom is All on a reader whose bytes are unpacked already; name is for errors. Unlike EachFrom it accepts
// series whose rows are mixed, because it holds all of them.
func AllFrom(name string, r io.Reader) ([]Series, Report, error) {
	rows, err := newRows(name, r)
	if err != nil {
		return nil, Report{}, err
	}
	var all []Series
	// places has the index of each series in the result.
	places := map[string]int{}
	for {
		row, more, err := rows.next()
		if err != nil {
			return nil, rows.report, err
		}
		if !more {
			break
		}
		place, known := places[row.id]
		// The id is copied, because the CSV reader reuses its memory.
		if !known {
			place = len(all)
			id := strings.Clone(row.id)
			places[id] = place
			all = append(all, Series{ID: id})
		}
		all[place].Samples = append(all[place].Samples, row.sample)
	}
	for i := range all {
		all[i].Samples = rows.inOrder(all[i].Samples)
	}
	rows.report.Series = len(all)
	return all, rows.report, nil
}

// inOrder sorts samples by time, in place, and joins those of the same time. It counts both in the report.
func (r *rows) inOrder(samples []Sample) []Sample {
	// Rows are counted before sorting: afterwards nothing is out of order.
	latest := int64(math.MinInt64)
	for _, sample := range samples {
		if sample.At < latest {
			r.report.OutOfOrder++
		}
		latest = max(latest, sample.At)
	}
	// The sort is stable, so the result does not depend on the algorithm.
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	// The result is written over the input: it never has more elements than have been read.
	joined := samples[:0]
	for _, sample := range samples {
		if n := len(joined); n > 0 && joined[n-1].At == sample.At {
			r.report.Duplicates++
			joined[n-1].CPUCores = highest(joined[n-1].CPUCores, sample.CPUCores)
			joined[n-1].MemoryBytes = highest(joined[n-1].MemoryBytes, sample.MemoryBytes)
			continue
		}
		joined = append(joined, sample)
	}
	return joined
}

// highest of two amounts, either of which may not be measured.
func highest(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
