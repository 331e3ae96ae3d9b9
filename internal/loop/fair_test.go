package loop_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/internal/loop"
)

func of(namespace string, n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("p-%04d", n)}}
}

func fairQueue(t *testing.T, workers, most int) loop.Queue {
	queue := loop.Fair(workers, most)("test-"+t.Name(), workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
	t.Cleanup(queue.ShutDown)
	return queue
}

// A namespace with a thousand earlier requests does not block another namespace: it has one of two workers.
func TestOneNamespaceDoesNotTakeAllWorkers(t *testing.T) {
	queue := fairQueue(t, 2, 1)
	for i := range 1000 {
		queue.Add(of("crowd", i))
	}
	queue.Add(of("shop", 0))
	first, _ := queue.Get()
	second, _ := queue.Get()
	assert.Equal(t, of("crowd", 0), first)
	assert.Equal(t, of("shop", 0), second, "and it is not done with its first yet")
	queue.Done(second)
	queue.Done(first)
	for i := 1; i < 1000; i++ {
		next, _ := queue.Get()
		assert.Equal(t, of("crowd", i), next, "those that were put aside keep their order")
		queue.Done(next)
	}
}

// A request that is added again while it waits is reconciled once; a request that is added again during its work is
// reconciled once more.
func TestAFairQueueLosesAndRepeatsNothing(t *testing.T) {
	queue := fairQueue(t, 2, 1)
	queue.Add(of("shop", 0))
	first, _ := queue.Get()
	for range 3 {
		queue.Add(of("shop", 1))
		queue.Add(of("bank", 0))
		other, _ := queue.Get()
		assert.Equal(t, of("bank", 0), other, "the first of the shop's is not done, the second one waits")
		queue.Done(other)
	}
	queue.Add(of("shop", 0))
	queue.Done(first)
	var seen []reconcile.Request
	for range 2 {
		next, _ := queue.Get()
		seen = append(seen, next)
		queue.Done(next)
	}
	assert.ElementsMatch(t, []reconcile.Request{of("shop", 0), of("shop", 1)}, seen)
	queue.Add(of("bank", 1))
	last, _ := queue.Get()
	assert.Equal(t, of("bank", 1), last, "there was nothing else")
	queue.Done(last)
}

// Urgent requests take precedence over older ones, also among requests in a lane.
func TestUrgentRequestsGoFirst(t *testing.T) {
	queue := fairQueue(t, 2, 1).(priorityqueue.PriorityQueue[reconcile.Request])
	add := func(n, priority int) {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, of("shop", n))
	}
	add(0, 0)
	first, _ := queue.Get()
	priorities := map[int]int{1: 0, 2: -100, 3: 0, 4: 100, 5: 100}
	for n := 1; n <= 5; n++ {
		add(n, priorities[n])
		// This request enters its lane before a later request of another namespace is due.
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(-200)}, of("bank", n))
		other, _ := queue.Get()
		assert.Equal(t, of("bank", n), other)
		queue.Done(other)
	}
	queue.Done(first)
	var seen []reconcile.Request
	for range 5 {
		next, priority, _ := queue.GetWithPriority()
		assert.Equal(t, priorities[number(next)], priority)
		seen = append(seen, next)
		queue.Done(next)
	}
	assert.Equal(t, []reconcile.Request{of("shop", 4), of("shop", 5), of("shop", 1), of("shop", 3), of("shop", 2)}, seen)
}

func number(r reconcile.Request) (n int) {
	_, _ = fmt.Sscanf(r.Name, "p-%d", &n)
	return n
}

// With any number of workers, no namespace exceeds its limit, and every request is reconciled.
func TestWorkersOfANamespaceAreBounded(t *testing.T) {
	const namespaces, each, most = 5, 40, 2
	queue := loop.Fair(8, most)("test-bounded", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
	for n := range namespaces {
		for i := range each {
			queue.Add(of(fmt.Sprint("ns-", n), i))
		}
	}
	var mutex sync.Mutex
	busy, seen, highest := map[string]int{}, map[reconcile.Request]int{}, 0
	var all, workers sync.WaitGroup
	all.Add(namespaces * each)
	for range 8 {
		workers.Go(func() {
			for {
				request, shutdown := queue.Get()
				if shutdown {
					return
				}
				mutex.Lock()
				busy[request.Namespace]++
				seen[request]++
				highest = max(highest, busy[request.Namespace])
				mutex.Unlock()
				runtime.Gosched()
				mutex.Lock()
				busy[request.Namespace]--
				mutex.Unlock()
				queue.Done(request)
				all.Done()
			}
		})
	}
	all.Wait()
	queue.ShutDown()
	workers.Wait()
	assert.LessOrEqual(t, highest, most)
	assert.Len(t, seen, namespaces*each)
}

// The metrics of the queue count waiting requests and requests in work.
func TestTheMetricsOfAFairQueue(t *testing.T) {
	name := fmt.Sprint("test-metrics-", time.Now().UnixNano())
	queue := loop.Fair(2, 1)(name, workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
	t.Cleanup(queue.ShutDown)
	for i := range 3 {
		queue.Add(of("shop", i))
	}
	first, _ := queue.Get()
	assert.Eventually(t, func() bool {
		return measured(t, name, "workqueue_adds_total") == 3 && measured(t, name, "workqueue_depth") == 2 && queue.Len() == 2
	}, 5*time.Second, time.Millisecond)
	queue.Done(first)
	assert.EqualValues(t, 1, measured(t, name, "workqueue_work_duration_seconds"), "passes")
}

// measured returns the sum of a queue's series of a metric; for a histogram, the number of values.
func measured(t *testing.T, queue, name string) (sum float64) {
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == queue {
					sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return sum
}
