package loop

import (
	"container/heap"
	"container/list"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Fair returns the NewQueue of a controller whose queues share the workers among namespaces. No namespace gets more
// than most.
//
// Number of workers per namespace: a namespace gets another worker while more workers are free than it has. So one
// namespace has at most half of them. Of eight workers, two namespaces have at most six, and three namespaces have
// seven. If more namespaces keep all workers busy, each worker that becomes free goes to a namespace without a worker.
//
// Choice of the namespace: a free worker goes alternately to the namespace with the most urgent request and to the
// namespace that has waited longest. It works on the most urgent request of that namespace, the oldest among equals. So
// a namespace without a worker gets one at the latest when this many workers have become free, regardless of later
// requests and their urgency:
//   - 2n+2 workers, if n namespaces waited before it: every second worker goes to one of these, which then waits behind
//     it.
//   - 2u+2 workers, if its request is urgent and u of the n namespaces have or get an urgent request.
func Fair(workers, most int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) Queue {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) Queue {
		q := &fair{
			PriorityQueue: priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
			due:           priorityqueue.New[reconcile.Request](name),
			free:          workers, most: most, lanes: map[string]*lane{}, age: list.New(), urgency: map[int]*list.List{},
		}
		q.news = sync.NewCond(&q.mutex)
		go q.feed()
		return q
	}
}

// fair is a queue with a lane per namespace. A request passes through three stages: PriorityQueue (until it is due), a
// lane (until its namespace gets a worker), due (until the worker takes it). mutex guards all fields from news on. A
// lane exists only while its namespace has requests, so the requests bound the size of the queue.
type fair struct {
	// PriorityQueue has the requests that are not due yet. A due request moves into its lane.
	priorityqueue.PriorityQueue[reconcile.Request]
	// due has the requests in the lanes and in work. It does not choose: the lanes choose, and due provides the
	// deduplication and the metrics of a work queue.
	due priorityqueue.PriorityQueue[reconcile.Request]

	mutex sync.Mutex
	// news is signalled when a request enters a lane, a worker becomes free, or the queue shuts down.
	news *sync.Cond
	// free is the number of workers without a request, most the largest number for one namespace.
	free, most int
	lanes      map[string]*lane
	// age has the lanes with waiting requests, the one that has waited longest first. urgency has the same lanes by the
	// priority of their most urgent request. So the cost of a choice does not depend on the number of lanes.
	age     *list.List
	urgency map[int]*list.List
	// moment counts arrivals, because times may be equal. byAge: the next worker goes to the namespace that has waited
	// longest.
	moment uint64
	byAge  bool
}

// lane has the waiting and running requests of a namespace. It exists while it has at least one.
type lane struct {
	// working has the requests in work. The value is a repeated request that arrived in the meantime; nil if there is
	// no such request.
	working map[reconcile.Request]*waiting
	// waits finds the requests in line.
	line  line
	waits map[reconcile.Request]*waiting
	// byAge and byUrgency are its elements in the queue's lists; nil if no request waits.
	byAge, byUrgency *list.Element
	// priority is the list of urgency that has byUrgency.
	priority int
}

// waiting is a request that waits for a worker. order is its arrival (oldest first among equals), at its index in the
// heap.
type waiting struct {
	request  reconcile.Request
	priority int
	order    uint64
	at       int
}

// taken is the priority, above all others, with which begin makes due return the chosen request.
const taken = 1000

// feed moves due requests into their lanes. It runs in one goroutine until the queue shuts down.
func (q *fair) feed() {
	for {
		request, priority, down := q.PriorityQueue.GetWithPriority()
		if down {
			return
		}
		q.PriorityQueue.Done(request)
		q.arrive(request, priority)
	}
}

// arrive puts a request into its lane. A request that waits already keeps its place and gets the higher of the two
// priorities. A request in work waits again only after its worker is done: two workers never have the same request.
func (q *fair) arrive(request reconcile.Request, priority int) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	l := q.lanes[request.Namespace]
	if l == nil {
		l = &lane{working: map[reconcile.Request]*waiting{}, waits: map[reconcile.Request]*waiting{}}
		q.lanes[request.Namespace] = l
	}
	q.moment++
	again, working := l.working[request]
	known := l.waits[request]
	switch {
	case known != nil:
		if priority > known.priority {
			known.priority = priority
			heap.Fix(&l.line, known.at)
			q.rank(l)
		}
	case working && again != nil:
		again.priority = max(again.priority, priority)
	case working:
		l.working[request] = &waiting{request: request, priority: priority, order: q.moment}
	default:
		q.wait(l, &waiting{request: request, priority: priority, order: q.moment})
	}
	q.due.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(min(priority, taken-1))}, request)
	q.news.Broadcast()
}

