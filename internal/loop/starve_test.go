package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// crew has the workers of a queue, one call of Get each, in a synctest bubble. The test decides when each of them is
// done.
type crew struct {
	t     *testing.T
	queue priorityqueue.PriorityQueue[reconcile.Request]
	takes chan reconcile.Request
}

func newCrew(t *testing.T, workers, most int) *crew {
	c := &crew{t: t, queue: fairQueue(t, workers, most).(priorityqueue.PriorityQueue[reconcile.Request]), takes: make(chan reconcile.Request, 1000)}
	for range workers {
		c.call()
	}
	return c
}

// call starts a worker that waits for a request.
func (c *crew) call() {
	go func() {
		if request, down := c.queue.Get(); !down {
			c.takes <- request
		}
	}()
}

func (c *crew) add(priority int, requests ...reconcile.Request) {
	c.queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority)}, requests...)
}

// come adds a request and waits until it is in the queue.
func (c *crew) come(priority int, request reconcile.Request) {
	before := c.queue.Len()
	c.add(priority, request)
	synctest.Wait()
	require.Equal(c.t, before+1, c.queue.Len())
}

// next returns the request that a worker took; false if the free workers may take none.
func (c *crew) next() (reconcile.Request, bool) {
	synctest.Wait()
	select {
	case request := <-c.takes:
		return request, true
	default:
		return reconcile.Request{}, false
	}
}

// taken returns the requests that the workers took until they may take no more.
func (c *crew) taken() (all []reconcile.Request) {
	for {
		request, ok := c.next()
		if !ok {
			return all
		}
		all = append(all, request)
	}
}

// done finishes a request, which frees its worker.
func (c *crew) done(request reconcile.Request) {
	c.queue.Done(request)
	c.call()
}

// passes returns how many requests of others are finished before a wanted one starts. Each request of the others is
// added again, with the given priority, while it is in work.
func (c *crew) passes(busy []reconcile.Request, urgent int, wanted func(reconcile.Request) bool) int {
	for passes := 1; passes < 1000; passes++ {
		first := busy[0]
		busy = busy[1:]
		c.add(urgent, first) // its pod has just become unready
		c.done(first)
		request := <-c.takes
		if wanted(request) {
			return passes
		}
		busy = append(busy, request)
	}
	return 1000
}

// hanging returns requests of that many namespaces, which keep as many workers busy as they may.
func (c *crew) hanging(namespaces, each int) (busy []reconcile.Request) {
	for i := range each {
		for n := range namespaces {
			c.add(100, of(fmt.Sprint("evil-", n), i))
		}
	}
	return c.taken()
}

// Regardless of other requests and their urgency, a request that is not urgent starts before each namespace that waited
// with it has finished two requests.
func TestUrgentRequestsStarveNoNamespace(t *testing.T) {
	for _, namespaces := range []int{8, 12, 40} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, 8, 4)
			busy := c.hanging(namespaces, 5)
			require.Len(t, busy, 8)
			c.come(0, of("shop", 0))
			passes := c.passes(busy, 100, func(r reconcile.Request) bool { return r.Namespace == "shop" })
			assert.LessOrEqual(t, passes, 2*(namespaces+1), "%d namespaces", namespaces)
		})
	}
}

// This applies to all waiting namespaces, not only to the first.
func TestEachNamespaceHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const namespaces, victims = 20, 30
		c := newCrew(t, 8, 4)
		busy := c.hanging(namespaces, 5)
		for i := range victims {
			c.come(0, of(fmt.Sprint("shop-", i), 0))
		}
		served := map[string]bool{}
		passes := c.passes(busy, 100, func(r reconcile.Request) bool {
			if strings.HasPrefix(r.Namespace, "shop") {
				served[r.Namespace] = true
			}
			return len(served) == victims
		})
		assert.LessOrEqual(t, passes, 2*(namespaces+victims))
	})
}

