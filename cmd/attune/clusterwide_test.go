package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
)

// ourKinds has the API server's answers about attune's group, in order. The last one repeats.
type ourKinds struct{ answers []any }

func (k *ourKinds) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	answer := k.answers[0]
	if len(k.answers) > 1 {
		k.answers = k.answers[1:]
	}
	if err, failed := answer.(error); failed {
		return nil, err
	}
	list := &metav1.APIResourceList{}
	for _, kind := range answer.([]string) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind})
	}
	return list, nil
}

var (
	down     = errors.New("no answer")
	noGroup  = apierrors.NewNotFound(schema.GroupResource{Group: "attune.io"}, "v1alpha1")
	former   = []string{"attunepolicies", "attunerecommendations"}
	complete = append([]string{"attuneclusterpolicies"}, former...)
)

// An operator that was upgraded without its CRDs starts, and uses no cluster policies.
func TestClusterPoliciesAreUsedWhereTheyAreServed(t *testing.T) {
	for _, c := range []struct {
		answer any
		want   bool
	}{{complete, true}, {former, false}, {noGroup, false}} {
		served, err := watchable(t.Context(), of(c.answer), clusterPolicies, mayAll)
		require.NoError(t, err)
		assert.Equal(t, c.want, served, c.answer)
	}
	_, err := watchable(t.Context(), of(down), clusterPolicies, mayAll)
	assert.ErrorIs(t, err, down, "that it is not known is not that there are none")
}

// Cluster policies that are served but may not be watched would keep the caches from syncing.
func TestClusterPoliciesAreUsedWhereTheyMayBeWatched(t *testing.T) {
	mayNot := func(context.Context, schema.GroupResource) (bool, error) { return false, nil }
	used, err := watchable(t.Context(), of(complete), clusterPolicies, mayNot)
	require.NoError(t, err)
	assert.False(t, used)

	unknown := func(context.Context, schema.GroupResource) (bool, error) { return false, down }
	_, err = watchable(t.Context(), of(complete), clusterPolicies, unknown)
	assert.ErrorIs(t, err, down)

	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, APIResources: []metav1.APIResource{{Name: "attuneclusterpolicies"}}}
			assert.NoError(t, json.NewEncoder(w).Encode(list))
			return
		}
		review := &authorizationv1.SelfSubjectAccessReview{}
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _, err = clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, review)
		assert.NoError(t, err)
		of := review.Spec.ResourceAttributes
		asked = append(asked, of.Verb+" "+of.Resource+"."+of.Group)
		review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
		review.Status.Allowed = of.Verb == "list"
		assert.NoError(t, json.NewEncoder(w).Encode(review))
	}))
	defer server.Close()
	api := connected(t, server.URL)
	used, err = watchable(t.Context(), api.served, clusterPolicies, api.mayWatchEverywhere(nil))
	require.NoError(t, err)
	assert.False(t, used)
	assert.Equal(t, []string{"list attuneclusterpolicies.attune.io", "watch attuneclusterpolicies.attune.io"}, asked)
}

// of returns an API server with these answers.
func of(answers ...any) *ourKinds { return &ourKinds{answers} }

// mayAll allows watching everything.
func mayAll(context.Context, schema.GroupResource) (bool, error) { return true, nil }

// The process ends as soon as the CRD exists, whatever the earlier answers were, and not sooner.
func TestTheNextProcessUsesClusterPolicies(t *testing.T) {
	clock, kinds := clocktesting.NewFakeClock(time.Now()), &ourKinds{[]any{former, down, complete}}
	refusals := 2 // the CRD exists before the rights
	rights := func(context.Context, schema.GroupResource) (bool, error) { refusals--; return refusals < 0, nil }
	ask := func(ctx context.Context) (bool, error) { return watchable(ctx, kinds, clusterPolicies, rights) }
	ended := make(chan error, 1)
	go func() { ended <- noClusterPolicies(ask, clock).Start(t.Context()) }()
	require.Eventually(t, func() bool {
		if clock.HasWaiters() {
			clock.Step(2 * time.Minute)
		}
		select {
		case err := <-ended:
			return assert.ErrorIs(t, err, errClusterPolicies)
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	assert.Len(t, kinds.answers, 1, "every answer was waited for")
	assert.Equal(t, -1, refusals, "and the rights")
}
