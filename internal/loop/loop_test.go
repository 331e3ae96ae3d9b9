package loop_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/internal/loop"
)

// noted is a queue that records only which names are added, and with which delay.
type noted struct {
	loop.Queue
	after map[string]time.Duration
}

func (n noted) Add(request reconcile.Request) { n.after[request.Name] = 0 }
func (n noted) AddAfter(request reconcile.Request, after time.Duration) {
	n.after[request.Name] = after
}

func named(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func wakes(t *testing.T, w loop.Watch) map[string]time.Duration {
	n := noted{after: map[string]time.Duration{}}
	w.Handler().Create(t.Context(), event.CreateEvent{Object: named("created")}, n)
	w.Handler().Update(t.Context(), event.UpdateEvent{ObjectOld: named("updated"), ObjectNew: named("updated")}, n)
	w.Handler().Delete(t.Context(), event.DeleteEvent{Object: named("deleted")}, n)
	return n.after
}

func itself(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "of-" + o.GetName()}}}
}

func TestEventsWakeTheLoopAtOnce(t *testing.T) {
	assert.Equal(t, map[string]time.Duration{"created": 0, "updated": 0, "deleted": 0}, wakes(t, loop.Watch{Object: &corev1.Pod{}}))
	assert.Equal(t, map[string]time.Duration{"of-created": 0, "of-updated": 0, "of-deleted": 0}, wakes(t, loop.Watch{Object: &corev1.Pod{}, Map: itself}))
}

// Without a delay, each event of a rollout would reconcile all workloads of a policy.
func TestEventsAreGathered(t *testing.T) {
	gathered := loop.Watch{Object: &corev1.Pod{}, Map: itself, After: 2 * time.Second}
	assert.Equal(t, map[string]time.Duration{"of-created": 2 * time.Second, "of-updated": 2 * time.Second, "of-deleted": 2 * time.Second}, wakes(t, gathered))
}

// Urgent requests take precedence over earlier ones.
func TestUrgentUpdatesGoAhead(t *testing.T) {
	w := loop.Watch{Object: &corev1.Pod{}, Map: itself, Urgent: func(_, after client.Object) bool { return after.GetName() == "hurt" }}
	assert.Equal(t, map[string]time.Duration{"of-created": 0, "of-updated": 0, "of-deleted": 0}, wakes(t, w), "a queue without priorities")

	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	for _, name := range []string{"first", "second", "hurt"} {
		before := named(name)
		before.ResourceVersion = "1"
		w.Handler().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: named(name)}, queue)
	}
	var order []string
	for range 3 {
		request, _, _ := queue.GetWithPriority()
		order = append(order, request.Name)
	}
	assert.Equal(t, []string{"of-hurt", "of-first", "of-second"}, order)
}
