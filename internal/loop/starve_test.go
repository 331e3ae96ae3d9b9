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

// crew are the workers of a queue, one call of Get each, in a bubble of synctest. The test says when each of them is done.
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

// call a worker to the queue.
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

// come is add, and waits until it waits for a worker.
func (c *crew) come(priority int, request reconcile.Request) {
	before := c.queue.Len()
	c.add(priority, request)
	synctest.Wait()
	require.Equal(c.t, before+1, c.queue.Len())
}

// next is what the next worker took; false: all who are free have nothing to take.
func (c *crew) next() (reconcile.Request, bool) {
	synctest.Wait()
	select {
	case request := <-c.takes:
		return request, true
	default:
		return reconcile.Request{}, false
	}
}

// taken is what workers took until nothing was left that they may take.
func (c *crew) taken() (all []reconcile.Request) {
	for {
		request, ok := c.next()
		if !ok {
			return all
		}
		all = append(all, request)
	}
}

// done with a request, which frees its worker.
func (c *crew) done(request reconcile.Request) {
	c.queue.Done(request)
	c.call()
}

// passes is how many passes others have before one of the wanted is worked on, where each request of others is added again,
// as urgent as it may be, while it is worked on.
func (c *crew) passes(busy []reconcile.Request, urgent int, wanted func(reconcile.Request) bool) int {
	for passes := 1; passes < 1000; passes++ {
		first := busy[0]
		busy = busy[1:]
		c.add(urgent, first) // its pod flapped
		c.done(first)
		request := <-c.takes
		if wanted(request) {
			return passes
		}
		busy = append(busy, request)
	}
	return 1000
}

// hanging are requests of so many namespaces that keep all workers busy, as far as they may.
func (c *crew) hanging(namespaces, each int) (busy []reconcile.Request) {
	for i := range each {
		for n := range namespaces {
			c.add(100, of(fmt.Sprint("evil-", n), i))
		}
	}
	return c.taken()
}

// Whatever others add, and however urgent it is, what is not urgent is worked on before each namespace that waited with it
// has had two passes.
func TestUrgentRequestsStarveNobody(t *testing.T) {
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

// All of the victims are, not the first of them only.
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

// An urgent request of a namespace that is quiet otherwise is the next or the one after it, however many ordinary ones of
// however many namespaces wait.
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

// Among other urgent ones it has its turn as well.
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

// Namespaces whose passes do not end leave workers for one that has none, whether they come together or one after another:
// a single one half of them, two of them a quarter, three of them one.
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

// However the passes of hanging namespaces end and begin anew, the last free worker is not theirs.
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
					// In which order they were taken, nobody knows.
					assert.True(t, slices.ContainsFunc(taken, func(r reconcile.Request) bool { return held[r.Namespace] == 1 }), "%d namespaces: %v", namespaces, taken)
				}
			}
		}
	})
}

// Two namespaces of ten workloads, whose servers hang and whose pods flap, and a look of another namespace that its time
// brought: as an attacker had it.
func TestTwoFlappingNamespacesStarveNobody(t *testing.T) {
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
		time.Sleep(2 * pass) // the passes that are under way end
	})
}
