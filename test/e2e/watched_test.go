package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/deploy"
)

// someNamespacesTest has a cluster of its own, in which it installs the operator.
const someNamespacesTest = "TestSomeNamespaces"

// The namespaces of its operator; comesAndGoes is deleted, and made again.
const staysThere, comesAndGoes = "watched", "comes-and-goes"

// watchingSettings of an operator that watches two namespaces, in one Deployment that is webhook and controller.
var watchingSettings = append([]string{
	"watchNamespaces={" + staysThere + "," + comesAndGoes + "}", "webhook.separate=false",
}, append(slices.Clone(embeddedSettings), "node.eviction.enabled=false")...)

// emptyCluster is the cluster of TestSomeNamespaces, whose operator needs namespaces that are there before it.
func emptyCluster() installation { return installation{} }

// TestSomeNamespaces: in the namespaces that it watches the operator does what it does elsewhere, and in others nothing, with
// rights in those alone. One that is deleted, and its Roles with it, is in nobody's way.
func TestSomeNamespaces(t *testing.T) { alone(t, someNamespaces) }

func someNamespaces(t *testing.T) {
	ctx := t.Context()
	for _, name := range []string{staysThere, comesAndGoes, "other"} {
		namespace(ctx, t, name, true)
	}
	require.NoError(t, deploy.Operator(ctx, env.cluster, deploy.Options{Set: watchingSettings, Built: env.built}))
	kept := idleWeb(t, "other")
	policyFor(ctx, t, kept, v1alpha1.UpdateAuto, soon(tight))
	// All are measured from now on. They are resized one after the other.
	moved, going, next := idleWeb(t, staysThere), idleWeb(t, comesAndGoes), newDeployment(staysThere, "next", 1, idle(wide))
	start(t, next)
	policies := map[*appsv1.Deployment]*v1alpha1.AttunePolicy{}
	for _, d := range []*appsv1.Deployment{moved, going, next} {
		policies[d] = policyFor(ctx, t, d, v1alpha1.UpdateRecommend, soon(tight))
	}
	switchOn(t, moved, policies[moved])

	for _, part := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"pods of a watched namespace are resized", func(t *testing.T) {
			eventually(t, "resized", func() error { return allHave(pods(ctx, t, moved), tight) })
			require.Zero(t, pods(ctx, t, moved)[0].Status.ContainerStatuses[0].RestartCount)
		}},
		{"nothing happens in others", func(t *testing.T) { neighbourUnchanged(t, kept) }},
		{"nodes are not shared", refusesNode},
		{"a namespace with a watched resize does not leave the value", func(t *testing.T) {
			switchOn(t, going, policies[going])
			staysWatched(t, going)
		}},
		{"a namespace that is gone is in nobody's way", func(t *testing.T) {
			namespaceGone(t, moved)
			switchOn(t, next, policies[next])
			eventually(t, "the next workload is resized", func() error { return allHave(pods(ctx, t, next), tight) })
		}},
		{"it is watched again once it is back", namespaceBack},
		{"uninstalled: no finalizer is left", func(t *testing.T) { uninstalledFrom(t, moved) }},
	} {
		if !t.Run(part.name, part.test) {
			return
		}
	}
}

// idleWeb starts an idle workload of one pod.
func idleWeb(t *testing.T, ns string) *appsv1.Deployment {
	t.Helper()
	d, _ := started(t, ns, 1, idle(wide))
	return d
}

// neighbourUnchanged: by the time that a watched pod has been resized, a neighbour of another namespace is as it was.
func neighbourUnchanged(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	assert.NoError(t, createdWith(ctx, d, wide))
	assert.Equal(t, int64(1), pods(ctx, t, d)[0].Generation, "its pod was written to")
	_, err := recommendation(ctx, d)
	assert.True(t, apierrors.IsNotFound(err), "a recommendation: %v", err)
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(d), p))
	assert.Empty(t, p.Status.Conditions)
	assert.Empty(t, p.Finalizers)
}

// refusesNode: a policy that shares nodes is refused where it is judged.
func refusesNode(t *testing.T) {
	ctx := t.Context()
	assert.ErrorContains(t, judged(ctx, staysThere, v1alpha1.StrategyNode), "strategy Node needs all pods of a node, but this operator watches only some namespaces (watchNamespaces): use Workload")
	assert.NoError(t, judged(ctx, "other", v1alpha1.StrategyNode), "nobody judges what nobody watches")
}

// judged tries whether a policy of this strategy is let in.
func judged(ctx context.Context, ns string, strategy v1alpha1.Strategy) error {
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shares"}}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	p.Spec.Strategy = ptr.To(strategy)
	return env.client.Create(ctx, p, client.DryRunAll)
}

