// Package usage answers: what did the containers use?
package usage

import (
	"time"

	"attune.io/attune/api/v1alpha1"
)

// SourceSettings say which server is asked and how; two policies with equal ones share every query.
type SourceSettings struct {
	// Prometheus is nil for the operator's own source.
	Prometheus *v1alpha1.PrometheusSource
	// Namespace holds the Secrets that Prometheus names; empty for the operator's own source.
	Namespace string
	// HistoryWindow is how far back is looked at, QueryStep the resolution, RateWindow that of rate().
	HistoryWindow, QueryStep, RateWindow time.Duration
}
