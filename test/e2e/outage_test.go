package e2e

import (
	"context"
	"flag"
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
	"attune.io/attune/recommender"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

var onOutage = flag.Bool("outage", false, "keep usage sources away for 20 minutes; usage must be fresh 3 minutes later")

// outOfDate waits until the usage of a workload is out of date, and has been away for 20 minutes. Without -outage it does
// nothing.
func outOfDate(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	if !*onOutage {
		return
	}
	away := time.Now()
	within(t, 25*time.Minute, "its usage is out of date", func() error {
		stale, err := staleOf(t.Context(), d)
		if err == nil && (len(stale) != 2 || time.Since(away) < 20*time.Minute) {
			err = fmt.Errorf("out of date are %v after %s", stale, time.Since(away))
		}
		return err
	})
}

// freshAgain waits until the usage of a workload is not out of date. With -outage it takes at most 3 minutes.
func freshAgain(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	if !*onOutage {
		return
	}
	back := time.Now()
	within(t, 3*time.Minute, "its usage is fresh", func() error {
		stale, err := staleOf(t.Context(), d)
		if err == nil && len(stale) > 0 {
			err = fmt.Errorf("out of date are %v", stale)
		}
		return err
	})
	t.Logf("usage was fresh after %s", time.Since(back).Round(time.Second))
}

// staleOf returns the resources of a workload's containers whose usage is out of date.
func staleOf(ctx context.Context, d *appsv1.Deployment) (stale []string, err error) {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, c := range rec.Spec.Containers {
		for _, hold := range c.Holds {
			if hold.Reason == string(recommender.StaleData) {
				stale = append(stale, hold.Resource)
			}
		}
	}
	return stale, nil
}

// TestOutages takes away Prometheus, then the webhook.
func TestOutages(t *testing.T) { alone(t, outages) }

func outages(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, "hung", true)
	d := deployment(ctx, t, "hung", "web", 1, app("app", asked))
	policy := policyFor(ctx, t, d, v1alpha1.UpdateInitial, nil)
	eventually(t, "seeded while it works", func() error { return createdWith(ctx, d, wanted) })
	t.Run("Prometheus stopped: nothing changes and the policies say why", func(t *testing.T) { prometheusStopped(t, d, policy) })
	t.Run("webhook hung: pods are created as they are, within its 2 s", func(t *testing.T) { webhookHung(t, d) })
	t.Run("webhook gone: pods are created as they are, at once", func(t *testing.T) { webhookGone(t, d) })
	t.Run("self-signed certificates: pods are seeded again", func(t *testing.T) { selfSigned(t, d) })
}

// prometheusStopped: what is known stays known and new pods are sized by it; of what comes later nothing is known.
func prometheusStopped(t *testing.T, known *appsv1.Deployment, its *v1alpha1.AttunePolicy) {
	ctx := t.Context()
	namespace(ctx, t, "blind", true)
	was, err := recommendation(ctx, known)
	require.NoError(t, err)
	require.NoError(t, env.cluster.StopPrometheus(ctx))
	restart := sync.OnceValue(func() error { return env.cluster.StartPrometheus(context.WithoutCancel(ctx)) })
	t.Cleanup(func() { assert.NoError(t, restart()) })
	d := deployment(ctx, t, "blind", "web", 1, app("app", asked))
	before := pods(ctx, t, d)[0]
	policy := policyFor(ctx, t, d, v1alpha1.UpdateAuto, nil)
	eventually(t, "the policy says why", func() error { return unavailable(ctx, policy) })
	require.NoError(t, requeryUsage(ctx, its, was))
	eventually(t, "the other policy says why", func() error { return unavailable(ctx, its) })
	is, err := recommendation(ctx, known)
	require.NoError(t, err)
	assert.Equal(t, was.Spec.Containers[0].Target, is.Spec.Containers[0].Target)
	assert.NoError(t, createdWith(ctx, known, wanted), "by what was known before")
	ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
	assert.Contains(t, ready.Message, cluster.PrometheusURL)
	pod := pods(ctx, t, d)[0]
	assert.Equal(t, before.UID, pod.UID)
	assert.Equal(t, before.Generation, pod.Generation)
	assert.Equal(t, asked, sizeOf(pod.Spec.Containers[0].Resources))
	assert.NoError(t, createdWith(ctx, d, asked))

	outOfDate(t, known)
	require.NoError(t, restart())
	freshAgain(t, known)
	for _, p := range []*v1alpha1.AttunePolicy{policy, its} {
		eventually(t, "recovered by itself", func() error { return available(ctx, p) })
	}
}

