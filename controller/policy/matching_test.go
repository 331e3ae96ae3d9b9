package policy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

func claiming(name string, created int, edit func(*v1alpha1.AttunePolicySpec)) v1alpha1.AttunePolicy {
	p := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: "u", CreationTimestamp: metav1.NewTime(today.Add(time.Duration(created) * time.Second)),
	}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	if edit != nil {
		edit(&p.Spec)
	}
	return p
}

func versioned(name string, version int, team string) workload.Object {
	d := deployment(name)
	d.ResourceVersion, d.Labels = fmt.Sprint(version), map[string]string{"team": team}
	return d
}

func names(won []workload.Workload) (out []string) {
	for _, w := range won {
		out = append(out, w.Name)
	}
	return out
}

// All policies of a namespace share one matching until an input changes. After any change, the next one equals a
// matching from scratch.
func TestAMatchingIsSharedUntilSomethingChanges(t *testing.T) {
	ofTeam := func(team string) func(*v1alpha1.AttunePolicySpec) {
		return func(s *v1alpha1.AttunePolicySpec) {
			s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
	}
	policies := func() []v1alpha1.AttunePolicy {
		return []v1alpha1.AttunePolicy{claiming("all", 0, nil), claiming("blue", 1, ofTeam("blue"))}
	}
	objects := []workload.Object{versioned("b", 1, "blue"), versioned("a", 2, "red")}
	var none *matching
	first := none.next(policies(), objects, 10)
	assert.Equal(t, []string{"a", "b"}, names(first.to("all").won))
	assert.Empty(t, first.to("blue").won)
	assert.Equal(t, 1, first.to("blue").losses)
	assert.Equal(t, "Deployment/b", first.to("blue").lost[0].Workload)
	assert.Len(t, first.to("blue").neighbours, 2)

	reordered := []workload.Object{objects[1], objects[0]}
	assert.Same(t, first, first.next(policies(), reordered, 10), "in whatever order the cache lists them")

	heavy := policies()
	heavy[1].Spec.Weight = ptr.To(int32(200))
	deleted := policies()
	deleted[0].DeletionTimestamp = ptr.To(metav1.NewTime(today))
	other := policies()
	other[1] = claiming("blue", 1, ofTeam("red"))
	unversioned := versioned("b", 1, "red")
	unversioned.SetResourceVersion("")
	for name, tc := range map[string]struct {
		policies []v1alpha1.AttunePolicy
		objects  []workload.Object
	}{
		"a weight":             {heavy, objects},
		"a policy is deleted":  {deleted, objects},
		"a selector":           {other, objects},
		"a policy more":        {append(policies(), claiming("first", -1, nil)), objects},
		"a workload's labels":  {policies(), []workload.Object{versioned("b", 3, "red"), objects[1]}},
		"a workload less":      {policies(), objects[:1]},
		"a workload more":      {policies(), append([]workload.Object{versioned("c", 4, "blue")}, objects...)},
		"a workload's version": {policies(), []workload.Object{unversioned, objects[1]}},
	} {
		changed := first.next(tc.policies, tc.objects, 10)
		assert.NotSame(t, first, changed, name)
		anew := none.next(tc.policies, tc.objects, 10)
		assert.Equal(t, anew.by, changed.by, name)
		assert.Equal(t, anew.neighbours, changed.neighbours, name)
	}
}

// The cost of a namespace is limited: its oldest policies are used, and each of the others reports that it is not. It
// releases its workloads, and is used as soon as there is room for it.
func TestPoliciesBeyondTheBoundAreLeftOut(t *testing.T) {
	f := crowd(t, policy.MostPolicies+3, 2) // the fleet's own policy has no creation time, and is the oldest
	ctx := context.Background()
	newest := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: fmt.Sprintf("p-%04d", policy.MostPolicies+1)}}
	ready := func() *metav1.Condition {
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, f.memory.Get(ctx, newest.NamespacedName, p))
		return meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	}
	require.Len(t, f.InNamespace(ctx, "shop"), policy.MostPolicies+3, "nobody has been told yet")
	f.look(t)
	assert.Equal(t, v1alpha1.ReasonTooManyPolicies, ready().Reason)
	assert.Equal(t, "namespace shop has more than 100 policies: attune uses the oldest and ignores this one. "+
		"Delete some policies, or select more workloads with one policy", ready().Message)
	named := f.InNamespace(ctx, "shop")
	assert.Len(t, named, policy.MostPolicies, "an event in the namespace is none of theirs")
	assert.NotContains(t, named, newest)
	f.memory.written()
	_, err := f.Reconcile(ctx, newest)
	require.NoError(t, err)
	assert.Zero(t, f.memory.written(), "it is said once")

	for i := range 3 {
		delete(f.memory.objects["AttunePolicy/shop"], fmt.Sprintf("p-%04d", i))
	}
	assert.Contains(t, f.InNamespace(ctx, "shop"), newest)
	f.look(t)
	assert.Equal(t, v1alpha1.ReasonConflict, ready().Reason, "it is looked at as any other")
}

