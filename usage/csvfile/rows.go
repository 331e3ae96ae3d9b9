package csvfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// header has the names of the columns, in order. A file with other columns, or in another order, is rejected: a swapped
// column would silently give wrong sizes.
var header = []string{"series_id", "timestamp", "cpu_cores", "memory_bytes"}

// maxSeconds is a time in the year 5138. A greater number is probably in milliseconds, which is an error.
const maxSeconds = 1e11

// rows reads a file row by row, and counts rows and gaps in its report.
type rows struct {
	name string
	// csv reuses the memory of a row for the next one.
	csv    *csv.Reader
	report Report
}

// row is one row of the file. Its id is valid only until the next row, because the CSV reader reuses its memory.
type row struct {
	id     string
	line   int
	sample backtest.Sample
}

// newRows reads the header, which must match the format exactly. next checks the number of fields, for an error with
// advice.
func newRows(name string, r io.Reader) (*rows, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if start, err := buffered.Peek(3); err == nil && string(start) == "\ufeff" {
		_, _ = buffered.Discard(3) // the byte order mark that spreadsheets write
	}
	start, _ := buffered.Peek(4 << 10) // a shorter file gives an error, which the parser returns again
	if problem := notCSV(name, start); problem != "" {
		return nil, fmt.Errorf("%s: line 1: %s", name, problem)
	}
	reader := csv.NewReader(buffered)
	reader.ReuseRecord = true
	// The reader's own error would not name the expected columns.
	reader.FieldsPerRecord = -1
	rows := &rows{name: name, csv: reader}
	first, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, rows.wrong(1, "the file is empty: it must begin with the header %s", strings.Join(header, ","))
	}
	if err != nil {
		return nil, rows.unreadable(err)
	}
	for i := range first {
		first[i] = strings.TrimSpace(first[i])
	}
	if !slices.Equal(first, header) {
		joined := strings.Join(first, ",")
		return nil, rows.wrong(1, "the header is %q: it must be %q%s", joined, strings.Join(header, ","), headerHint(joined))
	}
	return rows, nil
}

// prometheusError matches the sentence in an error of a Prometheus server.
var prometheusError = regexp.MustCompile(`"error":\s*("(?:[^"\\]|\\.)*")`)

// notCSV returns what a file is and what to do, if its first bytes show that it is no CSV; otherwise empty.
func notCSV(name string, start []byte) string {
	columns := strings.Join(header, ",")
	text := bytes.TrimSpace(start)
	said := prometheusError.FindSubmatch(text)
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")) && packed(name):
		return "the file is compressed twice: unpack it once with gunzip"
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		return fmt.Sprintf("the file is compressed with gzip: rename it to %s.gz", filepath.Base(name))
	case otherPacking(start) != "":
		return "the file is compressed with " + otherPacking(start) + ": unpack it"
	case bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")):
		return "the file is UTF-16: save it as UTF-8"
	case bytes.HasPrefix(text, []byte("<")):
		return "the file is HTML, e.g. a login page: export the usage again"
	case !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")):
		return ""
	case said != nil:
		return fmt.Sprintf("the file is an error of a server: %s; export the usage again", said[1])
	case bytes.Contains(text, []byte(`"scans"`)):
		return "the file is a result of KRR, which has no usage: export usage as CSV with the header " + columns
	}
	return "the file is JSON, e.g. an answer of Prometheus: convert it to CSV with the header " + columns
}

// otherPacking names a compression other than gzip by the first bytes of a file; empty if there is none.
func otherPacking(start []byte) string {
	for name, mark := range map[string]string{"zip": "PK\x03\x04", "zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ\x00", "bzip2": "BZh"} {
		if bytes.HasPrefix(start, []byte(mark)) {
			return name
		}
	}
	return ""
}

// headerHint describes the other formats that the header of a file belongs to; empty if unknown.
func headerHint(joined string) string {
	for _, format := range []struct{ mark, hint string }{
		{";", "separate the columns with commas, and write decimals with a point"},
		{"\t", "separate the columns with commas"},
		{"Severity", "this is a result of KRR, which has no usage"},
		{"CPU(cores)", "this is the output of kubectl top, which has no times"},
		{"VALUE", "join the files of CPU and memory into one"},
	} {
		if strings.Contains(joined, format.mark) {
			return "; " + format.hint
		}
	}
	return ""
}

// next returns the next row; false at the end of the file. Errors name the file and the line.
func (r *rows) next() (row, bool, error) {
	fields, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return row{}, false, nil
	}
	if err != nil {
		return row{}, false, r.unreadable(err)
	}
	line, _ := r.csv.FieldPos(0)
	if len(fields) != len(header) {
		return row{}, false, r.wrong(line, "%d fields instead of %d (%s), e.g. web,1700000000,0.25,268435456", len(fields), len(header), strings.Join(header, ","))
	}
	parsed, err := parse(fields)
	if err != nil {
		return row{}, false, r.wrong(line, "%w", err)
	}
	parsed.line = line
	r.report.Rows++
	if math.IsNaN(parsed.sample.Used[recommender.CPU]) {
		r.report.CPUGaps++
	}
	if math.IsNaN(parsed.sample.Used[recommender.Memory]) {
		r.report.MemoryGaps++
	}
	return parsed, true, nil
}

