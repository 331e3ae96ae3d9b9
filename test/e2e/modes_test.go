package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestCanary: one of three pods is lowered first and observed. With autoPromote the others follow by themselves. Without it
// they keep their size until a user sets it, and then follow.
func TestCanary(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "canary", true)
	waiting, promoted := newDeployment("canary", "waiting", 3, idle(generous)), newDeployment("canary", "promoted", 3, idle(generous))
	policies := map[string]*v1alpha1.AttunePolicy{}
	for _, d := range []*appsv1.Deployment{waiting, promoted} {
		start(t, d)
		policies[d.Name] = fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
			s.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateCanary)
			s.UpdateStrategy.MaxConcurrentResizes = ptr.To(intstr.FromString("100%"))
			s.UpdateStrategy.Canary = &v1alpha1.CanarySettings{Percentage: ptr.To(int32(30)), AutoPromote: ptr.To(d == promoted)}
		})
	}
	before := containersOf(t, waiting)
	for _, d := range []*appsv1.Deployment{waiting, promoted} {
		eventually(t, "the first pod of "+d.Name+" is accepted", func() error {
			// The pods are read first: the next wave begins in the pass that accepts this one.
			resized := countOf(pods(ctx, t, d), fitting)
			rows, err := rowsOf(ctx, d, "Success")
			if err == nil && len(rows) == 0 {
				require.LessOrEqual(t, resized, 1, "one pod is resized before the others")
				err = fmt.Errorf("%d resized", resized)
			}
			return err
		})
	}
	eventually(t, "the others follow", func() error { return carriedOut(t, promoted, fitting) })
	require.Equal(t, 1, countOf(pods(ctx, t, waiting), fitting), "meanwhile, without autoPromote")
	require.NoError(t, succeeded(ctx, waiting, 1))

	policy := policies[waiting.Name]
	eventually(t, "promoted", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		policy.Spec.UpdateStrategy.Canary.AutoPromote = ptr.To(true)
		return env.client.Update(ctx, policy)
	})
	eventually(t, "the others follow", func() error { return carriedOut(t, waiting, fitting) })
	resizedOnce(t, waiting)
	assert.Equal(t, before, containersOf(t, waiting), "the same pods and containers, not restarted")
}

// TestOneShot: one pod is resized after the other, each once. New pods have the resources of their template.
func TestOneShot(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "one-shot", true)
	d, _ := started(t, "one-shot", 2, idle(generous))
	before := containersOf(t, d)
	fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
		s.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateOneShot)
		s.UpdateStrategy.MaxConcurrentResizes = ptr.To(intstr.FromString("100%"))
		s.UpdateStrategy.Canary = &v1alpha1.CanarySettings{Percentage: ptr.To(int32(100))}
	})
	eventually(t, "both are accepted", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		require.LessOrEqual(t, len(rec.Status.Records), 1, "one pod at a time")
		return succeeded(ctx, d, 2)
	})
	require.NoError(t, carriedOut(t, d, fitting))
	resizedOnce(t, d)
	assert.Equal(t, before, containersOf(t, d), "the same pods and containers, not restarted")
	assert.NoError(t, createdWith(ctx, d, generous))
}

// TestGuardrails: two workloads are lowered, and need more memory afterwards than a guardrail of one of them allows. Its query
// is asked during the observation and at its end. The resize that breaks it is reverted, and the other one is accepted.
// The guardrails are those of cluster policies: policies of a namespace may have some only where an administrator allows it.
func TestGuardrails(t *testing.T) {
	ctx := need(t)
	const used = 60
	workloads := map[string]*appsv1.Deployment{}
	for ns, mib := range map[string]int{"guardrail-breaks": used / 2, "guardrail-holds": used * 2} {
		namespace(ctx, t, ns, true)
		workloads[ns], _ = started(t, ns, 1, idle(generous))
		guard(t, ns, mib)
	}
	for _, d := range workloads {
		pod := pods(ctx, t, d)[0]
		eventually(t, d.Namespace+": observed at its lower size", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
		require.NoError(t, hasSpec(t, &pod, fitting))
		use(ctx, t, &pod, fmt.Sprintf("memory=%d", used))
		eventually(t, "it holds more", func() error { return holds(&pod, used) })
	}
	breaks, fine := workloads["guardrail-breaks"], workloads["guardrail-holds"]
	eventually(t, "reverted", func() error { return told(ctx, breaks, "Reverted", "slo") })
	eventually(t, "its old size", func() error { return carriedOut(t, breaks, generous) })
	eventually(t, "accepted", func() error { return told(ctx, fine, "Success", "") })
	require.NoError(t, carriedOut(t, fine, fitting))
	for _, d := range workloads {
		assert.Zero(t, pods(ctx, t, d)[0].Status.ContainerStatuses[0].RestartCount, d.Namespace)
	}
}

// TestWeights: of two policies of a namespace the one with the higher weight sizes a workload, and a cluster policy of the
// highest weight does not. As long as that is a policy in the mode Recommend, the pod stays as it is. The policy that gives way
// says which one does not, and takes over once its weight is the higher one.
func TestWeights(t *testing.T) {
	const ns = "weights"
	ctx := need(t)
	namespace(ctx, t, ns, true)
	d, pod := started(t, ns, 1, idle(generous))
	before := containersOf(t, d)
	weighs := func(weight int32, mode v1alpha1.UpdateType) func(*v1alpha1.AttunePolicySpec) {
		return func(s *v1alpha1.AttunePolicySpec) { s.Weight, s.UpdateStrategy.Type = ptr.To(weight), ptr.To(mode) }
	}
	above := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: v1alpha1.AttuneClusterPolicySpec{
		Namespaces: []v1alpha1.NamespaceName{ns}, PolicySettings: decidingFast(v1alpha1.UpdateAuto), Weight: ptr.To[int32](1000),
	}}
	heavy, light := policyNamed(d, "heavy", weighs(200, v1alpha1.UpdateRecommend)), policyNamed(d, "light", weighs(50, v1alpha1.UpdateAuto))
	for _, o := range []client.Object{heavy, light, above} {
		require.NoError(t, env.client.Create(ctx, o))
		t.Cleanup(func() { _ = env.client.Delete(context.WithoutCancel(ctx), o) })
	}
	eventually(t, "the heavier policy has the recommendation", func() error { return sizedBy(ctx, d, heavy, fitting) })
	eventually(t, "the lighter one says why it has none", func() error {
		return conflictIs(ctx, light, v1alpha1.PolicyConflict{Workload: "Deployment/web", Winner: "heavy", Reason: "weight 200 over 50"})
	})
	require.NoError(t, see(t, pod))
	require.Equal(t, int64(1), pod.Generation, "a policy in the mode Recommend changes no pod")

	eventually(t, "the other weighs more", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(light), light); err != nil {
			return err
		}
		light.Spec.Weight = ptr.To[int32](300)
		return env.client.Update(ctx, light)
	})
	eventually(t, "resized by the policy that is now the heavier one", func() error { return carriedOut(t, d, fitting) })
	require.NoError(t, sizedBy(ctx, d, light, fitting))
	eventually(t, "and the other gives way", func() error {
		return conflictIs(ctx, heavy, v1alpha1.PolicyConflict{Workload: "Deployment/web", Winner: "light", Reason: "weight 300 over 200"})
	})
	resizedOnce(t, d)
	assert.Equal(t, before, containersOf(t, d), "the same pod and container, not restarted")
}

