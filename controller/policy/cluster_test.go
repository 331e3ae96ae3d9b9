package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
)

// realm is a fleet of one cluster policy over some namespaces, each with one workload of the same name.
type realm struct {
	*fleet
	t testing.TB
}

func newRealm(t testing.TB, namespaces ...string) realm {
	t.Helper()
	r := realm{newFleet(t, 0), t}
	r.Settings.Clusterwide, r.Settings.Operator.Namespace, r.Operator = true, "attune-system", "attune-system"
	delete(r.memory.objects, "AttunePolicy/shop")
	for _, namespace := range namespaces {
		r.namespace(namespace, nil)
		d := deployment("web")
		d.Namespace = namespace
		r.memory.put(d)
	}
	r.memory.put(&v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", UID: "base", Generation: 1}})
	return r
}

func (r realm) namespace(name string, labels map[string]string) {
	of := lookup.Namespace()
	of.Name, of.Labels = name, labels
	r.memory.put(of)
}

// all reconciles every key that an event of the whole cluster wakes, the summaries last.
func (r realm) all() {
	r.t.Helper()
	for _, request := range r.everywhere(r.t.Context(), r.policy()) {
		if request.Namespace != "" {
			r.reconcile(request)
		}
	}
	for _, request := range r.InNamespace(r.t.Context(), "") {
		r.reconcile(request)
	}
	r.reconcile(ctrl.Request{NamespacedName: summaryOf("base")})
}

func (r realm) reconcile(request ctrl.Request) {
	r.t.Helper()
	_, err := r.Reconcile(r.t.Context(), request)
	require.NoError(r.t, err)
}

func (r realm) policy() *v1alpha1.AttuneClusterPolicy {
	r.t.Helper()
	p := &v1alpha1.AttuneClusterPolicy{}
	require.NoError(r.t, r.memory.Get(r.t.Context(), client.ObjectKey{Name: "base"}, p))
	return p
}

// change changes the spec of the cluster policy.
func (r realm) change(f func(*v1alpha1.AttuneClusterPolicy)) {
	r.t.Helper()
	p := r.policy()
	f(p)
	p.Generation++
	r.memory.put(p)
}

// sizedBy returns the policy of each recommendation that is not released, by namespace.
func (r realm) sizedBy() map[string]string {
	out := map[string]string{}
	for shelf := range r.memory.objects {
		namespace, ok := strings.CutPrefix(shelf, "AttuneRecommendation/")
		if !ok {
			continue
		}
		for _, rec := range r.memory.recommendations(namespace) {
			if !released(rec.Spec) {
				out[namespace] = policy.NameOf(rec.Spec.Policy)
			}
		}
	}
	return out
}

const base = "AttuneClusterPolicy/base"

func TestAnEmptyClusterPolicyRecommendsEverywhere(t *testing.T) {
	r := newRealm(t, "shop", "bank", "kube-system", "kube-public", "kube-node-lease", "attune-system")
	r.all()
	assert.Equal(t, map[string]string{"shop": base, "bank": base}, r.sizedBy())
	for _, rec := range r.memory.recommendations("shop") {
		assert.Equal(t, v1alpha1.UpdateRecommend, rec.Spec.Mode)
		assert.Nil(t, rec.Spec.Seed)
	}
	s := r.policy().Status
	assert.Equal(t, &v1alpha1.NamespaceCounts{Selected: 2, Ready: 2}, s.Namespaces)
	assert.EqualValues(t, 2, s.Workloads.Discovered)
	assert.EqualValues(t, 2, s.Workloads.WithRecommendations)
	assert.Equal(t, v1alpha1.UpdateRecommend, s.Mode)
	require.NotNil(t, s.Savings)
	assert.Positive(t, s.Savings.CPURequestReduction.MilliValue())
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	assert.Equal(t, "watching 2 workloads in 2 namespaces", ready.Message)

	r.memory.written()
	r.all()
	assert.Zero(t, r.memory.written(), "nothing has changed")

	r.change(func(p *v1alpha1.AttuneClusterPolicy) { p.Spec.Namespaces = []v1alpha1.NamespaceName{"kube-system"} })
	r.all()
	assert.Equal(t, map[string]string{"kube-system": base}, r.sizedBy(), "those that are not selected any more are released")
	assert.Equal(t, &v1alpha1.NamespaceCounts{Selected: 1, Ready: 1}, r.policy().Status.Namespaces)
}

// A namespace's own policy takes over the workloads that it selects, and releases them again; each with one write.
func TestAnOwnPolicyTakesOver(t *testing.T) {
	r := newRealm(t, "shop", "bank")
	r.all()
	own := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own", UID: "own", Generation: 1, CreationTimestamp: metav1.NewTime(today)}}
	own.Spec = v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}, Weight: ptr.To(int32(1))}
	r.memory.put(own)
	woken := r.InNamespace(t.Context(), "shop")
	assert.Len(t, woken, 2, "a change in a namespace wakes the policies of that namespace alone")
	r.memory.written()
	for _, request := range woken {
		r.reconcile(request)
	}
	assert.Equal(t, map[string]string{"shop": "own", "bank": base}, r.sizedBy())
	r.all()
	assert.Equal(t, &v1alpha1.NamespaceCounts{Selected: 2, Ready: 1}, r.policy().Status.Namespaces)
	assert.Empty(t, r.policy().Status.Unready, "that its own policies size a namespace is as it should be")
	r.memory.written()
	r.all()
	assert.Zero(t, r.memory.written())

	delete(r.memory.objects["AttunePolicy/shop"], "own")
	r.reconcile(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(own)})
	r.all()
	assert.Equal(t, map[string]string{"shop": base, "bank": base}, r.sizedBy())
}

