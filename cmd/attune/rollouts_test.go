package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"attune.io/attune/internal/loop"
)

// argoServed answers discovery.
type argoServed struct {
	list *metav1.APIResourceList
	err  error
}

func (a argoServed) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if groupVersion != "argoproj.io/v1alpha1" {
		return nil, errors.New("another group version was asked for")
	}
	return a.list, a.err
}

func TestWhetherRolloutsAreServed(t *testing.T) {
	resources := func(names ...string) *metav1.APIResourceList {
		list := &metav1.APIResourceList{}
		for _, name := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		return list
	}
	for name, c := range map[string]struct {
		api  argoServed
		want bool
	}{
		"no CRD of the group":        {argoServed{err: apierrors.NewNotFound(schema.GroupResource{}, "")}, false},
		"Argo CD and Workflows only": {argoServed{list: resources("applications", "workflows")}, false},
		"Argo Rollouts":              {argoServed{list: resources("experiments", "rollouts", "rollouts/scale")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			served, err := loop.Serves(c.api, rollouts)
			require.NoError(t, err)
			assert.Equal(t, c.want, served)
		})
	}
	_, err := loop.Serves(argoServed{err: errors.New("no answer")}, rollouts)
	assert.ErrorContains(t, err, "no answer", "who does not answer has not said no")
}

// TestTheNextProcessWatchesRollouts: a process ends as soon as they are served, but not on an error of the check.
func TestTheNextProcessWatchesRollouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		asked := 0
		of := unserved{clock: clock.RealClock{}, every: 5 * time.Minute, served: errRollouts, ask: func(context.Context) (bool, error) {
			if asked++; asked < 3 {
				return false, errors.New("no answer")
			}
			return time.Since(began) >= time.Hour, nil
		}}
		assert.ErrorIs(t, of.Start(t.Context()), errRollouts)
		assert.GreaterOrEqual(t, time.Since(began), time.Hour)
		assert.LessOrEqual(t, asked, 13, "every five minutes at most")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.NoError(t, unserved{clock: clock.RealClock{}, every: 5 * time.Minute, ask: func(context.Context) (bool, error) { return false, nil }}.Start(ctx))
	})
}
