package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// Open records are advanced before the autoscalers are read: the stored bindings decide that a deferred raise is withdrawn at
// once. Without a binding of the raised request, it has the time of other resizes.
func TestADeferredRaiseBelowAnHPAIsWithdrawnBeforeAutoscalersAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		binding *v1alpha1.HPABinding
		period  time.Duration
		want    bool
	}{
		"the request":                 {&v1alpha1.HPABinding{HPA: "web", Resource: "cpu"}, 15 * time.Second, true},
		"the container's request":     {&v1alpha1.HPABinding{HPA: "web", Resource: "cpu", Container: "app"}, 15 * time.Second, true},
		"the other resource":          {&v1alpha1.HPABinding{HPA: "web", Resource: "memory"}, 15 * time.Second, false},
		"another container's request": {&v1alpha1.HPABinding{HPA: "web", Resource: "cpu", Container: "side"}, 15 * time.Second, false},
		"no HPA":                      {nil, 15 * time.Second, false},
		"without the period":          {&v1alpha1.HPABinding{HPA: "web", Resource: "cpu"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			has, more := sizeOf(200, 0, 256, 0), sizeOf(400, 0, 256, 0)
			pod := running("web-1", has)
			record := recordOf(pod, more)
			pod.Generation, pod.Status.ObservedGeneration = 2, 2
			pod.Spec.Containers[0].Resources = podview.ToRequirements(more)
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "no room", ObservedGeneration: 2,
			})
			record.Phase, record.Generation = v1alpha1.RecordApplied, 2
			w := eager(heading(seen(t, has, pod), more))
			w.Part, w.Operator.HPASync = tuning.OpenPart, tc.period
			w.Looked.Live[pod.UID] = true
			if tc.binding != nil {
				w.Rec.Spec.HPABindings = []v1alpha1.HPABinding{*tc.binding}
			}
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
			d := tuning.Decide(w)
			if !tc.want {
				assert.Empty(t, d.Writes)
				return
			}
			require.Len(t, d.Writes, 1)
			assert.EqualValues(t, 200, d.Writes[0].Plan.Moves[0].To[0].Request)
			assert.Equal(t, resize.ReasonHPASync, d.Status.Records[0].Reason)
			assert.Equal(t, resize.ReasonHPASync, d.Status.Tries[0].Reason)
			assert.Equal(t, now.Add(10*time.Minute), d.Status.Tries[0].Until.Time, "not again before")
		})
	}
}
