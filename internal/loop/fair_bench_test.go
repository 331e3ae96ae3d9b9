package loop_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/internal/loop"
)

// BenchmarkFairQueue takes a request, adds it again and finishes it while that many namespaces wait. The cost does not
// depend on their number.
func BenchmarkFairQueue(b *testing.B) {
	for _, namespaces := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(namespaces), func(b *testing.B) {
			queue := loop.Fair(8, 4)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			for n := range namespaces {
				for i := range 4 {
					queue.Add(of(fmt.Sprint("ns-", n), i))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				request, _ := queue.Get()
				queue.Add(request)
				queue.Done(request)
			}
		})
	}
}
