package loops

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

const recreate = "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 1m, maxConcurrentResizes: 100%, resizeMethod: InPlaceOrRecreate}\ncpu: {maxChangePercent: 1000}"

// cramped is a world whose pods of half a CPU want 1.2, on a node that keeps to itself, unseen by the API, all
// but a little more than they have; a second node has room. New pods are sized and the operator may evict.
func cramped(t *testing.T, replicas int32) *world {
	t.Helper()
	return crampedWith(t, replicas, func(w *world, c corev1.Container) { w.deployment("web", replicas, c) })
}

// crampedWith makes the workload in another way.
func crampedWith(t *testing.T, replicas int32, workload func(*world, corev1.Container)) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{CPU: "4"})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 1, Memory: 200}
	workload(w, w.app("cpu=500m,memory=512Mi", ""))
	w.startNewPods()
	w.node.Faults.Taken = 4000 - 600*int64(replicas)
	w.mayEvict()
	return w
}

// mayEvict: a pod whose node refuses its resize may be evicted, as far as the world goes: there is room elsewhere, its
// successor is sized at birth, and the operator has the right.
func (w *world) mayEvict() {
	w.t.Helper()
	w.addSecondNode("16")
	w.label()
	w.evictions = true
	w.wire()
}

// addSecondNode is a second node that pods may run on.
func (w *world) addSecondNode(cpu string) {
	w.t.Helper()
	ctx := w.t.Context()
	var err error
	w.other, err = kubelet.NewNode(ctx, w.direct, w.namespace+"-2", kubelet.Options{CPU: cpu, Usage: w.memoryOf})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, client.IgnoreNotFound(w.direct.Delete(context.WithoutCancel(ctx), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.other.Name}})))
	})
	// The API server taints a new node as not ready, and nobody here takes that back.
	other := &corev1.Node{}
	require.NoError(w.t, w.direct.Get(ctx, client.ObjectKey{Name: w.other.Name}, other))
	other.Spec.Taints = nil
	require.NoError(w.t, w.direct.Update(ctx, other))
	w.plane.Nodes = append(w.plane.Nodes, w.other.Name)
}

// label has new pods of the namespace sized.
func (w *world) label() {
	w.t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Name: w.namespace}, ns))
	metav1.SetMetaDataLabel(&ns.ObjectMeta, v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
	require.NoError(w.t, w.direct.Update(w.t.Context(), ns))
}

func (w *world) uids() []types.UID {
	var all []types.UID
	for _, pod := range w.pods() {
		all = append(all, pod.UID)
	}
	slices.Sort(all)
	return all
}

func readyPods(pods []corev1.Pod) (n int) {
	for _, pod := range pods {
		if resizeConditionTrue(&pod, corev1.PodReady) {
			n++
		}
	}
	return n
}

func resizeConditionTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// Each pod in turn is found another node: after its kubelet put the resize off for five minutes, with its old
// size back, and never two at a time. Their successors are born with what they wanted.
func TestLoopsEvictDeferredPods(t *testing.T) {
	t.Parallel()
	w := cramped(t, 2)
	first := w.uids()
	w.policy("all", recreate)
	w.settle()
	asked := w.clock.Now()
	var evicted []time.Time
	w.run(2*time.Hour, time.Minute, func() bool {
		pods := w.pods()
		assert.GreaterOrEqual(t, readyPods(pods), 1, "%s", w.clock.Now())
		if n := len(slices.DeleteFunc(w.uids(), func(uid types.UID) bool { return !slices.Contains(first, uid) })); 2-n > len(evicted) {
			evicted = append(evicted, w.clock.Now())
		}
		return true
	})
	require.Len(t, evicted, 2, "%s", w.describe())
	assert.GreaterOrEqual(t, evicted[0].Sub(asked), 5*time.Minute, "a deferred resize has its time")
	assert.True(t, evicted[1].After(evicted[0]))
	for _, pod := range w.pods() {
		assert.Equal(t, w.other.Name, pod.Spec.NodeName)
		assert.Equal(t, int64(1200), cpuRequest(&pod))
		assert.Contains(t, pod.Annotations, v1alpha1.SeededAnnotation)
		assert.Equal(t, int64(1), pod.Generation, "born so")
	}
	rec := w.recommendation()
	assert.Equal(t, []string{"Evicted Deferred", "Evicted Deferred"}, results(rec))
	assert.Equal(t, "Eviction", rec.Status.History[0].Method)
	assert.True(t, w.told.has("Normal Evicted Evicted pod web-"), w.told.lines)
	assert.True(t, w.idle())
	assert.Empty(t, rec.Finalizers)
}

