package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/othercrd"
)

// onePolicy is the namespace of TestClusterPolicy, and the label by which its policy selects it.
const onePolicy = "one-policy"

// installForeign installs VPA's own definition of its kind, and those of Rollouts and ScaledObjects, which let everything through.
func installForeign(ctx context.Context, c *cluster.Cluster) error {
	vpas, err := othercrd.VPA(ctx)
	if err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	rollouts := othercrd.Open(workload.ArgoGroupVersion.WithKind("Rollout"))
	scaled := othercrd.Open(autoscale.ScaledObjectKind)
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{vpas, rollouts, scaled}, MaxTime: settle})
	return err
}

// TestClusterPolicy: under one policy of the whole cluster a Deployment and a Rollout are resized in place. Each has a
// VerticalPodAutoscaler with its target, which goes with its workload and with the policy. A policy that is deleted lets them go.
func TestClusterPolicy(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, onePolicy, true)
	out, err := env.cluster.Command(ctx, "kubectl", "label", "namespace", onePolicy, onePolicy+"=selected").CombinedOutput()
	require.NoError(t, err, "%s", out)
	web := newDeployment(onePolicy, "web", 1, app("app", asked))
	start(t, web)
	canary := rolledOut(t, newDeployment(onePolicy, "canary", 1, app("app", asked)))
	before := slices.Concat(pods(ctx, t, web), pods(ctx, t, canary))
	require.Len(t, before, 2)
	policy := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: onePolicy}, Spec: v1alpha1.AttuneClusterPolicySpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{onePolicy: "selected"}},
		PolicySettings:    decidingFast(v1alpha1.UpdateAuto),
	}}
	require.NoError(t, env.client.Create(ctx, policy))

	eventually(t, "both are resized, and watched", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !slices.Contains(policy.Finalizers, v1alpha1.CleanupFinalizer) {
			return fmt.Errorf("finalizers %v", policy.Finalizers)
		}
		now := slices.Concat(pods(ctx, t, web), pods(ctx, t, canary))
		if len(now) != len(before) {
			return fmt.Errorf("%d pods, before %d", len(now), len(before))
		}
		return allHave(now, wanted)
	})
	for i, pod := range slices.Concat(pods(ctx, t, web), pods(ctx, t, canary)) {
		assert.Equal(t, before[i].UID, pod.UID)
		assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	}
	eventually(t, "the status of the policy", func() error { return adds(ctx, policy, 1, 2) })
	assert.NoError(t, createdWith(ctx, web, wanted))
	// In the mode Auto new pods of a Deployment are given the target; Karpenter may not read Rollouts.
	for name, mode := range map[string]string{"attune-deployment-web": "Initial", "attune-rollout-canary": "Off"} {
		eventually(t, "the VerticalPodAutoscaler "+name, func() error { return vpaHas(ctx, name, mode, wanted) })
	}

	// While the policy and the other workload are there: it goes with its workload, and with nothing else.
	rollout := &workload.ArgoRollout{ObjectMeta: metav1.ObjectMeta{Namespace: onePolicy, Name: canary.Name}}
	require.NoError(t, env.client.Delete(ctx, rollout, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	eventually(t, "a VerticalPodAutoscaler goes with its workload", func() error {
		_, err := published(ctx, onePolicy, "attune-rollout-canary")
		return isGone(err)
	})
	require.NoError(t, vpaHas(ctx, "attune-deployment-web", "Initial", wanted), "the other stays")

	require.NoError(t, env.client.Delete(ctx, policy))
	eventually(t, "the policy has gone, and what it began has ended", func() error {
		if err := isGone(env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy)); err != nil {
			return err
		}
		rec, err := recommendation(ctx, web)
		if err == nil && len(rec.Status.Records) > 0 {
			err = fmt.Errorf("records %v", rec.Status.Records)
		}
		return err
	})
	left := pods(ctx, t, web)
	require.Len(t, left, 1)
	assert.NoError(t, allHave(left, wanted), "it keeps its size")
	eventually(t, "the VerticalPodAutoscaler goes with the policy", func() error {
		_, err := published(ctx, onePolicy, "attune-deployment-web")
		return isGone(err)
	})
}

