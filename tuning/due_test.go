package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// starved is the recent usage of a container that uses 33m and 100Mi in all of its last samples.
var starved = map[string]resize.Lately{"app": {P95: [2]recommender.Usage{33, 100 << 20}, Samples: [2]int{20, 10}}}

// starving returns the view of pods with a request of 10m, whose target is 38m, in a cooldown.
func starving(t *testing.T, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := heading(seen(t, sizeOf(10, 0, 512, 1024), pods...), sizeOf(38, 0, 512, 1024))
	w.Rec.Status.CooldownFrom = &metav1.Time{Time: now.Add(-time.Minute)}
	w.Looked.Rooms = map[string]*resize.Room{"node-1": roomWith(16, w.Pods...)}
	return w
}

// A raise in a cooldown asks for the recent usage. If the usage is above the live request, the container goes to its
// target at once, past the cap of a step. Otherwise it waits, and attune looks again.
func TestARaiseThatIsDueGoesToTheTargetAtOnce(t *testing.T) {
	tiny := sizeOf(10, 0, 512, 1024)
	pod := running("web-1", tiny)
	w := starving(t, pod)
	d := tuning.Decide(w)
	assert.Equal(t, []types.UID{pod.UID}, d.Unknowns.Lately, "the usage decides")
	assert.Empty(t, d.Writes)
	assert.Equal(t, 30*time.Second, d.After)

	w.Usage.Lately = map[types.UID]map[string]resize.Lately{pod.UID: starved}
	d = tuning.Decide(w)
	assert.Empty(t, d.Unknowns.Lately)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, recommender.Amount(38), d.Writes[0].Plan.Moves[0].To[recommender.CPU].Request, "no cap of 50 %")

	for name, of := range map[string]map[string]resize.Lately{
		"nothing is known":                nil,
		"too few samples":                 {"app": {P95: [2]recommender.Usage{33, 0}, Samples: [2]int{9, 0}}},
		"below the request":               {"app": {P95: [2]recommender.Usage{9, 0}, Samples: [2]int{20, 0}}},
		"another container":               {"side": starved["app"]},
		"throttled, but nothing measured": {"app": {Throttled: 1}},
	} {
		w.Usage.Lately = map[types.UID]map[string]resize.Lately{pod.UID: of}
		d = tuning.Decide(w)
		assert.Empty(t, d.Writes, name)
		assert.Empty(t, d.Unknowns.Lately, name)
		assert.Equal(t, 30*time.Second, d.After, name)
	}
}

// Without a source of recent usage no raise is due: attune waits for the end of the cooldown, and does not look again
// before.
func TestRaisesWaitForTheCooldownWithoutRecentUsage(t *testing.T) {
	w := starving(t, running("web-1", sizeOf(10, 0, 512, 1024)))
	w.Usage.NoRecent = true
	d := tuning.Decide(w)
	assert.Empty(t, d.Unknowns.Lately)
	assert.Empty(t, d.Writes)
	assert.Equal(t, 59*time.Minute, d.After)
}

// What holds also for raises that are due, and what is not asked for at all.
func TestARaiseThatIsDueIsHeld(t *testing.T) {
	tiny := sizeOf(10, 0, 512, 1024)
	for name, edit := range map[string]func(*tuning.View){
		"by the backoff after a revert": func(w *tuning.View) { w.Rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 1} },
		"by a pause":                    func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"policy"} },
		"by the schedule": func(w *tuning.View) {
			w.Policy.Settings.Resize.Schedule = resize.Schedule{Windows: []resize.Window{{Start: 60, End: 120}}}
		},
		"by an HPA": func(w *tuning.View) {
			w.Rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: string(resize.ReasonHPA)}}
		},
		"by the mode": func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial },
		"by an exclusion": func(w *tuning.View) {
			w.Policy.Settings.Resize.Excluded = map[string]bool{"app": true}
		},
		"by an exclusion of each container": func(w *tuning.View) {
			w.Policy.Settings.Resize.Excluded = map[string]bool{resize.EveryContainer: true}
		},
		"by its target, which is the live request": func(w *tuning.View) { *w = heading(*w, sizeOf(10, 0, 512, 1024)) },
		"by strategy Node":                         func(w *tuning.View) { w.Policy.Settings.Strategy = v1alpha1.StrategyNode },
	} {
		pod := running("web-1", tiny)
		w := starving(t, pod)
		edit(&w)
		d := tuning.Decide(w)
		assert.Empty(t, d.Unknowns.Lately, "%s: nothing is asked", name)
		w.Usage.Lately = map[types.UID]map[string]resize.Lately{pod.UID: starved}
		assert.Empty(t, tuning.Decide(w).Writes, name)
	}
}

