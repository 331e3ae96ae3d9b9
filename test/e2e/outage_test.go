package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// TestOutages takes away Prometheus, then the webhook.
func TestOutages(t *testing.T) { upheaval(t, outages) }

func outages(t *testing.T) {
	t.Run("Prometheus stopped: nothing changes and the policy says why", prometheusStopped)
	ctx := t.Context()
	namespace(ctx, t, "hung", true)
	d := deployment(ctx, t, "hung", "web", 1, app("app", asked))
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, nil)
	eventually(t, "seeded while it works", func() error { return bornWith(ctx, d, wanted) })
	t.Run("webhook hung: pods are created as they are, within its 2 s", func(t *testing.T) { webhookHung(t, d) })
	t.Run("webhook gone: pods are created as they are, at once", func(t *testing.T) { webhookGone(t, d) })
	t.Run("self-signed certificates: pods are seeded again", func(t *testing.T) { selfSigned(t, d) })
}

func prometheusStopped(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, "blind", true)
	require.NoError(t, env.cluster.StopPrometheus(ctx))
	restart := sync.OnceValue(func() error { return env.cluster.StartPrometheus(context.WithoutCancel(ctx)) })
	t.Cleanup(func() { assert.NoError(t, restart()) })
	d := deployment(ctx, t, "blind", "web", 1, app("app", asked))
	before := pods(ctx, t, d)[0]
	policy := policyFor(ctx, t, d, v1alpha1.UpdateAuto, nil)
	eventually(t, "the policy says why", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != v1alpha1.ReasonPrometheusUnavailable {
			return fmt.Errorf("Ready is %v", c)
		}
		return nil
	})
	ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
	assert.Contains(t, ready.Message, cluster.PrometheusURL)
	pod := pods(ctx, t, d)[0]
	assert.Equal(t, before.UID, pod.UID)
	assert.Equal(t, before.Generation, pod.Generation)
	assert.Equal(t, asked, sizeOf(pod.Spec.Containers[0].Resources))
	assert.NoError(t, bornWith(ctx, d, asked))

	require.NoError(t, restart())
	eventually(t, "recovered by itself", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("Ready is %v", meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady))
		}
		return nil
	})
}

// webhookHung freezes the operator's processes: connections are accepted and nothing answers.
func webhookHung(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	operators := operatorPods(ctx, t)
	require.NotEmpty(t, operators)
	for i := range operators {
		require.NoError(t, env.cluster.FreezePod(&operators[i]))
	}
	t.Cleanup(func() {
		for i := range operators {
			assert.NoError(t, env.cluster.ThawPod(&operators[i]))
		}
		eventually(t, "seeded again", func() error { return bornWith(context.WithoutCancel(ctx), d, wanted) })
	})
	start := time.Now()
	require.NoError(t, bornWith(ctx, d, asked))
	took := time.Since(start)
	t.Logf("creation of a pod with a hung webhook took %s", took.Round(time.Millisecond))
	// The API server gives the call 2 s; the rest is the room of a busy machine.
	assert.Less(t, took, 4*time.Second)
}

func webhookGone(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	operator := deploymentIn(ctx, t, deploy.Namespace, "attune")
	replicas := *operator.Spec.Replicas
	rescale := func(ctx context.Context, n int32) {
		before := operator.DeepCopy()
		operator.Spec.Replicas = ptr.To(n)
		require.NoError(t, env.client.Patch(ctx, operator, client.MergeFrom(before)))
	}
	rescale(ctx, 0)
	t.Cleanup(func() {
		rescale(context.WithoutCancel(ctx), replicas)
		eventually(t, "seeded again", func() error { return bornWith(context.WithoutCancel(ctx), d, wanted) })
	})
	eventually(t, "no operator is left", func() error {
		if n := len(operatorPods(ctx, t)); n > 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	eventually(t, "created as it is", func() error { return bornWith(ctx, d, asked) })
}

func selfSigned(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	install := deploy.Options{Set: append([]string{"certs.provider=self-signed"}, settings...)}
	require.NoError(t, deploy.Operator(ctx, env.cluster, install))
	eventually(t, "seeded with a self-signed certificate", func() error { return bornWith(ctx, d, wanted) })
}

func deploymentIn(ctx context.Context, t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, d))
	return d
}

func operatorPods(ctx context.Context, t *testing.T) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, env.client.List(ctx, list, client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "attune"}))
	return list.Items
}
