package loops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/podview"
	"attune.io/attune/test/kubelet"
)

// asking notes when the loops ask for resizes. answer, where set, is the API server's.
func (w *world) asking(answer func() error) *[]time.Time {
	asked := &[]time.Time{}
	w.resize = func(patch func() error) error {
		*asked = append(*asked, w.clock.Now())
		if err := answer(); err != nil {
			return err
		}
		return patch()
	}
	return asked
}

// sinceFirst is how long after the first each of them was.
func sinceFirst(times []time.Time) []time.Duration {
	var after []time.Duration
	for _, at := range times {
		after = append(after, at.Sub(times[0]))
	}
	return after
}

var podsResource = schema.GroupResource{Resource: "pods"}

// Cases 17, 60, 94: what passes by itself is asked again soon, what somebody has to change late, and what is never
// valid never as it was. None of it costs a cooldown.
func TestLoopsRetryRejectedResizes(t *testing.T) {
	t.Parallel()
	const s, m = time.Second, time.Minute
	for name, tc := range map[string]struct {
		answer error
		within time.Duration
		want   []time.Duration
	}{
		"a server that starts": {apierrors.NewForbidden(podsResource, "web", errors.New("not yet ready to handle request")), 40 * s, []time.Duration{0, 5 * s, 15 * s, 35 * s}},
		"a conflict":           {apierrors.NewConflict(podsResource, "web", errors.New("changed")), 16 * s, []time.Duration{0, 5 * s, 15 * s}},
		"an admission policy":  {apierrors.NewForbidden(podsResource, "web", errors.New("ValidatingAdmissionPolicy 'sizes' with binding 'all' denied request: no")), 71 * m, []time.Duration{0, 10 * m, 30 * m, 70 * m}},
		"never valid": {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{field.Forbidden(field.NewPath("spec"), "only cpu and memory resources are mutable")}),
			24 * time.Hour, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
			answer := tc.answer
			asked := w.asking(func() error { return answer })
			w.policy("all", onceAnHour)
			w.run(tc.within, 5*time.Minute)
			assert.Equal(t, tc.want, sinceFirst(*asked), "%s", w.describe())
			assert.Equal(t, "RefusedByAPIServer", blockedBy(w.recommendation()).Reason)
			assert.LessOrEqual(t, len(results(w.recommendation())), 1, "the same is told once")
			assert.True(t, w.idle())

			answer = nil
			if tc.want[len(tc.want)-1] == 0 {
				w.theirs(w.pod(), "600m")
				w.run(time.Minute, time.Minute)
				w.annotate(map[string]string{v1alpha1.ResumedAnnotation: "2026-01-01T00:00:00Z"})
			}
			w.until(3*time.Hour, "it is sized when nothing is in the way", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
		})
	}
}

// Case 60: the same with a real admission policy, which sees what the loops send.
func TestLoopsAreStoppedByAnAdmissionPolicy(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.forbidResizes()
	asked := w.asking(func() error { return nil })
	w.policy("all", onceAnHour)
	w.run(9*time.Minute, 5*time.Minute)
	assert.Len(t, *asked, 1)
	why := blockedBy(w.recommendation())
	assert.Equal(t, "RefusedByAPIServer", why.Reason)
	assert.Contains(t, why.Message, "sizes stay as they are")
	assert.Equal(t, []string{"Failed AdmissionPolicy"}, results(w.recommendation()))
	assert.Equal(t, int64(500), cpuRequest(w.pod()))
}

