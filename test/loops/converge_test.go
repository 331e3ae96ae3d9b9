package loops

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/kubelet"
)

// writesAMinute is the most that a workload may cost the API server while nothing about it changes.
const writesAMinute = 0.1

// A pod that asks for 4 CPU and uses 100m gets to its target by steps from what it has, and stays there.
func TestLoopsConvergeAndStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.1, Memory: 300}
	w.memory["app"] = 300
	w.deployment("web", 1, w.app("cpu=4,memory=1Gi", ""))
	w.settle()
	born := w.pod()
	w.auto("cpu: {maxChangePercent: 50}\nmemory: {allowDecrease: true}")

	var sizes []int64
	arrived := func() bool {
		if pod := w.pod(); len(sizes) == 0 || sizes[len(sizes)-1] != cpuRequest(pod) {
			sizes = append(sizes, cpuRequest(pod))
		}
		return true
	}
	w.run(3*time.Hour, 5*time.Minute, arrived)

	target := w.recommendation().Spec.Containers[0].Target.CPURequest.MilliValue()
	require.InDelta(t, 120, target, 1, "100m and 20 %%")
	assert.LessOrEqual(t, len(sizes)-1, 8, "steps: %v", sizes)
	for i := 1; i < len(sizes); i++ {
		assert.GreaterOrEqual(t, sizes[i], sizes[i-1]/2, "a step is at most half of what the pod has: %v", sizes)
	}
	last := sizes[len(sizes)-1]
	assert.LessOrEqual(t, math.Abs(float64(last-target)), 0.1*float64(last), "%v", sizes)

	settled := w.pod()
	w.writes = 0
	w.run(24*time.Hour, time.Hour)
	pod := w.pod()
	assert.Equal(t, settled.Generation, pod.Generation, "no further resize in a day")
	assert.Equal(t, born.UID, pod.UID)
	assert.Zero(t, restarts(pod))
	assert.Equal(t, pod.Spec.Containers[0].Resources, runs(pod), "the runtime has what the spec asks for")
	assert.NotContains(t, results(w.recommendation()), "Withdrawn")
	t.Logf("%v, then %d writes of the loops in a day", sizes, w.writes)
	assert.LessOrEqual(t, float64(w.writes), writesAMinute*24*60, "in a day in which nothing changes")
}

// A hundred resizes, up and down, and the limit is still what it was to the request.
func TestLoopsKeepTheRatio(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.deployment("web", 1, w.app("cpu=300m,memory=512Mi", "cpu=500m,memory=1Gi"))
	w.usage.of["app"] = used{CPU: 0.2, Memory: 200}
	w.settle()
	w.auto("cpu: {maxChangePercent: 90}\nmetricsSource: {rateWindow: 30s}")

	wander := rand.New(rand.NewPCG(1, 2))
	const wanted = 100
	resized, generation := 0, w.pod().Generation
	for try := 0; resized < wanted; try++ {
		require.Less(t, try, 2*wanted, "only %d resizes", resized)
		w.usage.of["app"] = used{CPU: 0.06 + wander.Float64(), Memory: 200}
		w.run(150*time.Second, 150*time.Second)
		pod := w.pod()
		if pod.Generation == generation {
			continue
		}
		resized, generation = resized+1, pod.Generation
		resources := pod.Spec.Containers[0].Resources
		request, limit := resources.Requests.Cpu().MilliValue(), resources.Limits.Cpu().MilliValue()
		require.InDelta(t, float64(request)*5/3, float64(limit), 1, "resize %d: %dm of %dm", resized, request, limit)
	}
	assert.Zero(t, restarts(w.pod()))
	assert.Equal(t, int64(1024), memoryLimit(w.pod()), "memory is left alone")
	t.Logf("%d writes of the loops for each resize, %d of all", w.writes/wanted, w.changes/wanted)
}