// policyNamed is a policy for one Deployment that would size it as its past says.
func policyNamed(d *appsv1.Deployment, name string, change func(*v1alpha1.AttunePolicySpec)) *v1alpha1.AttunePolicy {
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name}, Spec: v1alpha1.AttunePolicySpec{
		TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: d.Name}, PolicySettings: decidingFast(v1alpha1.UpdateAuto),
	}}
	p.Spec.CPU.MaxAllowed, p.Spec.Memory.MaxAllowed = ptr.To(resource.MustParse(fitting.cpu)), ptr.To(resource.MustParse(fitting.memory))
	change(&p.Spec)
	return p
}

// sizedBy: the recommendation of a workload is one policy's, with this target.
func sizedBy(ctx context.Context, d *appsv1.Deployment, p *v1alpha1.AttunePolicy, want size) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if rec.Spec.Policy.Name != p.Name || len(rec.Spec.Containers) != 1 {
		return fmt.Errorf("of policy %s: %v", rec.Spec.Policy.Name, rec.Spec.Containers)
	}
	target := rec.Spec.Containers[0].Target
	if target.CPURequest == nil || target.MemoryRequest == nil || target.CPURequest.String() != want.cpu || target.MemoryRequest.String() != want.memory {
		return fmt.Errorf("target %v, holds %v", target, rec.Spec.Containers[0].Holds)
	}
	return nil
}

// conflictIs: another policy sizes the one workload that a policy selects.
func conflictIs(ctx context.Context, p *v1alpha1.AttunePolicy, want v1alpha1.PolicyConflict) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	if len(p.Status.Conflicts) != 1 || p.Status.Conflicts[0] != want {
		return fmt.Errorf("conflicts %v, conditions %v", p.Status.Conflicts, p.Status.Conditions)
	}
	return nil
}

// guard makes a cluster policy for one namespace, whose guardrail allows its containers so much memory in MiB.
func guard(t *testing.T, ns string, mib int) {
	t.Helper()
	policy := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: v1alpha1.AttuneClusterPolicySpec{
		Namespaces: []v1alpha1.NamespaceName{v1alpha1.NamespaceName(ns)}, PolicySettings: decidingFast(v1alpha1.UpdateAuto),
	}}
	s := &policy.Spec
	s.CPU.MaxAllowed, s.Memory.MaxAllowed = ptr.To(resource.MustParse(fitting.cpu)), ptr.To(resource.MustParse(fitting.memory))
	s.SLOGuardrails = []v1alpha1.SLOGuardrail{{
		Name: "memory", Comparison: "<", Threshold: v1alpha1.SignedDecimal(fmt.Sprint(mib * mebibyte)),
		Query: fmt.Sprintf(`max(container_memory_working_set_bytes{namespace=%q,container="app"})`, ns),
	}}
	require.NoError(t, env.client.Create(t.Context(), policy))
	t.Cleanup(func() { _ = env.client.Delete(context.WithoutCancel(t.Context()), policy) })
}

// succeeded: so many resizes of a workload are accepted, no other has ended, and none is observed.
func succeeded(ctx context.Context, d *appsv1.Deployment, n int) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	rows, err := rowsOf(ctx, d, "Success")
	if err == nil && (len(rows) != n || len(rec.Status.History) != n || len(rec.Status.Records) > 0) {
		err = fmt.Errorf("records %v, history %v, conditions %v", rec.Status.Records, rec.Status.History, rec.Status.Conditions)
	}
	return err
}

// resizedOnce: each pod of a workload was written to once after its creation.
func resizedOnce(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	for _, p := range pods(t.Context(), t, d) {
		assert.Equal(t, int64(2), p.Generation, p.Name)
	}
}
