package loop

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "attune_reconcile_duration_seconds",
		Help:    "Time that one look of a loop took, by loop: policy, workload or node.",
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 120},
	}, []string{"controller"})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_reconcile_errors_total",
		Help: "Looks that ended with an error and are repeated, by what the API server calls it; Unreachable: there was no answer, Other: anything else.",
	}, []string{"error_type"})
)

func init() { metrics.Registry.MustRegister(duration, failures) }

// Measured wraps a reconciler and measures it: how long each look takes, and what kind of error ends it.
// loop is the label of the metric. Results and errors pass through unchanged.
func Measured(loop string, of reconcile.Reconciler) reconcile.Reconciler {
	took := duration.WithLabelValues(loop)
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		began := time.Now()
		result, err := of.Reconcile(ctx, req)
		took.Observe(time.Since(began).Seconds())
		if err != nil {
			failures.WithLabelValues(errorType(err)).Inc()
		}
		return result, err
	})
}

// knownReasons are the reasons that become values of a label. Any other text does not: a proxy in the API
// server's place may answer with any words, and each new word would be a new series for ever.
var knownReasons = map[metav1.StatusReason]bool{
	metav1.StatusReasonUnauthorized: true, metav1.StatusReasonForbidden: true, metav1.StatusReasonNotFound: true,
	metav1.StatusReasonAlreadyExists: true, metav1.StatusReasonConflict: true, metav1.StatusReasonGone: true,
	metav1.StatusReasonInvalid: true, metav1.StatusReasonServerTimeout: true, metav1.StatusReasonTimeout: true,
	metav1.StatusReasonTooManyRequests: true, metav1.StatusReasonBadRequest: true, metav1.StatusReasonMethodNotAllowed: true,
	metav1.StatusReasonRequestEntityTooLarge: true, metav1.StatusReasonInternalError: true,
	metav1.StatusReasonExpired: true, metav1.StatusReasonServiceUnavailable: true,
}

// errorType returns one of a few words for an error; the API server's own reason goes first.
func errorType(err error) string {
	if reason := apierrors.ReasonForError(err); knownReasons[reason] {
		return string(reason)
	}
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return string(metav1.StatusReasonTimeout)
	case errors.As(err, &network):
		return "Unreachable"
	}
	return "Other"
}