// staysWatched: a namespace in which a resize is watched cannot leave the value, since nobody would finish it.
func staysWatched(t *testing.T, d *appsv1.Deployment) {
	ctx := t.Context()
	eventually(t, "watched", func() error {
		rec, err := recommendation(ctx, d)
		if err == nil && (len(rec.Status.Records) == 0 || !slices.Contains(rec.Finalizers, v1alpha1.RecordsFinalizer)) {
			err = fmt.Errorf("records %v, finalizers %v", rec.Status.Records, rec.Finalizers)
		}
		return err
	})
	out, err := tryHelm(ctx, "upgrade", release, chart(t), "--reuse-values", "--set", "watchNamespaces={"+staysThere+"}", "--dry-run=server")
	require.Error(t, err, out)
	assert.Contains(t, out, "namespace comes-and-goes has an in-flight resize")
}

// namespaceGone: the namespace is deleted while resizes are observed there and in another one, and the operator starts again
// without it. The other resize is verified after that: new pods are created with the smaller size only then.
func namespaceGone(t *testing.T, moved *appsv1.Deployment) {
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: comesAndGoes}}
	require.NoError(t, env.client.Delete(ctx, ns))
	eventually(t, "gone", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	restarted(t)
	eventually(t, "new pods are sized", func() error { return createdWith(ctx, moved, tight) })
	eventually(t, "the log names it", func() error { return logContains(ctx, t, "Namespaces are ignored", comesAndGoes) })
}

// restarted deletes the operator's pods and waits until others are ready.
func restarted(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, env.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "controller"}))
	d := &appsv1.Deployment{}
	eventually(t, "the operator is ready again", func() error {
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: deploy.Namespace, Name: release}, d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas > 0 {
			return fmt.Errorf("status %+v", d.Status)
		}
		return nil
	})
}

// logContains looks for a line of the operator's log with all the words, of this process or the one before.
func logContains(ctx context.Context, t *testing.T, words ...string) error {
	t.Helper()
	for _, previous := range []string{"--previous=false", "--previous=true"} {
		out, err := env.cluster.Command(ctx, "kubectl", "logs", "--namespace", deploy.Namespace, "deployment/"+release, previous).Output()
		if err != nil {
			continue // there is none before
		}
		for line := range strings.Lines(string(out)) {
			found := true
			for _, word := range words {
				found = found && strings.Contains(line, word)
			}
			if found {
				return nil
			}
		}
	}
	return errors.New("the log does not tell")
}

// namespaceBack: with the next upgrade the Roles are there again, and the operator takes the namespace up by itself.
func namespaceBack(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, comesAndGoes, true)
	// New pods are created with a larger size before a resize to it is verified: there is no observation to wait for.
	back, _ := started(t, comesAndGoes, 1, idle(tight))
	// The limits stop at maxAllowed, one unit above the requests.
	wider := size{cpu: "60m", memory: "128Mi", cpuLimit: "61m", memoryLimit: "129Mi"}
	helm(t, "upgrade", release, chart(t), "--reuse-values", "--wait", "--timeout", "120s")
	began := time.Now()
	within(t, 3*time.Minute, "its policies are judged", func() error { return judged(ctx, comesAndGoes, v1alpha1.StrategyWorkload) })
	t.Logf("its policies are judged after %s", time.Since(began).Round(time.Second))
	auto(t, back, wider)
	t.Logf("its targets are known after %s", time.Since(began).Round(time.Second))
	eventually(t, "new pods are sized", func() error { return createdWith(ctx, back, wider) })
	eventually(t, "resized", func() error { return allHave(pods(ctx, t, back), wider) })
}

// uninstalledFrom the namespaces: what has finalizers of the operator's had them taken off, with rights in these alone.
func uninstalledFrom(t *testing.T, moved *appsv1.Deployment) {
	ctx := t.Context()
	before := pods(ctx, t, moved)[0]
	_, err := recommendation(ctx, moved)
	require.NoError(t, err)
	uninstall(t)
	rec, err := recommendation(ctx, moved)
	require.NoError(t, err)
	assert.Empty(t, rec.Finalizers)
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(moved), p))
	assert.Empty(t, p.Finalizers)
	assert.NoError(t, createdWith(ctx, moved, wide), "created as it is")
	after := pods(ctx, t, moved)[0]
	assert.Equal(t, before.UID, after.UID)
	assert.Equal(t, tight, sizeOf(after.Spec.Containers[0].Resources), "it keeps its size")
}
