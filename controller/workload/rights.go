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
	"attune.io/attune/podview"
	"attune.io/attune/tuning"
)

// Rights knows whether attune may resize pods (RBAC: patch on pods/resize). Without that permission nothing is sent
// for any workload, because every resize would be rejected. A rejection in one namespace only, by an authorizer that
// guards some namespaces, blocks only that namespace. mutex guards the fields below it; Ask runs without it. A nil
// *Rights is never lost.
type Rights struct {
	// Ask queries the API server whether pods may be resized (a SelfSubjectAccessReview). It may block on the
	// network.
	Ask func(context.Context) (bool, error)
	// Clock gives the times and the ticks of Start.
	Clock clock.WithTicker

	mutex sync.Mutex
	// why is the reason of a rejection while the permissions are lost; empty: they are granted. asked is when the API
	// server was last queried.
	why   string
	asked time.Time
	// denied are namespaces in which resizes were rejected although attune has the permissions. Old entries are
	// removed with each new rejection.
	denied map[string]denial
}

// denial is the answer of an authorizer for one namespace, and how long it is taken as valid.
type denial struct {
	why string
	// wait is the backoff of new resizes, which doubles; until is its end.
	wait  time.Duration
	until time.Time
	// urgent is until when even reverts and responses to OOM kills wait.
	urgent time.Time
}

// rightsUsually is the time between two queries while the permissions are granted, rightsLost while they are lost.
const rightsUsually, rightsLost = time.Minute, tuning.RightsEvery

// deniedFirst is the backoff of a namespace after the first rejection, deniedLast the longest; it doubles in between.
// If the API server did not answer whether the permissions are granted, the first backoff is rightsLost.
const deniedFirst, deniedLast = 10 * time.Minute, 30 * time.Minute

// urgentDenied is the longest backoff of a namespace for reverts, second patches and responses to OOM kills. An
// occasional rejected patch costs less than pods that crash for half an hour after the permission is back.
const urgentDenied = 2 * time.Minute

// errNoRights is the error of the readiness check.
var errNoRights = errors.New("the operator's ServiceAccount may not patch pods/resize")

// recordDenied records that a resize was rejected because of missing permissions, and queries the API server. If the
// permission is missing, it is lost for all namespaces. Otherwise the rejection is about this namespace only, or
// about that one request.
func (r *Rights) recordDenied(ctx context.Context, namespace, why string) {
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
	podview.SetIn(&r.denied, namespace, d)
}

// recordAccepted records that a resize was accepted in a namespace, which ends its denial.
func (r *Rights) recordAccepted(namespace string) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.denied, namespace)
}

// lost returns why no new resize may start in a namespace, in the API server's words; empty: it may.
func (r *Rights) lost(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.until })
}

// lostUrgent returns why not even a revert or a response to an OOM kill may be sent in a namespace; empty: it may.
func (r *Rights) lostUrgent(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.urgent })
}

// lostUntil returns the present reason: lost permissions first, then the namespace's denial. While the permissions
// are lost it queries the API server again, at most every rightsLost. It does not hold the mutex during that request.
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

// look queries the API server and returns the reason afterwards. Without an answer, the previous result stays.
func (r *Rights) look(ctx context.Context) string {
	r.mutex.Lock()
	r.asked = r.Clock.Now()
	r.mutex.Unlock()
	granted, err := r.Ask(ctx)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot query the permission to resize pods; keeping the last answer")
	case granted:
		r.why = ""
	case r.why == "":
		r.why = errNoRights.Error()
	}
	return r.why
}

// Start queries the API server every rightsUsually until the context ends. It implements manager.Runnable and always
// returns nil.
func (r *Rights) Start(ctx context.Context) error {
	for range loop.Every(ctx, r.Clock, rightsUsually) {
		r.look(ctx)
	}
	return nil
}

// Ready is a readiness check of the process (healthz.Checker): it fails while the permissions are lost, so that a
// rollout of attune with missing permissions does not complete.
func (r *Rights) Ready(*http.Request) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.why == "" {
		return nil
	}
	return errNoRights
}

// Served knows whether the API server serves pods/resize: in API servers 1.33 and 1.34 the feature may be disabled
// (feature gate InPlacePodVerticalScaling). Before the first answer, and for a nil *Served, it is assumed to be
// served. It is safe for concurrent use.
type Served struct {
	// Ask queries the API server for the resources that it serves (discovery). It may block on the network.
	Ask func(context.Context) (bool, error)
	// Clock gives the ticks of Start.
	Clock clock.WithTicker

	missing atomic.Bool
}

// servedEvery is the time between two queries: the API server may be restarted with other feature gates.
const servedEvery = tuning.ServedEvery

// Start queries at once and then every servedEvery, until the context ends. It implements manager.Runnable and always
// returns nil.
func (s *Served) Start(ctx context.Context) error {
	for range loop.Every(ctx, s.Clock, servedEvery) {
		s.look(ctx)
	}
	return nil
}

// look queries the API server. Without an answer, the previous result stays. Only a change is logged.
func (s *Served) look(ctx context.Context) {
	served, err := s.Ask(ctx)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot query whether the API server serves pods/resize; keeping the last answer")
	case s.missing.Swap(!served) == served:
		log.FromContext(ctx).Info("Queried whether the API server serves pods/resize", "served", served)
	}
}

// lacks reports that the API server does not serve pods/resize.
func (s *Served) lacks() bool { return s != nil && s.missing.Load() }
