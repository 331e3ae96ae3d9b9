package loop

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Fair makes queues of which at most so many requests of one namespace are worked on at a time: however many a namespace
// has, the other workers are there for the others. It is a controller's NewQueue.
func Fair(most int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) Queue {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) Queue {
		return &fair{
			PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
			most:          most, lanes: map[string]*lane{},
		}
	}
}

// fair is a queue that puts aside what its namespace has no turn for, and takes it up again when one of the namespace's
// is done.
type fair struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	most  int
	mutex sync.Mutex
	lanes map[string]*lane
}

// lane is what a namespace has under way. It is there while it has anything.
type lane struct {
	// turns that are taken: by requests that are worked on, and by those that were taken up again (next).
	turns int
	next  map[reconcile.Request]bool
	// aside are the requests without a turn, in their order; waits finds them.
	aside []*waiting
	waits map[reconcile.Request]*waiting
}

// waiting is a request that was put aside.
type waiting struct {
	request  reconcile.Request
	priority int
}

// Get the next request whose namespace has a turn for it.
func (q *fair) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority is Get with the request's priority.
func (q *fair) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	for {
		request, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown || q.begin(request, priority) {
			return request, priority, shutdown
		}
		q.PriorityQueue.Done(request)
	}
}

// begin gives a request its turn; false: it has to wait, and is put aside.
func (q *fair) begin(request reconcile.Request, priority int) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	l := q.lanes[request.Namespace]
	if l == nil {
		l = &lane{next: map[reconcile.Request]bool{}, waits: map[reconcile.Request]*waiting{}}
		q.lanes[request.Namespace] = l
	}
	switch {
	case l.next[request]:
		delete(l.next, request)
	case l.turns < q.most:
		l.turns++
	default:
		l.putAside(request, priority)
		return false
	}
	return true
}

// Done hands a request's turn on to the one of its namespace that is most urgent, and of those the one that has waited
// longest.
func (q *fair) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	if next, priority, waits := q.pass(request.Namespace); waits {
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, next)
	}
}

func (q *fair) pass(namespace string) (next reconcile.Request, priority int, waits bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	l := q.lanes[namespace]
	if len(l.aside) == 0 {
		if l.turns--; l.turns == 0 {
			delete(q.lanes, namespace)
		}
		return next, 0, false
	}
	at := l.mostUrgent()
	first := l.aside[at]
	l.aside = slices.Delete(l.aside, at, at+1)
	delete(l.waits, first.request)
	l.next[first.request] = true
	return first.request, first.priority, true
}

// putAside a request; one that waits already is as urgent as it ever was.
func (l *lane) putAside(request reconcile.Request, priority int) {
	if known := l.waits[request]; known != nil {
		known.priority = max(known.priority, priority)
		return
	}
	one := &waiting{request, priority}
	l.aside, l.waits[request] = append(l.aside, one), one
}

// mostUrgent is where the most urgent request is that was put aside, the one that has waited longest among equals.
func (l *lane) mostUrgent() (at int) {
	for i, one := range l.aside {
		if one.priority > l.aside[at].priority {
			at = i
		}
	}
	return at
}
