package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestWhatMustNotChange: a workload that opts out, containers that are excluded (one is a sidecar with the mode Off) and the pods of a
// Recommend policy keep their sizes, running and newborn, while a neighbour under the same settings is
// resized: the operator was at work all the time.
func TestWhatMustNotChange(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "untouched", true)
	namespace(ctx, t, "recommend", true)
	skipped := newDeployment("untouched", "skipped", 1, app("app", asked))
	skipped.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
	createFor(t, skipped)
	ready(ctx, t, skipped)
	sidecar := app("sidecar", size{cpu: "100m", memory: "64Mi"}, corev1.EnvVar{Name: "PORT", Value: "8081"})
	sidecar.ReadinessProbe = nil
	proxy := app("proxy", sizeOf(sidecar.Resources), corev1.EnvVar{Name: "PORT", Value: "8082"})
	proxy.ReadinessProbe, proxy.RestartPolicy = nil, ptr.To(corev1.ContainerRestartPolicyAlways)
	partly := newDeployment("untouched", "partly", 1, app("app", asked), sidecar)
	partly.Spec.Template.Spec.InitContainers = []corev1.Container{proxy}
	start(t, partly)
	watched := deployment(ctx, t, "recommend", "web", 1, app("app", asked))
	still := map[string]corev1.Pod{
		"skipped":   pods(ctx, t, skipped)[0],
		"recommend": pods(ctx, t, watched)[0],
	}
	neighbour := pods(ctx, t, partly)[0]

	policyFor(ctx, t, skipped, v1alpha1.UpdateAuto, nil)
	policyFor(ctx, t, partly, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.ExcludedContainers = []v1alpha1.ContainerName{"sidecar"}
		s.ContainerPolicies = []v1alpha1.ContainerPolicy{{ContainerName: "proxy", Mode: ptr.To(v1alpha1.ContainerOff)}}
	})
	policyFor(ctx, t, watched, v1alpha1.UpdateRecommend, nil)

	eventually(t, "the neighbour resized", func() error {
		pod := &corev1.Pod{}
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&neighbour), pod); err != nil {
			return err
		}
		if got := sizeOf(pod.Spec.Containers[0].Resources); got != wanted {
			return fmt.Errorf("it has %v", got)
		}
		assert.Equal(t, size{cpu: "100m", memory: "64Mi"}, sizeOf(pod.Spec.Containers[1].Resources), "the excluded container")
		assert.Equal(t, size{cpu: "100m", memory: "64Mi"}, sizeOf(pod.Spec.InitContainers[0].Resources), "the sidecar with the mode Off")
		return nil
	})
	eventually(t, "a recommendation where nothing is applied", func() error { return hasTarget(ctx, watched) })
	for name, before := range still {
		pod := &corev1.Pod{}
		require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(&before), pod), name)
		assert.Equal(t, before.UID, pod.UID, name)
		assert.Equal(t, before.Generation, pod.Generation, name)
		assert.Equal(t, asked, sizeOf(pod.Spec.Containers[0].Resources), name)
	}
	assert.NoError(t, createdWith(ctx, skipped, asked), "newborn of the skipped workload")
	assert.NoError(t, createdWith(ctx, watched, asked), "newborn of the Recommend policy")
	policy := &v1alpha1.AttunePolicy{}
	eventually(t, "told in the policy's status too, which is written after it", func() error {
		err := env.client.Get(ctx, client.ObjectKey{Namespace: "recommend", Name: "web"}, policy)
		if err == nil && len(policy.Status.Recommendations) != 1 {
			err = fmt.Errorf("recommendations %v", policy.Status.Recommendations)
		}
		return err
	})
	assert.Equal(t, v1alpha1.UpdateRecommend, policy.Status.Mode)
	assert.Equal(t, "120m", policy.Status.Recommendations[0].Containers[0].Recommended.CPURequest.String())
}

func hasTarget(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if len(rec.Spec.Containers) == 0 || rec.Spec.Containers[0].Target.CPURequest == nil {
		return fmt.Errorf("containers %v", rec.Spec.Containers)
	}
	return nil
}
