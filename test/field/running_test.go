package field

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/resizetest"
)

// running is a pod whose containers have run for an hour, and what a resize towards other sizes of its first container
// sends.
type running struct {
	Labels, Annotations map[string]string
	Pod                 corev1.PodSpec              `json:"pod"`
	Wish                corev1.ResourceRequirements `json:"wish"`
	// ResizedAgo is how long ago attune resized the pod in place. Default: never.
	ResizedAgo *metav1.Duration `json:"resizedAgo,omitempty"`
	// Back: the wished sizes are ones that the pod had.
	Back bool `json:"back,omitempty"`
	// Sends are the amounts that change, by paths such as requests.memory.
	Sends map[string]resource.Quantity `json:"sends,omitempty"`
	// Refused are reasons why other parts of the wish are not sent, Says is a part of the sentence of the first.
	Refused []string `json:"refused,omitempty"`
	Says    string   `json:"says,omitempty"`
}

func (c *running) run(t *testing.T) {
	pod := resizetest.Running()
	pod.Spec, pod.Spec.NodeName = c.Pod, "node-1"
	for name, value := range c.Labels {
		pod.Labels[name] = value
	}
	pod.Annotations = c.Annotations
	for _, container := range podview.Resizable(pod) {
		status := resizetest.StatusOf(container.Name, podview.ReadSpec(container.Resources))
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if c.ResizedAgo != nil {
		pod.Generation, pod.Status.ObservedGeneration = 2, 2
		pod.ManagedFields = append(pod.ManagedFields, podview.ResizedEntry(podview.FieldManager, resizetest.Noon.Add(-c.ResizedAgo.Duration)))
	}
	pod.Status.QOSClass = podview.QOSClass(pod)
	app := pod.Spec.Containers[0].Name
	wished := []podview.Container{{Name: app, Size: podview.ReadSpec(c.Wish), MemoryUsage: 32 * resizetest.Mi}}
	plan, refusal := resize.PlanFor(pod, wished, resizetest.Able(), resizetest.Noon.Add(time.Second))
	if c.Back {
		plan, refusal = resize.PlanBack(pod, wished, resizetest.Able(), resizetest.Noon.Add(time.Second), resize.WaveUndo, resize.ReasonUnschedulable)
	}
	refusals := plan.LeftOut
	if refusal != nil {
		refusals = append(refusals, *refusal)
	}
	sent := map[string]string{}
	for _, m := range plan.Moves {
		for _, r := range recommender.Resources {
			if m.From[r].Request != m.To[r].Request {
				sent["requests."+r.String()] = recommender.Format(r, m.To[r].Request)
			}
			if m.From[r].Limit != m.To[r].Limit {
				sent["limits."+r.String()] = recommender.Format(r, m.To[r].Limit)
			}
		}
	}
	want := map[string]string{}
	for path, q := range c.Sends {
		r := recommender.CPU
		if strings.HasSuffix(path, recommender.Memory.String()) {
			r = recommender.Memory
		}
		want[path] = recommender.Format(r, podview.AmountOf(r, q))
	}
	assert.Equal(t, want, sent, "%v", refusals)
	for _, reason := range c.Refused {
		assert.True(t, slices.ContainsFunc(refusals, func(r resize.Refusal) bool { return r.Reason == reason && r.Message != "" }), "%s: %v", reason, refusals)
	}
	assert.True(t, c.Says == "" || slices.ContainsFunc(refusals, func(r resize.Refusal) bool { return strings.Contains(r.Message, c.Says) }), "%v", refusals)
}
