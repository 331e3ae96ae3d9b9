package workload

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestWorkersAreLeftForOtherNamespaces: all passes over the workloads of one namespace, or of two, may wait for the
// servers that these namespaces configured.
func TestWorkersAreLeftForOtherNamespaces(t *testing.T) {
	for crowds, most := range map[int]int{1: 4, 2: 6} {
		options := Options()
		queue := options.NewQueue(fmt.Sprint("test-", t.Name(), crowds), options.RateLimiter)
		t.Cleanup(queue.ShutDown)
		for i := range 100 {
			for crowd := range crowds {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: fmt.Sprint("crowd-", crowd), Name: fmt.Sprint(i)}})
			}
		}
		shop := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
		queue.Add(shop)
		var seen []reconcile.Request
		for len(seen) <= most && !slices.Contains(seen, shop) {
			next, _ := queue.Get() // and it is not finished
			seen = append(seen, next)
		}
		assert.Contains(t, seen, shop)
	}
}
