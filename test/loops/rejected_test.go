package loops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	policyloop "attune.io/attune/controller/policy"
	"attune.io/attune/internal/board"
	"attune.io/attune/test/kubelet"
)

// smallContainers is an admission policy of the world's namespace: containers have at most 200m as their CPU limit.
func (w *world) smallContainers() {
	w.t.Helper()
	const message = "containers may have at most 200m CPU as limit"
	if w.memoryServer != nil {
		w.memoryServer.Validate = func(pod *corev1.Pod) error {
			if pod.Spec.Containers[0].Resources.Limits.Cpu().MilliValue() > 200 {
				return deniedByPolicy(pod, message)
			}
			return nil
		}
		return
	}
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-small"}}
	p.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionv1.Fail),
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}}},
		Validations: []admissionv1.Validation{{
			Expression: "object.spec.containers.all(c, !has(c.resources) || !has(c.resources.limits) || !('cpu' in c.resources.limits) || quantity(c.resources.limits['cpu']).compareTo(quantity('200m')) <= 0)",
			Message:    message,
		}},
	}
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	b.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: p.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}}},
	}
	require.NoError(w.t, w.direct.Create(w.t.Context(), p))
	w.t.Cleanup(func() { _ = w.direct.Delete(w.t.Context(), p) })
	require.NoError(w.t, w.direct.Create(w.t.Context(), b))
	w.t.Cleanup(func() { _ = w.direct.Delete(w.t.Context(), b) })
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "probe"}}
	probe.Spec.Containers = []corev1.Container{{Name: "app", Image: "x", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		assert.ErrorContains(c, w.direct.Create(w.t.Context(), probe.DeepCopy(), client.DryRunAll), "at most 200m CPU")
	}, 30*time.Second, 100*time.Millisecond, "the policy is in force")
}

// Another admission policy refuses the pod as attune sizes it, and lets its template pass: the workload runs within 20 s.
func TestLoopsAbandonSizesThatTheAPIServerRejects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.3, Memory: 60}
	w.memory["app"] = 60
	w.policy("all", "updateStrategy: {type: Initial}\ncpu: {maxChangePercent: 1000}")
	w.deployment("web", 0, w.app("cpu=100m,memory=64Mi", "cpu=200m,memory=128Mi"))
	w.until(time.Hour, "new pods are sized", func() bool { return w.recommendation().Spec.Seed != nil })
	w.smallContainers()

	w.scale("web", 1)
	began := w.clock.Now()
	for len(w.pods()) == 0 && w.clock.Now().Sub(began) <= 20*time.Second {
		w.pass()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	require.Len(t, w.pods(), 1, "%s", w.describe())
	t.Logf("recovered after %s", w.clock.Now().Sub(began))
	rec := w.recommendation()
	require.NotNil(t, rec.Status.AdmissionWithdrawn)
	assert.Equal(t, v1alpha1.ReasonAdmissionRejected, rec.Status.AdmissionWithdrawn.Reason)
	assert.Contains(t, rec.Status.AdmissionWithdrawn.Message, "denied request: containers may have at most 200m CPU as limit")
	assert.True(t, w.told.has("Warning AdmissionRejected New pods are created without admission resources"), strings.Join(w.told.lines, "\n"))
	limit := w.pods()[0].Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]
	assert.Equal(t, "200m", limit.String(), "as its template")

	w.settle()
	degraded := meta.FindStatusCondition(w.recommendation().Status.Conditions, v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonAdmissionRejected, degraded.Reason)
	assert.Equal(t, v1alpha1.ReasonAdmissionRejected, w.recommendation().Spec.SeedBlocked, "the policy loop says so too")
	policies := &v1alpha1.AttunePolicyList{}
	require.NoError(t, w.direct.List(t.Context(), policies, client.InNamespace(w.namespace)))
	assert.Equal(t, v1alpha1.ReasonAdmissionRejected, meta.FindStatusCondition(policies.Items[0].Status.Conditions, v1alpha1.ConditionDegraded).Reason)

	// The condition of the Deployment is gone: nothing flaps for the rest of the day.
	w.run(6*time.Hour, 30*time.Minute)
	assert.Equal(t, rec.Status.AdmissionWithdrawn, w.recommendation().Status.AdmissionWithdrawn)
	assert.Len(t, w.pods(), 1)
}

