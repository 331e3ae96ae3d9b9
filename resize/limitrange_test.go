package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

func TestLimitRange(t *testing.T) {
	least := func(l corev1.ResourceList) corev1.LimitRangeItem {
		return ofContainer(func(i *corev1.LimitRangeItem) { i.Min = l })
	}
	most := func(l corev1.ResourceList) corev1.LimitRangeItem {
		return ofContainer(func(i *corev1.LimitRangeItem) { i.Max = l })
	}
	ratio := func(l corev1.ResourceList) corev1.LimitRangeItem {
		return ofContainer(func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = l })
	}
	ofPod := func(edit func(*corev1.LimitRangeItem)) corev1.LimitRangeItem {
		item := ofContainer(edit)
		item.Type = corev1.LimitTypePod
		return item
	}
	was := size(500, 1000, 512, 1024)
	for _, tc := range []struct {
		name   string
		ranges []corev1.LimitRange
		pod    *corev1.Pod
		wish   recommender.Size
		want   recommender.Size // zero: refused
	}{
		{"none", nil, running(was), size(250, 500, 512, 1024), size(250, 500, 512, 1024)},
		{"min: clamped, still lower", ranges(least(list("300m", ""))), running(was), size(200, 400, 512, 1024), size(300, 400, 512, 1024)},
		{"min: limit clamped too", ranges(least(list("450m", ""))), running(was), size(200, 400, 512, 1024), size(450, 450, 512, 1024)},
		{"max: clamped, still higher", ranges(most(list("1500m", ""))), running(was), size(1600, 3200, 512, 1024), size(1500, 1500, 512, 1024)},
		{"two ranges: the strictest", ranges(least(list("300m", "")), least(list("400m", ""))), running(was), size(200, 800, 512, 1024), size(400, 800, 512, 1024)},
		{"53 ratio: the request is not lowered as far", ranges(ratio(list("2", ""))), running(was), size(200, 1000, 512, 1024), recommender.Size{}},
		{"53 ratio: limit and request move together", ranges(ratio(list("2", ""))), running(was), size(200, 400, 512, 1024), size(200, 400, 512, 1024)},
		{"53 ratio: part of the way", ranges(ratio(list("4", ""))), running(was), size(200, 1000, 512, 1024), size(250, 1000, 512, 1024)},
		{"53 ratio, rounded up to what holds", ranges(ratio(list("3", ""))), running(was), size(200, 1000, 512, 1024), size(334, 1000, 512, 1024)},
		{"53 ratio: a limit is not raised as far", ranges(ratio(list("3", ""))), running(was), size(500, 2000, 512, 1024), size(500, 1500, 512, 1024)},
		{"54 tightened since: our change is fine, the whole pod is not", ranges(most(list("800m", ""))), running(was), size(500, 1000, 256, 1024), recommender.Size{}},
		{"54 tightened since: our change mends it", ranges(most(list("800m", ""))), running(was), size(400, 800, 512, 1024), size(400, 800, 512, 1024)},
		{"54 another container breaks it", ranges(most(list("800m", ""))), running(size(100, 200, 512, 1024), was), size(50, 200, 512, 1024), recommender.Size{}},
		{"54 an init container breaks it", ranges(most(list("1", ""))), withInit(running(was), "init", size(2000, 2000, 0, 0)), size(250, 1000, 512, 1024), recommender.Size{}},
		{"54 min turned around: not an improvement", ranges(least(list("600m", ""))), running(was), size(250, 1000, 512, 1024), recommender.Size{}},
		{"ratio demands a limit", ranges(ratio(list("2", ""))), running(size(500, 0, 512, 1024)), size(250, 0, 512, 1024), recommender.Size{}},
		{"min and max together", ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.Min, i.Max = list("300m", ""), list("600m", "") })), running(size(500, 500, 512, 1024)), size(100, 100, 512, 1024), size(300, 300, 512, 1024)},
		{"max demands a limit", ranges(most(list("2", ""))), running(size(500, 0, 512, 1024)), size(250, 0, 512, 1024), recommender.Size{}},
		{"pod totals: max", ranges(ofPod(func(i *corev1.LimitRangeItem) { i.Max = list("2500m", "") })), running(was, was), size(1500, 1600, 512, 1024), recommender.Size{}},
		{"pod totals: within", ranges(ofPod(func(i *corev1.LimitRangeItem) { i.Max = list("2600m", "") })), running(was, was), size(1500, 1600, 512, 1024), size(1500, 1600, 512, 1024)},
		{"pod totals: min", ranges(ofPod(func(i *corev1.LimitRangeItem) { i.Min = list("", "900Mi") })), running(was, was), size(500, 1000, 300, 1024), recommender.Size{}},
		{"pod totals: ratio", ranges(ofPod(func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = list("2", "") })), running(was, was), size(400, 1000, 512, 1024), recommender.Size{}},
		{"55 a default limit newer than the pod is not let in", ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.Default = list("200m", "") })),
			running(size(500, 0, 512, 1024)), size(250, 0, 512, 1024), recommender.Size{}},
		{"55 a default request newer than the pod does no harm", ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.DefaultRequest = list("100m", "") })),
			running(was, size(0, 0, 512, 1024)), size(250, 500, 512, 1024), size(250, 500, 512, 1024)},
		{"55 defaults that all containers have already", ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.Default, i.DefaultRequest = list("1", "1Gi"), list("1", "1Gi") })),
			running(was), size(250, 500, 512, 1024), size(250, 500, 512, 1024)},
		{"55 a default for something else", ranges(ofContainer(func(i *corev1.LimitRangeItem) {
			i.DefaultRequest = corev1.ResourceList{corev1.ResourceEphemeralStorage: quantity("1Gi")}
		})), running(was), size(250, 500, 512, 1024), recommender.Size{}},
		{"rules for volumes do not matter", ranges(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: list("1m", "")}),
			running(was), size(250, 500, 512, 1024), size(250, 500, 512, 1024)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := Admit(tc.pod, mustPlan(t, tc.pod, wish(tc.wish)), world(func(w *GateInput) { w.Namespace.LimitRanges = tc.ranges }))
			if tc.want == (recommender.Size{}) {
				check(t, ReasonLimitRange, refusal)
				return
			}
			require.Nil(t, refusal, "%v", refusal)
			assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"])
		})
	}
}

