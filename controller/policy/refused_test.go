package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
)

// refusing is an API server that rejects writes of some recommendations, by name, with an error.
type refusing struct {
	*memory
	answer map[string]error
	// asked counts rejected writes.
	asked int
	// unlisted is the error of every list of Deployments.
	unlisted error
}

func (r *refusing) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := r.answer[o.GetName()]; err != nil {
		r.asked++
		return err
	}
	return r.memory.Create(ctx, o, opts...)
}

func (r *refusing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.unlisted != nil && shelf(list, "") == "Deployment/" {
		return r.unlisted
	}
	return r.memory.List(ctx, list, opts...)
}

func forbidden(name, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "attunerecommendations"}, name, errors.New(why))
}

func refusingFleet(t *testing.T, workloads int, answer map[string]error) (*fleet, *refusing) {
	f := newFleet(t, workloads)
	server := &refusing{memory: f.memory, answer: answer}
	f.Controller.Client, f.Controller.Settings.Client = server, server
	return f, server
}

func (f *fleet) policy() *v1alpha1.AttunePolicy {
	return f.memory.objects["AttunePolicy/shop"]["all"].(*v1alpha1.AttunePolicy)
}

func (f *fleet) ready() metav1.Condition {
	return *meta.FindStatusCondition(f.policy().Status.Conditions, v1alpha1.ConditionReady)
}

// One rejected recommendation blocks neither the following ones nor the policy's status, which has the reason.
func TestOneRefusedRecommendationStopsNoOther(t *testing.T) {
	f, server := refusingFleet(t, 6, map[string]error{})
	for i := 1; i < 6; i++ {
		name := fmt.Sprintf("deployment-app-%06d", i)
		server.answer[name] = forbidden(name, "label cost-centre is missing")
	}
	delete(server.answer, "deployment-app-000003")

	result, err := f.Reconcile(t.Context(), f.request)
	require.NoError(t, err)
	var names []string
	for _, rec := range f.memory.recommendations("shop") {
		names = append(names, rec.Name)
	}
	assert.Equal(t, []string{"deployment-app-000000", "deployment-app-000003"}, names)
	ready := f.ready()
	assert.Equal(t, metav1.ConditionFalse, ready.Status)
	assert.Equal(t, v1alpha1.ReasonRecommendationRefused, ready.Reason)
	assert.Equal(t, `the API server rejected the recommendations of 4 of 6 workloads: `+
		`Deployment/app-000001: attunerecommendations "deployment-app-000001" is forbidden: label cost-centre is missing; `+
		`Deployment/app-000002: attunerecommendations "deployment-app-000002" is forbidden: label cost-centre is missing; `+
		`Deployment/app-000004: attunerecommendations "deployment-app-000004" is forbidden: label cost-centre is missing; and 1 more`, ready.Message)
	assert.EqualValues(t, 6, f.policy().Status.Workloads.Discovered)
	assert.EqualValues(t, 2, f.policy().Status.Workloads.WithRecommendations)
	assert.Equal(t, time.Minute, result.RequeueAfter)
}

// A rejected write is tried again with a growing backoff, however often the policy is reconciled.
func TestARefusedRecommendationIsTriedAgainWithBackOff(t *testing.T) {
	const name = "deployment-app-000000"
	f, server := refusingFleet(t, 2, map[string]error{name: forbidden(name, "exceeded quota")})
	for range 2 * 60 * 6 {
		f.pass(t)
		f.clock.SetTime(f.clock.Now().Add(10 * time.Second))
	}
	assert.Equal(t, 11, server.asked, "after 0, 1, 3, 7, 15 and 31 minutes, and then every 16")
	f.memory.written()
	server.answer = nil
	result, err := f.Reconcile(t.Context(), f.request)
	require.NoError(t, err)
	f.clock.SetTime(f.clock.Now().Add(16 * time.Minute))
	assert.Positive(t, result.RequeueAfter)
	f.pass(t)
	assert.Len(t, f.memory.recommendations("shop"), 2, "it is taken now")
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
	assert.Empty(t, f.policies.refused.All(), "nothing is remembered of it")
}

// A conflict with another writer is not a rejection: the policy is reconciled again at once, and the others are
// written.
func TestAConflictStopsNoOther(t *testing.T) {
	f, _ := refusingFleet(t, 3, map[string]error{"deployment-app-000000": apierrors.NewAlreadyExists(schema.GroupResource{}, "deployment-app-000000")})
	_, err := f.Reconcile(t.Context(), f.request)
	require.Error(t, err)
	assert.Len(t, f.memory.recommendations("shop"), 2)
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
}

func TestAnAPIServerThatIsAwayEndsThePass(t *testing.T) {
	for name, answer := range map[string]error{
		"no connection":  errors.New("connection refused"),
		"overloaded":     apierrors.NewTooManyRequests("later", 1),
		"server timeout": apierrors.NewServiceUnavailable("etcd is away"),
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := refusingFleet(t, 3, map[string]error{"deployment-app-000001": answer})
			_, err := f.Reconcile(t.Context(), f.request)
			require.ErrorIs(t, err, answer)
			assert.Len(t, f.memory.recommendations("shop"), 1, "the API server is not asked on")
		})
	}
}

