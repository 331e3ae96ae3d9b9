// Package csvfile reads usage samples and traces from CSV files, for the commands that work without a cluster.
//
// The format is the header series_id,timestamp,cpu_cores,memory_bytes and one row for each sample. A series is one
// container; times are Unix seconds. An empty field or NaN means that the value was not measured: a gap, which is
// counted. A field that cannot be parsed, a negative or an infinite amount is an error with file, line and reason,
// because the rest of such a file may be wrong too.
//
// Within a series, rows out of order are sorted, and rows with the same time are merged: the highest value of each
// resource counts. Both are counted in the Report. Neither changes the meaning of the file.
//
// The data takes this path: reading opens the file and unpacks it, rows parses it row by row, EachFrom or AllFrom makes
// series of the rows, and Steps makes steps of history of a series. The package never writes a file. Start reading
// here.
package csvfile

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// Report counts the content of a file. After an error it counts the part before it.
type Report struct {
	// Series and Rows are the numbers of series and of rows, without the header.
	Series, Rows int
	// CPUGaps and MemoryGaps count rows without that resource.
	CPUGaps, MemoryGaps int
	// OutOfOrder counts rows that came after a later one of their series. Duplicates counts rows at the time of another
	// row of their series.
	OutOfOrder, Duplicates int
}

// Each reads a file series by series and holds one of them in memory. The rows of a series must be next to each other;
// otherwise it returns an error. An error of yield ends the reading and is returned unchanged. Before it yields, it
// calls told with the part of the file read so far, 0 to 1. It may repeat a value, and reads ahead by a few kilobytes.
func Each(name string, told func(part float64), yield func(backtest.Series) error) (Report, error) {
	return reading(name, told, func(r io.Reader) (Report, error) { return EachFrom(name, r, yield) })
}

// All reads a whole file into memory, 24 bytes for each row. The rows of the series may be mixed; the series come in
// the order of their first rows.
func All(name string) ([]backtest.Series, Report, error) {
	var all []backtest.Series
	report, err := reading(name, func(float64) {}, func(r io.Reader) (report Report, err error) {
		all, report, err = AllFrom(name, r)
		return report, err
	})
	return all, report, err
}

// counted reports how much of a file has been read.
type counted struct {
	from       io.Reader
	read, size int64
	told       func(part float64)
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += int64(n)
	if c.size > 0 { // size is 0 for a pipe
		c.told(min(1, float64(c.read)/float64(c.size)))
	}
	return n, err
}

// reading opens a file, and unpacks it with gzip if its name ends in .gz.
func reading(name string, told func(part float64), read func(io.Reader) (Report, error)) (Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return Report{}, fmt.Errorf("reading usage: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	size := int64(0)
	switch info, err := file.Stat(); {
	case err == nil && info.IsDir():
		return Report{}, fmt.Errorf("%s is a directory: name a file in it", name)
	case err == nil && info.Mode().IsRegular():
		size = info.Size()
	}
	from := &counted{from: file, size: size, told: told}
	// The name decides, not the content: a packed file without the suffix is an error (notCSV).
	if !packed(name) {
		return read(from)
	}
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(from, 64<<10))
	if err != nil {
		return Report{}, fmt.Errorf("%s: the name ends in .gz, but the content is not gzip (%w): rename or compress the file", name, err)
	}
	return read(unpacked)
}

// packed reports whether the name of a file says that its content is gzip.
func packed(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".gz") }

// EachFrom is Each on a reader of unpacked bytes; name is for errors.
func EachFrom(name string, r io.Reader, yield func(backtest.Series) error) (Report, error) {
	rows, err := newRows(name, r)
	if err != nil {
		return Report{}, err
	}
	var current backtest.Series
	// ended has the line at which each series ended, to detect a series that continues later. Nothing more is kept of
	// earlier series.
	ended := map[string]int{}
	line := 0
	for {
		row, more, err := rows.next()
		if err != nil {
			return rows.report, err
		}
		// The series has ended with the previous row.
		if current.ID != "" && (!more || row.id != current.ID) {
			ended[current.ID] = line
			rows.report.Series++
			current.Samples = rows.inOrder(current.Samples)
			if err := yield(current); err != nil {
				return rows.report, err
			}
		}
		if !more {
			return rows.report, nil
		}
		if row.id != current.ID {
			if last, before := ended[row.id]; before {
				return rows.report, rows.wrong(row.line, "series %q continues after it ended at line %d: put the rows of a series next to each other, e.g. sort by series_id", row.id, last)
			}
			current = backtest.Series{ID: strings.Clone(row.id)}
		}
		current.Samples = append(current.Samples, row.sample)
		line = row.line
	}
}

// AllFrom is All on a reader of unpacked bytes; name is for errors. Unlike EachFrom it accepts series with mixed rows,
// because it holds all of them.
func AllFrom(name string, r io.Reader) ([]backtest.Series, Report, error) {
	rows, err := newRows(name, r)
	if err != nil {
		return nil, Report{}, err
	}
	var all []backtest.Series
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
			all = append(all, backtest.Series{ID: id})
		}
		all[place].Samples = append(all[place].Samples, row.sample)
	}
	for i := range all {
		all[i].Samples = rows.inOrder(all[i].Samples)
	}
	rows.report.Series = len(all)
	return all, rows.report, nil
}

// inOrder sorts samples by time, in place, and merges samples with the same time. It counts both in the report. Rows
// out of order are counted before sorting. The sort is stable, so the result does not depend on the algorithm. The
// result overwrites the input: it never has more elements than were read.
func (r *rows) inOrder(samples []backtest.Sample) []backtest.Sample {
	latest := int64(math.MinInt64)
	for _, sample := range samples {
		if sample.At < latest {
			r.report.OutOfOrder++
		}
		latest = max(latest, sample.At)
	}
	slices.SortStableFunc(samples, func(a, b backtest.Sample) int { return cmp.Compare(a.At, b.At) })
	joined := samples[:0]
	for _, sample := range samples {
		if n := len(joined); n > 0 && joined[n-1].At == sample.At {
			r.report.Duplicates++
			for r, used := range sample.Used {
				joined[n-1].Used[r] = recommender.Highest(joined[n-1].Used[r], used)
			}
			continue
		}
		joined = append(joined, sample)
	}
	return joined
}