func TestLabelsOfNamespacesSelect(t *testing.T) {
	r := newRealm(t, "shop", "bank")
	r.change(func(p *v1alpha1.AttuneClusterPolicy) {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}}
	})
	r.all()
	assert.Empty(t, r.sizedBy())
	assert.Equal(t, "no namespace matches namespaceSelector", meta.FindStatusCondition(r.policy().Status.Conditions, v1alpha1.ConditionReady).Message)

	label := func(labels map[string]string) {
		r.namespace("bank", labels)
		of := lookup.Namespace()
		of.Name = "bank"
		woken := r.selecting(t.Context(), of)
		assert.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: "bank", Name: base}}}, woken)
		r.reconcile(woken[0])
	}
	label(map[string]string{"stage": "production"})
	assert.Equal(t, map[string]string{"bank": base}, r.sizedBy())
	label(nil)
	assert.Empty(t, r.sizedBy())
	assert.Empty(t, r.parts.All(), "what is not selected is not remembered")
	assert.Empty(t, r.matchings.All())
}

// While a pod is observed, the finalizer keeps the cluster policy; its namespaces are released at once.
func TestADeletedClusterPolicyWaitsForItsWatches(t *testing.T) {
	r := newRealm(t, "shop", "bank")
	r.all()
	watched := func(records ...v1alpha1.ResizeRecord) {
		rec := r.memory.recommendations("bank")[0].DeepCopy()
		rec.Status.Records = records
		r.memory.put(rec)
	}
	watched(v1alpha1.ResizeRecord{PodName: "web-1"})
	r.all()
	assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, r.policy().Finalizers)

	r.change(func(p *v1alpha1.AttuneClusterPolicy) { p.DeletionTimestamp = &metav1.Time{Time: today} })
	r.all()
	assert.Empty(t, r.sizedBy())
	assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, r.policy().Finalizers, "a pod is watched")
	// A process that has just started has no parts yet.
	r.memories = memories{}
	r.reconcile(ctrl.Request{NamespacedName: summaryOf("base")})
	assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, r.policy().Finalizers)
	watched()
	r.all()
	assert.Empty(t, r.policy().Finalizers)
}

// The small numbers of a start are not written: the old ones stay until every namespace was reconciled.
func TestAStartKeepsTheOldNumbers(t *testing.T) {
	r := newRealm(t, "shop", "bank")
	r.all()
	before := r.policy().Status
	r.memories = memories{}
	r.memory.written()
	summary, shop := ctrl.Request{NamespacedName: summaryOf("base")}, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: base}}
	r.reconcile(summary)
	r.reconcile(shop)
	r.reconcile(summary)
	assert.Equal(t, before, r.policy().Status)
	r.all()
	assert.Equal(t, before, r.policy().Status)
	assert.Zero(t, r.memory.written())
}

func TestClusterPoliciesThatCannotBeUsed(t *testing.T) {
	r := newRealm(t, "shop")
	r.all()
	r.change(func(p *v1alpha1.AttuneClusterPolicy) {
		p.Spec.Strategy, p.Spec.UpdateStrategy = ptr.To(v1alpha1.StrategyNode), &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateCanary)}
	})
	r.all()
	ready := meta.FindStatusCondition(r.policy().Status.Conditions, v1alpha1.ConditionReady)
	assert.Equal(t, v1alpha1.ReasonInvalidConfig, ready.Reason)
	assert.Contains(t, ready.Message, "updateStrategy.type Canary is not supported with strategy Node")
	assert.Empty(t, r.sizedBy())

	r = newRealm(t, "shop")
	r.all()
	for i := range policy.MostClusterPolicies {
		r.memory.put(&v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", i), UID: "a", CreationTimestamp: metav1.NewTime(today.Add(-time.Hour))}})
	}
	r.change(func(p *v1alpha1.AttuneClusterPolicy) { p.CreationTimestamp = metav1.NewTime(today) })
	r.all()
	assert.Equal(t, v1alpha1.ReasonTooManyPolicies, meta.FindStatusCondition(r.policy().Status.Conditions, v1alpha1.ConditionReady).Reason)
	assert.NotEqual(t, base, r.sizedBy()["shop"])
}

