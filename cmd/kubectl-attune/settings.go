package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// settingsReader reads what holds under a policy, each object once.
type settingsReader struct {
	env    *environment
	client client.Client
	known  map[client.ObjectKey]*policy.Settings
}

func newSettingsReader(env *environment, c client.Client) *settingsReader {
	return &settingsReader{env: env, client: c, known: map[client.ObjectKey]*policy.Settings{}}
}

// of is nil where the settings of the recommendation's policy cannot be known; the user is told why.
func (s *settingsReader) of(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*policy.Settings, error) {
	key := client.ObjectKey{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}
	if settings, ok := s.known[key]; ok {
		return settings, nil
	}
	settings, err := s.read(ctx, key)
	var invalid *policy.InvalidConfig
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), errors.As(err, &invalid):
		s.env.note("what policy %s would do next is not known: %v", key.Name, err)
		settings, err = nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the settings of policy %s: %w", key.Name, err)
	}
	s.known[key] = settings
	return settings, err
}

// recommender are the settings that the next step is taken with, nil where there is none to be known.
// Under the strategy Node a pod's next size depends on its node and the pods beside it.
func (s *settingsReader) recommender(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*recommender.Settings, error) {
	settings, err := s.of(ctx, rec)
	if settings == nil || err != nil || settings.Strategy == v1alpha1.StrategyNode {
		return nil, err
	}
	return &settings.Recommender, nil
}

func (s *settingsReader) read(ctx context.Context, key client.ObjectKey) (*policy.Settings, error) {
	var own v1alpha1.AttunePolicy
	if err := s.client.Get(ctx, key, &own); err != nil {
		return nil, err
	}
	namespace, err := optional(ctx, s.client, key.Namespace, &v1alpha1.AttuneNamespaceDefaults{})
	if err != nil {
		return nil, err
	}
	cluster, err := optional(ctx, s.client, "", &v1alpha1.AttuneDefaults{})
	if err != nil {
		return nil, err
	}
	settings, err := policy.Resolve(cluster, namespace, &own)
	return &settings, err
}

// optional reads the defaults of a level, nil where there are none.
func optional[T client.Object](ctx context.Context, c client.Client, namespace string, into T) (T, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.DefaultsName}, into)
	if apierrors.IsNotFound(err) {
		var none T
		return none, nil
	}
	return into, err
}
