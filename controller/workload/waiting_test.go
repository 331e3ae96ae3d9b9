package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/tuning"
)

// Waiting workloads are woken in the same order each time, so that the same history has the same result.
func TestWaitingWorkloadsAreWokenInOrderOfNames(t *testing.T) {
	var x waiting
	var want []reconcile.Request
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		of := types.NamespacedName{Namespace: "shop", Name: name}
		x.wait(of, []tuning.Topic{tuning.AboutNode("node-1")}, 0)
		want = append(want, reconcile.Request{NamespacedName: of})
	}
	assert.Equal(t, want, x.wake(tuning.AboutNode("node-1")))
	assert.Empty(t, x.wake(tuning.AboutNode("node-2")))
}