// unavailable: the policy's status says that its usage source does not answer.
func unavailable(ctx context.Context, p *v1alpha1.AttunePolicy) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.ReasonPrometheusUnavailable {
		return fmt.Errorf("Ready is %v", c)
	}
	return nil
}

func available(ctx context.Context, p *v1alpha1.AttunePolicy) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		return fmt.Errorf("Ready is %v", meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady))
	}
	return nil
}

// webhookHung freezes the webhook's processes: connections are accepted and nothing answers.
func webhookHung(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	operators := operatorPods(ctx, t, webhooks)
	require.NotEmpty(t, operators)
	for i := range operators {
		require.NoError(t, env.cluster.FreezePod(&operators[i]))
	}
	t.Cleanup(func() {
		for i := range operators {
			assert.NoError(t, env.cluster.ThawPod(&operators[i]))
		}
		eventually(t, "seeded again", func() error { return createdWith(context.WithoutCancel(ctx), d, wanted) })
	})
	before := webhookCalls(t)
	start := time.Now()
	require.NoError(t, createdWith(ctx, d, asked))
	t.Logf("creation of a pod with a hung webhook took %s", time.Since(start).Round(time.Millisecond))
	calls := webhookCalls(t).since(before)
	require.Equal(t, 1.0, calls.n)
	assert.Equal(t, 1.0, calls.passed, "given up by the API server, which lets the pod pass")
	// As the API server measured the call itself: how long it takes to everything else is a matter of the machine.
	assert.InDelta(t, webhookTimeout.Seconds(), calls.seconds, 0.5, "the API server waits as long as the chart says")
}

// webhookTimeout is how long the API server waits for the pod webhook.
const webhookTimeout = 2 * time.Second

// calls of the pod webhook as the API server counts them: how many, how long they took in all, and after how many a pod
// passed because the webhook did not answer.
type calls struct{ n, seconds, passed float64 }

func (c calls) since(before calls) calls {
	return calls{n: c.n - before.n, seconds: c.seconds - before.seconds, passed: c.passed - before.passed}
}

func webhookCalls(t *testing.T) calls {
	t.Helper()
	const took = "apiserver_admission_webhook_admission_duration_seconds"
	return calls{n: apiServerMetric(t, took+"_count"), seconds: apiServerMetric(t, took+"_sum"), passed: apiServerMetric(t, failedOpen)}
}

func webhookGone(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	operator := deploymentIn(ctx, t, deploy.Namespace, "attune-webhook")
	replicas := *operator.Spec.Replicas
	rescale := func(ctx context.Context, n int32) {
		before := operator.DeepCopy()
		operator.Spec.Replicas = ptr.To(n)
		require.NoError(t, env.client.Patch(ctx, operator, client.MergeFrom(before)))
	}
	rescale(ctx, 0)
	t.Cleanup(func() {
		rescale(context.WithoutCancel(ctx), replicas)
		eventually(t, "seeded again", func() error { return createdWith(context.WithoutCancel(ctx), d, wanted) })
	})
	eventually(t, "no webhook is left", func() error {
		if n := len(operatorPods(ctx, t, webhooks)); n > 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	eventually(t, "created as it is", func() error { return createdWith(ctx, d, asked) })
}

func selfSigned(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	install := deploy.Options{Set: append([]string{"certs.provider=self-signed"}, settings...), Built: env.built}
	require.NoError(t, deploy.Operator(ctx, env.cluster, install))
	eventually(t, "seeded with a self-signed certificate", func() error { return createdWith(ctx, d, wanted) })
}

func deploymentIn(ctx context.Context, t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, d))
	return d
}

// Components of the operator, by the label of their pods.
const (
	webhooks    = "webhook"
	controllers = "controller"
)

func operatorPods(ctx context.Context, t *testing.T, component string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, env.client.List(ctx, list, client.InNamespace(deploy.Namespace), client.MatchingLabels{
		"app.kubernetes.io/name": "attune", "app.kubernetes.io/component": component,
	}))
	return list.Items
}