// If cluster policies are disabled, attune releases the workloads that they sized.
func TestWithoutClusterPolicies(t *testing.T) {
	r := newRealm(t, "shop")
	r.all()
	rec := r.memory.recommendations("shop")[0]
	assert.Nil(t, r.gone(t.Context(), rec))
	r.Settings.Clusterwide = false
	woken := r.gone(t.Context(), rec)
	require.Len(t, woken, 1)
	r.reconcile(woken[0])
	assert.Empty(t, r.sizedBy())
	for _, w := range r.Watches() {
		_, watched := w.Object.(*v1alpha1.AttuneClusterPolicy)
		assert.False(t, watched)
	}
}

// The times of conditions are those of the loop's clock, also in the namespaces' parts.
func TestConditionsOfAClusterPolicyHaveTheTimeOfTheClock(t *testing.T) {
	r := newRealm(t, "shop")
	r.all()
	at := func(want time.Time, of []metav1.Condition) {
		t.Helper()
		require.NotEmpty(t, of)
		for _, c := range of {
			assert.True(t, c.LastTransitionTime.Time.Equal(want), "%s: %s", c.Type, c.LastTransitionTime)
		}
	}
	at(today, r.policy().Status.Conditions)
	part, known := r.parts.Find(types.NamespacedName{Namespace: "shop", Name: base})
	require.True(t, known)
	at(today, part.status.Conditions)
	at(now, unreadyCluster(&v1alpha1.AttuneClusterPolicy{}, v1alpha1.ReasonInvalidConfig, "", now).Conditions)
}

func TestSummaries(t *testing.T) {
	of := func(parts ...part) v1alpha1.AttuneClusterPolicyStatus {
		x := summary{policy: &v1alpha1.AttuneClusterPolicy{}, parts: parts}
		for i := range parts {
			x.namespaces = append(x.namespaces, fmt.Sprintf("ns-%02d", i))
		}
		return x.status()
	}
	with := func(conditions ...metav1.Condition) part {
		return part{status: v1alpha1.AttunePolicyStatus{Conditions: conditions}}
	}
	notReady := func(reason, message string) metav1.Condition {
		return falseCondition(v1alpha1.ConditionReady, reason, message)
	}
	fine := with(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring})
	fine.status.Workloads = &v1alpha1.WorkloadCounts{Discovered: 3}
	bare := with(notReady(v1alpha1.ReasonNoWorkloadsFound, ""))
	young := with(notReady(v1alpha1.ReasonInsufficientData, "1 of 48"))
	ready := func(s v1alpha1.AttuneClusterPolicyStatus) metav1.Condition {
		return *meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	}

	s := of(fine, bare, young, fine)
	assert.Equal(t, "watching 6 workloads in 2 namespaces; not ready in 1 namespace: status.unready lists the first", ready(s).Message)
	assert.Equal(t, []v1alpha1.UnreadyNamespace{{Namespace: "ns-02", Reason: "InsufficientData", Message: "1 of 48"}}, s.Unready)
	s = of(bare, bare)
	assert.Equal(t, v1alpha1.ReasonNoWorkloadsFound, ready(s).Reason)
	s = of(young, with(notReady(v1alpha1.ReasonPaused, "paused")), young)
	assert.Equal(t, v1alpha1.ReasonInsufficientData, ready(s).Reason)
	assert.Equal(t, "in 2 of 3 namespaces, such as ns-00: 1 of 48", ready(s).Message)

	var many []part
	for range 5000 {
		degraded := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "HighRevertRate", Message: strings.Repeat("y", 256)}
		many = append(many, with(notReady(v1alpha1.ReasonPaused, strings.Repeat("x", 256)), degraded))
	}
	s = of(many...)
	assert.Len(t, s.Unready, maxUnready)
	assert.Contains(t, meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDegraded).Message, "and in 4999 more namespaces")
	assert.Less(t, len(fmt.Sprint(s)), 16<<10)
}