// An urgent request of an otherwise idle namespace is the next one or the one after it, regardless of the number of
// waiting requests and namespaces.
func TestAnUrgentRequestOfAQuietNamespaceGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 8, 4)
		var crowd []reconcile.Request
		for n := range 300 {
			for i := range 5 {
				crowd = append(crowd, of(fmt.Sprint("ns-", n), i))
			}
		}
		c.add(0, crowd...)
		busy := c.taken()
		c.come(100, of("shop", 0))
		passes := c.passes(busy, 0, func(r reconcile.Request) bool { return r.Namespace == "shop" })
		assert.LessOrEqual(t, passes, 2)
	})
}

// It also gets its turn among other urgent requests.
func TestAnUrgentRequestIsServedAmongUrgentOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const namespaces = 20
		c := newCrew(t, 8, 4)
		busy := c.hanging(namespaces, 5)
		c.come(100, of("shop", 0))
		passes := c.passes(busy, 100, func(r reconcile.Request) bool { return r.Namespace == "shop" })
		assert.LessOrEqual(t, passes, namespaces+1)
	})
}

// Namespaces with hanging requests leave workers for a namespace without a worker, whether they arrive together or one
// after another: one namespace leaves half of the workers, two leave a quarter, three leave one.
func TestHangingNamespacesLeaveWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		together := func(c *crew, namespaces int) []reconcile.Request { return c.hanging(namespaces, 20) }
		apart := func(c *crew, namespaces int) (busy []reconcile.Request) {
			for n := range namespaces {
				for i := range 20 {
					c.add(100, of(fmt.Sprint("evil-", n), i))
				}
				busy = append(busy, c.taken()...)
			}
			return busy
		}
		for name, come := range map[string]func(*crew, int) []reconcile.Request{"together": together, "apart": apart} {
			for namespaces, left := range map[int]int{1: 4, 2: 2, 3: 1} {
				c := newCrew(t, 8, 4)
				assert.LessOrEqual(t, len(come(c, namespaces)), 8-left, "%d namespaces, %s", namespaces, name)
				for i := range 5 {
					c.add(0, of("shop", i))
					request, ok := c.next()
					require.True(t, ok, "%d namespaces, %s", namespaces, name)
					assert.Equal(t, of("shop", i), request)
					c.done(request)
				}
			}
		}
	})
}

// Hanging namespaces never get the last free worker, regardless of the order in which their requests end and start
// again.
func TestTheLastWorkerGoesToANamespaceThatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, namespaces := range []int{2, 3, 7} {
			c := newCrew(t, 8, 4)
			busy := c.hanging(namespaces, 20)
			held := map[string]int{}
			for _, r := range busy {
				held[r.Namespace]++
			}
			for round := range 12 {
				first := busy[round%len(busy)]
				busy = slices.DeleteFunc(busy, func(r reconcile.Request) bool { return r == first })
				held[first.Namespace]--
				c.add(100, first)
				c.done(first)
				taken := c.taken()
				for _, r := range taken {
					held[r.Namespace]++
					busy = append(busy, r)
				}
				if len(taken) > 0 && len(busy) == 8 {
					// The order in which they were taken is not defined.
					assert.True(t, slices.ContainsFunc(taken, func(r reconcile.Request) bool { return held[r.Namespace] == 1 }), "%d namespaces: %v", namespaces, taken)
				}
			}
		}
	})
}

// Two namespaces with requests that hang and are added again as urgent must not block a delayed request of a third
// namespace. This reproduces an attack.
func TestTwoFlappingNamespacesStarveNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := fairQueue(t, 8, 4).(priorityqueue.PriorityQueue[reconcile.Request])
		const pass = 20 * time.Millisecond
		served := make(chan struct{})
		var over atomic.Bool
		for range 8 {
			go func() {
				for {
					request, down := queue.Get()
					if down || over.Load() {
						return
					}
					if request.Namespace == "victim" {
						close(served)
					} else {
						time.Sleep(pass)
						queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(100)}, request)
					}
					queue.Done(request)
				}
			}()
		}
		for i := range 5 {
			for _, evil := range []string{"evil-1", "evil-2"} {
				queue.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(100)}, of(evil, i))
			}
		}
		time.Sleep(5 * pass)
		queue.AddAfter(of("victim", 0), pass)
		select {
		case <-served:
		case <-time.After(100 * pass):
			t.Error("the victim was not served in a hundred passes")
		}
		over.Store(true)
		time.Sleep(2 * pass) // the requests in work end
	})
}
