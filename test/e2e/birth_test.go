package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestABirthThatCrashes: a program runs with half of the CPU that it needs to start with. Its lower size is kept, and then
// comes a rollout, whose first pod crashes: it is given what its template says, starts, and the rollout goes on.
func TestABirthThatCrashes(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "birth", true)
	c := idle(generous, corev1.EnvVar{Name: "NEEDS_MILLICORES", Value: "60"}, corev1.EnvVar{Name: "CPU_REQUEST", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")},
	}})
	d, p := started(t, "birth", 1, c, func(s *corev1.PodSpec) { onNode(s, staticNode) })
	eventually(t, "it is measured", func() error { return measured(ctx, p, 1) })
	fit(t, d)
	eventually(t, "lowered while it runs, and kept", func() error { return told(ctx, d, "Success", "") })
	require.NoError(t, carriedOut(t, d, fitting))
	eventually(t, "the webhook knows", func() error { return createdWith(ctx, d, fitting) })

	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(d), d))
	d.Spec.Template.Annotations = map[string]string{"version": "2"}
	require.NoError(t, env.client.Update(ctx, d))
	eventually(t, "rolled out", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != 1 || s.AvailableReplicas != 1 || s.Replicas != 1 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	eventually(t, "with what its template says", func() error { return carriedOut(t, d, generous) })
	young := pods(ctx, t, d)[0]
	assert.NotEqual(t, p.UID, young.UID)
	assert.Contains(t, young.Annotations[v1alpha1.SeededAnnotation], "deployment-web", "it was born with less")
	assert.Equal(t, int64(2), young.Generation, "and resized once")
	assert.GreaterOrEqual(t, young.Status.ContainerStatuses[0].RestartCount, int32(2), "it crashed")
	eventually(t, "on its node as well", func() error { return hasQuota(&young, "app", 12_000) })
	eventually(t, "it says why", func() error { return told(ctx, d, "Undone", "FailedStart") })
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.NotEmpty(t, append(rec.Status.BadSeeds, namesOf(rec.Status.FailedStarts)...), "no other pod is born so")
}

func namesOf(crashes []v1alpha1.FailedStart) (names []string) {
	for _, c := range crashes {
		names = append(names, c.Name)
	}
	return names
}
