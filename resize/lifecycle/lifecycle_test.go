package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// life is a complete resize, as the log of states and actions. Every life runs against a pod, a kubelet and an API
// server of each version for which it is valid.
type life struct {
	name   string
	minors []int
	pod    func() *corev1.Pod
	wish   recommender.Size
	// usage is the operator's view of the memory in use; 0 is not known.
	usage recommender.Amount
	// before changes the cluster or the operator before the resize, during does so a time (after) later.
	before func(*cluster, *operator)
	after  time.Duration
	during func(*cluster, *operator)
	run    time.Duration
	log    []string
	// spec is the final size of app.
	spec  recommender.Size
	check func(*testing.T, *cluster, *operator)
}

var all = []int{33, 34, 35, 36, 37}

var lives = []life{
	{
		name: "applied, watched, kept (23: only the second read counts; 12: 1.33 without observedGeneration)", minors: all, pod: web,
		wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		log:  []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: Forget Success"},
		spec: size(250, 500, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			require.Len(t, o.kept, 1)
			assert.Equal(t, size(250, 500, 512, 1024), podview.FromResources(o.kept[0].Size))
			require.Len(t, o.history, 1)
			assert.Equal(t, "cpu", o.history[0].Resource)
			assert.Equal(t, "500m", o.history[0].From)
			assert.Equal(t, "250m", o.history[0].To)
		},
	},
	{
		name: "a kubelet that takes its time (22: nothing is judged before it is applied)", minors: all, pod: web,
		wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.observeAfter, c.actuateAfter = 20*time.Second, 20*time.Second },
		log: []string{"Unobserved: Wait", "Actuating: Wait", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch",
			"Watching: Wait", "Settled: Forget Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "OOM kill, put back, learned (37)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(250, 500, 256, 512), run: 10 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) { c.usage["app"] = 600 * mi },
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: SendRest", "Applied: MarkVerified", "Applied: Wait",
			"Applied: StartWatch", "Watching: Wait", "Harmed: Revert oomkill", "Applied: Forget oomkill Reverted"},
		spec: size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			require.Len(t, o.floors, 1)
			floor := FloorsOf(o.floors, "app", o.floors[0].LearnedAt.Time)[recommender.Memory]
			assert.Equal(t, 666*mi, floor.Amount, "1.3 × 512Mi is 665.6Mi, and floors are in whole MiB")
			assert.Equal(t, "oomkill", floor.Reason)
			assert.Equal(t, int32(1), o.backoff.ConsecutiveReverts)
			assert.Empty(t, o.kept)
		},
	},
	{
		name: "OOM kill before the watch begins (37)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(500, 1000, 256, 512), run: time.Minute, after: 8 * time.Second,
		during: func(c *cluster, _ *operator) { c.usage["app"] = 600 * mi },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Harmed: Revert oomkill", "Applied: Forget oomkill Reverted"},
		spec:   size(500, 1000, 512, 1024),
	},
	{
		name: "OOM kill after a raise teaches and puts nothing back (73)", minors: all, pod: web,
		wish: size(500, 1000, 768, 1536), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) { c.usage["app"] = 1600 * mi; c.sync(); c.usage["app"] = 100 * mi },
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Harmed: Forget oomkill Failed"},
		spec: size(500, 1000, 768, 1536),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Equal(t, recommender.OOMFloor(1536*mi), podview.AmountOf(recommender.Memory, o.floors[0].Amount))
			assert.Nil(t, o.backoff, "a raise that was not enough is not a revert")
		},
	},
	{
		name: "two patches, one watch (8, 31)", minors: []int{34, 35, 36, 37}, pod: web, wish: size(250, 500, 256, 512), run: 10 * time.Minute,
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: SendRest", "Applied: MarkVerified", "Applied: Wait",
			"Applied: StartWatch", "Watching: Wait", "Settled: Forget Success"},
		spec: size(250, 500, 256, 512),
		check: func(t *testing.T, c *cluster, o *operator) {
			require.Len(t, o.history, 1)
			assert.Equal(t, "cpu+memory", o.history[0].Resource)
			assert.Equal(t, size(250, 500, 256, 512), podview.FromResources(o.kept[0].Size))
		},
	},
	{
		name: "the second patch is lost in a crash and sent again (14)", minors: []int{34, 35, 36, 37}, pod: web, wish: size(250, 500, 256, 512), run: 10 * time.Minute,
		after: 15 * time.Second, during: func(_ *cluster, o *operator) { o.crash = true },
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: SendRest", "Unsent: Wait", "Unsent: SendRest", "Applied: MarkVerified",
			"Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: Forget Success"},
		spec: size(250, 500, 256, 512),
	},
	{
		name: "the second patch is refused: the first is watched (70)", minors: []int{34, 35, 36, 37}, pod: web, wish: size(250, 500, 256, 512), run: 10 * time.Minute,
		after: 15 * time.Second, during: func(_ *cluster, o *operator) {
			o.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("minimum memory usage per Container is 400Mi"))
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: SendRest", "second patch refused by the API server: LimitRange",
			"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: Forget Success"},
		spec: size(250, 500, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Equal(t, size(250, 500, 512, 1024), podview.FromResources(o.kept[0].Size))
		},
	},
	{
		name: "memory limit below usage: given up at once, the rest goes on (8, 9, 34, 36)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(250, 500, 256, 512), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.usage["app"] = 900 * mi },
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: SendRest", "Failed: SendRest ActuationError", "Applied: MarkVerified",
			"Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: Forget ActuationError Success"},
		spec: size(250, 500, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			require.Len(t, o.history, 1)
			assert.Equal(t, "cpu", o.history[0].Resource)
			assert.Equal(t, ReasonActuation, o.history[0].Reason, "by which it is not tried again soon")
			assert.Nil(t, o.backoff)
		},
	},
	{
		name: "the same in one patch, as usage was known and grew", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(250, 500, 256, 512), usage: 100 * mi, run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.usage["app"] = 900 * mi },
		log: []string{"Failed: SendRest ActuationError", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Settled: Forget ActuationError Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "giving the limit up is not lost in a crash", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(250, 500, 256, 512), usage: 100 * mi, run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.usage["app"] = 900 * mi },
		during: func(_ *cluster, o *operator) { o.crash = true },
		log: []string{"Failed: SendRest ActuationError", "Unsent: Wait", "Unsent: SendRest", "Applied: MarkVerified", "Applied: Wait",
			"Applied: StartWatch", "Watching: Wait", "Settled: Forget ActuationError Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "memory limit alone, below usage: put back at once (9, 34, 36)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(500, 1000, 256, 512), run: 2 * time.Minute,
		before: func(c *cluster, _ *operator) { c.usage["app"] = 900 * mi },
		log:    []string{"Failed: Revert ActuationError", "Applied: Forget ActuationError Reverted"},
		spec:   size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Zero(t, c.pod.Status.ContainerStatuses[0].RestartCount)
		},
	},
	{
		name: "deferred until the end, withdrawn (28, 30, 68)", minors: all, pod: web,
		wish: size(2000, 4000, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.free[recommender.CPU] = 1000 },
		log:    []string{"Deferred: Wait", "Deferred: Withdraw Deferred", "Applied: Forget Deferred Withdrawn"},
		spec:   size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Nil(t, podview.Condition(c.pod, corev1.PodResizePending), "a restored spec clears the condition")
			assert.Nil(t, o.backoff)
		},
	},
	{
		name: "deferred, granted at last, watched (8)", minors: all, pod: web,
		wish: size(2000, 4000, 512, 1024), run: 15 * time.Minute,
		before: func(c *cluster, _ *operator) { c.free[recommender.CPU] = 1000 },
		after:  4*time.Minute + 50*time.Second,
		during: func(c *cluster, _ *operator) { c.free[recommender.CPU], c.actuateAfter = 8000, 30*time.Second },
		log: []string{"Deferred: Wait", "Actuating: Wait", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch",
			"Watching: Wait", "Settled: Forget Success"},
		spec: size(2000, 4000, 512, 1024),
	},
	{
		name: "more than the node has, up to 1.35: infeasible, withdrawn (25, 27)", minors: []int{33, 34, 35}, pod: web,
		wish: size(9000, 9000, 512, 1024), run: time.Minute,
		before: func(c *cluster, _ *operator) { c.believed = [2]recommender.Amount{10_000, 32 * gi} },
		log:    []string{"Refused: Withdraw Infeasible", "Applied: Forget Infeasible Withdrawn"},
		spec:   size(500, 1000, 512, 1024),
	},
	{
		name: "static CPU manager: infeasible, withdrawn (43)", minors: all,
		pod:  func() *corev1.Pod { return running(size(2000, 2000, 512, 512)) },
		wish: size(1000, 1000, 512, 512), run: time.Minute,
		before: func(c *cluster, _ *operator) { c.staticCPU = true },
		log:    []string{"Refused: Withdraw Infeasible", "Applied: Forget Infeasible Withdrawn"},
		spec:   size(2000, 2000, 512, 512),
	},
	{
		name: "an impossible request that nothing checks from 1.36 on is deferred, and withdrawn (94)", minors: []int{36, 37}, pod: web,
		wish: size(8000, 8000, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.noCapacityCheck, c.free[recommender.CPU] = true, 7000 },
		log:    []string{"Deferred: Wait", "Deferred: Withdraw Deferred", "Applied: Forget Deferred Withdrawn"},
		spec:   size(500, 1000, 512, 1024),
	},
	{
		name: "node down on 1.33: the spec is back before the kubelet saw anything (11)", minors: []int{33}, pod: web,
		wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.down = true },
		log:    []string{"Unobserved: Wait", "Unobserved: Withdraw Unobserved", "Applied: Forget Unobserved Withdrawn"},
		spec:   size(500, 1000, 512, 1024),
	},
	{
		name: "node down: unobserved, withdrawn, and put back when the kubelet returns (11)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.down = true }, after: 5 * time.Minute,
		during: func(c *cluster, _ *operator) { c.down = false },
		log: []string{"Unobserved: Wait", "Unobserved: Withdraw Unobserved", "Unobserved: Wait Unobserved",
			"Applied: Forget Unobserved Withdrawn"},
		spec: size(500, 1000, 512, 1024),
	},
	{
		name: "pod gone (1)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) { c.pod = nil },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Replaced: Forget Replaced"},
		check:  func(t *testing.T, c *cluster, o *operator) { assert.Empty(t, o.history, "it is no failure") },
	},
	{
		name: "replaced under the same name (2, 71)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) { c.pod.UID = types.UID("uid-2") },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Replaced: Forget Replaced"},
		spec:   size(250, 500, 512, 1024),
		check:  func(t *testing.T, c *cluster, o *operator) { assert.Empty(t, o.history) },
	},
	{
		name: "another writer (19)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) {
			_, err := c.patch([]byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"300m"}}}]}}`))
			require.NoError(c.t, err)
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Superseded: Forget Superseded Superseded"},
		spec: size(300, 500, 512, 1024),
	},
	{
		name: "another writer who takes it back at once is not fought either (19)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: time.Minute,
		after: 3 * time.Second,
		during: func(c *cluster, _ *operator) {
			_, err := c.patch([]byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1"}}}]}}`))
			require.NoError(c.t, err)
		},
		log:  []string{"Applied: MarkVerified", "Superseded: Forget Superseded Superseded"},
		spec: size(500, 1000, 512, 1024),
	},
	{
		name: "a crash before the resize is sent leaves nothing to do (14)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute,
		before: func(_ *cluster, o *operator) { o.crash = true },
		log:    []string{"Unsent: Wait", "Unsent: Forget NotSent"},
		spec:   size(500, 1000, 512, 1024),
		check:  func(t *testing.T, c *cluster, o *operator) { assert.Empty(t, o.history) },
	},
	{
		name: "a crash after it was sent: adopted by what the spec says (14, 18)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(_ *cluster, o *operator) { o.loseAnswer = true },
		log: []string{"Landed: Adopt", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Settled: Forget Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "a crash before a revert is sent: sent again (14, 24)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(500, 1000, 256, 512), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, o *operator) { c.usage["app"], o.crash = 600*mi, true },
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Harmed: Revert oomkill",
			"NotRestored: Revert oomkill", "Applied: Forget oomkill Reverted"},
		spec: size(500, 1000, 512, 1024),
	},
	{
		name: "a revert that finds no room waits as long as it takes (69)", minors: []int{34, 35, 36, 37}, pod: web,
		wish: size(500, 1000, 256, 512), run: 30 * time.Minute, after: time.Minute,
		during: func(c *cluster, o *operator) {
			c.usage["app"], c.free[recommender.Memory] = 600*mi, 256*mi
			c.pass(time.Second)
			c.usage["app"] = 300 * mi
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Harmed: Revert oomkill",
			"Deferred: Wait oomkill"},
		spec: size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			require.NotNil(t, o.record, "a revert never expires")
			assert.Equal(t, v1alpha1.RecordReverting, o.record.Phase)
		},
	},
	{
		name: "rounding by the machine is no failure (51)", minors: all, pod: web, wish: size(250, 505, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.rounding = 5 },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: Forget Success"},
		spec:   size(250, 505, 512, 1024),
	},
	{
		name: "what edits containers behind the kubelet is drift, not a loop (51)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.rounding = 200 },
		log: []string{"Actuating: Wait", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Settled: Forget Drift Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "InProgress is cleared too early and comes back (23)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.actuateAfter = 22 * time.Second }, after: 8 * time.Second,
		during: func(c *cluster, _ *operator) {
			clearCondition(c.pod, corev1.PodResizeInProgress)
			c.evaluated = c.pod.Generation
		},
		log: []string{"Actuating: Wait", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Settled: Forget Success"},
		spec: size(250, 500, 512, 1024),
	},
	{
		name: "a restart that the resize asks for is no crash (39)", minors: all,
		pod:  func() *corev1.Pod { return restarting(web(), corev1.ResourceMemory) },
		wish: size(250, 500, 700, 1400), run: 10 * time.Minute,
		before: func(c *cluster, _ *operator) { c.actuateAfter = 140 * time.Second },
		log: []string{"Actuating: Wait", "Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait",
			"Settled: Forget Success"},
		spec: size(250, 500, 700, 1400),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Equal(t, int32(1), c.pod.Status.ContainerStatuses[0].RestartCount)
		},
	},
	{
		name: "a crash loop (10: restarts)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) {
			c.restart("app", "Error", 1)
			c.pass(3 * time.Second)
			c.restart("app", "Error", 1)
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Harmed: Revert restart",
			"Applied: Forget restart Reverted"},
		spec: size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.Equal(t, recommender.Amount(500), podview.AmountOf(recommender.CPU, o.floors[0].Amount), "the prior request is the floor")
		},
	},
	{
		name: "not ready for a while is no harm, at the end of the watch it is", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 10 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) {
			podview.Condition(c.pod, corev1.PodReady).Status = corev1.ConditionFalse
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Harmed: Revert notready",
			"Applied: Forget notready Reverted"},
		spec: size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) {
			assert.WithinDuration(t, noon.Add(5*time.Minute+25*time.Second), o.history[0].Timestamp.Time, 10*time.Second)
		},
	},
	{
		name: "a node's reboot excuses it: longer watch, then kept without promotion (75)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 20 * time.Minute, after: time.Minute,
		during: func(c *cluster, o *operator) {
			podview.Condition(c.pod, corev1.PodReady).Status = corev1.ConditionFalse
			o.signals.NodeBooted = c.now
		},
		log: []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Settled: ExtendWatch Inconclusive",
			"Watching: Wait", "Settled: Forget Inconclusive Success"},
		spec:  size(250, 500, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) { assert.Empty(t, o.kept) },
	},
	{
		name: "harm without autoRevert is told and learned", minors: []int{34, 35, 36, 37}, pod: web, wish: size(500, 1000, 256, 512), run: 2 * time.Minute, after: time.Minute,
		before: func(_ *cluster, o *operator) { o.rules.AutoRevert = false },
		during: func(c *cluster, _ *operator) { c.usage["app"] = 600 * mi },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Harmed: Forget oomkill Failed"},
		spec:   size(500, 1000, 256, 512),
		check:  func(t *testing.T, c *cluster, o *operator) { assert.Len(t, o.floors, 1) },
	},
	{
		name: "a job's pod that ends while it is watched (4)", minors: all, pod: web, wish: size(250, 500, 512, 1024), run: 2 * time.Minute, after: time.Minute,
		during: func(c *cluster, _ *operator) { c.pod.Status.Phase = corev1.PodSucceeded },
		log:    []string{"Applied: MarkVerified", "Applied: Wait", "Applied: StartWatch", "Watching: Wait", "Terminal: Forget Terminal"},
		spec:   size(250, 500, 512, 1024),
	},
	{
		name: "refused by the API server for want of capacity: nothing to put back (26)", minors: []int{36, 37}, pod: web, wish: size(7500, 8000, 512, 1024), run: time.Minute,
		before: func(c *cluster, _ *operator) {
			c.believed = [2]recommender.Amount{10_000, 32 * gi}
			c.pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: quantity("1")}
		},
		log:   []string{"refused by the API server: NodeCapacity"},
		spec:  size(500, 1000, 512, 1024),
		check: func(t *testing.T, c *cluster, o *operator) { assert.Nil(t, o.record) },
	},
}

func TestRecordsEnd(t *testing.T) {
	for _, l := range lives {
		for _, minor := range l.minors {
			t.Run(l.name+" on 1."+string(rune('0'+minor/10))+string(rune('0'+minor%10)), func(t *testing.T) { walk(t, l, minor) })
		}
	}
}

func walk(t *testing.T, l life, minor int) {
	c, o := newCluster(t, minor, l.pod()), &operator{rules: auto()}
	if l.before != nil {
		l.before(c, o)
	}
	o.signals.Throttle = map[string]float64{"app": 0}
	_ = o.begin(c, []podview.Container{{Name: "app", Size: l.wish, MemoryUsage: l.usage}})
	if l.during != nil {
		o.run(c, l.after)
		l.during(c, o)
	}
	o.run(c, l.run)
	assert.Equal(t, l.log, o.log)
	if l.spec != (recommender.Size{}) {
		assert.Equal(t, l.spec, specOf(c.pod)["app"])
	}
	if l.check != nil {
		l.check(t, c, o)
	}
}
