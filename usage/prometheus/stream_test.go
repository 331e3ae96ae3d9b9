package prometheus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// endless serves the beginning of an answer, then a text again and again, and counts the bytes read.
func endless(t *testing.T, beginning, again string) (*prometheus.Client, *atomic.Int64) {
	t.Helper()
	taken := &atomic.Int64{}
	page := strings.Repeat(again, 1+(64<<10)/len(again))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, beginning)
		for err == nil {
			var n int
			n, err = io.WriteString(w, page)
			taken.Add(int64(n))
		}
	}))
	t.Cleanup(server.Close)
	return newClient(t, prometheus.Config{Address: server.URL}), taken
}

// TestNoPartOfAnAnswerIsHeldWithoutABound: the part of an answer that is held at once is bounded, for any server.
func TestNoPartOfAnAnswerIsHeldWithoutABound(t *testing.T) {
	const data = `{"status":"success","data":{"resultType":"matrix","result":[`
	for name, test := range map[string]struct{ beginning, again string }{
		"points of one series":     {data + `{"metric":{"namespace":"shop","pod":"a","container":"b"},"values":[[1700000100,"1"]`, `,[1700000100,"1"]`},
		"labels of one series":     {data + `{"metric":{"namespace":"shop"`, `,"x":"y"`},
		"one label":                {data + `{"metric":{"namespace":"`, `shop`},
		"histograms":               {data + `{"metric":{},"histograms":[[1,{}]`, `,[1,{}]`},
		"a member that is unknown": {`{"status":"success","stats":[1`, `,1`},
		"warnings":                 {`{"status":"success","warnings":["x"`, `,"x"`},
		"the status":               {`{"status":"`, `success`},
		"white space":              {`{`, ` `},
		"another kind of data":     {`{"status":"success","data":{"x":[1`, `,1`},
	} {
		t.Run(name, func(t *testing.T) {
			client, taken := endless(t, test.beginning, test.again)
			_, _, err := read(t, client, query())
			var failure *prometheus.Failure
			require.ErrorAs(t, err, &failure)
			require.ErrorIs(t, err, usage.ErrTooMuch)
			assert.Contains(t, err.Error(), "a series that is longer than the queried span")
			assert.Less(t, taken.Load(), int64(8<<20), "and not the 256 MiB of an answer: some of it is on its way")
		})
	}
}

// TestManySeriesAreNotTooLong: the bound applies to each series.
func TestManySeriesAreNotTooLong(t *testing.T) {
	one := `{"metric":{"namespace":"shop","pod":"a","container":"b"},"values":[[1700000100,"1"]` + strings.Repeat(`,[1700000100,"1"]`, 10_999) + `]}`
	server := newServer(t, sends(200, jsonType, `{"status":"success","data":{"resultType":"matrix","result":[`+strings.Repeat(one+",", 99)+one+`]}}`))
	long := query()
	long.Start = long.End.Add(-10_999 * long.Step)
	_, report, err := read(t, newClient(t, prometheus.Config{Address: server.URL}), long)
	require.NoError(t, err)
	assert.Equal(t, 2*100*11_000, report.Samples)
}
