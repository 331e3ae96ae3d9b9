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

// Fair makes queues that share so many workers among namespaces, and give none of them more than most. It is a
// controller's NewQueue.
//
// How many workers a namespace has: another one for as long as more are free than it has. So one namespace has half of them
// at most; of eight, two namespaces have six at most and three have seven. Where more keep all of them, each worker that
// becomes free goes to a namespace that has none.
//
// Which namespace a free worker goes to: by turns the one with the most urgent request, and the one that has waited longest.
// It works on that namespace's most urgent request, the oldest among equals. So a namespace that has no worker gets one, by
// the time that so many became free, whatever is added meanwhile and however urgent it is:
//   - 2n+2, where n namespaces waited before it did: every second one goes to one of these, which then waits behind it.
//   - 2u+2 where its request is urgent, and those of u of the n are or become so.
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

// fair is a queue with a lane for each namespace. A request passes through three places: PriorityQueue
// (until its time has come), a lane (until a worker is chosen for its namespace), due (taken by the
// worker). mutex guards all fields from news on. A lane exists only while its namespace has requests, so
// that the queue is bounded by what is added to it.
type fair struct {
	// PriorityQueue has what was added until its time has come: then it gets into its lane.
	priorityqueue.PriorityQueue[reconcile.Request]
	// due has what is in the lanes and what is being worked on. It makes no choice of its own: the lanes
	// choose, and due provides the deduplication and the metrics of a work queue.
	due priorityqueue.PriorityQueue[reconcile.Request]

	mutex sync.Mutex
	// news is signalled when a request enters a lane, a worker becomes free, or the queue shuts down.
	news *sync.Cond
	// free is the number of workers without a request, most the largest number for one namespace.
	free, most int
	lanes      map[string]*lane
	// age has the lanes in which anything waits, the one that has waited longest first; urgency has them by the priority of
	// what is most urgent in them. So a choice costs the same however many there are.
	age     *list.List
	urgency map[int]*list.List
	// moment counts what arrived, so that no two arrivals are equal as times may be; byAge: the next worker goes to the namespace that has waited longest.
	moment uint64
	byAge  bool
}

// lane is what a namespace has waiting and in work. It exists while it has anything of either.
type lane struct {
	// working are the requests that workers have, with what came of each of them meanwhile, if anything.
	working map[reconcile.Request]*waiting
	// waits finds what is in line.
	line  line
	waits map[reconcile.Request]*waiting
	// byAge and byUrgency are its places in the queue's lists; nil: nothing waits in it.
	byAge, byUrgency *list.Element
	// priority is the list of urgency that byUrgency is in.
	priority int
}

// waiting is a request that waits for a worker. order is the moment of its arrival (oldest first among
// equals), at its index in the heap.
type waiting struct {
	request  reconcile.Request
	priority int
	order    uint64
	at       int
}

// taken is the priority, above all others, by which due hands out what the lanes chose.
const taken = 1000

// feed moves requests that are due into their lanes. It runs in one goroutine until the queue shuts down.
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

// arrive puts a request into its lane. A request that waits already keeps its place in time and gets the
// higher of the two priorities. A request that a worker has is noted, and waits again only when the worker
// is done: two workers never have the same request.
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

// wait puts a request in line, and its lane at the end of the list by age if nothing waited in it before.
func (q *fair) wait(l *lane, one *waiting) {
	heap.Push(&l.line, one)
	l.waits[one.request] = one
	if l.byAge == nil {
		l.byAge = q.age.PushBack(l)
	}
	q.rank(l)
}

// rank moves a lane to the end of the list of its highest priority, unless it is in that list already:
// then it keeps its place, so that new requests of the same urgency do not push it back.
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

// unrank takes a lane out of its list of urgency; empty lists are removed, so that their number stays
// small.
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

// served puts a lane that has just got a worker behind all others, or takes it out where nothing waits in it.
func (q *fair) served(l *lane) {
	q.age.Remove(l.byAge)
	q.unrank(l)
	l.byAge = nil
	if len(l.line) > 0 {
		l.byAge = q.age.PushBack(l)
		q.rank(l)
	}
}

// Get returns the request that a free worker is to work on. It blocks until there is one; shutdown is true
// when the queue ends.
func (q *fair) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority is Get with the request's priority.
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

// next returns the lane whose namespace gets the next worker; nil: no lane may have one now. It alternates
// between age and urgency (byAge, switched in begin).
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

// firstOf returns the first lane of a list that may have another worker: it has fewer workers than are
// free, and fewer than most. A lane without a worker always may, so that the search passes over no more
// lanes than there are workers.
func (q *fair) firstOf(lanes *list.List) *lane {
	for e := lanes.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*lane); len(l.working) < min(q.free, q.most) {
			return l
		}
	}
	return nil
}

// begin gives the first request of a lane to a worker. The request enters due again with the highest
// priority, so that due returns exactly this one.
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

// Done frees the worker of a request. If the request came again meanwhile, it waits in its lane.
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

// Len is the number of requests that wait for a worker, without those that are not yet due.
func (q *fair) Len() int { return q.due.Len() }

// ShutDown ends the queue: blocked workers return, and requests that wait are dropped.
func (q *fair) ShutDown() {
	q.PriorityQueue.ShutDown()
	q.due.ShutDown()
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.news.Broadcast()
}

// ShutDownWithDrain is ShutDown: it does not wait for running work, as the priority queue beneath does not
// either.
func (q *fair) ShutDownWithDrain() { q.ShutDown() }

// line is a heap of what waits in a lane, the most urgent first, and the oldest of those.
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

// Push is the heap's own.
func (x *line) Push(one any) {
	w := one.(*waiting)
	w.at = len(*x)
	*x = append(*x, w)
}

// Pop is the heap's own.
func (x *line) Pop() any {
	last := len(*x) - 1
	one := (*x)[last]
	(*x)[last] = nil
	*x = (*x)[:last]
	return one
}
