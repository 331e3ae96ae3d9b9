package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// recovery bounds the time from the first failure of a created pod to the withdrawal of its workload's admission
// resources.
const recovery = 20 * time.Second

// unbounded lets the history alone decide the target.
func unbounded(s *v1alpha1.AttunePolicySpec) { s.CPU.MaxAllowed, s.Memory.MaxAllowed = nil, nil }

// TestPodStartsWhereMemoryWasMeasuredAsZero: a working set of 0 is not a measurement. A created pod keeps the memory of
// its template and starts.
func TestPodStartsWhereMemoryWasMeasuredAsZero(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "zero", true)
	template := size{cpu: "50m", memory: "128Mi", memoryLimit: "256Mi"}
	d := deployment(ctx, t, "zero", "web", 1, app("app", template))
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, unbounded)
	eventually(t, "a seed for CPU", func() error { return hasSeed(ctx, d) })
	eventually(t, "the webhook knows the seed", func() error { return sized(ctx, d) })
	scale(ctx, t, d, 2)
	for _, pod := range pods(ctx, t, d) {
		got := sizeOf(pod.Spec.Containers[0].Resources)
		assert.Equal(t, [2]string{template.memory, template.memoryLimit}, [2]string{got.memory, got.memoryLimit})
	}
}

// TestPodIsNotSizedByImpossibleUsage: interleaved counters of two servers give 1,600 cores, and one sample is 10 TiB. The
// created pod keeps what was not measured, and is sized by the rest.
func TestPodIsNotSizedByImpossibleUsage(t *testing.T) {
	ctx := need(t)
	template := size{cpu: "50m", memory: "64Mi", memoryLimit: "128Mi"}
	for ns, check := range map[string]func(t *testing.T, got size){
		"interleaved": func(t *testing.T, got size) {
			assert.Equal(t, template.cpu, got.cpu)
			assert.NotEqual(t, template.memory, got.memory)
		},
		"glitch": func(t *testing.T, got size) {
			assert.NotEqual(t, template.cpu, got.cpu)
			limit := resource.MustParse(got.memoryLimit)
			assert.Less(t, limit.Value(), int64(1<<30), got.memoryLimit)
		},
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			namespace(ctx, t, ns, true)
			d := deployment(ctx, t, ns, "web", 1, app("app", template))
			policyFor(ctx, t, d, v1alpha1.UpdateInitial, unbounded)
			eventually(t, "the webhook knows the seed", func() error { return sized(ctx, d) })
			scale(ctx, t, d, 2)
			created := 0
			for _, pod := range pods(ctx, t, d) {
				if got := sizeOf(pod.Spec.Containers[0].Resources); got != template {
					created++
					check(t, got)
				}
			}
			assert.Equal(t, 1, created)
		})
	}
}

// sized returns an error until a pod that would be created now is given another size than its template's.
func sized(ctx context.Context, d *appsv1.Deployment) error {
	pod, err := dryRunPod(ctx, d)
	if err != nil {
		return err
	}
	if sizeOf(pod.Spec.Containers[0].Resources) == sizeOf(d.Spec.Template.Spec.Containers[0].Resources) {
		return fmt.Errorf("a created pod keeps the template's size")
	}
	return nil
}

// TestRejectedPodIsCreatedWithItsTemplate: the template passes another admission control, the sized pod does not. The
// admission resources are withdrawn, and the owner's next retry succeeds.
func TestRejectedPodIsCreatedWithItsTemplate(t *testing.T) {
	ctx := need(t)
	for ns, message := range map[string]string{
		"rejected": "containers may have at most 200m CPU as limit",
		"quota":    "exceeded quota: for-user-deployments, requested: limits.cpu=720m, limited: limits.cpu=200m", // a quota of another platform
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			namespace(ctx, t, ns, true)
			template := size{cpu: "100m", memory: "64Mi", cpuLimit: "200m", memoryLimit: "128Mi"}
			d := deployment(ctx, t, ns, "web", 1, app("app", template))
			policyFor(ctx, t, d, v1alpha1.UpdateInitial, unbounded)
			eventually(t, "the webhook knows the seed", func() error { return sized(ctx, d) })
			allowAtMost200m(t, ns, message)
			eventually(t, "a sized pod is refused", func() error {
				if _, err := dryRunPod(ctx, d); err == nil || !strings.Contains(err.Error(), message) {
					return fmt.Errorf("it is not: %v", err)
				}
				return nil
			})

			before := d.DeepCopy()
			d.Spec.Replicas = ptr.To(int32(2))
			require.NoError(t, env.client.Patch(ctx, d, client.MergeFrom(before)))
			eventually(t, "the owner reports the refusal", func() error { return hasEvent(ctx, ns, message, "FailedCreate") })
			refused := time.Now()
			within(t, recovery, "the admission resources are withdrawn", func() error { return degraded(ctx, d, "AdmissionRejected", "") })
			withdrawn := time.Since(refused)
			ready(ctx, t, d)
			t.Logf("refused to withdrawn %s, to two ready pods %s", withdrawn.Round(100*time.Millisecond), time.Since(refused).Round(100*time.Millisecond))
			for _, pod := range pods(ctx, t, d) {
				assert.Equal(t, template, sizeOf(pod.Spec.Containers[0].Resources))
			}
			eventually(t, "an event on the Deployment", func() error { return hasEventOn(ctx, d, "AdmissionRejected") })
		})
	}
}

