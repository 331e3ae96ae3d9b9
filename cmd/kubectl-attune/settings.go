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

// settings returns the settings of the recommendation's policy, which is read once. It returns nil without an error, and
// notes the reason, where the policy does not exist, may not be read or is invalid.
func (r reach) settings(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*policy.Settings, error) {
	key := policyOf(rec)
	if settings, ok := r.known[key]; ok {
		return settings, nil
	}
	settings, err := r.resolve(ctx, key)
	// Three causes are normal for a user: the policy was deleted, may not be read, or is invalid. The answer is
	// then given without a next step.
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), lookup.Invalid(err) != nil:
		r.env.note("what policy %s would do next is not known: %v", key.Name, err)
		settings, err = nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the settings of policy %s: %w", key.Name, err)
	}
	// A nil is stored too: the note about a policy appears once.
	r.known[key] = settings
	return settings, err
}

// allowed is an operator that allows everything, because the plugin cannot know the operator's flags. Where the
// operator does not allow it, the policy's status says so (refused).
var allowed = policy.Operator{SourceNamespaces: []string{"*"}}

// policies is the reader of the operator's loops, so that both find and resolve alike.
func policies(c client.Client) lookup.Reader {
	return lookup.Reader{Client: c, Operator: allowed, Clusterwide: true}
}

// resolve resolves the settings as the loops do. Settings that the operator refuses are an error too.
func (r reach) resolve(ctx context.Context, key client.ObjectKey) (*policy.Settings, error) {
	reader := policies(r)
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
