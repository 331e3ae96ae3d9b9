package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestJobsNextAttempt: an attempt of a CronJob's Job is OOM-killed at the limit of its template. Its successor is
// created with 1.3 times that limit, and lives; so does the first attempt of the CronJob's next Job. What was killed is
// left as it was.
func TestJobsNextAttempt(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "batch", true)
	template := size{cpu: "10m", memory: "64Mi", memoryLimit: "64Mi"}
	more := size{cpu: "10m", memory: "64Mi", memoryLimit: "84Mi"} // it was killed at its limit: 83.2 MiB, in whole ones
	cron := newCronJob("batch", "load", idle(template, memory(70)))
	onNode(&cron.Spec.JobTemplate.Spec.Template.Spec, staticNode)
	require.NoError(t, env.client.Create(ctx, cron))
	policy := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: "load"}}
	policy.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindCronJob, Name: "load"}
	policy.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateInitial)}
	policy.Spec.Memory = &v1alpha1.MemorySettings{ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: ptr.To(resource.MustParse("1Gi"))}}
	require.NoError(t, env.client.Create(ctx, policy))

	first := runJob(t, cron, "load-29000001")
	var lives *corev1.Pod
	eventually(t, "an attempt that lives", func() error {
		attempts, err := attemptsOf(ctx, first)
		if err != nil {
			return err
		}
		for i := range attempts {
			if p := &attempts[i]; p.Status.Phase != corev1.PodFailed && is(t, p, corev1.PodReady, "") == nil {
				lives = p
				return nil
			}
		}
		return fmt.Errorf("%d attempts", len(attempts))
	})
	assert.Equal(t, more, sizeOf(lives.Spec.Containers[0].Resources))
	assert.Equal(t, int64(1), lives.Generation, "born so, and not resized while it runs")
	assert.Contains(t, lives.Annotations, v1alpha1.SeededAnnotation)
	assert.NoError(t, hasLimit(lives, "app", 84*mebibyte))
	require.NoError(t, holds(lives, 70))
	attempts, err := attemptsOf(ctx, first)
	require.NoError(t, err)
	killed := 0
	for _, p := range attempts {
		if p.UID == lives.UID {
			continue
		}
		killed++
		assert.Equal(t, corev1.PodFailed, p.Status.Phase)
		assert.Equal(t, template, sizeOf(p.Spec.Containers[0].Resources))
		require.NotNil(t, p.Status.ContainerStatuses[0].State.Terminated)
		assert.Equal(t, "OOMKilled", p.Status.ContainerStatuses[0].State.Terminated.Reason)
	}
	assert.GreaterOrEqual(t, killed, 1)
	t.Logf("%d attempts were killed before one lived", killed)

	second := runJob(t, cron, "load-29000002")
	eventually(t, "the next Job's first attempt lives", func() error {
		attempts, err := attemptsOf(ctx, second)
		switch {
		case err != nil:
			return err
		case len(attempts) == 0:
			return errors.New("no attempt")
		}
		return is(t, &attempts[0], corev1.PodReady, "")
	})
	attempts, err = attemptsOf(ctx, second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	assert.Equal(t, more, sizeOf(attempts[0].Spec.Containers[0].Resources))
	rec := &v1alpha1.AttuneRecommendation{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKey{Namespace: "batch", Name: "cronjob-load"}, rec))
	require.NotEmpty(t, rec.Status.Floors)
	assert.LessOrEqual(t, len(rec.Status.Floors), killed, "one for each kill at most: %v", rec.Status.Floors)
	assert.Empty(t, rec.Status.History, "nothing was resized")
}

// newCronJob is one that starts no Job by itself.
func newCronJob(ns, name string, c corev1.Container) *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: ptr.To(true),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				BackoffLimit: ptr.To(int32(6)),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To(int64(1)), Containers: []corev1.Container{c},
				}},
			}},
		},
	}
}

// runJob starts a Job of a CronJob by hand, as its controller would at its time, and ends it with the test.
func runJob(t *testing.T, cron *batchv1.CronJob, name string) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cron.Namespace, Name: name}, Spec: *cron.Spec.JobTemplate.Spec.DeepCopy()}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	require.NoError(t, env.client.Create(t.Context(), job))
	t.Cleanup(func() {
		if !t.Failed() {
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, env.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	})
	return job
}

// attemptsOf are all pods of a Job, failed ones included.
func attemptsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := env.client.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
	return list.Items, err
}
