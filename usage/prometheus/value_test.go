package prometheus_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/prometheus"
)

func vector(elements string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + elements + `]}}`
}

func TestValue(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       float64
	}{
		{"a vector of one", vector(`{"metric":{"job":"x"},"value":[1700000100.5,"0.25"]}`), 0.25},
		{"a scalar", `{"status":"success","data":{"resultType":"scalar","result":[1700000100,"-7"]}}`, -7},
		{"infinite", vector(`{"metric":{},"value":[1700000100,"+Inf"]}`), math.Inf(1)},
		{"VictoriaMetrics", `{"status":"success","isPartial":false,"data":{"resultType":"vector","result":[{"metric":{},"value":[1700000100,"3"]}]},"stats":{"seriesFetched": "1"}}`, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newServer(t, sends(200, jsonType, test.text))
			got, err := newClient(t, prometheus.Config{Address: server.URL}).Value(context.Background(), "up", time.Unix(1700000100, 0))
			require.NoError(t, err)
			assert.InDelta(t, test.want, got, 0)
			asked := server.asked()
			require.Len(t, asked, 1)
			assert.Equal(t, "/api/v1/query", asked[0].path)
			assert.Equal(t, map[string]string{"query": "up", "time": "1700000100", "timeout": "1m0s"}, asked[0].form)
		})
	}
}

func TestValueThatIsNotANumber(t *testing.T) {
	server := newServer(t, sends(200, jsonType, vector(`{"metric":{},"value":[1700000100,"NaN"]}`)))
	got, err := newClient(t, prometheus.Config{Address: server.URL}).Value(context.Background(), "0/0", time.Unix(1700000100, 0))
	require.NoError(t, err)
	assert.True(t, math.IsNaN(got))
}

func TestNoValue(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		text   string
		is     error
		reason string
		want   string
	}{
		{name: "nothing", status: 200, text: vector(``), is: prometheus.ErrNoValue},
		{name: "several", status: 200, text: vector(`{"value":[1,"2"]},{"value":[1,"3"]}`), is: prometheus.ErrManyValues},
		{name: "a matrix", status: 200, text: recorded(t, "prometheus.json"), reason: brokenAnswer, want: `it is a "matrix", not a number`},
		{name: "a text", status: 200, text: `{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`, reason: brokenAnswer, want: `it is a "string"`},
		{name: "a histogram", status: 200, text: vector(`{"metric":{},"histogram":[1,{"count":"1"}]}`), reason: brokenAnswer, want: "not a pair of a time and a value"},
		{name: "a mistake in the query", status: 400, text: `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:4: parse error: unclosed left parenthesis"}`, reason: queryRejected, want: `rejects the query (HTTP 400: invalid parameter "query": 1:4: parse error: unclosed left parenthesis): check the query`},
		{name: "an error that calls itself success", status: 200, text: `{"status":"error","errorType":"internal","error":"no"}`, reason: queryRejected, want: "answered with an error (no)"},
		{name: "a page", status: 200, text: "<html>", reason: notPrometheus, want: "does not serve"},
		{name: "other JSON", status: 200, text: `{}`, reason: notPrometheus, want: "does not serve"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newServer(t, sends(test.status, jsonType, test.text))
			_, err := newClient(t, prometheus.Config{Address: server.URL}).Value(context.Background(), "up(", time.Unix(1, 0))
			if test.is != nil {
				assert.ErrorIs(t, err, test.is)
				return
			}
			var failure *prometheus.Failure
			require.ErrorAs(t, err, &failure)
			assert.Contains(t, failure.Error(), test.reason)
			assert.Contains(t, err.Error(), test.want)
		})
	}
}
