package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// An API server of 1.33 allows no lower memory limit, not even one that was raised and never allocated.
func TestDeferredRaiseIsWithdrawnOn133(t *testing.T) {
	for name, from := range map[string]recommender.Size{"Burstable": sizeOf(500, 0, 512, 1024), "Guaranteed": sizeOf(500, 500, 1024, 1024)} {
		t.Run(name, func(t *testing.T) {
			to := from
			to[recommender.CPU].Request, to[recommender.CPU].Limit = 2*from[recommender.CPU].Request, 2*from[recommender.CPU].Limit
			to[recommender.Memory].Request, to[recommender.Memory].Limit = 2*from[recommender.Memory].Request, 2*from[recommender.Memory].Limit
			pod := running("web-1", from)
			record := recordOf(pod, to)
			record.Phase, record.Generation, record.WrittenAt = v1alpha1.RecordApplied, 2, metav1.NewTime(now.Add(-6*time.Minute))
			pod.Generation, pod.Status.ObservedGeneration = 2, 0
			pod.Spec.Containers[0].Resources = podview.ToRequirements(to)
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred})
			w := seen(t, from)
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
			l := newLab(t, w.Rec, deploymentOf(from, 1), pod)
			l.c.ControlPlane.Version = "v1.33.13"
			l.live(time.Hour)
			assert.LessOrEqual(t, l.patches, 2, "asked for once, in words that the API server takes")
			spec := podview.ReadSpec(l.pod("web-1").Spec.Containers[0].Resources)
			assert.Equal(t, from[recommender.CPU], spec[recommender.CPU], "the rest is back")
			assert.Equal(t, to[recommender.Memory].Limit, spec[recommender.Memory].Limit)
			require.NotEmpty(t, l.rec().Status.History, "the record ends")
			assert.Empty(t, l.rec().Status.Records)
			assert.LessOrEqual(t, l.status, 6)
		})
	}
}
