package workload

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/loop"
	"attune.io/attune/tuning"
)

// Rights knows whether the operator may resize pods (RBAC: patch on pods/resize). Without that right
// nothing is sent for any workload: every resize would be refused. A refusal in one namespace, by an
// authorizer that guards only some, blocks that namespace alone. mutex guards the fields below it; Ask
// runs without it. A nil *Rights is never lost.
type Rights struct {
	// Ask asks the API server whether pods may be resized (a SelfSubjectAccessReview). It may block on the
	// network.
	Ask func(context.Context) (bool, error)
	// Clock gives the times and the ticks of Start.
	Clock clock.WithTicker

	mutex sync.Mutex
	// why is the reason of a refusal while the rights are lost; empty: they are there. asked is when the
	// API server was asked last.
	why   string
	asked time.Time
	// denied are namespaces in which resizes were refused although the operator has the rights. Old
	// entries are removed with each new refusal.
	denied map[string]denial
}

// denial is what an authorizer answered about one namespace, and until when that is taken as valid.
type denial struct {
	why string
	// wait is how long new resizes wait, and doubles; until is the end of that wait.
	wait  time.Duration
	until time.Time
	// urgent is until when even reverts and answers to OOM kills wait.
	urgent time.Time
}

// rightsUsually is how often the API server is asked while the rights are there, rightsLost while they are
// not.
const rightsUsually, rightsLost = time.Minute, tuning.RightsEvery

// deniedFirst is how long a namespace waits after the first refusal, deniedLast how long at most; the wait
// doubles in between. If the API server did not answer whether the rights are there, the first wait is
// rightsLost.
const deniedFirst, deniedLast = 10 * time.Minute, 30 * time.Minute

// urgentDenied is how long a namespace waits at most with reverts, second patches and answers to OOM
// kills. A refused patch now and then costs less than pods that crash for half an hour after the access is
// back.
const urgentDenied = 2 * time.Minute

// errNoRights is the error of the readiness check.
var errNoRights = errors.New("the operator may not patch pods/resize")

// refused notes that a resize was refused for want of rights, and asks the API server. If it answers that
// the right is missing, the rights are lost for all. Otherwise the refusal is about this namespace only,
// or about that one request.
func (r *Rights) refused(ctx context.Context, namespace, why string) {
	if r == nil {
		return
	}
	granted, err := r.Ask(ctx)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.asked = r.Clock.Now(); err == nil && !granted {
		r.why = why
		return
	}
	maps.DeleteFunc(r.denied, func(_ string, d denial) bool { return r.asked.Sub(d.until) > deniedLast })
	d := r.denied[namespace]
	if !r.asked.Before(d.until) {
		least := deniedFirst
		if err != nil {
			least = rightsLost
		}
		d.wait = max(least, min(2*d.wait, deniedLast))
		d.until = r.asked.Add(d.wait)
	}
	d.why, d.urgent = "in namespace "+namespace+": "+why, r.asked.Add(min(d.wait, urgentDenied))
	put(&r.denied, namespace, d)
}

// taken notes that a resize was accepted in a namespace, which ends its denial.
func (r *Rights) taken(namespace string) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.denied, namespace)
}

// lost returns why no new resize may begin in a namespace, in the API server's words; empty: it may.
func (r *Rights) lost(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.until })
}

// lostUrgent returns why not even a revert or an answer to an OOM kill may be sent in a namespace; empty:
// it may.
func (r *Rights) lostUrgent(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.urgent })
}

// lostUntil returns the reason that holds now: lost rights first, then the namespace's denial. While the
// rights are lost it asks the API server again, at most every rightsLost. The mutex is not held during
// that request.
func (r *Rights) lostUntil(ctx context.Context, namespace string, until func(denial) time.Time) string {
	if r == nil {
		return ""
	}
	r.mutex.Lock()
	why, due, here := r.why, r.Clock.Since(r.asked) >= rightsLost, r.denied[namespace]
	r.mutex.Unlock()
	if why != "" && due {
		why = r.look(ctx)
	}
	if why == "" && r.Clock.Now().Before(until(here)) {
		return here.why
	}
	return why
}

// look asks the API server and returns the reason that holds afterwards. Without an answer, what was known
// stays.
func (r *Rights) look(ctx context.Context) string {
	r.mutex.Lock()
	r.asked = r.Clock.Now()
	r.mutex.Unlock()
	granted, err := r.Ask(ctx)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot ask the API server whether pods may be resized; what was known stands")
	case granted:
		r.why = ""
	case r.why == "":
		r.why = errNoRights.Error()
	}
	return r.why
}

// Start asks the API server every rightsUsually until the context ends. It implements manager.Runnable and
// always returns nil.
func (r *Rights) Start(ctx context.Context) error {
	for range loop.Every(ctx, r.Clock, rightsUsually) {
		r.look(ctx)
	}
	return nil
}

// Ready is a readiness check of the process (healthz.Checker): it fails while the rights are lost, so that
// a rollout of the operator with missing rights does not complete.
func (r *Rights) Ready(*http.Request) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.why == "" {
		return nil
	}
	return errNoRights
}

// Served knows whether the API server serves pods/resize: an API server 1.33 or 1.34 may have the feature
// switched off (feature gate InPlacePodVerticalScaling). Before the first answer, and on a nil *Served, it
// is assumed to be served. It is safe for concurrent use.
type Served struct {
	// Ask asks the API server what it serves (discovery). It may block on the network.
	Ask func(context.Context) (bool, error)
	// Clock gives the ticks of Start.
	Clock clock.WithTicker

	missing atomic.Bool
}

// servedEvery is how often the API server is asked what it serves: it may be restarted with other
// features.
const servedEvery = tuning.ServedEvery

// Start asks at once and then every servedEvery, until the context ends. It implements manager.Runnable
// and always returns nil.
func (s *Served) Start(ctx context.Context) error {
	for range loop.Every(ctx, s.Clock, servedEvery) {
		s.look(ctx)
	}
	return nil
}

// look asks the API server. Without an answer, what was known stays. Only a change is logged.
func (s *Served) look(ctx context.Context) {
	served, err := s.Ask(ctx)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot ask the API server whether it serves pods/resize; what was known stands")
	case s.missing.Swap(!served) == served:
		log.FromContext(ctx).Info("Asked the API server whether it serves pods/resize", "served", served)
	}
}

// lacks reports that the API server does not serve pods/resize.
func (s *Served) lacks() bool { return s != nil && s.missing.Load() }