// Workloads that cannot be listed are reported; their counts stay.
func TestFailedDiscoveryIsReported(t *testing.T) {
	f, server := refusingFleet(t, 2, nil)
	f.pass(t)
	before := f.policy().Status.DeepCopy()
	server.unlisted = errors.New("deployments.apps is forbidden")
	for range 2 {
		f.memory.written()
		_, err := f.Reconcile(t.Context(), f.request)
		require.ErrorIs(t, err, server.unlisted)
	}
	assert.Zero(t, f.memory.written(), "it is said once")
	assert.Equal(t, v1alpha1.ReasonWorkloadDiscoveryFailed, f.ready().Reason)
	assert.Equal(t, "listing Deployments: deployments.apps is forbidden", f.ready().Message)
	assert.Equal(t, before.Workloads, f.policy().Status.Workloads)
	assert.Len(t, f.memory.recommendations("shop"), 2)

	server.unlisted = nil
	f.pass(t)
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
}

// unlistedAutoscalers is a cluster whose autoscalers cannot be listed.
type unlistedAutoscalers struct{ err error }

func (u *unlistedAutoscalers) Of(context.Context, workload.Workload) (autoscale.Holds, error) {
	return autoscale.Holds{}, u.err
}

// While it is not known which resources autoscalers control, nothing is recommended. The policy reports that, and can
// still be released.
func TestFailedListOfAutoscalersIsReported(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	recommended := f.memory.recommendations("shop")
	guarded := f.policy().DeepCopy()
	guarded.Finalizers = []string{v1alpha1.CleanupFinalizer}
	f.memory.put(guarded)
	unlisted := &unlistedAutoscalers{errors.New("conversion webhook for autoscaling.k8s.io/v1 failed")}
	f.Controller.Autoscalers = unlisted
	for range 2 {
		f.memory.written()
		_, err := f.Reconcile(t.Context(), f.request)
		require.ErrorIs(t, err, unlisted.err)
	}
	assert.Zero(t, f.memory.written(), "it is said once")
	assert.Equal(t, v1alpha1.ReasonWorkloadDiscoveryFailed, f.ready().Reason)
	assert.Equal(t, "cannot list autoscalers: conversion webhook for autoscaling.k8s.io/v1 failed", f.ready().Message)
	assert.Empty(t, f.policy().Finalizers)
	assert.Equal(t, recommended, f.memory.recommendations("shop"))

	unlisted.err = nil
	f.pass(t)
	assert.Equal(t, v1alpha1.ReasonMonitoring, f.ready().Reason)
}

// A policy without open records can be deleted while attune is not running.
func TestAPolicyIsKeptOnlyWhileAPodIsWatched(t *testing.T) {
	f := newFleet(t, 2)
	old := f.policy().DeepCopy()
	old.Finalizers = []string{v1alpha1.CleanupFinalizer, "example.org/other"}
	f.memory.put(old)
	f.pass(t)
	assert.Equal(t, []string{"example.org/other"}, f.policy().Finalizers, "ours is taken off")

	watch := func(open bool) {
		rec := f.memory.recommendations("shop")[0].DeepCopy()
		rec.Status.Records = nil
		if open {
			rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "pod", PodName: "app"}}
		}
		f.memory.put(rec)
		f.pass(t)
	}
	watch(true)
	assert.Contains(t, f.policy().Finalizers, v1alpha1.CleanupFinalizer, "such as another policy's workload, which is now this one's")
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written())

	deleted := f.policy().DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: f.clock.Now()}
	f.memory.put(deleted)
	f.pass(t)
	assert.Contains(t, f.policy().Finalizers, v1alpha1.CleanupFinalizer)
	for _, rec := range f.memory.recommendations("shop") {
		assert.Equal(t, "PolicyNoLongerMatches", rec.Spec.SeedBlocked, "seeding ends at once")
	}
	watch(false)
	assert.Equal(t, []string{"example.org/other"}, f.policy().Finalizers)
}

// A policy that was deleted without a finalizer while attune was not running: its workloads are released.
func TestDeletedPolicyReleasesItsWorkloads(t *testing.T) {
	f := newFleet(t, 2)
	f.pass(t)
	rec := f.memory.recommendations("shop")[0]
	assert.Nil(t, f.gone(t.Context(), rec))
	delete(f.memory.objects["AttunePolicy/shop"], "all")
	require.Len(t, f.gone(t.Context(), rec), 1)
	assert.Equal(t, f.request, f.gone(t.Context(), rec)[0])
	f.pass(t)
	for _, rec := range f.memory.recommendations("shop") {
		assert.Equal(t, "PolicyNoLongerMatches", rec.Spec.SeedBlocked)
		assert.Nil(t, rec.Spec.Seed)
		trimmed, err := trim.Object(rec.DeepCopy())
		require.NoError(t, err)
		assert.True(t, released(trimmed.(*v1alpha1.AttuneRecommendation).Spec))
	}
	f.memory.written()
	f.pass(t)
	assert.Zero(t, f.memory.written())
}
