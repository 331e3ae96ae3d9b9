package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

func TestPlanForTakesWhatThePodHas(t *testing.T) {
	// Cases 79, 41: a container that the pod does not have is ignored, sidecars are planned, and the order is the
	// pod's.
	pod := withInit(withSidecar(running(size(500, 1000, 512, 1024), size(100, 0, 64, 0)), "proxy", size(200, 0, 64, 0)), "migrate", size(10, 0, 0, 0))
	plan := mustPlan(t, pod, []podview.Container{
		{Name: "proxy", Size: size(100, 0, 0, 0)}, {Name: "gone", Size: size(100, 0, 0, 0)}, {Name: "migrate", Size: size(100, 0, 0, 0)},
		{Name: "side-1", Size: size(50, 0, 0, 0)},
	})
	assert.Equal(t, []Move{
		{Container: "side-1", From: size(100, 0, 64, 0), To: size(50, 0, 64, 0)},
		{Container: "proxy", Sidecar: true, From: size(200, 0, 64, 0), To: size(100, 0, 64, 0)},
	}, plan.Moves)
	assert.Equal(t, "web-1", plan.PodName)
	assert.Equal(t, "shop", plan.Namespace)
	assert.Equal(t, "node-1", plan.Node)
	assert.Equal(t, "abc", plan.TemplateHash)
	assert.EqualValues(t, "uid-1", plan.PodUID)
}

func TestPlanForSaysWhenNothingChanges(t *testing.T) {
	for name, wished := range map[string][]podview.Container{
		"the size it has": wish(size(500, 1000, 512, 1024)), "nothing": nil, "another container": {{Name: "gone", Size: size(1, 1, 1, 1)}},
	} {
		_, refusal := PlanFor(web(), wished, able(), noon)
		require.NotNil(t, refusal, name)
		assert.Equal(t, ReasonNoChange, refusal.Reason, name)
	}
}

func TestRefusedContainerDoesNotBlockOthers(t *testing.T) {
	pod := running(size(500, 1000, 512, 1024), size(500, 1000, 512, 1024))
	pod.Status.ContainerStatuses[0].RestartCount = 3
	pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = noon
	lower := size(250, 500, 512, 1024)
	plan := mustPlan(t, pod, []podview.Container{{Name: "app", Size: lower}, {Name: "side-1", Size: lower}})
	require.Len(t, plan.Moves, 1)
	assert.Equal(t, "side-1", plan.Moves[0].Container)
	require.Len(t, plan.LeftOut, 1)
	assert.Equal(t, "app", plan.LeftOut[0].Container)
	assert.Equal(t, Refusal{
		Reason: ReasonRestartedLately, Container: "app", Message: "the container restarted at 2026-03-04T12:00:00Z; attune does not lower it within 10m0s of a restart",
		Transient: true, Until: noon.Add(10 * time.Minute),
	}, plan.LeftOut[0])
}

func TestRestartsIsWhatResizePolicySays(t *testing.T) {
	// Case 39: any change of the resource counts, even of a request only.
	for _, tc := range []struct {
		name   string
		policy corev1.ResourceName
		wish   recommender.Size
		want   bool
	}{
		{"memory policy, memory request", corev1.ResourceMemory, size(0, 0, 600, 0), true},
		{"memory policy, memory limit", corev1.ResourceMemory, size(0, 0, 0, 2048), true},
		{"memory policy, CPU", corev1.ResourceMemory, size(250, 0, 0, 0), false},
		{"CPU policy, both", corev1.ResourceCPU, size(250, 0, 600, 0), true},
		{"no policy", "", size(250, 500, 600, 2048), false},
	} {
		pod := web()
		if tc.policy != "" {
			restarting(pod, tc.policy)
		}
		assert.Equal(t, tc.want, mustPlan(t, pod, wish(tc.wish)).Restarts, tc.name)
	}
}

