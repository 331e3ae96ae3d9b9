package loops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// Another writer gave the pods other requests than the template, and attune changed none: the target stays.
func TestRetargetFollowsOnlyItsOwnChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *v1alpha1.AttunePolicySpec){
		"Recommend": func(s *v1alpha1.AttunePolicySpec) { s.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateRecommend) },
		"paused":    func(s *v1alpha1.AttunePolicySpec) { s.Paused = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := retargetWorld(t, retargetCPU)
			w.passed = nil
			w.change("all", change)
			pods := w.pods()
			for i := range pods {
				w.theirs(&pods[i], "500m")
			}
			w.run(time.Hour, 5*time.Minute)
			assert.Empty(t, w.order(0))
			assert.Empty(t, w.hpa().Annotations)
		})
	}
}

// Requests are raised only if the target can be lowered afterwards: a threshold that is too high removes replicas.
func TestRetargetRaisesOnlyIfTheTargetCanFollow(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.stumble = func(error) {}
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	w.strikeHPA(http.StatusForbidden)
	w.run(6*time.Hour, 5*time.Minute)
	assert.Equal(t, []int64{1000}, w.requests())
	said, err := json.Marshal(w.recommendation().Status)
	require.NoError(t, err)
	assert.Contains(t, string(said), "is not changed")
}

func TestRetargetRaises(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.passed = nil
	w.usage.of["app"] = used{CPU: 1.6, Memory: 200}
	w.until(12*time.Hour, "the requests are raised", func() bool { return w.requests()[0] > 1500 && w.idle() })
	assert.True(t, w.followed(), "%v", w.targets())
	trials := 0
	for _, call := range w.link.Calls() {
		if call.DryRun {
			trials++
		}
	}
	assert.NotZero(t, trials)
	assert.LessOrEqual(t, trials, 40)

	// Another writer sets the target back: the pods are above their original requests, so it is corrected before the HPA's
	// window ends.
	w.setTarget(70)
	w.until(2*time.Minute, "the target is corrected", w.followed)
}

// The target cannot be lowered for a while: it is tried again without an event.
func TestRetargetTriesAgain(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.until(12*time.Hour, "the requests are lowered", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.idle() })
	w.passed = func() { clear(w.known) }
	w.stumble = func(error) {}
	w.annotate(map[string]string{v1alpha1.SkipAnnotation: "true"})
	w.run(time.Hour, time.Minute)
	w.strikeHPA(http.StatusInternalServerError)
	pods := w.pods()
	for i := range pods {
		require.NoError(t, w.direct.Delete(t.Context(), &pods[i]))
	}
	w.run(5*time.Minute, time.Minute)
	assert.False(t, w.followed())
	wake := w.pass()
	assert.Positive(t, wake)
	assert.LessOrEqual(t, wake, 10*time.Minute)
}

// A pod that came is counted when it is ready for a minute: the next pass is then, although no event comes.
func TestRetargetCountsAPodThatIsReadyForAMinute(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.until(12*time.Hour, "the requests are lowered", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.idle() })
	w.passed = func() { clear(w.known) }
	w.annotate(map[string]string{v1alpha1.SkipAnnotation: "true"})
	w.run(time.Hour, time.Minute)
	pods := w.pods()
	require.NoError(t, w.direct.Delete(t.Context(), &pods[0]))
	w.run(40*time.Second, 5*time.Second)
	require.Equal(t, []int64{lowestRetargeted, 1000}, slices.Compact(slices.Sorted(slices.Values(w.requests()))))
	assert.False(t, w.followed(), "%v", w.targets())
	wake := w.pass()
	assert.Positive(t, wake)
	assert.LessOrEqual(t, wake, time.Minute)
	w.run(wake+time.Second, wake+time.Second)
	assert.True(t, w.followed(), "%v", w.targets())
}

// CPU and memory of one plan are sent together, although the CPU request waits for the target of the HPA.
func TestRetargetKeepsAPlanTogether(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU+"\nmemory: {maxChangePercent: 90, allowDecrease: true}")
	w.memory["app"] = 100
	w.usage.of["app"] = used{CPU: 0.1, Memory: 100}
	changed := false
	w.run(8*time.Hour, 5*time.Minute, func() bool {
		for _, pod := range w.pods() {
			requests := pod.Spec.Containers[0].Resources.Requests
			if requests.Memory().Value() < 512<<20 {
				changed = true
				assert.Less(t, requests.Cpu().MilliValue(), int64(1000), "memory went alone")
			}
		}
		return true
	})
	assert.True(t, changed)
}

// Another writer sets the target back each minute, for days: attune changes it once a day at last, and says who it is.
func TestRetargetGivesWay(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.passed = nil
	sets := []time.Time{}
	w.run(4*24*time.Hour, 5*time.Minute, func() bool {
		if target, _ := w.target(); target != 70 {
			w.setTarget(70)
			sets = append(sets, w.clock.Now())
		}
		return true
	})
	lastDays := 0
	for _, at := range sets {
		if w.clock.Now().Sub(at) < 48*time.Hour {
			lastDays++
		}
	}
	assert.NotEmpty(t, sets)
	assert.LessOrEqual(t, lastDays, 3, fmt.Sprint(sets))
	said, err := json.Marshal(w.recommendation().Status)
	require.NoError(t, err)
	assert.Contains(t, string(said), "set it back from")
}

// A workload is deleted, and its HPA stays with the changed target: a workload that is created after the recommendation is
// forgotten finds the original one.
func TestRetargetIsRestoredOfAWorkloadThatIsGone(t *testing.T) {
	t.Parallel()
	w, _ := retargetWorld(t, retargetCPU)
	w.until(12*time.Hour, "the requests are lowered", func() bool { return slices.Equal(w.requests(), []int64{lowestRetargeted}) && w.idle() })
	w.passed = nil
	w.remove()
	w.run(8*24*time.Hour, 24*time.Hour)
	assert.Empty(t, w.recommendations())
	target, _ := w.target()
	assert.Equal(t, int32(70), target)
	assert.Empty(t, w.hpa().Annotations)
}
