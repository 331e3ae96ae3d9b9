package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestTypesOfErrorsAreFew(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{apierrors.NewConflict(pods, "web", errors.New("modified")), "Conflict"},
		{fmt.Errorf("storing: %w", apierrors.NewForbidden(pods, "web", errors.New("no"))), "Forbidden"},
		{apierrors.NewTooManyRequests("later", 1), "TooManyRequests"},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Reason: "whatever a webhook says"}}, "Other"},
		{fmt.Errorf("reading: %w", context.DeadlineExceeded), "Timeout"},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, "Unreachable"},
		{errors.New("anything"), "Other"},
	} {
		assert.Equal(t, c.want, errorType(c.err), "%v", c.err)
	}
}

func TestALoopIsMeasured(t *testing.T) {
	fails := errors.New("at first")
	loop := Measured("policy", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Minute}, fails
	}))
	result, err := loop.Reconcile(t.Context(), reconcile.Request{})
	assert.ErrorIs(t, err, fails)
	assert.Zero(t, result, "controller-runtime warns of a result beside an error")
	assert.Equal(t, 1.0, testutil.ToFloat64(failures.WithLabelValues("Other")))
	fails = nil
	result, err = loop.Reconcile(t.Context(), reconcile.Request{})
	assert.NoError(t, err)
	assert.Equal(t, time.Minute, result.RequeueAfter)
	assert.Equal(t, 1.0, testutil.ToFloat64(failures.WithLabelValues("Other")))
	assert.Equal(t, 1, testutil.CollectAndCount(duration), "one loop, one series")
}
