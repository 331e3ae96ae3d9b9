// Package validation is the validating webhook for attune's own objects: AttunePolicy, AttuneClusterPolicy,
// AttuneDefaults and AttuneNamespaceDefaults. It refuses what the rules in the CRDs cannot: settings that are wrong only together
// with those of another level, time zones, addresses and queries, and usage sources that a namespace may not name.
//
// It has no rules of its own. It applies internal/policy, as the operator does before it acts, so that a policy
// that is accepted works with the defaults as they are. Changes of anything but the spec always pass.
//
// The way of a request: Handler.Handle decodes the object (handler.go), bounded limits its lists, env
// reads the levels below it, Validate resolves all of them and sorts the problems (validate.go). Start reading
// with Validate.
package validation

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Env is what an object is judged against. The zero value has no levels below the object and no permissions.
type Env struct {
	// Cluster has the AttuneDefaults; nil: there are none.
	Cluster *v1alpha1.AttuneDefaults
	// Namespace has the AttuneNamespaceDefaults of the object's namespace; nil: there are none.
	Namespace *v1alpha1.AttuneNamespaceDefaults
	// Operator is what the installation of the operator allows.
	Operator policy.Operator
}

// Verdict is the result of Validate. The zero value accepts the object without a warning.
type Verdict struct {
	// Denied are the problems in which the object's own level takes part; with any of them the object is refused.
	Denied []policy.Problem
	// Warnings are the problems of the levels below, which prevent sizing too but are not the object's fault.
	Warnings []policy.Problem
}

// Validate judges an AttunePolicy, AttuneClusterPolicy, AttuneDefaults or AttuneNamespaceDefaults; any other object is accepted.
func Validate(object runtime.Object, env Env) Verdict {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return verdict(policy.Policy, env.Cluster, env.Namespace, o, env.Operator)
	case *v1alpha1.AttuneClusterPolicy:
		return clusterVerdict(o, env)
	case *v1alpha1.AttuneNamespaceDefaults:
		return verdict(policy.Namespace, env.Cluster, o, nil, env.Operator)
	case *v1alpha1.AttuneDefaults:
		return verdict(policy.Cluster, o, nil, nil, env.Operator)
	}
	return Verdict{}
}

// clusterVerdict judges a cluster policy over the AttuneDefaults: the defaults of a namespace that do not go with it are
// reported there.
func clusterVerdict(o *v1alpha1.AttuneClusterPolicy, env Env) Verdict {
	p := policy.Instance(o, "", true)
	v := verdict(policy.LevelOf(p), env.Cluster, nil, p, env.Operator)
	if _, err := policy.ScopeOf(o, env.Operator.Namespace); err != nil {
		v.Denied = append(v.Denied, policy.Problem{Fields: []string{"namespaceSelector"}, Levels: []policy.Level{policy.LevelOf(p)}, Sentence: err.Error()})
	}
	return v
}

// verdict separates the problems in which the object's own level takes part from all others. Without this, a
// mistake in the AttuneDefaults would block every change of every policy.
func verdict(own policy.Level, cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, p *v1alpha1.AttunePolicy, operator policy.Operator) Verdict {
	var v Verdict
	var invalid *policy.InvalidConfig
	// ResolveAllowed fails only with an InvalidConfig; any other result is a sound object.
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

// maxGuardrails and maxWindows bound lists whose entries are checked one by one. They are the bounds of the CRDs'
// schema.
const (
	maxGuardrails = 16
	maxWindows    = 24
)

// bounded refuses lists that are longer than the schema allows. The API server applies its schema before it calls
// the webhook, so only another caller sends such an object; it must not cost more than an API server does.
func bounded(settings *v1alpha1.PolicySettings) error {
	if n := len(settings.SLOGuardrails); n > maxGuardrails {
		return fmt.Errorf("sloGuardrails has %d entries: use at most %d", n, maxGuardrails)
	}
	if u := settings.UpdateStrategy; u != nil && u.Schedule != nil && len(u.Schedule.Windows) > maxWindows {
		return fmt.Errorf("updateStrategy.schedule.windows has %d entries: use at most %d", len(u.Schedule.Windows), maxWindows)
	}
	return nil
}

// settingsOf returns the settings of an object; those of an unknown type are empty.
func settingsOf(object client.Object) *v1alpha1.PolicySettings {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return &o.Spec.PolicySettings
	case *v1alpha1.AttuneClusterPolicy:
		return &o.Spec.PolicySettings
	case *v1alpha1.AttuneDefaults:
		return &o.Spec.PolicySettings
	case *v1alpha1.AttuneNamespaceDefaults:
		return &o.Spec.PolicySettings
	}
	return &v1alpha1.PolicySettings{}
}
