package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"attune.io/attune/internal/workload"
)

// discovered answers discovery by group version. Missing ones are not served.
type discovered map[string]*metav1.APIResourceList

func (d discovered) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	switch list := d[groupVersion]; {
	case list != nil:
		return list, nil
	case groupVersion == "away.example.org/v1":
		return nil, apierrors.NewServiceUnavailable("away")
	case groupVersion == "mute.example.org/v1":
		return nil, errors.New("no answer")
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// scalable returns a resource with a subresource /scale.
func scalable(name, kind string) []metav1.APIResource {
	return []metav1.APIResource{{Name: name, Kind: kind, Namespaced: true}, {Name: name + "/status", Kind: kind, Namespaced: true}, {Name: name + "/scale", Kind: "Scale", Namespaced: true}}
}

func served(resources ...[]metav1.APIResource) *metav1.APIResourceList {
	list := &metav1.APIResourceList{}
	for _, of := range resources {
		list.APIResources = append(list.APIResources, of...)
	}
	return list
}

// TestKindsThatAreAdded: each kind is sized or left out. One that is left out has a reason and affects no other.
func TestKindsThatAreAdded(t *testing.T) {
	everywhere := scalable("machines", "Machine")
	everywhere[0].Namespaced = false
	api := asked{
		served: discovered{
			"apps.kruise.io/v1alpha1": served(scalable("clonesets", "CloneSet")),
			"apps.kruise.io/v1beta1":  served(scalable("clonesets", "CloneSet"), scalable("statefulsets", "StatefulSet")),
			"example.org/v1": served(scalable("queues", "Queue"), everywhere, []metav1.APIResource{{Name: "certificates", Kind: "Certificate", Namespaced: true}},
				scalable("longs", "AKindWhoseNameIsLongerThanAnyThatAnybodyWouldWantToWrite"), scalable("odds", "Odd"), scalable("brokens", "Broken"), scalable("queuelists", "QueueList")),
			"example.org-b/v1": served(scalable("queues", "Queue")),
			"b.example.org/v1": served(scalable("locks", "Lock")),
		},
		may: func(_ context.Context, of schema.GroupResource) (bool, error) { return of.Resource != "locks", nil },
		list: func(_ context.Context, of schema.GroupVersionResource) (string, error) {
			lists, ok := map[string]string{"odds": "ListOfOdds", "queues": "QueueList", "clonesets": "CloneSetList", "statefulsets": "StatefulSetList", "queuelists": "QueueListList"}[of.Resource]
			if !ok {
				return "", errors.New("conversion webhook failed")
			}
			return lists, nil
		},
	}
	all, err := parseScaled([]string{
		"clonesets.v1alpha1.apps.kruise.io", "clonesets.v1beta1.apps.kruise.io", "statefulsets.v1beta1.apps.kruise.io", "daemonsets.v1beta1.apps.kruise.io", "queues.v1.example.org",
		"machines.v1.example.org", "certificates.v1.example.org", "longs.v1.example.org", "odds.v1.example.org", "brokens.v1.example.org", "queuelists.v1.example.org", "queues.v1.example.org-b", "locks.v1.b.example.org", "a.v1.gone.example.org", "a.v1.away.example.org",
	})
	require.NoError(t, err)
	var found kinds
	require.NoError(t, found.add(t.Context(), all, api))
	assert.Equal(t, []schema.GroupVersionKind{
		{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}, {Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"}, {Group: "example.org", Version: "v1", Kind: "Queue"},
	}, found.Scaled)
	assert.Equal(t, []schema.GroupResource{{Group: "apps.kruise.io", Resource: "clonesets"}, {Group: "apps.kruise.io", Resource: "statefulsets"}, {Group: "example.org", Resource: "queues"}}, found.resources)
	assert.Equal(t, []workload.Left{
		{Resource: "clonesets.v1beta1.apps.kruise.io", Group: "apps.kruise.io", Why: "recommendations of CloneSet.apps.kruise.io and of CloneSet.apps.kruise.io could have the same names"},
		{Resource: "daemonsets.v1beta1.apps.kruise.io", Group: "apps.kruise.io", Why: "the API server does not serve it"},
		{Resource: "machines.v1.example.org", Group: "example.org", Why: "its objects are not namespaced"},
		{Resource: "certificates.v1.example.org", Group: "example.org", Why: "it has no subresource /scale, so its objects may not be workloads"},
		{Resource: "longs.v1.example.org", Group: "example.org", Why: "its kind AKindWhoseNameIsLongerThanAnyThatAnybodyWouldWantToWrite.example.org has more than 63 characters, or characters that a kind cannot have"},
		{Resource: "odds.v1.example.org", Group: "example.org", Why: "its list has the kind ListOfOdds, not OddList"},
		{Resource: "brokens.v1.example.org", Group: "example.org", Why: "it cannot be listed: conversion webhook failed"},
		{Resource: "queuelists.v1.example.org", Group: "example.org", Why: "QueueList.example.org and Queue.example.org are a kind and its list"},
		{Resource: "queues.v1.example.org-b", Group: "example.org-b", Why: "recommendations of Queue.example.org-b and of Queue.example.org could have the same names"},
		{Resource: "locks.v1.b.example.org", Group: "b.example.org", Why: "the operator may not list and watch it: upgrade the release with the value scaledKinds"},
		{Resource: "a.v1.gone.example.org", Group: "gone.example.org", Why: "the API server does not serve it"},
		{Resource: "a.v1.away.example.org", Group: "away.example.org", Why: "the server of its API group does not answer: away"},
	}, found.Left)

	mute, err := parseScaled([]string{"a.v1.mute.example.org"})
	require.NoError(t, err)
	assert.ErrorContains(t, found.add(t.Context(), mute, api), "no answer", "who does not answer has not said no")
	api.may = func(context.Context, schema.GroupResource) (bool, error) { return false, errors.New("no review") }
	assert.ErrorContains(t, (&kinds{}).add(t.Context(), all[:1], api), "no review")
}

// TestTheNextProcessWatchesAddedKinds: a process that started before a CRD existed ends as soon as it exists. The next
// one watches the kind with the rights that it checks.
func TestTheNextProcessWatchesAddedKinds(t *testing.T) {
	served, asksLists, conversionFails := false, "", true
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}}
		review.Status.Allowed = true
		answer := map[string]any{
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": review,
			"/apis/apps.kruise.io/v1alpha1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "apps.kruise.io/v1alpha1",
				APIResources: scalable("clonesets", "CloneSet")},
			"/apis/apps.kruise.io/v1alpha1/clonesets":                   metav1.TypeMeta{Kind: "CloneSetList", APIVersion: "apps.kruise.io/v1alpha1"},
			"/apis/apps.kruise.io/v1alpha1/namespaces/team-a/clonesets": metav1.TypeMeta{Kind: "CloneSetList", APIVersion: "apps.kruise.io/v1alpha1"},
		}[r.URL.Path]
		if answer == nil || !served && r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Has("limit") {
			if conversionFails {
				http.Error(w, "conversion webhook failed", http.StatusInternalServerError)
				return
			}
			asksLists = r.URL.Path
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(api.Close)
	of := func(p program, flags ...string) Config {
		c, err := optionsOf(t, p, flags...).Complete(t.Context(), &rest.Config{Host: api.URL})
		require.NoError(t, err)
		return c
	}
	const flag = "--scaled-kinds=clonesets.v1alpha1.apps.kruise.io"
	began := of(program{controls: true}, flag)
	assert.Empty(t, began.kinds.Scaled)
	waits := noScaled(began)
	assert.Equal(t, "Kinds of --scaled-kinds are not managed; clonesets.v1alpha1.apps.kruise.io: the API server does not serve it", waits.said)
	now, err := waits.ask(t.Context())
	require.NoError(t, err)
	assert.False(t, now)

	served = true
	now, err = waits.ask(t.Context())
	require.NoError(t, err)
	assert.False(t, now)
	left := of(program{controls: true}, flag)
	assert.Empty(t, left.kinds.Scaled, "its cache would never be filled, and the process would end")
	require.Len(t, left.kinds.Left, 1)
	assert.Contains(t, left.kinds.Left[0].Why, "it cannot be listed: an error on the server (\"conversion webhook failed\")")

	conversionFails = false
	now, err = waits.ask(t.Context())
	require.NoError(t, err)
	assert.True(t, now)
	next := of(program{controls: true}, flag)
	assert.Len(t, next.kinds.Scaled, 1)
	assert.Empty(t, next.kinds.Left)
	assert.Equal(t, "/apis/apps.kruise.io/v1alpha1/clonesets", asksLists)
	assert.Contains(t, program{controls: true}.watchedKinds(next.kinds), schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"})
	assert.Len(t, of(program{controls: true}, flag, "--watch-namespaces=team-a").kinds.Scaled, 1)
	assert.Equal(t, "/apis/apps.kruise.io/v1alpha1/namespaces/team-a/clonesets", asksLists, "it has no rights elsewhere")
	assert.Empty(t, of(program{controls: true}).kinds.Scaled, "none without the flag")
	assert.Empty(t, of(program{serves: true}).kinds.Scaled)
	next.api = connected(t, apiServer(t).Host)
	mgr, err := newManager(next, nil, meters{})
	require.NoError(t, err)
	assert.True(t, mgr.GetScheme().Recognizes(next.kinds.Scaled[0]))

	synctest.Test(t, func(t *testing.T) {
		of := unserved{clock: clock.RealClock{}, every: 5 * time.Minute, served: errScaled, ask: func(context.Context) (bool, error) { return true, nil }}
		assert.ErrorIs(t, of.Start(t.Context()), errScaled)
	})
}
