package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/test/kubelet"
)

// boosted is a world in which three pods are born with more CPU to start with. Without that they have what they
// are to have, so that nothing else is done about them.
func boosted(t *testing.T, multiplier string) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.2, Memory: 200}
	w.memory["app"] = 100
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m}\ncpu: {minAllowed: 300m, startupBoost: {multiplier: \""+multiplier+"\", duration: 5m}}")
	w.deployment("web", 0, w.app("cpu=300m,memory=512Mi", "cpu=600m,memory=1Gi"))
	w.settle()
	require.NotNil(t, w.recommendation().Spec.Seed)
	w.scale("web", 3)
	w.settle()
	return w
}

// Every pod gives its boost back in place once it has run for five minutes and is ready: all at once, without a
// first wave or a cooldown. One that is never ready keeps it.
func TestLoopsEndABoost(t *testing.T) {
	t.Parallel()
	w := boosted(t, "3")
	slow := w.pods()[1].Name
	w.ready = func(pod *corev1.Pod) bool { return pod.Name != slow }
	uids := map[types.UID]bool{}
	for _, pod := range w.pods() {
		uids[pod.UID] = true
		assert.Equal(t, int64(900), cpuRequest(&pod), "three times 300m")
		assert.Equal(t, "1800m", pod.Spec.Containers[0].Resources.Limits.Cpu().String())
	}
	w.run(4*time.Minute, 30*time.Second)
	for _, pod := range w.pods() {
		assert.Equal(t, int64(900), cpuRequest(&pod), "its time is not over")
	}
	started := w.pods()[0].Status.ContainerStatuses[0].State.Running.StartedAt.Time
	w.until(5*time.Minute, "both are back", func() bool {
		for _, pod := range w.pods() {
			if running := runs(&pod); pod.Name != slow && running.Requests.Cpu().MilliValue() != 300 {
				return false
			}
		}
		return true
	})
	assert.LessOrEqual(t, w.clock.Since(started), 5*time.Minute+10*time.Second, "both at once, as soon as it was over")
	w.until(10*time.Minute, "watched", w.idle)
	assert.Equal(t, []string{"Success StartupBoost", "Success StartupBoost"}, results(w.recommendation()))
	assert.Empty(t, w.recommendation().Status.Verified, "it proves nothing about the target")
	assert.Nil(t, w.recommendation().Status.CooldownFrom, "and keeps nothing else from being done")
	assert.Equal(t, int64(900), cpuRequest(w.named(slow)))

	w.run(6*time.Hour, time.Hour)
	assert.Equal(t, int64(900), cpuRequest(w.named(slow)), "never ready, never lowered")
	w.ready = func(*corev1.Pod) bool { return true }
	w.until(5*time.Minute, "ready at last", func() bool { return cpuRequest(w.named(slow)) == 300 })
	for _, pod := range w.pods() {
		assert.True(t, uids[pod.UID])
		assert.Zero(t, restarts(&pod))
		assert.LessOrEqual(t, cpuRequest(&pod), int64(300))
	}
}

// What is within the dead band of a step is given back all the same.
func TestLoopsLeaveNothingOfABoostBehind(t *testing.T) {
	t.Parallel()
	w := boosted(t, "1.05")
	require.Equal(t, int64(315), cpuRequest(&w.pods()[0]))
	w.until(10*time.Minute, "all are back", func() bool {
		for _, pod := range w.pods() {
			if cpuRequest(&pod) > 300 {
				return false
			}
		}
		return true
	})
}

// A container that restarts after its boost gets it again, in place, and only for as long as at first.
func TestLoopsBoostAContainerThatRestarts(t *testing.T) {
	t.Parallel()
	w := boosted(t, "3")
	w.until(20*time.Minute, "all boosts are over", func() bool {
		for _, pod := range w.pods() {
			if cpuRequest(&pod) != 300 {
				return false
			}
		}
		return w.idle()
	})
	w.run(time.Hour, 10*time.Minute)
	name := w.pods()[0].Name
	killed := func() time.Duration {
		w.node.Crash(w.named(name), "app", w.clock.Now())
		began := w.clock.Now()
		w.until(time.Minute, "boosted again", func() bool { r := runs(w.named(name)); return r.Requests.Cpu().MilliValue() == 900 })
		took := w.clock.Since(began)
		assert.Equal(t, "1800m", w.named(name).Spec.Containers[0].Resources.Limits.Cpu().String())
		w.until(7*time.Minute, "back", func() bool { r := runs(w.named(name)); return r.Requests.Cpu().MilliValue() == 300 })
		assert.GreaterOrEqual(t, w.clock.Since(began), 5*time.Minute, "the duration of the policy")
		w.until(time.Minute, "closed", w.idle)
		return took
	}
	t.Logf("boosted again after %s", killed())
	assert.Equal(t, "600m", w.named(name).Spec.Containers[0].Resources.Limits.Cpu().String())
	assert.Equal(t, "Success StartupBoost", results(w.recommendation())[0])
	assert.Nil(t, w.recommendation().Status.CooldownFrom, "it keeps nothing else from being done")
	assert.False(t, w.told.has("Reverting the failed resize"))
	killed()

	w.node.Crash(w.named(name), "app", w.clock.Now())
	w.run(10*time.Minute, 10*time.Second)
	assert.Equal(t, int64(300), cpuRequest(w.named(name)), "the third restart within an hour")
	assert.LessOrEqual(t, restarts(w.named(name)), int32(3))
	w.run(time.Hour, 10*time.Minute)
	killed()
}
