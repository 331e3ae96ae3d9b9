package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

func TestQuota(t *testing.T) {
	was := size(500, 1000, 512, 1024)
	selecting := func(op corev1.ScopeSelectorOperator, classes ...string) corev1.ResourceQuota {
		q := quotaOf(corev1.ResourceRequestsCPU, "1", "1")
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: classes},
		}}
		return q
	}
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		wish     recommender.Size
		quota    corev1.ResourceQuota
		promised recommender.Size
		refused  bool
	}{
		{"56 growth within what is left", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "900m"), recommender.Size{}, false},
		{"56 a millicore too much", running(was), size(601, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "900m"), recommender.Size{}, true},
		{"56 cpu is requests.cpu", running(was), size(601, 1000, 512, 1024), quotaOf(corev1.ResourceCPU, "1", "900m"), recommender.Size{}, true},
		{"56 memory", running(was), size(500, 1000, 600, 1024), quotaOf(corev1.ResourceRequestsMemory, "1Gi", "1Gi"), recommender.Size{}, true},
		{"56 limits.cpu", running(was), size(500, 1500, 512, 1024), quotaOf(corev1.ResourceLimitsCPU, "1", "1"), recommender.Size{}, true},
		{"56 limits.memory", running(was), size(500, 1000, 512, 1100), quotaOf(corev1.ResourceLimitsMemory, "1Gi", "1Gi"), recommender.Size{}, true},
		{"56 lowering passes where the quota is exceeded", running(was), size(250, 500, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "2"), recommender.Size{}, false},
		{"56 one lowers, one grows by less: nothing more is charged", running(was, was), size(250, 500, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1"), recommender.Size{}, false},
		{"56 growth of another pod in the same pass", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "800m"), size(101, 0, 0, 0), true},
		{"57 a limit that a container has not", running(size(500, 0, 512, 1024)), size(250, 0, 512, 1024), quotaOf(corev1.ResourceLimitsCPU, "10", "1"), recommender.Size{}, true},
		{"57 an init container's request", withInit(running(was), "init", recommender.Size{}), size(250, 500, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "10", "1"), recommender.Size{}, true},
		{"46 pods with their own resources need not say it per container", with(running(size(500, 0, 512, 1024)), func(p *corev1.Pod) {
			requirements := podview.ToRequirements(size(1000, 2000, 1024, 2048))
			p.Spec.Resources, p.Status.QOSClass = &requirements, corev1.PodQOSBurstable
		}), size(250, 0, 512, 1024), quotaOf(corev1.ResourceLimitsCPU, "10", "1"), recommender.Size{}, false},
		{"56 a use nobody knows yet", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "10", ""), recommender.Size{}, true},
		{"a quota of something else", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourcePods, "1", "1"), recommender.Size{}, false},
		{"58 BestEffort covers no pod that can be resized", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeBestEffort), recommender.Size{}, false},
		{"58 NotBestEffort covers", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeNotBestEffort), recommender.Size{}, true},
		{"58 Terminating covers jobs' pods only", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeTerminating), recommender.Size{}, false},
		{"58 Terminating covers a pod with a deadline", with(running(was), func(p *corev1.Pod) { d := int64(60); p.Spec.ActiveDeadlineSeconds = &d }),
			size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeTerminating), recommender.Size{}, true},
		{"58 NotTerminating covers", running(was), size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeNotTerminating), recommender.Size{}, true},
		{"58 PriorityClass In", classed("gold"), size(600, 1000, 512, 1024), selecting(corev1.ScopeSelectorOpIn, "gold"), recommender.Size{}, true},
		{"58 PriorityClass In another", classed("gold"), size(600, 1000, 512, 1024), selecting(corev1.ScopeSelectorOpIn, "silver"), recommender.Size{}, false},
		{"58 PriorityClass NotIn", classed(""), size(600, 1000, 512, 1024), selecting(corev1.ScopeSelectorOpNotIn, "silver"), recommender.Size{}, true},
		{"58 PriorityClass Exists", classed(""), size(600, 1000, 512, 1024), selecting(corev1.ScopeSelectorOpExists), recommender.Size{}, false},
		{"58 PriorityClass DoesNotExist", classed(""), size(600, 1000, 512, 1024), selecting(corev1.ScopeSelectorOpDoesNotExist), recommender.Size{}, true},
		{"92 overhead is charged before and after", with(running(was), func(p *corev1.Pod) { p.Spec.Overhead = list("5", "") }),
			size(600, 1000, 512, 1024), quotaOf(corev1.ResourceRequestsCPU, "6", "5900m"), recommender.Size{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := PlanFor(tc.pod, wish(tc.wish), capable(func(c *Capabilities) { c.Features = []string{FeaturePodLevelResize} }), noon)
			require.Nil(t, refusal)
			_, refusal = Admit(tc.pod, plan, world(func(w *GateInput) {
				w.Namespace.Quotas, w.Namespace.Reserved = []corev1.ResourceQuota{tc.quota}, tc.promised
			}))
			reason := ""
			if tc.refused {
				reason = ReasonQuota
			}
			check(t, reason, refusal)
		})
	}
}

