package harm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// sibling returns a pod that turned ready or not ready a duration after the record of recorded was written.
func sibling(status corev1.ConditionStatus, after time.Duration, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := running(prior)
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	ready := podview.Condition(pod, corev1.PodReady)
	ready.Status, ready.LastTransitionTime = status, metav1.NewTime(noon.Add(-time.Minute).Add(after))
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func TestSiblingsAreTheControlGroup(t *testing.T) {
	well := sibling(corev1.ConditionTrue, -time.Hour)
	fell := sibling(corev1.ConditionFalse, time.Second)
	for name, tc := range map[string]struct {
		siblings []*corev1.Pod
		want     bool
	}{
		"none":                          {nil, false},
		"all are well":                  {[]*corev1.Pod{well, well}, false},
		"the only one fell too":         {[]*corev1.Pod{fell}, true},
		"half of them":                  {[]*corev1.Pod{fell, well}, true},
		"less than half of them":        {[]*corev1.Pod{fell, well, well}, false},
		"it was not ready long before":  {[]*corev1.Pod{sibling(corev1.ConditionFalse, -time.Hour)}, false},
		"it is being deleted":           {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })}, false},
		"it has ended":                  {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, false},
		"it was born since":             {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon) })}, false},
		"it was born just before":       {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Minute)) })}, false},
		"it has the size on trial":      {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = podview.ToRequirements(desired) })}, false},
		"its node is down":              {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Spec.NodeName = "down" })}, false},
		"it is resized or watched":      {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Name = "open" })}, false},
		"it is the resized pod":         {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Name = "itself" })}, false},
		"nobody knows whether it is so": {[]*corev1.Pod{sibling(corev1.ConditionFalse, time.Second, func(p *corev1.Pod) { p.Status.Conditions = nil })}, false},
	} {
		t.Run(name, func(t *testing.T) {
			record := recorded(desired)
			open := []v1alpha1.ResizeRecord{record, {PodUID: "open"}}
			for i, pod := range tc.siblings {
				pod = pod.DeepCopy()
				pod.UID = types.UID(fmt.Sprint("sibling-", i))
				switch pod.Name {
				case "open":
					pod.UID = "open"
				case "itself":
					pod.UID = record.PodUID
				}
				tc.siblings[i] = pod
			}
			assert.Equal(t, tc.want, SiblingsUnready(tc.siblings, record, open, func(node string) bool { return node == "down" }))
		})
	}
}