// Pods of a StatefulSet have the names of those that were evicted, and are others: each is evicted once.
func TestLoopsEvictPodsOfAStatefulSet(t *testing.T) {
	t.Parallel()
	w := crampedWith(t, 2, func(w *world, c corev1.Container) { w.statefulSet("web", 2, c) })
	first := w.uids()
	w.policy("all", "targetRef: {kind: StatefulSet}\n"+recreate)
	w.until(2*time.Hour, "both found another node", func() bool {
		for _, pod := range w.pods() {
			if cpuRequest(&pod) != 1200 || !resizeConditionTrue(&pod, corev1.PodReady) {
				return false
			}
		}
		return len(w.pods()) == 2 && w.idle()
	})
	var names []string
	for _, pod := range w.pods() {
		names = append(names, pod.Name)
		assert.NotContains(t, first, pod.UID)
		assert.Equal(t, w.other.Name, pod.Spec.NodeName)
	}
	assert.ElementsMatch(t, []string{"web-0", "web-1"}, names)
	assert.Equal(t, []string{"Evicted Deferred", "Evicted Deferred"}, results(w.recommendation()))
}

// What a node can never hold is not asked of it. The process ends between the decision and the eviction: the
// next one goes on from the record.
func TestLoopsEvictPodsTooLargeForTheirNode(t *testing.T) {
	t.Parallel()
	w := cramped(t, 2)
	w.usage.of["app"] = used{CPU: 5, Memory: 200}
	first := w.uids()
	w.policy("all", recreate)
	for range 10 {
		w.pass()
		if !w.idle() {
			break
		}
	}
	records := w.recommendation().Status.Records
	require.Len(t, records, 1)
	require.Equal(t, v1alpha1.RecordWithdrawing, records[0].Phase)
	require.Equal(t, first, w.uids(), "stored, and not done yet")
	w.wire()
	w.until(30*time.Minute, "both found another node", func() bool {
		for _, pod := range w.pods() {
			if cpuRequest(&pod) != 6000 {
				return false
			}
		}
		return readyPods(w.pods()) == 2
	})
	assert.Equal(t, []string{"Evicted Infeasible", "Evicted Infeasible"}, results(w.recommendation()))
	for _, pod := range w.pods() {
		assert.Equal(t, w.other.Name, pod.Spec.NodeName)
	}
}

// keepsBoth pods of a Deployment from disruption.
func (w *world) keepsBoth(deployment string) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	both := intstr.FromInt32(2)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: deployment},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &both, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": deployment}}},
	}
	require.NoError(w.t, w.direct.Create(w.t.Context(), budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 2}
	require.NoError(w.t, w.direct.Status().Update(w.t.Context(), budget))
	return budget
}

func (w *world) allowDisruption(budget *policyv1.PodDisruptionBudget) {
	w.t.Helper()
	budget.Status.DisruptionsAllowed = 1
	require.NoError(w.t, w.direct.Status().Update(w.t.Context(), budget))
}