// rolledOut makes a Rollout like a Deployment, as Argo's controller leaves one whose newest revision is the stable one: with a
// ReplicaSet of its own, whose pods the ReplicaSet controller makes. It returns like, by which its pods are found.
func rolledOut(t *testing.T, like *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	const hash = "6d4f8c7b9d"
	ctx := t.Context()
	rollout := &workload.ArgoRollout{ObjectMeta: like.ObjectMeta, Spec: workload.ArgoRolloutSpec{Replicas: like.Spec.Replicas, Template: like.Spec.Template},
		Status: workload.ArgoRolloutStatus{ObservedGeneration: "1", CurrentPodHash: hash, StableRS: hash, Phase: "Healthy"}}
	rollout.SetGroupVersionKind(workload.ArgoGroupVersion.WithKind("Rollout"))
	require.NoError(t, env.client.Create(ctx, rollout))
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, client.IgnoreNotFound(env.client.Delete(context.WithoutCancel(ctx), rollout, client.PropagationPolicy(metav1.DeletePropagationBackground))))
		}
	})
	labels := map[string]string{"app": like.Name, workload.ArgoHashLabel: hash}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: like.Name + "-" + hash, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rollout, workload.ArgoGroupVersion.WithKind("Rollout"))}},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(*like.Spec.Replicas), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: *like.Spec.Template.DeepCopy()},
	}
	set.Spec.Template.Labels = labels
	require.NoError(t, env.client.Create(ctx, set))
	within(t, roomComes, "pods of the Rollout ready", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ReadyReplicas != *set.Spec.Replicas {
			return fmt.Errorf("%d of %d are", set.Status.ReadyReplicas, *set.Spec.Replicas)
		}
		return nil
	})
	return like
}

// adds checks what the status of a cluster policy adds up.
func adds(ctx context.Context, policy *v1alpha1.AttuneClusterPolicy, namespaces, workloads int32) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
		return err
	}
	s := policy.Status
	if s.Namespaces == nil || s.Namespaces.Selected != namespaces || s.Namespaces.Ready != namespaces || s.Workloads == nil ||
		s.Workloads.Discovered != workloads || s.Workloads.Resized != workloads || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
		return fmt.Errorf("status %+v", s)
	}
	return nil
}

// published is a VerticalPodAutoscaler of the bridge.
func published(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	vpa := &unstructured.Unstructured{}
	vpa.SetGroupVersionKind(autoscale.VPAKind)
	return vpa, env.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, vpa)
}

// vpaHas checks the mode and the target of a VerticalPodAutoscaler with one container.
func vpaHas(ctx context.Context, name, mode string, want size) error {
	vpa, err := published(ctx, onePolicy, name)
	if err != nil {
		return err
	}
	said, _, err := unstructured.NestedString(vpa.Object, "spec", "updatePolicy", "updateMode")
	if err != nil || said != mode {
		return fmt.Errorf("mode %q, %v", said, err)
	}
	containers, _, err := unstructured.NestedSlice(vpa.Object, "status", "recommendation", "containerRecommendations")
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("recommendations %v, %v", containers, err)
	}
	first, _ := containers[0].(map[string]any)
	target, _, err := unstructured.NestedStringMap(first, "target")
	for r, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: want.cpu, corev1.ResourceMemory: want.memory} {
		if q, wrong := resource.ParseQuantity(target[string(r)]); err != nil || wrong != nil || q.Cmp(resource.MustParse(amount)) != 0 {
			return fmt.Errorf("target %v, %v", target, err)
		}
	}
	return nil
}

// isGone is nil where an object was not found.
func isGone(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
