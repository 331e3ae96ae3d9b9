package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/test/kubelet"
)

// remove deletes Deployment web and its pods.
func (w *world) remove() {
	w.t.Helper()
	require.NoError(w.t, w.direct.Delete(w.t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}}))
	for _, pod := range w.pods() {
		require.NoError(w.t, w.direct.Delete(w.t.Context(), &pod))
	}
}

// What a workload taught outlives it for a week, and an operator that is started anew every day; a workload
// that comes back in time is not tried at the limit that killed it. After a week it is forgotten.
func TestLoopsForgetAWorkloadThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.4, Memory: 150}
	w.memory["app"] = 300
	w.deployment("web", 1, w.app("cpu=500m,memory=256Mi", "memory=256Mi"))
	w.auto("")
	w.until(10*time.Minute, "the kill is learned", func() bool { return len(w.recommendation().Status.Floors) > 0 })
	floors := w.recommendation().Status.Floors

	days := func(n int) {
		for range n {
			w.wire()
			w.run(24*time.Hour, 24*time.Hour)
		}
	}
	w.remove()
	days(6)
	rec := w.recommendation()
	assert.Equal(t, floors[0].Evidence, rec.Status.Floors[0].Evidence)
	require.NotNil(t, rec.Status.GoneSince)
	w.writes = 0
	w.settle()
	assert.Zero(t, w.writes, "nothing is written about it meanwhile")

	w.deployment("web", 1, w.app("cpu=500m,memory=256Mi", "memory=256Mi"))
	w.startNewPods()
	assert.Nil(t, w.recommendation().Status.GoneSince)
	assert.GreaterOrEqual(t, memoryLimit(w.pod()), int64(270), "1.3 times 256 MiB, faded for six days")

	w.remove()
	days(8)
	assert.Empty(t, w.recommendations())
}
