package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/lookup"
)

// A namespace is deleted and created again by another team with the same names: usage from before its creation is not
// its own, also after its policy was deleted in between.
func TestHistoryBelongsToTheNamespacesUID(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		f := newFleet(t, 1)
		namespace := func(uid types.UID, created time.Time) {
			of := lookup.Namespace()
			of.Name, of.UID, of.CreationTimestamp = "shop", uid, metav1.NewTime(created)
			f.memory.put(of)
		}
		policy := f.policy()
		namespace("first", today.Add(-time.Hour))
		f.pass(t)
		assert.Zero(t, f.History.(*past).since.Load(), "of the first namespace all usage counts: it may have been moved here")
		if deleted {
			delete(f.memory.objects["AttunePolicy/shop"], policy.Name)
			f.pass(t)
			f.memory.put(policy)
		}
		created := f.clock.Now().Add(time.Minute)
		namespace("second", created)
		for range 2 {
			f.clock.SetTime(f.clock.Now().Add(step))
			f.pass(t)
			assert.Equal(t, created, f.History.(*past).since.Load())
		}
	}
}