func TestWhatAPlanDoes(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		from, wish                 recommender.Size
		grows, lowers, lowersLimit bool
	}{
		{"CPU request down", size(500, 1000, 512, 1024), size(250, 0, 0, 0), false, true, false},
		{"memory request down", size(500, 1000, 512, 1024), size(0, 0, 256, 0), false, true, false},
		{"memory limit down", size(500, 1000, 512, 1024), size(0, 0, 0, 600), false, true, true},
		{"memory limit added", size(500, 1000, 512, 0), size(0, 0, 0, 600), false, true, true},
		{"CPU limit added", size(500, 0, 512, 1024), size(0, 600, 0, 0), false, true, false},
		{"memory up", size(500, 1000, 512, 1024), size(0, 0, 600, 2048), true, false, false},
		{"CPU down, memory up (31)", size(500, 1000, 512, 1024), size(250, 0, 600, 0), true, true, false},
	} {
		plan := mustPlan(t, running(tc.from), []podview.Container{{Name: "app", Size: tc.wish, MemoryUsage: 10 * mi}})
		assert.Equal(t, []bool{tc.grows, tc.lowers, tc.lowersLimit}, []bool{plan.Grows(), plan.Lowers(), plan.LowersMemoryLimit()}, tc.name)
	}
}

func TestSplit(t *testing.T) {
	// Cases 8, 31: a memory limit that cannot be lowered blocks all changes in its patch.
	was := size(500, 1000, 512, 1024)
	for _, tc := range []struct {
		name  string
		wish  recommender.Size
		usage recommender.Amount
		want  []recommender.Size
	}{
		{"no memory limit is lowered: one patch", size(250, 500, 256, 0), 0, []recommender.Size{size(250, 500, 256, 1024)}},
		{"nothing else moves: one patch", size(0, 0, 256, 512), 0, []recommender.Size{size(500, 1000, 256, 512)}},
		{"well above usage: one patch", size(250, 500, 256, 512), 300 * mi, []recommender.Size{size(250, 500, 256, 512)}},
		{"usage unknown: CPU first", size(250, 500, 256, 512), 0, []recommender.Size{size(250, 500, 512, 1024), size(250, 500, 256, 512)}},
		{"near usage: CPU first", size(250, 500, 256, 512), 350 * mi, []recommender.Size{size(250, 500, 512, 1024), size(250, 500, 256, 512)}},
		{"decreases before increases", size(900, 2000, 256, 512), 0, []recommender.Size{size(500, 1000, 256, 512), size(900, 2000, 256, 512)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := running(was)
			parts := Split(mustPlan(t, pod, []podview.Container{{Name: "app", Size: tc.wish, MemoryUsage: tc.usage}}))
			var reached []recommender.Size
			for _, part := range parts {
				require.Len(t, part.Moves, 1)
				assert.Equal(t, specOf(pod)["app"], part.Moves[0].From, "each part starts where the last one ends")
				pod = part.Apply(pod)
				reached = append(reached, specOf(pod)["app"])
			}
			assert.Equal(t, tc.want, reached)
		})
	}
}

func TestSplitOverContainers(t *testing.T) {
	pod := running(size(500, 0, 512, 1024), size(500, 0, 512, 0))
	parts := Split(mustPlan(t, pod, []podview.Container{{Name: "app", Size: size(0, 0, 256, 512)}, {Name: "side-1", Size: size(0, 0, 700, 0)}}))
	require.Len(t, parts, 2)
	assert.Equal(t, []Move{{Container: "app", From: size(500, 0, 512, 1024), To: size(500, 0, 256, 512)}}, parts[0].Moves)
	assert.Equal(t, []Move{{Container: "side-1", From: size(500, 0, 512, 0), To: size(500, 0, 700, 0)}}, parts[1].Moves)
}

func TestSplitLeavesRestartsWhole(t *testing.T) {
	// Case 39: a plan with restarts is not split, or the container restarts twice.
	pod := restarting(web(), corev1.ResourceMemory)
	assert.Len(t, Split(mustPlan(t, pod, wish(size(250, 500, 256, 512)))), 1)
}

func TestAsUrgentOnlyGrows(t *testing.T) {
	plan := mustPlan(t, web(), wish(size(250, 500, 1024, 2048))).AsUrgent()
	assert.True(t, plan.Urgent)
	assert.False(t, plan.Lowers())
	assert.Equal(t, size(500, 1000, 1024, 2048), specOf(plan.Apply(web()))["app"])
	assert.True(t, mustPlan(t, web(), wish(size(250, 500, 0, 0))).AsUrgent().Empty())
}

func TestEffect(t *testing.T) {
	lower := wish(size(250, 500, 256, 1024))
	assert.Equal(t, [2]recommender.Amount{-250, -256 * mi}, mustPlan(t, web(), lower).Effect(web()))
	// Case 42: an init container that requests more than all others reduces the saving to 0.
	dominated := withInit(web(), "migrate", size(4000, 0, 100, 0))
	assert.Equal(t, [2]recommender.Amount{0, -256 * mi}, mustPlan(t, dominated, lower).Effect(dominated))
}
