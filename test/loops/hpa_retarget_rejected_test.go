package loops

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/fault"
)

// rejectHPA rejects all changes of HPAs until the result is true.
func (w *world) rejectHPA() (accepts *atomic.Bool) {
	accepts = &atomic.Bool{}
	w.link.Strike(fault.Point{Kind: "patch horizontalpodautoscalers", N: 1}, 1<<20,
		func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if accepts.Load() {
				return send()
			}
			return fault.Instead(http.StatusForbidden, -1)(r, send)
		})
	return accepts
}

// The API server rejects changes of the target for hours, and pods are replaced again and again: new pods get their original
// requests, so that the HPA scales at the same usage. Afterwards the requests are raised.
func TestRetargetOfARejectedTargetSizesNoNewPods(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.stumble = func(error) {}
	w.passed = func() { clear(w.known) }
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	accepts := w.rejectHPA()
	rejected := func() *v1alpha1.Try {
		tries := w.recommendation().Status.Tries
		if i := slices.IndexFunc(tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryTarget }); i >= 0 {
			return &tries[i]
		}
		return nil
	}
	w.until(12*time.Hour, "the rejection is stored", func() bool { return rejected() != nil })
	for hour := range 8 {
		if hour == 4 { // the operator is restarted
			w.wire()
		}
		w.run(30*time.Minute, 5*time.Minute)
		pods := w.pods()
		for i := range pods {
			require.NoError(t, w.direct.Delete(t.Context(), &pods[i]))
		}
		w.run(30*time.Minute, 5*time.Minute)
		assert.Equal(t, []int64{1000}, w.requests(), "hour %d", hour)
		assert.True(t, w.followed(), "%v", w.targets())
	}
	row := rejected()
	require.NotNil(t, row)
	assert.GreaterOrEqual(t, row.Times, int32(3))
	accepts.Store(true)
	w.until(24*time.Hour, "the requests are raised", func() bool { return w.requests()[0] > 1500 && w.idle() && w.followed() })
	assert.Nil(t, rejected())
}

// All changes of the target conflict, as with a webhook that answers so: after a few, attune tries as rarely as after a
// rejection.
func TestRetargetOfEndlessConflictsBacksOff(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.stumble = func(error) {}
	w.strikeHPA(http.StatusConflict)
	tried := func() (n int) {
		for _, call := range w.link.Calls() {
			if call.Verb == "patch" && call.Resource == "horizontalpodautoscalers" {
				n++
			}
		}
		return n
	}
	w.until(12*time.Hour, "a change conflicts", func() bool { return tried() > 0 })
	w.run(20*time.Minute, 5*time.Second)
	assert.Equal(t, []int64{1000}, w.requests())
	assert.LessOrEqual(t, tried(), 12)
}

// Another writer sets the lowered target back again and again, while the pods have raised requests: new pods get their
// original requests, to which its target belongs.
func TestRetargetOfATargetThatIsSetBackSizesNoNewPods(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.passed = func() { clear(w.known) }
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	w.until(12*time.Hour, "the requests are raised", func() bool { return w.requests()[0] > 1500 && w.idle() && w.followed() })
	setsBack := func() bool {
		if target, _ := w.target(); target != 70 {
			w.setTarget(70)
		}
		return true
	}
	stored := func() bool {
		return slices.ContainsFunc(w.recommendation().Status.Tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryTarget })
	}
	w.run(10*time.Minute, time.Minute, setsBack)
	require.True(t, stored())
	pods := w.pods()
	for i := range pods {
		require.NoError(t, w.direct.Delete(t.Context(), &pods[i]))
	}
	w.run(20*time.Minute, time.Minute, setsBack)
	assert.Equal(t, []int64{1000}, w.requests())
	assert.True(t, w.followed(), "%v", w.targets())

	w.until(24*time.Hour, "the requests are raised after the other writer stopped", func() bool { return w.requests()[0] > 1500 && w.idle() && w.followed() })
	w.run(48*time.Hour, time.Hour)
	assert.False(t, stored())
}

// An admission webhook of the cluster rejects every dry run, so nothing shows that the target can be lowered after the requests
// are raised. The reason names the setting that lifts this.
func TestRetargetNamesAWebhookWithoutDryRuns(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	status := apierrors.NewBadRequest(`admission webhook "policy.example.org" does not support dry run`).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.link.Strike(fault.Point{Kind: "patch horizontalpodautoscalers", N: 1}, 1<<20,
		func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if !r.URL.Query().Has("dryRun") {
				return send()
			}
			body, err := json.Marshal(status)
			return &http.Response{StatusCode: int(status.Code), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
		})
	w.run(3*time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{1000}, w.requests())
	said, err := json.Marshal(w.recommendation().Status)
	require.NoError(t, err)
	assert.Contains(t, string(said), `admission webhook \"policy.example.org\" does not support dry run`)
	assert.Contains(t, string(said), "Set its sideEffects to None or NoneOnDryRun")
}
