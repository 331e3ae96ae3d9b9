package prometheus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
)

// Namespaces with ever new names, whose servers do not answer, do not create series without limit. Namespaces that fail
// now have their series, and so has the operator's own server.
func TestSeriesOfErrorsAreBounded(t *testing.T) {
	m := NewMeter(prometheus.NewRegistry())
	failing := errors.New("no answer")
	m.Asked("", "usage", time.Second, failing)
	for i := range mostNamespaces + 500 {
		for _, query := range []string{"usage", "memory"} {
			m.Asked(fmt.Sprint("preview-", i), query, time.Second, failing)
		}
		m.Asked("shop", "usage", time.Second, failing)
		m.Asked("well", "usage", time.Second, nil)
	}
	assert.Equal(t, 1+1+2*(mostNamespaces-1), testutil.CollectAndCount(m.errors))
	assert.Equal(t, mostNamespaces, m.failed.Len()) // not Len, which would print all of them
	assert.Equal(t, 1.0, testutil.ToFloat64(m.errors.WithLabelValues("", "usage")))
	assert.Equal(t, float64(mostNamespaces+500), testutil.ToFloat64(m.errors.WithLabelValues("shop", "usage")))
}
