package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// ourKinds are the answers of an API server about attune's group, one after the other; the last one stays.
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
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
	}
	return list, nil
}

var (
	down     = errors.New("no answer")
	noGroup  = apierrors.NewNotFound(schema.GroupResource{Group: "attune.io"}, "v1alpha1")
	former   = []string{"AttunePolicy", "AttuneRecommendation"}
	complete = append([]string{"AttuneClusterPolicy"}, former...)
)

// An operator that was upgraded without its CRDs starts, and uses no cluster policies.
func TestClusterPoliciesAreUsedWhereTheyAreServed(t *testing.T) {
	for _, c := range []struct {
		answer any
		want   bool
	}{{complete, true}, {former, false}, {noGroup, false}} {
		served, err := servesClusterPolicies(&ourKinds{[]any{c.answer}})
		require.NoError(t, err)
		assert.Equal(t, c.want, served, c.answer)
	}
	_, err := servesClusterPolicies(&ourKinds{[]any{down}})
	assert.ErrorIs(t, err, down, "that it is not known is not that there are none")
}

// The process ends once the CRD is there, whatever it was told before; not sooner.
func TestTheNextProcessUsesClusterPolicies(t *testing.T) {
	clock, kinds := clocktesting.NewFakeClock(time.Now()), &ourKinds{[]any{former, down, complete}}
	ended := make(chan error, 1)
	go func() { ended <- noClusterPolicies(kinds, clock).Start(t.Context()) }()
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
}
