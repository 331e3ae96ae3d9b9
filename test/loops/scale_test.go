package loops

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/test/kubelet"
)

// largest is how big an object of ours may become.
const largest = 64 << 10

// 500 workloads of 4 containers under one policy: its status and their objects stay small, and looking
// again when nothing has changed writes nothing.
func TestLoopsStaySmallWithManyWorkloads(t *testing.T) {
	t.Parallel()
	const workloads = 500
	w := newWorld(t, kubelet.Options{})
	containers := func() []corev1.Container {
		var list []corev1.Container
		for i := range 4 {
			c := w.app("cpu=1,memory=1Gi", "cpu=2,memory=2Gi")
			c.Name = fmt.Sprintf("container-number-%d", i)
			list = append(list, c)
		}
		return list
	}
	for i := range workloads {
		w.deployment(fmt.Sprintf("workload-%03d", i), 0, containers()...)
	}
	for i := range 4 {
		w.usage.of[fmt.Sprintf("container-number-%d", i)] = used{CPU: 0.1, Memory: 300}
	}
	w.auto("")
	name := ctrl.Request{}
	name.Namespace, name.Name = w.namespace, "all"
	reconcile := func() {
		_, err := w.policies.Reconcile(t.Context(), name)
		require.NoError(t, err)
	}
	reconcile()

	recs := w.recommendations()
	require.Len(t, recs, workloads)
	most := 0
	for i := range recs {
		require.Len(t, recs[i].Spec.Containers, 4)
		most = max(most, len(marshalled(t, recs[i])))
	}
	assert.Less(t, most, largest)
	p := w.thePolicy("all")
	assert.Less(t, len(marshalled(t, p)), largest)
	assert.Equal(t, int32(workloads), p.Status.Workloads.WithRecommendations)
	assert.Len(t, p.Status.Recommendations, 20)
	assert.Equal(t, int32(workloads-20), p.Status.RecommendationsOmitted)
	assert.Equal(t, "0", p.Status.Savings.CPURequestReduction.String(), "no replicas, no savings")
	t.Logf("recommendation %d bytes, policy %d bytes", most, len(marshalled(t, p)))

	w.writes = 0
	reconcile()
	assert.Zero(t, w.writes, "nothing has changed")
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	reconcile()
	assert.Zero(t, w.writes, "one step of history later, with the same targets")
}

func marshalled(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
