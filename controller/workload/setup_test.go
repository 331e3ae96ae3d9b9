package workload

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestWorkersAreLeftForOtherNamespaces: passes over one namespace's workloads may all wait for a server that it named.
func TestWorkersAreLeftForOtherNamespaces(t *testing.T) {
	options := Options()
	queue := options.NewQueue("test-"+t.Name(), options.RateLimiter)
	t.Cleanup(queue.ShutDown)
	for i := range 100 {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "crowd", Name: fmt.Sprint(i)}})
	}
	shop := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	queue.Add(shop)
	var seen []reconcile.Request
	for range options.MaxConcurrentReconciles - 3 {
		next, _ := queue.Get() // and it is not done
		seen = append(seen, next)
	}
	assert.Contains(t, seen, shop)
}