// Without a cooldown a capped raise asks too, and without an answer it takes its step.
func TestACappedRaiseAsksForTheRecentUsage(t *testing.T) {
	pod := running("web-1", sizeOf(10, 0, 512, 1024))
	w := starving(t, pod)
	w.Rec.Status.CooldownFrom = nil
	assert.Equal(t, []types.UID{pod.UID}, tuning.Decide(w).Unknowns.Lately)
	for want, of := range map[recommender.Amount]map[string]resize.Lately{15: nil, 38: starved} {
		w.Usage.Lately = map[types.UID]map[string]resize.Lately{pod.UID: of}
		d := tuning.Decide(w)
		require.Len(t, d.Writes, 1)
		assert.Equal(t, want, d.Writes[0].Plan.Moves[0].To[recommender.CPU].Request)
	}
	// A decrease asks nothing.
	w = starving(t, running("web-1", sizeOf(100, 0, 512, 1024)))
	assert.Empty(t, tuning.Decide(w).Unknowns.Lately)
}

// Each pod is judged by its own usage: of two pods in a cooldown only the starved one is raised, and it takes no memory
// decrease along.
func TestARaiseThatIsDueIsOfOnePodAndOneResource(t *testing.T) {
	tiny := sizeOf(10, 0, 512, 1024)
	w := starving(t, running("web-1", tiny), running("web-2", tiny))
	w.Policy.Settings.Recommender.Of[recommender.Memory].AllowDecrease = true
	w = heading(w, sizeOf(38, 0, 256, 1024))
	idle := map[string]resize.Lately{"app": {P95: [2]recommender.Usage{5, 100 << 20}, Samples: [2]int{20, 10}}}
	w.Usage.Lately = map[types.UID]map[string]resize.Lately{"web-1": idle, "web-2": starved}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	plan := d.Writes[0].Plan
	assert.Equal(t, "web-2", plan.PodName)
	assert.True(t, plan.Due)
	assert.Equal(t, sizeOf(38, 0, 512, 1024), plan.Moves[0].To)
	assert.Equal(t, 30*time.Second, d.After, "web-1 waits")
}

// A load that is above the request for ten minutes of every hour moves the container once: a raise goes to the target
// and not to the usage, so no decrease follows while the target stays.
func TestAFlappingLoadMovesNothingTwice(t *testing.T) {
	pod := running("web-1", sizeOf(38, 0, 512, 1024))
	w := starving(t, pod)
	w.Rec.Status.CooldownFrom = nil
	for _, p95 := range []recommender.Usage{60, 2, 60, 2} {
		w.Usage.Lately = map[types.UID]map[string]resize.Lately{pod.UID: {"app": {P95: [2]recommender.Usage{p95, 0}, Samples: [2]int{20, 0}}}}
		d := tuning.Decide(w)
		assert.Empty(t, d.Writes)
		assert.Zero(t, d.After)
	}
}

// The recent usage decides nothing about a container that the policy excludes, also by the entry for all containers.
func TestARaiseOfAnExcludedContainerIsNotAskedFor(t *testing.T) {
	w := starving(t, running("web-1", sizeOf(10, 0, 512, 1024)))
	w.Policy.Settings.Resize.Excluded = map[string]bool{resize.EveryContainer: true}
	assert.Empty(t, tuning.Decide(w).Unknowns.Lately)
}
