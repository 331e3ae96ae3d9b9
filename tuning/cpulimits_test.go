package tuning_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// limited is the original size of the tests of CPU limits: 480m with a limit of 960m.
var limited = sizeOf(480, 960, 512, 1024)

// withLimits returns a view whose policy has a value of cpu.limits, with a target of 240m.
func withLimits(t *testing.T, value string, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := heading(seen(t, limited, pods...), recommender.Size{recommender.CPU: {Request: 240}})
	w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(limited)}}}}
	p := &v1alpha1.AttunePolicy{}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
	p.Spec.CPU = &v1alpha1.CPUSettings{Limits: &v1alpha1.CPULimits{JSON: value}}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	w.Policy.Settings.Recommender = settings.Recommender
	return w
}

// sent are the CPU allocations that a decision writes, by pod.
func sent(d tuning.Decision) map[string]recommender.Allocation {
	out := map[string]recommender.Allocation{}
	for _, w := range d.Writes {
		for _, m := range w.Plan.Moves {
			out[w.Plan.PodName] = m.To[recommender.CPU]
		}
	}
	return out
}

// A running pod keeps its limit, and one that was created without never gets it back by a resize, whatever the policy says
// later.
func TestCPULimitsOfPodsOfAMixedRollout(t *testing.T) {
	created := func() *corev1.Pod { return born(t, running("web-1", sizeOf(480, 0, 512, 1024)), "r", limited) }
	older := func() *corev1.Pod { return running("web-1", limited) }
	for name, c := range map[string]struct {
		limits string
		pod    *corev1.Pod
		want   recommender.Allocation
	}{
		"Remove, with a limit":           {`"Remove"`, older(), recommender.Allocation{Request: 240, Limit: 960}},
		"Remove, created without":        {`"Remove"`, created(), recommender.Allocation{Request: 240}},
		"Keep again, with a limit":       {`"Keep"`, older(), recommender.Allocation{Request: 240, Limit: 480}},
		"Keep again, created without":    {`"Keep"`, created(), recommender.Allocation{Request: 240}},
		"a ratio, with a limit":          {`{"ratio":"3"}`, older(), recommender.Allocation{Request: 240, Limit: 720}},
		"a ratio later, created without": {`{"ratio":"3"}`, created(), recommender.Allocation{Request: 240}},
		"a max, with a limit":            {`{"max":"300m"}`, older(), recommender.Allocation{Request: 240, Limit: 300}},
		"a min, created without":         {`{"min":"2"}`, created(), recommender.Allocation{Request: 240}},
	} {
		t.Run(name, func(t *testing.T) {
			d := tuning.Decide(withLimits(t, c.limits, c.pod))
			assert.Equal(t, map[string]recommender.Allocation{"web-1": c.want}, sent(d), "%v", told(d))

			// At the target nothing moves any more.
			at := running("web-1", recommender.Size{recommender.CPU: c.want, recommender.Memory: limited[recommender.Memory]})
			at.Annotations = c.pod.Annotations
			assert.Empty(t, sent(tuning.Decide(withLimits(t, c.limits, at))))
		})
	}
}

// A Guaranteed pod keeps its request and limit equal.
func TestCPULimitsOfGuaranteedPods(t *testing.T) {
	equal := sizeOf(480, 480, 512, 512)
	for _, limits := range []string{`"Remove"`, `{"ratio":"3"}`, `{"min":"2"}`} {
		pod := running("web-1", equal)
		pod.Status.QOSClass = corev1.PodQOSGuaranteed
		w := withLimits(t, limits, pod)
		w.Rec.Status.Originals[0].Containers[0].Resources = podview.ToResources(equal)
		w.Workload.Template.Spec.Containers[0].Resources = podview.ToRequirements(equal)
		assert.Equal(t, map[string]recommender.Allocation{"web-1": {Request: 240, Limit: 240}}, sent(tuning.Decide(w)), limits)
	}
}

// An undo restores the limit too: Kubernetes allows to add one to a running Burstable pod.
func TestAnUndoAddsTheRemovedCPULimit(t *testing.T) {
	w := withLimits(t, `"Remove"`, born(t, running("web-1", sizeOf(240, 0, 512, 1024)), "r", limited))
	w.Workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T11:59:00Z"
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, resize.WaveUndo, d.Status.Records[0].Wave)
	assert.Equal(t, limited[recommender.CPU], sent(d)["web-1"], fmt.Sprint(told(d)))
}
