// Package validation refuses what the CRDs' own rules cannot: settings that go wrong only together with
// those of another level, time zones, addresses and queries, and sources that a namespace may not name.
//
// It holds no rule of its own. What it asks is what the operator asks before it acts, in internal/policy,
// so a policy that is let in is one that works with the defaults as they stand.
package validation

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Env is what an object is judged against.
type Env struct {
	// Cluster and Namespace are the defaults below the object; nil: there are none.
	Cluster   *v1alpha1.AttuneDefaults
	Namespace *v1alpha1.AttuneNamespaceDefaults
	// Operator is what whoever installed the operator allows.
	Operator policy.Operator
}

// Verdict is what is said about an object.
type Verdict struct {
	// Denied are the problems that the object itself has a part in; it is let in if there are none.
	Denied []policy.Problem
	// Warnings are those of the levels below it, which hold it up all the same.
	Warnings []policy.Problem
}

// Validate judges an AttunePolicy, AttuneDefaults or AttuneNamespaceDefaults; any other object is let in.
func Validate(object runtime.Object, env Env) Verdict {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return verdict(policy.Policy, env.Cluster, env.Namespace, o, env.Operator)
	case *v1alpha1.AttuneNamespaceDefaults:
		return verdict(policy.Namespace, env.Cluster, o, nil, env.Operator)
	case *v1alpha1.AttuneDefaults:
		return verdict(policy.Cluster, o, nil, nil, env.Operator)
	}
	return Verdict{}
}

// verdict parts the problems that the object's own level has a part in from the others.
func verdict(own policy.Level, cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, p *v1alpha1.AttunePolicy, operator policy.Operator) Verdict {
	var v Verdict
	var invalid *policy.InvalidConfig
	if _, err := policy.ResolveAllowed(cluster, namespace, p, operator); !errors.As(err, &invalid) {
		return v
	}
	for _, problem := range invalid.Problems {
		if slices.Contains(problem.Levels, own) {
			v.Denied = append(v.Denied, problem)
		} else {
			v.Warnings = append(v.Warnings, problem)
		}
	}
	return v
}