// A policy that is being deleted takes no other policy's place.
func TestADeletedPolicyTakesNoPlace(t *testing.T) {
	var policies []v1alpha1.AttunePolicy
	for i := range policy.MostPolicies + 1 {
		policies = append(policies, claiming(fmt.Sprintf("p-%04d", i), i, nil))
	}
	policies[0].DeletionTimestamp = ptr.To(metav1.NewTime(today))
	used, beyond := policy.Used(policies)
	assert.Len(t, used, policy.MostPolicies+1, "the deleted one is ended")
	assert.Empty(t, beyond)
}

// A matching is dropped with the last policy of its namespace.
func TestAMatchingIsForgottenWithTheLastPolicy(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	require.NotNil(t, f.matchings.Of("shop"))
	delete(f.memory.objects["AttunePolicy/shop"], "all")
	f.pass(t)
	assert.Empty(t, f.matchings.All())
}

// Several workers reconcile several namespaces at once; the race detector judges this test.
func TestNamespacesAreLookedAtAtOnce(t *testing.T) {
	f := newFleet(t, 3)
	const more = 4
	var requests []ctrl.Request
	var objects []client.Object
	for i := range more {
		namespace := fmt.Sprint("ns-", i)
		p := claiming("all", 0, nil)
		p.Namespace = namespace
		d := deployment("web")
		d.Namespace = namespace
		objects = append(objects, &p, d)
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&p)})
	}
	for _, o := range objects {
		f.memory.put(o)
	}
	f.Client = &oneAtATime{Client: f.memory}
	f.Settings.Client = f.Client
	var workers sync.WaitGroup
	for _, request := range requests {
		workers.Go(func() {
			for range 5 {
				_, err := f.Reconcile(context.Background(), request)
				assert.NoError(t, err)
			}
		})
	}
	workers.Wait()
	for i := range more {
		assert.Len(t, f.memory.recommendations(fmt.Sprint("ns-", i)), 1)
	}
}

// oneAtATime makes a client safe for concurrent use.
type oneAtATime struct {
	client.Client
	mutex sync.Mutex
}

func (o *oneAtATime) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.Client.Get(ctx, key, into, opts...)
}

func (o *oneAtATime) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.Client.List(ctx, list, opts...)
}

func (o *oneAtATime) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.Client.Create(ctx, obj, opts...)
}

func (o *oneAtATime) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.Client.Patch(ctx, obj, patch, opts...)
}

func (o *oneAtATime) Status() client.SubResourceWriter {
	return lockedStatus{o.Client.Status(), &o.mutex}
}

type lockedStatus struct {
	client.SubResourceWriter
	mutex *sync.Mutex
}

func (s lockedStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.SubResourceWriter.Patch(ctx, o, patch, opts...)
}

// A workload that is too large is reported on every policy that may select it, because its labels may not be known.
func TestTooLargeWorkloadsAreReported(t *testing.T) {
	large := deployment("great")
	large.ResourceVersion, large.Annotations = "1", map[string]string{workload.TooLargeAnnotation: "true"}
	policies := []v1alpha1.AttunePolicy{
		claiming("blue", 0, func(s *v1alpha1.AttunePolicySpec) {
			s.TargetRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}
		}),
		claiming("other", 1, func(s *v1alpha1.AttunePolicySpec) { s.TargetRef.Name = "other" }),
	}
	var none *matching
	m := none.next(policies, []workload.Object{large}, policy.MostWorkloads)
	told := func(p v1alpha1.AttunePolicy) string {
		return readiness{report{policy: &p, matched: m.to(p.Name)}}.condition().Message
	}
	assert.Equal(t, "no Deployment matches targetRef; attune skips Deployment/great: it "+workload.WhatIsTooLarge, told(policies[0]))
	assert.Equal(t, "no Deployment matches targetRef", told(policies[1]))
}