// wrong returns an error with the name of the file and the number of the line, from 1.
func (r *rows) wrong(line int, format string, arguments ...any) error {
	return fmt.Errorf("%s: line %d: %w", r.name, line, fmt.Errorf(format, arguments...))
}

// unreadable returns an error of the CSV syntax, with its line, or of the file.
func (r *rows) unreadable(err error) error {
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		return r.wrong(syntax.Line, "%w: quote the name, and double each quote in it", syntax.Err)
	}
	return fmt.Errorf("%s: after line %d: %w: the file is cut off or damaged; write it again", r.name, r.report.Rows+1, err)
}

// parse converts the fields of a row. The caller has checked their number.
func parse(fields []string) (row, error) {
	at, wrongTime := parseTime(strings.TrimSpace(fields[1]))
	cpu, wrongCPU := cpuColumn.parse(strings.TrimSpace(fields[2]))
	memory, wrongMemory := memoryColumn.parse(strings.TrimSpace(fields[3]))
	if err := cmp.Or(wrongTime, wrongCPU, wrongMemory); err != nil {
		return row{}, err
	}
	if fields[0] == "" {
		return row{}, errors.New("series_id is empty: every row needs one, e.g. shop/web/app")
	}
	return row{id: fields[0], sample: backtest.Sample{At: at, Used: [2]float64{recommender.CPU: cpu, recommender.Memory: memory}}}, nil
}

// parseTime reads Unix seconds, which may have a fraction. Whole seconds, the usual form, are converted without a
// float.
func parseTime(field string) (int64, error) {
	if whole, err := strconv.ParseInt(field, 10, 64); err == nil && whole >= 0 && whole < maxSeconds {
		return whole * 1000, nil
	}
	seconds, err := strconv.ParseFloat(field, 64)
	switch {
	case err != nil || math.IsNaN(seconds) || seconds < 0:
		return 0, fmt.Errorf("timestamp %q is not a time in Unix seconds, e.g. %d", field, secondsOf(field))
	case seconds >= maxSeconds && seconds < maxSeconds*1000:
		return 0, fmt.Errorf("timestamp %q is too large for Unix seconds: if it is in milliseconds, use %d", field, int64(seconds/1000))
	case seconds >= maxSeconds:
		return 0, fmt.Errorf("timestamp %q is too large for Unix seconds, e.g. 1700000000", field)
	}
	return int64(math.Round(seconds * 1000)), nil
}

// secondsOf returns the Unix seconds of a date in a known layout; for other text it returns an example.
func secondsOf(field string) int64 {
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, field); err == nil && at.Unix() >= 0 {
			return at.Unix()
		}
	}
	return 1700000000
}

// column of amounts. would is a valid example.
type column struct{ name, unit, would string }

var (
	cpuColumn    = column{header[2], "cores", "0.25"}
	memoryColumn = column{header[3], "bytes", "268435456"}
)

// parse reads an amount. An empty field and NaN, in any case of letters, are NaN.
func (c column) parse(field string) (float64, error) {
	if field == "" || strings.EqualFold(field, "nan") {
		return math.NaN(), nil
	}
	amount, err := strconv.ParseFloat(field, 64)
	switch {
	case strings.HasSuffix(field, "%"):
		return 0, fmt.Errorf("%s %q is a percentage: use %s, e.g. %s", c.name, field, c.unit, c.would)
	case err != nil || math.IsNaN(amount) || math.IsInf(amount, 0):
		return 0, fmt.Errorf("%s %q is not a number of %s: use e.g. %s, or an empty field if nothing was measured", c.name, field, c.unit, c.meant(field))
	case amount < 0:
		return 0, fmt.Errorf("%s %q is negative: use e.g. %s, or an empty field if nothing was measured", c.name, field, c.would)
	}
	return amount, nil
}

// meant returns the value of a Kubernetes quantity such as 500m or 256Mi. For other text, and for an exponent, it
// returns an example.
func (c column) meant(field string) string {
	// ParseQuantity reads "-" as 0.
	if len(field) > 16 || strings.ContainsAny(field, "eE") || !strings.ContainsAny(field, "0123456789") {
		return c.would
	}
	if quantity, err := resource.ParseQuantity(field); err == nil && quantity.Sign() >= 0 {
		return strconv.FormatFloat(quantity.AsApproximateFloat64(), 'f', -1, 64)
	}
	return c.would
}