// wait adds a request to the line. If the lane was empty, it moves to the end of the list by age.
func (q *fair) wait(l *lane, one *waiting) {
	heap.Push(&l.line, one)
	l.waits[one.request] = one
	if l.byAge == nil {
		l.byAge = q.age.PushBack(l)
	}
	q.rank(l)
}

// rank moves a lane to the end of the list of its highest priority. A lane in that list already keeps its place, so
// that new requests of the same urgency do not push it back.
func (q *fair) rank(l *lane) {
	top := l.line[0].priority
	if l.byUrgency != nil && l.priority == top {
		return
	}
	q.unrank(l)
	if q.urgency[top] == nil {
		q.urgency[top] = list.New()
	}
	l.priority, l.byUrgency = top, q.urgency[top].PushBack(l)
}

// unrank removes a lane from its list of urgency. It deletes empty lists, so that their number stays small.
func (q *fair) unrank(l *lane) {
	if l.byUrgency == nil {
		return
	}
	if of := q.urgency[l.priority]; of.Len() == 1 {
		delete(q.urgency, l.priority)
	} else {
		of.Remove(l.byUrgency)
	}
	l.byUrgency = nil
}

// served moves a lane that has just got a worker behind all others, or removes it if no request waits.
func (q *fair) served(l *lane) {
	q.age.Remove(l.byAge)
	q.unrank(l)
	l.byAge = nil
	if len(l.line) > 0 {
		l.byAge = q.age.PushBack(l)
		q.rank(l)
	}
}

// Get returns the next request for a free worker. It blocks until a request is available; shutdown is true when the
// queue ends.
func (q *fair) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority is Get with the priority of the request.
func (q *fair) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for !q.ShuttingDown() {
		if l := q.next(); l != nil {
			return q.begin(l)
		}
		q.news.Wait()
	}
	return request, 0, true
}

// next returns the lane whose namespace gets the next worker; nil if no lane may have one now. It alternates between
// age and urgency (byAge, switched in begin).
func (q *fair) next() *lane {
	if q.free == 0 {
		return nil
	}
	if q.byAge {
		return q.firstOf(q.age)
	}
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(q.urgency))) {
		if l := q.firstOf(q.urgency[priority]); l != nil {
			return l
		}
	}
	return nil
}

// firstOf returns the first lane that may have another worker: it has fewer workers than are free, and fewer than most.
// A lane without a worker always qualifies, so the search passes at most as many lanes as there are workers.
func (q *fair) firstOf(lanes *list.List) *lane {
	for e := lanes.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*lane); len(l.working) < min(q.free, q.most) {
			return l
		}
	}
	return nil
}

// begin gives the first request of a lane to a worker. It adds the request to due with the highest priority, so that
// due returns exactly this request.
func (q *fair) begin(l *lane) (request reconcile.Request, priority int, shutdown bool) {
	one := heap.Pop(&l.line).(*waiting)
	delete(l.waits, one.request)
	l.working[one.request] = nil
	q.byAge = !q.byAge
	q.served(l)
	q.free--
	q.due.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(taken)}, one.request)
	request, _, shutdown = q.due.GetWithPriority()
	return request, one.priority, shutdown
}

// Done frees the worker of a request. A request that arrived again in the meantime waits in its lane.
func (q *fair) Done(request reconcile.Request) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.due.Done(request)
	l := q.lanes[request.Namespace]
	again := l.working[request]
	delete(l.working, request)
	q.free++
	switch {
	case again != nil:
		q.wait(l, again)
	case len(l.working) == 0 && len(l.line) == 0:
		delete(q.lanes, request.Namespace)
	}
	q.news.Broadcast()
}

// Len is the number of due requests that wait for a worker.
func (q *fair) Len() int { return q.due.Len() }

// ShutDown ends the queue: blocked workers return, and waiting requests are dropped.
func (q *fair) ShutDown() {
	q.PriorityQueue.ShutDown()
	q.due.ShutDown()
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.news.Broadcast()
}

// ShutDownWithDrain is ShutDown. Like the underlying priority queue, it does not wait for running work.
func (q *fair) ShutDownWithDrain() { q.ShutDown() }

// line is a heap of the waiting requests of a lane, the most urgent first, then the oldest.
type line []*waiting

func (x line) Len() int { return len(x) }

func (x line) Less(i, j int) bool {
	if x[i].priority != x[j].priority {
		return x[i].priority > x[j].priority
	}
	return x[i].order < x[j].order
}

func (x line) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].at, x[j].at = i, j
}

// Push implements heap.Interface.
func (x *line) Push(one any) {
	w := one.(*waiting)
	w.at = len(*x)
	*x = append(*x, w)
}

// Pop implements heap.Interface.
func (x *line) Pop() any {
	last := len(*x) - 1
	one := (*x)[last]
	(*x)[last] = nil
	*x = (*x)[:last]
	return one
}
