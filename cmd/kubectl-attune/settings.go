package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/policy/lookup"
)

// settingsReader reads the settings of policies, each policy once in a run.
type settingsReader struct {
	// env receives notes about what cannot be read.
	env *environment
	// client reads policies and defaults with the user's rights.
	client client.Client
	// known holds the settings by policy; nil where they cannot be known.
	known map[client.ObjectKey]*policy.Settings
}

// newSettingsReader makes a reader for one run. Its notes go to env.
func newSettingsReader(env *environment, c client.Client) *settingsReader {
	return &settingsReader{env: env, client: c, known: map[client.ObjectKey]*policy.Settings{}}
}

// of returns the settings of the recommendation's policy. It returns nil without an error, and notes the reason,
// where the policy does not exist, may not be read or is invalid.
func (s *settingsReader) of(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*policy.Settings, error) {
	key := client.ObjectKey{Namespace: rec.Namespace, Name: policy.NameOf(rec.Spec.Policy)}
	if settings, ok := s.known[key]; ok {
		return settings, nil
	}
	settings, err := s.read(ctx, key)
	// Three causes are normal for a user: the policy was deleted, may not be read, or is invalid. The answer is
	// then given without a next step.
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), lookup.Invalid(err) != nil:
		s.env.note("what policy %s would do next is not known: %v", key.Name, err)
		settings, err = nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the settings of policy %s: %w", key.Name, err)
	}
	// A nil is stored too: the note about a policy appears once.
	s.known[key] = settings
	return settings, err
}

// fields returns the settings with the level that set each; nil where of returns nil.
func (s *settingsReader) fields(ctx context.Context, rec *v1alpha1.AttuneRecommendation) ([]policy.Field, error) {
	if settings, err := s.of(ctx, rec); settings == nil || err != nil {
		return nil, err
	}
	reader := policies(s.client)
	own, err := reader.Of(ctx, rec)
	if err != nil {
		return nil, err
	}
	return reader.Fields(ctx, own)
}

// allowed is an operator that allows everything, because the plugin cannot know the operator's flags. Where the
// operator does not allow it, the policy's status says so (refused).
var allowed = policy.Operator{SourceNamespaces: []string{"*"}}

// policies is the reader of the operator's loops, so that both find and resolve alike.
func policies(c client.Client) lookup.Reader {
	return lookup.Reader{Client: c, Operator: allowed, Clusterwide: true}
}

// read resolves the settings as the loops do. Settings that the operator refuses are an error too.
func (s *settingsReader) read(ctx context.Context, key client.ObjectKey) (*policy.Settings, error) {
	reader := policies(s.client)
	own, err := reader.Policy(ctx, key)
	if err != nil {
		return nil, err
	}
	settings, err := reader.Settings(ctx, own)
	if err == nil {
		err = refused(own)
	}
	return &settings, err
}

// refused returns why the operator does not use the policy in its present generation, by its status; nil where it
// does, or has not looked at it.
func refused(p *v1alpha1.AttunePolicy) error {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonInvalidConfig || ready.ObservedGeneration != p.Generation {
		return nil
	}
	return &policy.InvalidConfig{Problems: []policy.Problem{{Sentence: ready.Message}}}
}
