// Package csvfile reads usage samples and traces from CSV files, for the commands that work without a cluster.
//
// The format is the header series_id,timestamp,cpu_cores,memory_bytes and one row for each sample. A series is one
// container; times are Unix seconds. An empty field or NaN means that the value was not measured: a gap, which is
// counted. A field that cannot be parsed, a negative or an infinite amount is an error that names file, line and
// reason: a file that is wrong in one place is not to be trusted in another.
//
// Within a series, rows out of order are sorted, and rows with the same time are joined: the highest value of each
// resource counts. Both are counted in the Report. Neither changes what the file means.
//
// The data takes this way: reading opens the file and unpacks it, rows parses it row by row, EachFrom or AllFrom
// makes series of the rows, and Steps makes steps of history of a series. The package never writes a file. Start
// reading here.
package csvfile

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
)

// Series holds the samples of one container, oldest first, no two at the same time.
type Series struct {
	// ID is the series_id of the file. It is not empty.
	ID string
	// Samples has at least one element.
	Samples []Sample
}

// Sample is what was measured at one time.
type Sample struct {
	// At is in Unix milliseconds.
	At int64
	// CPUCores (cores) and MemoryBytes (bytes) are NaN where they were not measured, and never negative or
	// infinite.
	CPUCores, MemoryBytes float64
}

// Report counts what a file consists of. After an error it counts what was read before.
type Report struct {
	// Series and Rows are the numbers of series and of rows, without the header.
	Series, Rows int
	// CPUGaps and MemoryGaps count rows without that resource.
	CPUGaps, MemoryGaps int
	// OutOfOrder and Duplicates count rows that came after a later one of their series, or at the time of
	// another.
	OutOfOrder, Duplicates int
}

// Each reads a file series by series and holds one of them in memory. The rows of a series must be next to each
// other; where they are not, the error says so. The series and its samples are valid during the call of yield
// only. An error of yield ends the reading and is returned as it is.
func Each(name string, yield func(Series) error) (Report, error) {
	return reading(name, func(r io.Reader) (Report, error) { return EachFrom(name, r, yield) })
}

// All reads a whole file into memory, 24 bytes for each row. The rows of the series may be mixed; the series come
// in the order of their first rows.
func All(name string) ([]Series, Report, error) {
	var all []Series
	report, err := reading(name, func(r io.Reader) (Report, error) {
		var report Report
		var err error
		all, report, err = AllFrom(name, r)
		return report, err
	})
	return all, report, err
}

// reading opens a file, and unpacks it with gzip where its name ends in .gz.
func reading(name string, read func(io.Reader) (Report, error)) (Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return Report{}, fmt.Errorf("reading usage: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	// The name decides, not the content: a packed file without the suffix is an error about its header.
	if !strings.HasSuffix(strings.ToLower(name), ".gz") {
		return read(file)
	}
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(file, 64<<10))
	if err != nil {
		return Report{}, fmt.Errorf("%s: the name says gzip, the content does not (%w): rename the file or pack it", name, err)
	}
	return read(unpacked)
}
