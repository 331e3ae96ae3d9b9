package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// belowLimit is a size with one request one unit below its limit.
func belowLimit(s recommender.Size, r recommender.Resource) recommender.Size {
	s[r].Request = s[r].Limit - 1
	return s
}

// A Burstable pod gets as much as it can have without becoming Guaranteed: one request stays one unit below its limit.
// From there the same targets change nothing.
func TestBurstablePodStaysJustBelowGuaranteed(t *testing.T) {
	starved, full := size(100, 1000, 64, 1024), size(1000, 1000, 1024, 1024)
	both := []podview.Container{{Name: "app", Size: full}, {Name: "side-1", Size: full}}
	proxy := append(wish(full), podview.Container{Name: "proxy", Sidecar: true, Size: full})
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		wished []podview.Container
		want   map[string]recommender.Size
		left   string
	}{
		{"CPU, which is compressible", running(starved), wish(full), map[string]recommender.Size{"app": belowLimit(full, recommender.CPU)},
			"the cpu request is kept 1m below its limit of 1: otherwise the QoS class of the pod would become Guaranteed"},
		{"CPU at its limit already: memory", running(size(1000, 1000, 64, 1024)), wish(full), map[string]recommender.Size{"app": belowLimit(full, recommender.Memory)},
			"the memory request is kept 1 byte below its limit of 1Gi: otherwise the QoS class of the pod would become Guaranteed"},
		{"no smaller CPU request: memory", running(size(2, 2, 64, 1024)), wish(size(2, 2, 1024, 1024)), map[string]recommender.Size{"app": belowLimit(size(2, 2, 1024, 1024), recommender.Memory)},
			"the memory request is kept 1 byte below its limit of 1Gi: otherwise the QoS class of the pod would become Guaranteed"},
		{"two containers: the first", running(starved, starved), both, map[string]recommender.Size{"app": belowLimit(full, recommender.CPU), "side-1": full}, "the cpu request"},
		{"two containers: only the second changes", running(full, starved), both, map[string]recommender.Size{"app": full, "side-1": belowLimit(full, recommender.CPU)}, "the cpu request"},
		{"a container without limits: no pod is Guaranteed", running(starved, size(100, 0, 64, 0)), wish(full), map[string]recommender.Size{"app": full, "side-1": size(100, 0, 64, 0)}, ""},
		{"an init container without limits", withInit(running(starved), "init", size(1, 0, 1, 0)), wish(full), map[string]recommender.Size{"app": full}, ""},
		{"an init container at its limits", withInit(running(starved), "init", size(10, 10, 10, 10)), wish(full), map[string]recommender.Size{"app": belowLimit(full, recommender.CPU)}, "the cpu request"},
		{"a sidecar comes last", withSidecar(running(starved), "proxy", starved), proxy, map[string]recommender.Size{"app": belowLimit(full, recommender.CPU), "proxy": full}, "the cpu request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := PlanFor(tc.pod, tc.wished, able(), noon)
			require.Nil(t, refusal, "%v", refusal)
			plan, refusal = Admit(tc.pod, plan, world(func(*GateInput) {}))
			require.Nil(t, refusal, "%v", refusal)
			after := plan.Apply(tc.pod)
			for name, want := range tc.want {
				assert.Equal(t, want, specOf(after)[name], name)
			}
			assert.Equal(t, corev1.PodQOSBurstable, podview.QOSClass(after))
			if tc.left == "" {
				assert.Empty(t, plan.LeftOut)
				return
			}
			require.Len(t, plan.LeftOut, 1)
			assert.Contains(t, plan.LeftOut[0].Message, tc.left)
			after = after.DeepCopy()
			for _, statuses := range [][]corev1.ContainerStatus{after.Status.ContainerStatuses, after.Status.InitContainerStatuses} {
				for i, s := range statuses {
					statuses[i] = statusOf(s.Name, specOf(after)[s.Name])
				}
			}
			again, refusal := PlanFor(after, tc.wished, able(), noon)
			check(t, ReasonNoChange, refusal)
			assert.True(t, again.Empty() && !again.Restarts && len(again.LeftOut) == 0)
		})
	}
}
