package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/lifecycle"
)

// carriedOut plays the kubelet of a lab's pod.
func carriedOut(l *lab, name string) {
	l.t.Helper()
	pod := l.pod(name)
	pod.Status.ObservedGeneration = pod.Generation
	for i, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses[i].AllocatedResources = c.Resources.Requests
		pod.Status.ContainerStatuses[i].Resources = c.Resources.DeepCopy()
	}
	require.NoError(l.t, l.api.Status().Update(l.t.Context(), pod))
}

// A resize is stored before it is sent, and when its observation starts. The progress in between is known without a
// write, is learned again after a restart, and is not mixed up with the writes of another replica.
func TestProgressThatPodsShowIsNotStored(t *testing.T) {
	for name, restarted := range map[string]bool{"no restart": false, "restarted before the second read": true} {
		t.Run(name, func(t *testing.T) {
			from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
			l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
			l.pass()
			require.Equal(t, 1, l.patches)
			carriedOut(l, "web-1")
			l.clock.Step(2 * time.Second)
			l.pass()
			require.NotNil(t, l.known().Status.Records[0].VerifiedOnce)
			assert.Equal(t, 1, l.status, "the record")
			assert.Zero(t, l.rec().Status.Records[0].Generation)
			if restarted {
				l.c.memory.steps = steps{}
				l.pass()
				again := l.known().Status.Records[0]
				assert.Equal(t, v1alpha1.RecordApplied, again.Phase)
				assert.EqualValues(t, 2, again.Generation)
				assert.NotNil(t, again.VerifiedOnce)
			}
			l.live(lifecycle.SyncPeriod + 10*time.Second)
			record := l.rec().Status.Records[0]
			assert.Equal(t, v1alpha1.RecordWatching, record.Phase)
			assert.EqualValues(t, 2, record.Generation)
			assert.Equal(t, 2, l.status, "the record, and the start of its watch")
			assert.Equal(t, 1, l.patches)
			assert.Equal(t, 1, l.events)
		})
	}
}

func TestRecordOfAnotherReplicaIsNotChanged(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 0), sizeOf(250, 0, 512, 0)
	l := newLab(t, heading(seen(t, from), to).Rec, deploymentOf(from, 1), running("web-1", from))
	l.pass()
	assert.EqualValues(t, 2, l.known().Status.Records[0].Generation)
	rec := l.rec()
	rec.Status.Records[0].Phase, rec.Status.Records[0].Reason = v1alpha1.RecordReverting, "oomkill"
	l.c.memory.steps.recall(rec)
	assert.Equal(t, v1alpha1.RecordReverting, rec.Status.Records[0].Phase)
}