func TestDefaultsOfInitContainersBefore136(t *testing.T) {
	// A LimitRange default that was added after the pod makes every resize of it fail with "resources for non-sidecar
	// init containers are immutable".
	pod := withInit(web(), "migrate", recommender.Size{})
	defaults := ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.DefaultRequest = list("100m", "") }))
	plan := mustPlan(t, pod, wish(size(250, 500, 512, 1024)))
	_, refusal := Admit(pod, plan, world(func(w *GateInput) { w.Namespace.LimitRanges = defaults }))
	check(t, "", refusal)
	_, refusal = Admit(pod, plan, world(func(w *GateInput) { w.Namespace.LimitRanges, w.Node.Capabilities.ServerMinor = defaults, 35 }))
	check(t, ReasonLimitRange, refusal)
}

func TestDefaultsMayNotChangeTheClass(t *testing.T) {
	// The defaults make the second container's requests equal its limits, as in a Guaranteed pod.
	pod := running(size(500, 500, 512, 512), size(0, 100, 0, 64))
	delete(pod.Spec.Containers[1].Resources.Requests, corev1.ResourceCPU)
	defaults := ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.DefaultRequest = list("100m", "64Mi") }))
	_, refusal := Admit(pod, mustPlan(t, pod, wish(size(250, 250, 512, 512))), world(func(w *GateInput) { w.Namespace.LimitRanges = defaults }))
	check(t, ReasonQOSClass, refusal)
}

// A resource that breaks the pod's LimitRange is left out, with its reason. The other one moves.
func TestAPodsLimitRangeLeavesOutOneResource(t *testing.T) {
	was := size(500, 1000, 512, 1024)
	for name, tc := range map[string]struct {
		edit       func(*corev1.LimitRangeItem)
		wish, want recommender.Size
		why        string
	}{
		"a CPU limit that usage keeps": {func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = list("2", "") },
			size(250, 902, 700, 1400), size(500, 1000, 700, 1400), "a LimitRange does not allow the pod: the cpu limit must be at most 2 times the request"},
		"memory": {func(i *corev1.LimitRangeItem) { i.Max = list("", "1200Mi") },
			size(250, 500, 700, 1400), size(250, 500, 512, 1024), "a LimitRange does not allow the pod: memory must have a limit, and be at most 1200Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			item := ofContainer(tc.edit)
			item.Type = corev1.LimitTypePod
			pod := running(was)
			plan, refusal := Admit(pod, mustPlan(t, pod, wish(tc.wish)), world(func(w *GateInput) { w.Namespace.LimitRanges = ranges(item) }))
			require.Nil(t, refusal)
			assert.Equal(t, tc.want, plan.Moves[0].To)
			require.Len(t, plan.LeftOut, 1)
			assert.Equal(t, ReasonLimitRange, plan.LeftOut[0].Reason)
			assert.Equal(t, tc.why, plan.LeftOut[0].Message)
		})
	}
}
