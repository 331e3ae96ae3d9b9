package tuning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// The cache keeps one container of a pod with too many. It has the sum of all requests, so it is not an original.
func TestAPodWhoseContainersAreLeftOutTeachesNothing(t *testing.T) {
	pod := &corev1.Pod{}
	for i := range 600 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("c", i), Image: strings.Repeat("x", 200), Args: []string{strings.Repeat("y", 2000)},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		})
	}
	_, err := trim.Object(pod)
	require.NoError(t, err)
	require.Len(t, pod.Spec.Containers, 1)
	assert.True(t, tuning.NewPass(tuning.View{}, v1alpha1.AttuneRecommendationStatus{}).TooLarge(pod))
}

// A template with 400 node names makes its pods and its workload too large, so the pods are not seeded. Pods that
// were sized before can still be restored and answered after OOM kills, because their containers are known.
func TestWhatWasSizedCanBePutBackThoughItIsTooLarge(t *testing.T) {
	hosts := make([]string, 400)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/256, i%256)
	}
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hosts}}},
		}}}},
	}
	d, pod := &appsv1.Deployment{}, &corev1.Pod{Spec: *spec.DeepCopy()}
	spec.DeepCopyInto(&d.Spec.Template.Spec)
	for _, o := range []any{d, pod} {
		_, err := trim.Object(o)
		require.NoError(t, err)
	}
	of, ok := workload.From(d)
	require.True(t, ok)
	assert.True(t, of.TooLarge())
	assert.True(t, workload.Large(pod.Annotations))
	w := resize.GateInput{Workload: resize.WorkloadInput{Annotations: d.Annotations}}
	for name, plan := range map[string]resize.Plan{"undo": {Wave: resize.WaveUndo}, "template": {Wave: resize.WaveTemplate}, "the end of a boost": {Wave: resize.WaveBoost}, "an OOM kill": {Urgent: true}} {
		_, refusal := resize.Admit(pod, plan, w)
		if refusal != nil {
			assert.NotEqual(t, resize.ReasonTooLarge, refusal.Reason, name)
		}
	}
	assert.False(t, workload.Incomplete(pod.Annotations))
	cut := map[string]string{workload.TooLargeAnnotation: workload.Cut}
	_, refusal := resize.Admit(&corev1.Pod{}, resize.Plan{Wave: resize.WaveUndo}, resize.GateInput{Workload: resize.WorkloadInput{Annotations: cut}})
	require.NotNil(t, refusal)
	assert.Equal(t, resize.ReasonTooLarge, refusal.Reason, "of half of the containers nothing is put back")
}
