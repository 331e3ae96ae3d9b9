package workload

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/loop"
	"attune.io/attune/tuning"
)

// Rights are the operator's own to resize pods. Without them nothing is sent for any workload: every resize would
// be refused. They are safe for concurrent use; nil rights are never lost.
type Rights struct {
	// Ask asks the API server whether pods may be resized.
	Ask   func(context.Context) (bool, error)
	Clock clock.WithTicker

	mutex sync.Mutex
	// why they are lost, in the API server's words; empty: they are there.
	why   string
	asked time.Time
	// denied are namespaces in which resizes were refused although the operator has the rights.
	denied map[string]denial
}

// denial is what an authorizer said of one namespace, and until when that is taken to stand.
type denial struct {
	why   string
	wait  time.Duration
	until time.Time
	// urgent is until when it stands for what harm asks for.
	urgent time.Time
}

// How often the API server is asked: while all is well, and while it is not.
const rightsUsually, rightsLost = time.Minute, tuning.RightsEvery

// How long a namespace is left alone before it is tried again: at first, and at most; twice as long each time until
// then. Where the API server did not say whether the rights are there, it begins with rightsLost.
const deniedFirst, deniedLast = 10 * time.Minute, 30 * time.Minute

// urgentDenied is how long a namespace is left alone at most by what puts pods back, completes them or answers OOM
// kills: such a patch now and then costs less than pods that crash for half an hour after the access is back.
const urgentDenied = 2 * time.Minute

// errNoRights is what readiness says.
var errNoRights = errors.New("the operator may not patch pods/resize")

// refused notes that a resize was refused for want of rights. They are lost only where the API server says so when it
// is asked; else the refusal is about its namespace alone, as that of an authorizer that guards some namespaces is, or
// about that one request.
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
	if r.denied == nil {
		r.denied = map[string]denial{}
	}
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
	r.denied[namespace] = d
}

// taken notes that a resize was taken in a namespace.
func (r *Rights) taken(namespace string) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.denied, namespace)
}

// lost says why no new resize may begin in a namespace, in the API server's words; empty: it may.
func (r *Rights) lost(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.until })
}

// lostUrgent says why no pod of a namespace may be resized even for harm's sake.
func (r *Rights) lostUrgent(ctx context.Context, namespace string) string {
	return r.lostUntil(ctx, namespace, func(d denial) time.Time { return d.urgent })
}

// lostUntil tells of the rights and of a namespace's denial. While the rights are lost it asks again now and then.
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

// look asks the API server. Where it gives no answer, what was known stands.
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

// Start asks now and then, until the context ends.
func (r *Rights) Start(ctx context.Context) error {
	for range loop.Every(ctx, r.Clock, rightsUsually) {
		r.look(ctx)
	}
	return nil
}

// Ready is a readiness check: it fails while the rights are lost.
func (r *Rights) Ready(*http.Request) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.why == "" {
		return nil
	}
	return errNoRights
}
