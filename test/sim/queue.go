package sim

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Back-off of a loop that names none, controller-runtime's own.
const backoffFirst, backoffLast = 5 * time.Millisecond, 1000 * time.Second

// queue is a loop's work queue with its workers, as controller-runtime has them: a name is there once, whoever adds
// it and when; it is never worked on twice at a time; an error waits longer each time.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // what is not played panics

	time    *timeline
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	workers int
	// pass works on one name, and says how long it took.
	pass func(reconcile.Request) (reconcile.Result, error, time.Duration)

	ready   map[reconcile.Request]*entry
	order   uint64
	working map[reconcile.Request]bool
	dead    bool
}

// entry is a name that waits for its time.
type entry struct {
	at    time.Time
	order uint64
}

func newQueue(t *timeline, o controller.Options, pass func(reconcile.Request) (reconcile.Result, error, time.Duration)) *queue {
	limiter := o.RateLimiter
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backoffFirst, backoffLast)
	}
	return &queue{
		time: t, limiter: limiter, workers: max(1, o.MaxConcurrentReconciles), pass: pass,
		ready: map[reconcile.Request]*entry{}, working: map[reconcile.Request]bool{},
	}
}

// Add a name that is due now.
func (q *queue) Add(r reconcile.Request) { q.AddAfter(r, 0) }

// AddAfter adds a name that is due later; what is due earlier stands.
func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	at := q.time.now.Add(d)
	if e := q.ready[r]; e != nil && !at.Before(e.at) || q.dead {
		return
	}
	q.order++
	q.ready[r] = &entry{at, q.order}
	q.time.at(at, q.work)
}

// AddRateLimited adds a name after the back-off of its errors.
func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.limiter.When(r)) }

// Forget the errors of a name.
func (q *queue) Forget(r reconcile.Request) { q.limiter.Forget(r) }

// work on what is due while there are workers.
func (q *queue) work() {
	for !q.dead && len(q.working) < q.workers {
		next, found := q.next()
		if !found {
			return
		}
		delete(q.ready, next)
		q.working[next] = true
		result, err, took := q.pass(next)
		q.time.after(took, func() { q.done(next, result, err) })
	}
}

// next is who has waited longest of those that are due and not worked on.
func (q *queue) next() (who reconcile.Request, found bool) {
	var best *entry
	for r, e := range q.ready {
		if e.at.After(q.time.now) || q.working[r] {
			continue
		}
		if best == nil || e.at.Before(best.at) || e.at.Equal(best.at) && e.order < best.order {
			who, best = r, e
		}
	}
	return who, best != nil
}

func (q *queue) done(r reconcile.Request, result reconcile.Result, err error) {
	delete(q.working, r)
	if q.dead {
		return
	}
	switch {
	case err != nil:
		q.AddRateLimited(r)
	case result.RequeueAfter > 0:
		q.Forget(r)
		q.AddAfter(r, result.RequeueAfter)
	default:
		q.Forget(r)
	}
	q.work()
}
