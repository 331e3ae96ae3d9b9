package sim

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/test/sim/api"
	"attune.io/attune/usage"
)

// faults are what goes wrong between the operator and its servers.
type faults struct {
	w *world
	// until when calls fail at a rate, watches lag, the usage source is silent.
	stormUntil, lagUntil, silentUntil time.Time
	rate                              float64
	// hangs: the silent source keeps its callers waiting.
	hangs bool
	// partialUntil: half of the pods are missing from its answers.
	partialUntil time.Time
	// meagreUntil: the source answers about so many steps at once at most.
	meagreUntil time.Time
	mostSteps   int64
	// unlistedUntil: autoscalers cannot be listed. It excuses nothing: only new resizes need them.
	unlistedUntil time.Time
	count         int
}

func newFaults(w *world) *faults { return &faults{w: w} }

func (f *faults) storming() bool { return f.w.time.now.Before(f.stormUntil) }
func (f *faults) lagging() bool  { return f.w.time.now.Before(f.lagUntil) }

// any fault is at work.
func (f *faults) any() bool {
	return f.storming() || f.lagging() || f.w.time.now.Before(f.silentUntil) || f.partial()
}

// partial: the usage source does not answer about all pods, and says so.
func (f *faults) partial() bool { return f.w.time.now.Before(f.partialUntil) }

// unanswered: the usage source does not answer about a pod.
func (f *faults) unanswered(pod *corev1.Pod) bool { return f.partial() && noise(1, pod.Name, 0) < 0.5 }

// tooMuch is the error of a source that is asked about more than it can answer at once.
func (f *faults) tooMuch(q usage.Query) error {
	if !f.w.time.now.Before(f.meagreUntil) || q.Steps() <= f.mostSteps {
		return nil
	}
	return fmt.Errorf("422: query processing would load too many samples: %w", usage.ErrTooMuch)
}

// current is how often calls fail now.
func (f *faults) current() float64 {
	if f.storming() {
		return f.rate
	}
	return f.w.plan.Loses
}

// before a call: it may fail without having reached the server.
func (f *faults) before(o *operator, c api.Call) error {
	if rate := f.current(); rate == 0 || f.w.random.Float64() >= rate/2 {
		return nil
	}
	err := f.answer(c)
	f.count++
	f.w.watching.faulted(o, c, err)
	return err
}

// after a call: its answer may be lost.
func (f *faults) after(o *operator, c api.Call, answer error) error {
	if rate := f.current(); rate == 0 || f.w.random.Float64() >= rate/2 {
		return nil
	}
	f.count++
	o.takes(time.Duration(f.w.random.IntN(2000)) * time.Millisecond)
	f.w.watching.faulted(o, c, api.ErrLost)
	return fmt.Errorf("%s %s: %w", c.Verb, c.Kind, api.ErrLost)
}

// answer in the server's place.
func (f *faults) answer(c api.Call) error {
	group := schema.GroupResource{Resource: c.Kind}
	switch f.w.random.IntN(6) {
	case 0:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case 1:
		return apierrors.NewTooManyRequests("the server has received too many requests", 1)
	case 2:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1)
	case 3:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case 4:
		if c.Write {
			return apierrors.NewConflict(group, c.Key.Name, errors.New("the object has been modified"))
		}
		return apierrors.NewGenericServerResponse(http.StatusBadGateway, c.Verb, group, c.Key.Name, "", 0, false)
	}
	return fmt.Errorf("%s %s: %w", c.Verb, c.Kind, api.ErrLost)
}

// unlisted is what a cache answers that has no autoscalers yet, once its caller has waited.
func (f *faults) unlisted(o *operator) error {
	if !f.w.time.now.Before(f.unlistedUntil) {
		return nil
	}
	o.takes(hangsFor)
	return errUnlisted
}

var errUnlisted = errors.New("failed waiting for *v2.HorizontalPodAutoscaler Informer to sync")

// errSilent is what a usage source that is down answers.
var errSilent = errors.New("dial tcp: connection refused")

// hangsFor is how long a source that hangs is waited for.
const hangsFor = 10 * time.Second

// silent is the error of the usage source while it is down.
func (f *faults) silent(o *operator) error {
	if !f.w.time.now.Before(f.silentUntil) {
		return nil
	}
	if f.hangs {
		o.takes(hangsFor)
	}
	return errSilent
}
