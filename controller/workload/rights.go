package workload

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/tick"
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
}

// How often the API server is asked: while all is well, and while it is not.
const rightsUsually, rightsLost = time.Minute, 15 * time.Second

// errNoRights is what readiness says.
var errNoRights = errors.New("the operator may not patch pods/resize")

// lose notes that a resize was refused for want of rights.
func (r *Rights) lose(why string) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.why, r.asked = why, r.Clock.Now()
}

// lost says why they are lost, in the API server's words; empty: they are not. While they are it asks again now and
// then.
func (r *Rights) lost(ctx context.Context) string {
	if r == nil {
		return ""
	}
	r.mutex.Lock()
	why, due := r.why, r.Clock.Since(r.asked) >= rightsLost
	r.mutex.Unlock()
	if why == "" || !due {
		return why
	}
	return r.look(ctx)
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
	for range tick.Every(ctx, r.Clock, rightsUsually) {
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