// forbidResizes installs a ValidatingAdmissionPolicy for the namespace and waits until it is in force. In memory it
// stands for one.
func (w *world) forbidResizes() {
	w.t.Helper()
	if w.memoryServer != nil {
		w.memoryServer.Refuse = func(_, verb string, o client.Object) error {
			if verb != "patch/resize" {
				return nil
			}
			return deniedByPolicy(o, "sizes stay as they are")
		}
		return
	}
	ctx := w.t.Context()
	object := metav1.ObjectMeta{Name: w.namespace}
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: object, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/resize"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "sizes stay as they are"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: object, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: w.namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}}},
	}}
	for _, o := range []client.Object{policy, binding} {
		require.NoError(w.t, w.direct.Create(ctx, o))
		w.t.Cleanup(func() { require.NoError(w.t, w.direct.Delete(context.WithoutCancel(ctx), o)) })
	}
	pod := w.pod()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"501m"}}}]}}`))
		require.ErrorContains(t, w.direct.SubResource("resize").Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll), "sizes stay as they are")
	}, time.Minute, 50*time.Millisecond, "the policy is in force")
}

// deniedByPolicy is what a real API server answers for a ValidatingAdmissionPolicy.
func deniedByPolicy(o client.Object, message string) error {
	err := apierrors.NewForbidden(podsResource, o.GetName(), fmt.Errorf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: %[2]s", o.GetNamespace(), message))
	err.ErrStatus.Code, err.ErrStatus.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	return err
}

// Case 56: growth waits for a quota, lowering does not, and goes on when the quota's status says so.
func TestLoopsWaitForAQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["grows"], w.usage.of["shrinks"] = used{CPU: 1, Memory: 200}, used{CPU: 0.1, Memory: 200}
	w.deployment("grows", 1, w.container("grows", "cpu=500m,memory=512Mi", ""))
	w.deployment("shrinks", 1, w.container("shrinks", "cpu=1,memory=512Mi", ""))
	w.startNewPods()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cpus"}}
	quota.Spec.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse("1600m")}
	require.NoError(t, w.direct.Create(t.Context(), quota))
	used := func(cpu string) {
		require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"requests.cpu": resource.MustParse(cpu)}
		require.NoError(t, w.direct.Status().Update(t.Context(), quota))
	}
	used("1500m")
	asked := w.asking(func() error { return nil })
	w.auto("cpu: {maxChangePercent: 300}")
	w.run(30*time.Minute, 5*time.Minute)
	assert.Equal(t, int64(120), cpuRequest(&w.podsOf("shrinks")[0]))
	assert.Equal(t, int64(500), cpuRequest(&w.podsOf("grows")[0]))
	assert.Equal(t, "Quota", blockedBy(w.rec("grows")).Reason)
	assert.Len(t, *asked, 1, "growth was not even asked for")
	used("620m")
	w.until(time.Minute, "what was given back is taken", func() bool {
		return cpuRequest(&w.podsOf("grows")[0]) == 1080 || cpuRequest(&w.podsOf("grows")[0]) == 1200
	})
}

// Case 56: the API server knows a quota that the cache does not show yet. It is asked again as soon as it shows.
func TestLoopsRetryWhenTheCacheShowsTheQuota(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cpus"}}
	quota.Spec.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse("1")}
	first := true
	asked := w.asking(func() error {
		if first {
			first = false
			require.NoError(t, w.direct.Create(t.Context(), quota))
			quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"requests.cpu": resource.MustParse("500m")}
			require.NoError(t, w.direct.Status().Update(t.Context(), quota))
		}
		return nil
	})
	w.policy("all", onceAnHour)
	w.settle()
	assert.Equal(t, []string{"Failed QuotaExceeded"}, results(w.recommendation()), "%s", w.describe())
	w.run(5*time.Minute, time.Minute)
	assert.Equal(t, "Quota", blockedBy(w.recommendation()).Reason, "now that it shows, it is not even asked")
	assert.Len(t, *asked, 1)
	quota.Spec.Hard["requests.cpu"] = resource.MustParse("2")
	require.NoError(t, w.direct.Update(t.Context(), quota))
	quota.Status.Hard = quota.Spec.Hard
	require.NoError(t, w.direct.Status().Update(t.Context(), quota))
	w.settle()
	assert.Equal(t, int64(1200), cpuRequest(w.pod()), "at once, and not after a cooldown: %s", w.describe())
}

// Case 54: a LimitRange that came after the pod does not allow what the pod has; when it is gone, the pod is sized.
func TestLoopsWaitForALimitRange(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "small"}}
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: corev1.ResourceList{"memory": resource.MustParse("256Mi")}}}
	require.NoError(t, w.direct.Create(t.Context(), limits))
	asked := w.asking(func() error { return nil })
	w.auto("cpu: {maxChangePercent: 300}")
	w.run(30*time.Minute, 5*time.Minute)
	assert.Empty(t, *asked)
	assert.Equal(t, "LimitRange", blockedBy(w.recommendation()).Reason)
	require.NoError(t, w.direct.Delete(t.Context(), limits))
	w.until(2*time.Minute, "the pod is sized", func() bool { return cpuRequest(w.pod()) == 1200 })
}

// Case 90: the right to resize pods is taken away. Nothing more is sent for any workload, putting back included; the
// operator is not ready; with the right, all goes on.
func TestLoopsWithoutRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	who := w.stranger()
	clock := clocktesting.NewFakeClock(w.clock.Now())
	w.rights = &workloadloop.Rights{Clock: clock, Ask: who.mayResize}
	w.wire()
	grant := who.grant
	for _, name := range []string{"first", "second"} {
		w.usage.of[name] = used{CPU: 1, Memory: 200}
		w.memory[name] = 200
		w.deployment(name, 3, w.container(name, "cpu=500m,memory=512Mi", "memory=512Mi"))
	}
	w.startNewPods()
	asked := 0
	w.send = func(ctx context.Context, o client.Object, p client.Patch) error {
		asked++
		return who.resize(ctx, o, p, client.FieldOwner(podview.FieldManager))
	}
	grant(false)
	w.auto("cpu: {maxChangePercent: 300}")
	keepTime := func() bool {
		clock.SetTime(w.clock.Now())
		return true
	}
	w.run(5*time.Minute, 30*time.Second, keepTime)
	assert.Equal(t, 1, asked, "one refusal is enough, for two workloads of three pods")
	assert.Error(t, w.rights.Ready(nil))
	assert.True(t, w.told.has(`cannot patch resource "pods/resize"`), w.told.lines)
	for _, name := range []string{"first", "second"} {
		rec := w.rec(name)
		assert.Equal(t, "NoRights", blockedBy(rec).Reason, name)
		assert.Empty(t, rec.Status.Records)
		assert.Empty(t, results(rec))
	}

	grant(true)
	w.run(time.Minute, 15*time.Second, keepTime)
	assert.NoError(t, w.rights.Ready(nil))
	for _, pod := range w.pods() {
		assert.Equal(t, int64(1200), cpuRequest(&pod), pod.Name)
	}

	// A pod is killed while the right is gone: it is not forgotten, and gets more when the right is back.
	w.run(30*time.Minute, time.Minute, keepTime)
	require.True(t, w.idle())
	grant(false)
	victim := w.podsOf("first")[0].Name
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) { return 600, pod.Name == victim }
	before := asked
	w.run(2*time.Minute, 15*time.Second, keepTime)
	assert.LessOrEqual(t, asked-before, 1)
	grant(true)
	w.run(time.Minute, 15*time.Second, keepTime)
	assert.Greater(t, memoryLimit(w.named(victim)), int64(600))
}

// A revert that is refused for want of rights is sent again when they are back.
func TestLoopsRetryARevertWithoutRights(t *testing.T) {
	// Cases 70, 90.
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	clock := clocktesting.NewFakeClock(w.clock.Now())
	granted := true
	w.rights = &workloadloop.Rights{Clock: clock, Ask: func(context.Context) (bool, error) { return granted, nil }}
	w.wire()
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	asked := w.asking(func() error {
		if granted {
			return nil
		}
		return apierrors.NewForbidden(podsResource, "web", errors.New(`User "attune" cannot patch resource "pods/resize" in API group ""`))
	})
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}\n"+lowersMemory)
	keepTime := func() bool {
		clock.SetTime(w.clock.Now())
		return true
	}
	w.run(20*time.Minute, time.Minute, keepTime, func() bool { return w.watched() == "" || memoryLimit(w.pod()) > 600 })
	require.Less(t, memoryLimit(w.pod()), int64(600))
	granted = false
	*asked = nil
	w.memory["app"] = 600
	w.run(10*time.Minute, 15*time.Second, keepTime)
	require.NotEmpty(t, *asked)
	assert.Len(t, *asked, 1, "nothing is sent that would be refused")
	require.Len(t, w.recommendation().Status.Records, 1)
	assert.Equal(t, v1alpha1.RecordReverting, w.recommendation().Status.Records[0].Phase)
	granted = true
	w.run(2*time.Minute, 15*time.Second, keepTime)
	assert.Equal(t, int64(1024), memoryLimit(w.pod()))
	assert.Equal(t, []string{"Reverted oomkill"}, results(w.recommendation()))
}

// stranger is a user without any rights but those that grant gives and takes.
type stranger struct {
	mayResize func(context.Context) (bool, error)
	resize    func(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error
	// grant waits until it holds.
	grant func(bool)
}

// stranger has a role of his own; in memory, which knows no RBAC, a refusal in its words.
func (w *world) stranger() stranger {
	w.t.Helper()
	if w.memoryServer == nil {
		return w.realStranger()
	}
	granted := false
	return stranger{
		mayResize: func(context.Context) (bool, error) { return granted, nil },
		resize: func(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if !granted {
				return apierrors.NewForbidden(podsResource, o.GetName(), fmt.Errorf("User %q cannot patch resource \"pods/resize\" in API group \"\" in the namespace %[1]q", w.namespace))
			}
			return w.direct.SubResource("resize").Patch(ctx, o, p, opts...)
		},
		grant: func(is bool) { granted = is },
	}
}

func (w *world) realStranger() stranger {
	w.t.Helper()
	ctx := w.t.Context()
	config := rest.CopyConfig(server)
	config.QPS = -1
	config.Impersonate.UserName = w.namespace
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.namespace},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: w.namespace}},
	}
	for _, o := range []client.Object{role, binding} {
		require.NoError(w.t, w.direct.Create(ctx, o))
		w.t.Cleanup(func() { require.NoError(w.t, w.direct.Delete(context.WithoutCancel(ctx), o)) })
	}
	who := stranger{resize: c.SubResource("resize").Patch}
	who.mayResize = func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods", Subresource: "resize"},
		}}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	}
	who.grant = func(granted bool) {
		role.Rules = nil
		if granted {
			role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/resize"}, Verbs: []string{"patch"}}}
		}
		require.NoError(w.t, w.direct.Update(ctx, role))
		require.Eventually(w.t, func() bool {
			is, err := who.mayResize(ctx)
			return err == nil && is == granted
		}, time.Minute, 50*time.Millisecond)
	}
	return who
}