// allowAtMost200m denies the creation of pods with a CPU limit above 200m in a namespace.
func allowAtMost200m(t *testing.T, ns, message string) {
	t.Helper()
	named := metav1.ObjectMeta{Name: ns + "-small-containers"}
	require.NoError(t, env.client.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: named,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "object.spec.containers.all(c, quantity(c.resources.limits['cpu']).compareTo(quantity('200m')) <= 0)", Message: message,
			}},
		},
	}))
	require.NoError(t, env.client.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: named,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: named.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}))
}

// degraded: the workload's recommendation is degraded for a reason, with a part of the message.
func degraded(ctx context.Context, d *appsv1.Deployment, reason, message string) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, message) {
		return fmt.Errorf("conditions %v, withheld %q", rec.Status.Conditions, rec.Spec.SeedBlocked)
	}
	return nil
}

// hasEventOn looks for a reason among the events of a Deployment.
func hasEventOn(ctx context.Context, d *appsv1.Deployment, reason string) error {
	list := &corev1.EventList{}
	if err := env.client.List(ctx, list, client.InNamespace(d.Namespace)); err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Reason == reason && e.InvolvedObject.Kind == "Deployment" && e.InvolvedObject.Name == d.Name {
			return nil
		}
	}
	return fmt.Errorf("no event %s among %d", reason, len(list.Items))
}

// TestMemoryVolumeHoldsTheLimitAtAdmission: a memory-backed volume without a size is as large as the pod's memory
// limit, so a created pod keeps its limit. Its request may be lower.
func TestMemoryVolumeHoldsTheLimitAtAdmission(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "shm", true)
	template := size{cpu: "50m", memory: "256Mi", memoryLimit: "1Gi"}
	c := app("app", template)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
	d := newDeployment("shm", "web", 1, c)
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
	}}}
	start(t, d)
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, unbounded)
	eventually(t, "the webhook knows the seed", func() error { return sized(ctx, d) })
	scale(ctx, t, d, 2)
	lowered := 0
	for _, pod := range pods(ctx, t, d) {
		got := sizeOf(pod.Spec.Containers[0].Resources)
		assert.Equal(t, template.memoryLimit, got.memoryLimit)
		if got.memory != template.memory {
			lowered++
		}
	}
	assert.Equal(t, 1, lowered, "the created pod requests less")
}

// TestPodsThatDoNotStartAreCreatedWithTheirTemplate: the pod's Secrets are larger than its new memory limit, and the
// kubelet keeps them in memory within that limit. The created pod does not start until attune restores the limit; the
// next one has the template's size.
func TestPodsThatDoNotStartAreCreatedWithTheirTemplate(t *testing.T) {
	ctx := need(t)
	const ns = "unmounted"
	namespace(ctx, t, ns, true)
	template := size{cpu: "50m", memory: "128Mi", memoryLimit: "256Mi"}
	c := app("app", template)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "secrets", MountPath: "/secrets"}}
	d := newDeployment(ns, "web", 1, c)
	volume := &corev1.ProjectedVolumeSource{}
	for i := range 30 { // 30 MB, more than the limit that 8 MiB of usage lead to
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("part-", i)}, Data: map[string][]byte{fmt.Sprint("part-", i): make([]byte, 1_000_000)},
		}
		require.NoError(t, env.client.Create(ctx, secret))
		volume.Sources = append(volume.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}}})
	}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "secrets", VolumeSource: corev1.VolumeSource{Projected: volume}}}
	start(t, d)
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, unbounded)
	eventually(t, "the webhook knows the seed", func() error { return sized(ctx, d) })

	before := d.DeepCopy()
	d.Spec.Replicas = ptr.To(int32(2))
	require.NoError(t, env.client.Patch(ctx, d, client.MergeFrom(before)))
	eventually(t, "the kubelet cannot mount the Secrets", func() error { return hasEvent(ctx, ns, "no space left on device", "FailedMount") })
	failed := time.Now()
	within(t, time.Minute+recovery, "the admission resources are withdrawn", func() error { return degraded(ctx, d, "PodsDoNotStart", "") })
	t.Logf("failed to withdrawn %s", time.Since(failed).Round(100*time.Millisecond))
	eventually(t, "an event on the Deployment", func() error { return hasEventOn(ctx, d, "PodsDoNotStart") })
	eventually(t, "the webhook knows", func() error { return createdWith(ctx, d, template) })

	// The kubelet allocates the resize of a pod without containers, and mounts the volume with the new limit at its next
	// attempt, after at most 2 minutes.
	created := map[types.UID]bool{}
	for _, pod := range pods(ctx, t, d) {
		created[pod.UID] = true
	}
	within(t, 5*time.Minute, "the same pod is ready", func() error { return allReady(ctx, d) })
	t.Logf("failed to ready %s", time.Since(failed).Round(time.Second))
	for _, pod := range pods(ctx, t, d) {
		assert.True(t, created[pod.UID], "nothing deleted pod %s", pod.Name)
		assert.Equal(t, template.memoryLimit, sizeOf(pod.Spec.Containers[0].Resources).memoryLimit)
	}
}
