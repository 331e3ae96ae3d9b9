package prometheus

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

func TestDecodeOrderDoesNotMatter(t *testing.T) {
	const result = `[{"metric":{"pod":"p"},"values":[[1,"2"]]}]`
	for _, text := range []string{
		`{"status":"success","data":{"resultType":"matrix","result":` + result + `}}`,
		`{"data":{"result":` + result + `,"resultType":"matrix"},"status":"success"}`,
		` { "x" : {"deep":[{}]} , "data" : { "y" : null , "result" : ` + result + ` , "resultType" : "matrix" } , "status" : "success" } `,
	} {
		var got []string
		answer, err := decode(strings.NewReader(text), 11_000, func(e Element) { got = append(got, fmt.Sprint(e.Labels.Pod, e.Samples)) })
		require.NoError(t, err, text)
		assert.Equal(t, "success", answer.Status)
		assert.Equal(t, []string{"p[{1000 2}]"}, got)
	}
}

func TestSeriesDoNotLeakIntoEachOther(t *testing.T) {
	text := `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"pod":"a","container":"c","attune_peak":"true"},"values":[[1,"1"],[2,"2"]],"histograms":[1]},
		{"metric":{"pod":"b"}},
		{"values":[[3,"3"]]}]}}`
	var got []Element
	_, err := decode(strings.NewReader(text), 11_000, func(e Element) {
		e.Samples = append([]usage.Sample{}, e.Samples...)
		got = append(got, e)
	})
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff([]usage.Sample{}, got[1].Samples))
	assert.Equal(t, Labels{Pod: "b"}, got[1].Labels)
	assert.Equal(t, Labels{}, got[2].Labels)
	assert.Empty(t, got[2].Histograms)
}

func TestPoints(t *testing.T) {
	for _, test := range []struct {
		text string
		want points
	}{
		{`null`, nil},
		{`[]`, nil},
		{` [ [ 1 , "2" ] , [ 3.5 , "4e-05" ] ] `, points{{At: 1000, Value: 2}, {At: 3500, Value: 4e-05}}},
		{`[[1700000000.123,"1"]]`, points{{At: 1700000000123, Value: 1}}},
		{`[[1.7e9,"1"]]`, points{{At: 1700000000000, Value: 1}}},
		{`[[-1,"1"]]`, points{{At: -1000, Value: 1}}},
		{`[[1,2.5]]`, points{{At: 1000, Value: 2.5}}},
	} {
		var got points
		require.NoError(t, got.UnmarshalJSON([]byte(test.text)), test.text)
		assert.Empty(t, cmp.Diff(test.want, got), test.text)
	}
}

func TestPointsThatAreNone(t *testing.T) {
	for _, text := range []string{
		`{}`, `1`, `"x"`, `[1]`, `[[]]`, `[[1]]`, `[[1,"2",3]]`, `[[1,2,]]`, `[["x","1"]]`, `[[1,"x"]]`, `[[1,""]]`, `[[null,"1"]]`,
		`[[1,null]]`, `[[1,"1 "]]`, `[[1e13,"1"]]`, `[["NaN","1"]]`, `[["Inf","1"]]`, `[[1,"1"`, `[[1,"1]]`, `[[1,"1"],`, `[[1,"1"][2,"2"]]`, ``, `[`,
	} {
		var got points
		assert.ErrorIs(t, got.UnmarshalJSON([]byte(text)), errPoint, text)
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(content)
	}
	for _, text := range []string{``, `{}`, `[]`, `null`, `{"data":null}`, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"NaN"]]}]}}`} {
		f.Add([]byte(text))
	}
	q := usage.Query{Start: usage.StepEnd(5666667, 300e9), End: usage.StepEnd(5666669, 300e9), Step: 300e9}
	f.Fuzz(func(t *testing.T, body []byte) {
		var report usage.Report
		yielded := 0
		pick := picker{query: q, asked: usage.Query{Namespaces: []string{"shop"}}.Asked(), report: &report, yield: func(s usage.Series) {
			samples := append(slices.Clone(s.CPU), s.CPUPeak...)
			yielded += len(samples)
			assert.NotEmpty(t, s.Pod)
			for _, sample := range samples {
				assert.True(t, sample.Value >= 0 && sample.Value <= math.MaxFloat64)
				assert.False(t, sample.Time().Before(q.Start) || sample.Time().After(q.End))
			}
		}}
		answer, err := decode(strings.NewReader(string(body)), 11_000, pick.element)
		assert.Equal(t, report.Samples, yielded)
		if err == nil {
			assert.NotEmpty(t, answer.Status)
		} else {
			assert.NotEmpty(t, (&Client{}).decodeFailure(err).Error())
		}
	})
}

// body is an answer with so many series of so many points.
func body(series, points int) string {
	var out strings.Builder
	out.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	for s := range series {
		if s > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"metric":{"container":"app","namespace":"shop","pod":"web-7d4f8c9b6-%05d"},"values":[`, s)
		for p := range points {
			if p > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, `[%d,"0.0921%06d"]`, 1700000100+300*p, p*7919%1000000)
		}
		out.WriteString(`]}`)
	}
	out.WriteString(`]}}`)
	return out.String()
}

func TestDecodeDoesNotAllocatePerPoint(t *testing.T) {
	allocations := func(points int) float64 {
		text := body(1, points)
		return testing.AllocsPerRun(5, func() {
			_, err := decode(strings.NewReader(text), 11_000, func(Element) {})
			require.NoError(t, err)
		})
	}
	// Only two buffers grow with the answer, by doubling.
	assert.Less(t, allocations(10_000)-allocations(1000), 40.0)
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []struct{ series, points int }{{1, 1000}, {5, 2000}, {50, 2000}} {
		text := body(size.series, size.points)
		b.Run(fmt.Sprintf("%d points", size.series*size.points), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := decode(strings.NewReader(text), 11_000, func(Element) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