// A PodDisruptionBudget says no: the pods stay, with their old sizes, and are asked for again; none is deleted.
func TestLoopsHonourAPodDisruptionBudget(t *testing.T) {
	t.Parallel()
	w := cramped(t, 2)
	first := w.uids()
	budget := w.keepsBoth("web")
	w.policy("all", recreate)
	w.until(20*time.Minute, "the status says why", func() bool {
		return w.condition("all", v1alpha1.ConditionResizeBlocked).Reason == "EvictionDenied"
	})
	assert.Contains(t, w.condition("all", v1alpha1.ConditionResizeBlocked).Message, "PodDisruptionBudget")
	w.run(100*time.Minute, time.Minute)
	assert.Equal(t, first, w.uids())
	assert.True(t, w.told.has("Warning EvictionDenied Eviction of pod web-"), "%s", w.describe())
	assert.Contains(t, results(w.recommendation()), "Withdrawn Deferred")
	assert.NotContains(t, results(w.recommendation()), "Evicted Deferred")
	w.until(30*time.Minute, "its old size is back", w.idle)
	for _, pod := range w.pods() {
		assert.Equal(t, int64(500), cpuRequest(&pod))
	}

	w.allowDisruption(budget)
	w.until(2*time.Hour, "one may go at last", func() bool { return !slices.Equal(first, w.uids()) })
}

// Who is never evicted, and says so.
func TestLoopsKeepPods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas int32
		policy   string
		edit     func(w *world)
		says     string
	}{
		"67 the only replica":  {1, recreate, func(*world) {}, "LastReplica"},
		"InPlaceOnly":          {2, "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 1000}", func(*world) {}, ""},
		"the operator may not": {2, recreate, func(w *world) { w.workloads.Evictions = false }, "node.eviction.enabled"},
		"not to be disrupted":  {2, recreate, func(w *world) { w.annotate(map[string]string{"karpenter.sh/do-not-disrupt": "true"}) }, "karpenter.sh/do-not-disrupt"},
		"the namespace is not labelled": {2, recreate, func(w *world) {
			ns := &corev1.Namespace{}
			require.NoError(t, w.direct.Get(t.Context(), client.ObjectKey{Name: w.namespace}, ns))
			delete(ns.Labels, v1alpha1.InjectLabel)
			require.NoError(t, w.direct.Update(t.Context(), ns))
		}, "attune.io/inject=enabled"},
		"the webhook excludes the namespace": {2, recreate, func(w *world) { w.workloads.Access.Admission.Excluded = []string{w.namespace} }, "webhook.excludedNamespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cramped(t, c.replicas)
			c.edit(w)
			first := w.uids()
			w.policy("all", c.policy)
			w.run(3*time.Hour, 5*time.Minute)
			assert.Equal(t, first, w.uids())
			assert.Contains(t, results(w.recommendation()), "Withdrawn Deferred", "or nothing was tried")
			if c.says != "" {
				assert.True(t, w.told.has(c.says), w.told.lines)
			}
		})
	}
}

// That a call failed is no reason to evict: not one pod goes while the API server answers with everything but
// what it should.
func TestLoopsNeverEvictBecauseACallFailed(t *testing.T) {
	t.Parallel()
	w := cramped(t, 2)
	w.node.Faults.Taken = 0
	first := w.uids()
	pods := schema.GroupResource{Resource: "pods"}
	failures := []error{
		apierrors.NewInternalError(errors.New("etcdserver: request timed out")), apierrors.NewTooManyRequests("later", 1),
		apierrors.NewConflict(pods, "web", errors.New("modified")), context.DeadlineExceeded, apierrors.NewServiceUnavailable("starting"),
		apierrors.NewForbidden(pods, "web", errors.New("exceeded quota: small")),
	}
	asked := 0
	w.resize = func(func() error) error {
		asked++
		return failures[asked%len(failures)]
	}
	w.policy("all", recreate)
	w.run(6*time.Hour, time.Minute)
	assert.Greater(t, asked, 2*len(failures))
	assert.Equal(t, first, w.uids())
	for _, line := range w.told.lines {
		assert.NotContains(t, line, "Evict")
	}
}
