package csvfile_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
)

const header = "series_id,timestamp,cpu_cores,memory_bytes\n"

func sample(seconds int64, cpu, memory float64) backtest.Sample {
	return backtest.Sample{At: seconds * 1000, Used: [2]float64{cpu, memory}}
}

// each collects the series that Each yields.
func each(text string) ([]backtest.Series, csvfile.Report, error) {
	var all []backtest.Series
	report, err := csvfile.EachFrom("usage.csv", strings.NewReader(text), func(s backtest.Series) error {
		s.Samples = append([]backtest.Sample(nil), s.Samples...)
		all = append(all, s)
		return nil
	})
	return all, report, err
}

func all(text string) ([]backtest.Series, csvfile.Report, error) {
	return csvfile.AllFrom("usage.csv", strings.NewReader(text))
}

func TestGoodFiles(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name, text string
		want       []backtest.Series
		report     csvfile.Report
	}{
		{"no rows", header, nil, csvfile.Report{}},
		{
			name: "two series",
			text: header + "a,1,0.5,100\na,2,1e-05,200\nb,1,0,0\n",
			want: []backtest.Series{
				{ID: "a", Samples: []backtest.Sample{sample(1, 0.5, 100), sample(2, 1e-05, 200)}},
				{ID: "b", Samples: []backtest.Sample{sample(1, 0, 0)}},
			},
			report: csvfile.Report{Series: 2, Rows: 3},
		},
		{
			name:   "gaps",
			text:   header + "a,1,,100\na,2,NaN,nan\na,3,0.5,\n",
			want:   []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1, nan, 100), sample(2, nan, nan), sample(3, 0.5, nan)}}},
			report: csvfile.Report{Series: 1, Rows: 3, CPUGaps: 2, MemoryGaps: 2},
		},
		{
			name:   "out of order",
			text:   header + "a,3,3,3\na,1,1,1\na,2,2,2\n",
			want:   []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1, 1, 1), sample(2, 2, 2), sample(3, 3, 3)}}},
			report: csvfile.Report{Series: 1, Rows: 3, OutOfOrder: 2},
		},
		{
			name:   "the same time again: the highest of each counts",
			text:   header + "a,1,1,\na,1,2,5\na,1,,3\na,1,0,\n",
			want:   []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1, 2, 5)}}},
			report: csvfile.Report{Series: 1, Rows: 4, CPUGaps: 1, MemoryGaps: 2, Duplicates: 3},
		},
		{
			name:   "line ends, spaces, quotes and a byte order mark of other programs",
			text:   "\ufeffseries_id, timestamp,cpu_cores,memory_bytes\r\n\"a,b\", 1 ,0.5, 100\r\n\r\n",
			want:   []backtest.Series{{ID: "a,b", Samples: []backtest.Sample{sample(1, 0.5, 100)}}},
			report: csvfile.Report{Series: 1, Rows: 1},
		},
		{
			name:   "times with a fraction",
			text:   header + "a,1650377760.0,1,1\na,1650377760.25,2,2\na,1.65037782e9,3,3\n",
			want:   []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1650377760, 1, 1), {At: 1650377760250, Used: [2]float64{2, 2}}, sample(1650377820, 3, 3)}}},
			report: csvfile.Report{Series: 1, Rows: 3},
		},
		{
			name:   "no line end at the end",
			text:   header + "a,1,1,1",
			want:   []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1, 1, 1)}}},
			report: csvfile.Report{Series: 1, Rows: 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, read := range map[string]func(string) ([]backtest.Series, csvfile.Report, error){"each": each, "all": all} {
				got, report, err := read(test.text)
				require.NoError(t, err, name)
				assert.Empty(t, cmp.Diff(test.want, got, cmpopts.EquateNaNs()), name)
				assert.Equal(t, test.report, report, name)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "usage.csv: line 1: the file is empty: it must begin with the header series_id,timestamp,cpu_cores,memory_bytes"},
		{"no header", "a,1,1,1\n", `usage.csv: line 1: the header is "a,1,1,1": it must be "series_id,timestamp,cpu_cores,memory_bytes"`},
		{"another header", "series_id,time,cpu,mem\n", `usage.csv: line 1: the header is "series_id,time,cpu,mem"`},
		{"too few fields", header + "a,1,1,1\na,2,1\n", "usage.csv: line 3: 3 fields instead of 4 (series_id,timestamp,cpu_cores,memory_bytes), e.g. web,1700000000,0.25,268435456"},
		{"too many fields", header + "a,1,1,1,1\n", "usage.csv: line 2: 5 fields instead of 4 (series_id,timestamp,cpu_cores,memory_bytes), e.g. web,1700000000,0.25,268435456"},
		{"no series", header + ",1,1,1\n", "usage.csv: line 2: series_id is empty: every row needs one, e.g. shop/web/app"},
		{"no time", header + "a,,1,1\n", `usage.csv: line 2: timestamp "" is not a time in Unix seconds, e.g. 1700000000`},
		{"a date", header + "a,2024-01-01,1,1\n", `usage.csv: line 2: timestamp "2024-01-01" is not a time in Unix seconds, e.g. 1704067200`},
		{"a time that is no number", header + "a,NaN,1,1\n", `usage.csv: line 2: timestamp "NaN" is not a time`},
		{"before the epoch", header + "a,-1,1,1\n", `usage.csv: line 2: timestamp "-1" is not a time`},
		{"milliseconds", header + "a,1650377760000,1,1\n", `usage.csv: line 2: timestamp "1650377760000" is too large for Unix seconds: if it is in milliseconds, use 1650377760`},
		{"negative CPU", header + "a,1,-0.1,1\n", `usage.csv: line 2: cpu_cores "-0.1" is negative: use e.g. 0.25, or an empty field if nothing was measured`},
		{"negative memory", header + "a,1,1,-1\n", `usage.csv: line 2: memory_bytes "-1" is negative: use e.g. 268435456`},
		{"infinite", header + "a,1,+Inf,1\n", `usage.csv: line 2: cpu_cores "+Inf" is not a number of cores: use e.g. 0.25, or an empty field if nothing was measured`},
		{"too large", header + "a,1,1e999,1\n", `usage.csv: line 2: cpu_cores "1e999" is not a number of cores: use e.g. 0.25`},
		{"a quantity", header + "a,1,500m,1\n", `usage.csv: line 2: cpu_cores "500m" is not a number of cores: use e.g. 0.5`},
		{"a quantity of memory", header + "a,1,1,256Mi\n", `usage.csv: line 2: memory_bytes "256Mi" is not a number of bytes: use e.g. 268435456`},
		{"a time of day", header + "a,2024-01-01T00:00:01Z,1,1\n", `usage.csv: line 2: timestamp "2024-01-01T00:00:01Z" is not a time in Unix seconds, e.g. 1704067201`},
		{"no time of this world", header + "a,1e300,1,1\n", `usage.csv: line 2: timestamp "1e300" is too large for Unix seconds, e.g. 1700000000`},
		{"null", header + "a,1,1,null\n", `usage.csv: line 2: memory_bytes "null" is not a number of bytes: use e.g. 268435456`},
		{"a bare quote", header + "a,1,1,1\nb\"c,1,1,1\n", `usage.csv: line 3: bare " in non-quoted-field: quote the name, and double each quote in it`},
		{"after empty lines", header + "\n\na,x,1,1\n", `usage.csv: line 4: timestamp "x"`},
		{"not measured", header + "a,1,-,1\n", `usage.csv: line 2: cpu_cores "-" is not a number of cores: use e.g. 0.25, or an empty field if nothing was measured`},
		{"a question mark", header + "a,1,1,?\n", `usage.csv: line 2: memory_bytes "?" is not a number of bytes: use e.g. 268435456, or an empty field if nothing was measured`},
		{"a percentage", header + "a,1,3%,1\n", `usage.csv: line 2: cpu_cores "3%" is a percentage: use cores, e.g. 0.25`},
		{"a percentage of memory", header + "a,1,3,55%\n", `usage.csv: line 2: memory_bytes "55%" is a percentage: use bytes, e.g. 268435456`},
		{"an infinite time", header + "a,Inf,1,1\n", `usage.csv: line 2: timestamp "Inf" is too large for Unix seconds, e.g. 1700000000`},
		{"a time of 9e18", header + "a,9000000000000000000,1,1\n", `usage.csv: line 2: timestamp "9000000000000000000" is too large for Unix seconds, e.g. 1700000000`},
		{"milliseconds with a fraction", header + "a,1767225600000.5,1,1\n", `usage.csv: line 2: timestamp "1767225600000.5" is too large for Unix seconds: if it is in milliseconds, use 1767225600`},
		{"an answer of Prometheus", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "usage.csv: line 1: the file is JSON, e.g. an answer of Prometheus: convert it to CSV with the header series_id,timestamp,cpu_cores,memory_bytes"},
		{"a list", "\n [1, 2]", "usage.csv: line 1: the file is JSON, e.g. an answer of Prometheus"},
		{"an error of Prometheus", `{"status":"error","errorType":"bad_data","error":"cannot parse \"\" to a valid timestamp"}`, `usage.csv: line 1: the file is an error of a server: "cannot parse \"\" to a valid timestamp"; export the usage again`},
		{"a long line of VictoriaMetrics", `{"metric":{"__name__":"cpu"},"values":[` + strings.Repeat("0.25,", 80_000) + `0.25]}`, "usage.csv: line 1: the file is JSON"},
		{"KRR's JSON", `{"scans": []}`, "usage.csv: line 1: the file is a result of KRR, which has no usage: export usage as CSV with the header series_id,"},
		{"a login page", "<!DOCTYPE html><html>", "usage.csv: line 1: the file is HTML, e.g. a login page: export the usage again"},
		{"UTF-16", "\xff\xfes\x00e\x00", "usage.csv: line 1: the file is UTF-16: save it as UTF-8"},
		{"gzip", "\x1f\x8b\x08\x00", "usage.csv: line 1: the file is compressed with gzip: rename it to usage.csv.gz"},
		{"zip", "PK\x03\x04\x14\x00", "usage.csv: line 1: the file is compressed with zip: unpack it"},
		{"zstd", "\x28\xb5\x2f\xfd\x24", "usage.csv: line 1: the file is compressed with zstd: unpack it"},
		{"xz", "\xfd7zXZ\x00", "usage.csv: line 1: the file is compressed with xz: unpack it"},
		{"bzip2", "BZh91AY&SY", "usage.csv: line 1: the file is compressed with bzip2: unpack it"},
		{"UTF-16 of the other byte order", "\xfe\xff\x00s", "usage.csv: line 1: the file is UTF-16: save it as UTF-8"},
		{"JSON with a byte order mark", "\ufeff{\"status\":\"success\"}", "usage.csv: line 1: the file is JSON, e.g. an answer of Prometheus"},
		{"not available", header + "a,1,N/A,1\n", `usage.csv: line 2: cpu_cores "N/A" is not a number of cores: use e.g. 0.25, or an empty field if nothing was measured`},
		{"two hyphens", header + "a,1,1,--\n", `usage.csv: line 2: memory_bytes "--" is not a number of bytes: use e.g. 268435456, or an empty field if nothing was measured`},
		{"InfluxDB's CSV", "#group,false,false\n#datatype,string,long\n", `usage.csv: line 1: the header is "#group,false,false": it must be`},
		{"semicolons", "series_id;timestamp;cpu_cores;memory_bytes\nweb;1767225600;0,1;100000\n", `usage.csv: line 1: the header is "series_id;timestamp;cpu_cores;memory_bytes": it must be "series_id,timestamp,cpu_cores,memory_bytes"; separate the columns with commas, and write decimals with a point`},
		{"KRR's CSV", "Namespace,Name,Pods,Old Pods,Type,Container,Severity,CPU Requests Current\n", `usage.csv: line 1: the header is "Namespace,Name,Pods,Old Pods,Type,Container,Severity,CPU Requests Current": it must be "series_id,timestamp,cpu_cores,memory_bytes"; this is a result of KRR, which has no usage`},
		{"kubectl top", "NAME   CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%\n", `usage.csv: line 1: the header is "NAME   CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%": it must be "series_id,timestamp,cpu_cores,memory_bytes"; this is the output of kubectl top`},
		{"a column for each label", "namespace,pod,container,TIMESTAMP,VALUE\n", `usage.csv: line 1: the header is "namespace,pod,container,TIMESTAMP,VALUE": it must be "series_id,timestamp,cpu_cores,memory_bytes"; join the files of CPU and memory into one`},
		{"two times", "series_id,time,Time,cpu_cores,memory_bytes\n", `usage.csv: line 1: the header is "series_id,time,Time,cpu_cores,memory_bytes": it must be`},
		{"Grafana's numbers", header + "app,1544572800,1,721,992,142.283\n", "usage.csv: line 2: 6 fields instead of 4"},
		{"after a series with a line end", header + "\"a\nb\",1,1,1\na,x,1,1\n", `usage.csv: line 4: timestamp "x"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, read := range map[string]func(string) ([]backtest.Series, csvfile.Report, error){"each": each, "all": all} {
				_, _, err := read(test.text)
				require.Error(t, err, name)
				assert.True(t, strings.HasPrefix(err.Error(), test.want), "%s: %s", name, err)
			}
		})
	}
}

func TestMixedSeries(t *testing.T) {
	text := header + "a,1,1,1\nb,1,2,2\na,2,3,3\nb,2,4,4\n"
	got, report, err := all(text)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff([]backtest.Series{
		{ID: "a", Samples: []backtest.Sample{sample(1, 1, 1), sample(2, 3, 3)}},
		{ID: "b", Samples: []backtest.Sample{sample(1, 2, 2), sample(2, 4, 4)}},
	}, got))
	assert.Equal(t, csvfile.Report{Series: 2, Rows: 4}, report)

	_, _, err = each(text)
	assert.EqualError(t, err, `usage.csv: line 4: series "a" continues after it ended at line 2: put the rows of a series next to each other, e.g. sort by series_id`)
}

func TestEachStopsWhenAskedTo(t *testing.T) {
	enough := errors.New("enough")
	seen := 0
	_, err := csvfile.EachFrom("x", strings.NewReader(header+"a,1,1,1\nb,1,1,1\nc,1,1,1\n"), func(backtest.Series) error {
		seen++
		return enough
	})
	assert.Equal(t, enough, err)
	assert.Equal(t, 1, seen)
}

// file writes a file, packed if its name says so.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	if strings.HasSuffix(name, ".gz") {
		packed := gzip.NewWriter(out)
		_, err = packed.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, packed.Close())
		return path
	}
	_, err = out.WriteString(text)
	require.NoError(t, err)
	return path
}

func TestFiles(t *testing.T) {
	for _, name := range []string{"usage.csv", "usage.csv.gz", "USAGE.CSV"} {
		path := file(t, name, header+"a,1,1,1\n")
		got, report, err := csvfile.All(path)
		require.NoError(t, err, name)
		assert.Equal(t, []backtest.Series{{ID: "a", Samples: []backtest.Sample{sample(1, 1, 1)}}}, got)
		assert.Equal(t, 1, report.Rows)

		report, err = csvfile.Each(path, func(float64) {}, func(backtest.Series) error { return nil })
		require.NoError(t, err, name)
		assert.Equal(t, 1, report.Series)
	}
}

func TestBadPacking(t *testing.T) {
	_, _, err := csvfile.All(filepath.Join(t.TempDir(), "none.csv"))
	require.ErrorIs(t, err, os.ErrNotExist)

	directory := t.TempDir()
	_, _, err = csvfile.All(directory)
	require.EqualError(t, err, directory+" is a directory: name a file in it")

	path := file(t, "usage.csv", header)
	renamed := path + ".gz"
	require.NoError(t, os.Rename(path, renamed))
	_, _, err = csvfile.All(renamed)
	require.ErrorContains(t, err, renamed+": the name ends in .gz, but the content is not gzip")

	// Packed without the name, packed twice, and something behind the packed content.
	comma := file(t, "usage.csv.gz", header+"\"a, b\",1,0.1,1e8\n")
	content, err := os.ReadFile(comma)
	require.NoError(t, err)
	for name, c := range map[string]struct{ content, want string }{
		"plain.csv":    {string(content), "plain.csv: line 1: the file is compressed with gzip: rename it to plain.csv.gz"},
		"twice.csv.gz": {twice(t, content), "twice.csv.gz: line 1: the file is compressed twice: unpack it once with gunzip"},
		"more.csv.gz":  {string(content) + "garbage", "the file is cut off or damaged; write it again"},
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		_, _, err := csvfile.All(path)
		require.ErrorContains(t, err, c.want)
	}
	got, _, err := csvfile.All(comma)
	require.NoError(t, err)
	assert.Equal(t, "a, b", got[0].ID)

	var rows strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&rows, "a,%d,0.%d,%d\n", i, i*7919%100000, i*104729)
	}
	path = file(t, "usage.csv.gz", header+rows.String())
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content[:len(content)/2], 0o600))
	_, report, err := csvfile.All(path)
	require.ErrorContains(t, err, path+": after line ")
	assert.Positive(t, report.Rows, "a file that breaks off is an error, wherever it does")
}

// twice packs content that is packed already.
func twice(t *testing.T, content []byte) string {
	t.Helper()
	var out strings.Builder
	packed := gzip.NewWriter(&out)
	_, err := packed.Write(content)
	require.NoError(t, err)
	require.NoError(t, packed.Close())
	return out.String()
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{header, header + "a,1,1,1\n", header + "a,2,,\nb,1,NaN,1\na,1,1e5,1\n", header + "a,1,-,3%\n", "{\"error\":\"x\"}", "\x1f\x8b", "\ufeff" + header + "\"a\n\",1,1,1\r\n", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, report, err := all(text)
		samples := 0
		for _, series := range got {
			samples += len(series.Samples)
			for i, sample := range series.Samples {
				assert.False(t, sample.Used[0] < 0 || math.IsInf(sample.Used[0], 0) || sample.Used[1] < 0 || math.IsInf(sample.Used[1], 0))
				assert.True(t, i == 0 || series.Samples[i-1].At < sample.At)
			}
		}
		if err == nil {
			assert.Equal(t, report.Rows, samples+report.Duplicates)
		}
		grouped, _, eachErr := each(text)
		if eachErr == nil {
			require.NoError(t, err, "what can be streamed can be read")
			assert.Empty(t, cmp.Diff(got, grouped, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()))
		}
	})
}

func BenchmarkEach(b *testing.B) {
	var text strings.Builder
	text.WriteString(header)
	for i := range 10_000 {
		fmt.Fprintf(&text, "namespace/workload@pod-%d,%d,0.0%d,%d\n", i/2000, 1650377760+60*i, i*7919%100000, i*104729)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := csvfile.EachFrom("x", strings.NewReader(text.String()), func(backtest.Series) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// The reported part grows to 1, for packed files as for others.
func TestEachTellsHowFarItIs(t *testing.T) {
	var text strings.Builder
	text.WriteString(header)
	for i := range 100_000 {
		fmt.Fprintf(&text, "s%d,%d,0.5,%d\n", i/10_000, i, i*7919%1000)
	}
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(text.String()))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, content := range map[string]string{"a.csv": text.String(), "a.csv.gz": packed.String()} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		part := 0.0
		var parts []float64
		_, err := csvfile.Each(path, func(p float64) {
			assert.GreaterOrEqual(t, p, part)
			part = p
		}, func(backtest.Series) error {
			parts = append(parts, part)
			return nil
		})
		require.NoError(t, err)
		require.Len(t, parts, 10)
		assert.InDelta(t, 0.1, parts[0], 0.25, name)
		assert.InDelta(t, 0.5, parts[4], 0.25, name)
		assert.InDelta(t, 1, parts[9], 0, name)
	}
}