// A namespace that requires CPU limits since a moment ago rejects pods whose limit attune removes: the workload runs
// within 20 s, with the limit of its template.
func TestLoopsAbandonTheRemovalOfCPULimits(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"a quota":          "failed quota: compute: must specify limits.cpu for: app",
		"a maximum":        "maximum cpu usage per Container is 1.  No limit is specified",
		"a ratio":          "cpu max limit to request ratio per Container is 4, but no limit is specified or limit is 0",
		"a policy":         "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: all containers must have CPU limits",
		"a policy webhook": `admission webhook "validate.kyverno.svc-fail" denied the request: validation error: CPU limits are required`,
	} {
		w := newWorld(t, kubelet.Options{})
		if w.memoryServer == nil {
			t.Skip("only the API server in memory answers with any text")
		}
		w.seeded = true
		w.usage.of["app"] = used{CPU: 0.1, Memory: 60}
		w.memory["app"] = 60
		w.policy("all", "updateStrategy: {type: Initial}\ncpu: {limits: Remove}")
		w.deployment("web", 0, w.app("cpu=100m,memory=64Mi", "cpu=200m,memory=128Mi"))
		w.until(time.Hour, "new pods are sized", func() bool { return w.recommendation().Spec.Seed != nil })
		w.memoryServer.Validate = func(pod *corev1.Pod) error {
			if pod.Spec.Containers[0].Resources.Limits.Cpu().IsZero() {
				return apierrors.NewForbidden(podsResource, pod.Name, errors.New(message))
			}
			return nil
		}
		w.scale("web", 1)
		began := w.clock.Now()
		for len(w.pods()) == 0 && w.clock.Now().Sub(began) <= 20*time.Second {
			w.pass()
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		}
		require.Len(t, w.pods(), 1, "%s: %s", name, w.describe())
		assert.Equal(t, v1alpha1.ReasonAdmissionRejected, w.recommendation().Status.AdmissionWithdrawn.Reason, name)
		assert.Contains(t, w.recommendation().Status.AdmissionWithdrawn.Message, message[:40], name)
		assert.Equal(t, "200m", w.pods()[0].Spec.Containers[0].Resources.Limits.Cpu().String(), name)
	}
}

// TestDaemonPodsFitTheSmallestNode: what the pods on a large node need is more than the small node has. The small node's
// pod is created with what its template sets, and not with a size that leaves it Pending.
func TestDaemonPodsFitTheSmallestNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{CPU: "2", Memory: "4Gi"})
	w.secondNode(kubelet.Options{CPU: "64", Memory: "256Gi"})
	w.policies.Nodes = policyloop.Nodes{Reader: w.client, Largest: &board.Largest{}}
	w.seeded = true
	w.usage.of["app"] = used{CPU: 1.8, Memory: 3200}
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) {
		if pod.Spec.NodeName == w.namespace {
			return 90, true
		}
		return 3200, true
	}
	agent := &appsv1.DaemonSet{}
	agent.Namespace, agent.Name = w.namespace, "agent"
	agent.Spec.Selector, agent.Spec.Template = template("agent", w.app("cpu=100m,memory=200Mi", ""))
	require.NoError(t, w.direct.Create(t.Context(), agent))
	w.startNewPods()
	w.policy("all", "targetRef: {kind: DaemonSet}\nupdateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}\ncpu: {maxChangePercent: 1000}\nmemory: {maxChangePercent: 1000, allowDecrease: true}")
	w.run(6*time.Hour, 10*time.Minute)
	target := w.recommendation().Spec.Containers[0]
	require.Greater(t, target.Target.CPURequest.MilliValue(), int64(2000), "the large node's pod needs more than the small node has")
	for _, pod := range w.pods() {
		if pod.Spec.NodeName == w.namespace {
			require.NoError(t, w.direct.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)))
		}
	}
	w.startNewPods()
	w.run(30*time.Minute, 10*time.Minute)
	require.Len(t, w.pods(), 2)
	for _, pod := range w.pods() {
		assert.NotEmpty(t, pod.Spec.NodeName, "%s", w.describe())
		assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
		assert.LessOrEqual(t, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), int64(2000))
	}
	assert.Contains(t, target.Holds[0].Message, "the smallest node on which the DaemonSet runs has")
}

// TestLoopsRestoreTheLimitOfAPodThatDoesNotStart: a pod on its node that does not start with its lower memory limit is
// never replaced by its owner. Its template's limit is restored in place, and it starts.
func TestLoopsRestoreTheLimitOfAPodThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"", "CreateContainerError"} {
		t.Run("waits with "+reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{PodCgroup: true})
			w.seeded = true
			w.usage.of["app"] = used{CPU: 0.1, Memory: 20}
			w.memory["app"] = 20
			w.policy("all", "updateStrategy: {type: Initial}\nmemory: {allowDecrease: true, maxChangePercent: 1000}")
			w.deployment("web", 0, w.app("cpu=100m,memory=128Mi", "cpu=200m,memory=256Mi"))
			w.until(time.Hour, "new pods are sized", func() bool { return w.recommendation().Spec.Seed != nil })
			w.node.Faults.LeastMemory, w.node.Faults.TooSmall = 100<<20, reason
			w.scale("web", 1)
			w.settle()
			created := w.pods()[0]
			require.Less(t, created.Spec.Containers[0].Resources.Limits.Memory().Value(), int64(100<<20), "lowered at admission")
			began := w.clock.Now()
			w.until(5*time.Minute, "it runs", func() bool { return len(w.pods()) == 1 && w.pods()[0].Status.Phase == corev1.PodRunning })
			t.Logf("started after %s", w.clock.Since(began))
			pod := w.pods()[0]
			assert.Equal(t, created.UID, pod.UID, "the same pod")
			assert.Equal(t, "256Mi", pod.Spec.Containers[0].Resources.Limits.Memory().String())
			assert.Equal(t, created.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Requests, "a larger request could find no room on the node")
			require.NotNil(t, w.recommendation().Status.AdmissionWithdrawn)
			assert.True(t, w.told.has("Warning Reverted Restoring the memory limits of pod "+pod.Name), strings.Join(w.told.lines, "\n"))
			w.run(time.Hour, 10*time.Minute)
			assert.Zero(t, restarts(&w.pods()[0]))
		})
	}
}