// A quota or LimitRange that requires CPU limits is newer than pods whose limit was removed at admission: the API
// server rejects each resize of them. All kinds of resizes have one reason, with what lifts it, and nothing is sent.
func TestNoResizeOfAPodThatLacksARequiredCPULimit(t *testing.T) {
	const lifts = ". Set it in the pod template, set cpu.limits to Keep and replace the pods, or remove "
	container := func(item corev1.LimitRangeItem) []corev1.LimitRange {
		item.Type = corev1.LimitTypeContainer
		return []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}
	}
	for name, c := range map[string]struct {
		quotas []corev1.ResourceQuota
		ranges []corev1.LimitRange
		want   string
	}{
		"a quota": {quotas: []corev1.ResourceQuota{quotaOf(corev1.ResourceLimitsCPU, "10", "1")}, want: "limits.cpu, and the API server rejects each resize of the pod" + lifts + "limits.cpu from the quota"},
		"a maximum": {ranges: container(corev1.LimitRangeItem{Max: list("2", "")}),
			want: "cpu must have a limit, and be at most 2. It has no limit, and the API server rejects each resize of the pod" + lifts + "the rule"},
		"a ratio":   {ranges: container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("4", "")}), want: "It has no limit, and the API server rejects each resize of the pod" + lifts + "the rule"},
		"a default": {ranges: container(corev1.LimitRangeItem{Default: list("2", "")}), want: "would add one of 2" + lifts + "the default"},
	} {
		pod := running(size(500, 0, 512, 1024))
		for _, wave := range []string{"", WaveBoost, WaveSpike, WaveTemplate, WaveRestore, WaveReboost} {
			plan, refusal := PlanFor(pod, wish(size(400, 0, 400, 1024)), able(), noon)
			require.Nil(t, refusal)
			plan.Wave = wave
			_, refusal = Admit(pod, plan, world(func(w *GateInput) { w.Namespace.Quotas, w.Namespace.LimitRanges = c.quotas, c.ranges }))
			if assert.NotNil(t, refusal, "%s, wave %q", name, wave) {
				assert.Contains(t, refusal.Message, c.want, "%s, wave %q", name, wave)
				assert.False(t, refusal.Transient, "only a user lifts it")
			}
		}
	}
}

func classed(class string) *corev1.Pod {
	return with(web(), func(p *corev1.Pod) { p.Spec.PriorityClassName = class })
}

func TestQuotaFreesWhatTheNodeHasFreed(t *testing.T) {
	// Case 56: a decrease is charged until the status shows it, so growing back is free until then.
	pod := web()
	pod.Spec.Containers[0].Resources = podview.ToRequirements(size(250, 500, 512, 1024))
	plan := Plan{Moves: []Move{{Container: "app", From: size(250, 500, 512, 1024), To: size(500, 1000, 512, 1024)}}}
	assert.Equal(t, recommender.Size{}, GrowthOf(pod, plan))

	pod.Status.ContainerStatuses[0] = statusOf("app", size(250, 500, 512, 1024))
	assert.Equal(t, recommender.Size{{Request: 250, Limit: 500}, {}}, GrowthOf(pod, plan))
}

// The room that a QuotaRoom leaves a pod is exactly the growth that the gate allows; promised room is used up.
func TestQuotaRoomIsTheGates(t *testing.T) {
	was := size(500, 1000, 512, 1024)
	pod := running(was)
	for name, quotas := range map[string][]corev1.ResourceQuota{
		"one":             {quotaOf(corev1.ResourceRequestsCPU, "1", "600m")},
		"the strictest":   {quotaOf(corev1.ResourceRequestsCPU, "1", "600m"), quotaOf(corev1.ResourceCPU, "2", "1900m")},
		"exceeded":        {quotaOf(corev1.ResourceRequestsCPU, "1", "2")},
		"of limits":       {quotaOf(corev1.ResourceLimitsCPU, "1", "1")},
		"not known":       {quotaOf(corev1.ResourceRequestsCPU, "1", "")},
		"of other pods":   {quotaOf(corev1.ResourceRequestsCPU, "1", "1", corev1.ResourceQuotaScopeTerminating)},
		"of nothing here": {quotaOf(corev1.ResourcePods, "1", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			room := constraint.NewQuotaRoom(quotas)
			room.Promise(pod, size(50, 0, 0, 0))
			left := room.Left(pod)[recommender.CPU].Request
			passes := func(by recommender.Amount) bool {
				plan := Plan{Moves: []Move{{Container: "app", From: was, To: size(500+by, 1000, 512, 1024)}}}
				return QuotaGate(pod, plan, GateInput{Namespace: NamespaceInput{Quotas: quotas, Reserved: size(50, 0, 0, 0)}}) == nil
			}
			if left == recommender.MaxAmount {
				assert.True(t, passes(499))
				return
			}
			assert.True(t, left == 0 || passes(left), "%d", left)
			assert.False(t, passes(left+1), "%d", left)
		})
	}
	room := constraint.NewQuotaRoom([]corev1.ResourceQuota{quotaOf(corev1.ResourceLimitsMemory, "2Gi", "1Gi")})
	assert.Equal(t, recommender.MaxAmount, room.Left(pod)[recommender.Memory].Request)
	assert.EqualValues(t, 1<<30, room.Left(pod)[recommender.Memory].Limit)
	assert.Equal(t, recommender.Size{}, room.Left(running(size(500, 0, 512, 0))), "a pod that does not say what is counted is refused whatever it asks")
}
