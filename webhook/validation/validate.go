// Package validation is the validating webhook for attune's own objects: AttunePolicy, AttuneClusterPolicy,
// AttuneDefaults and AttuneNamespaceDefaults. It rejects what the rules in the CRDs cannot check: settings that
// contradict another layer, time zones, addresses and queries, and usage sources that a namespace may not use.
//
// It has no rules of its own. It applies internal/policy, as the loops do before they act, so that an accepted policy
// works with the present defaults. Changes outside the spec always pass.
//
// The path of a request: Handler.Handle decodes the object (handler.go), bounded limits its lists, env reads the
// layers below it, Validate resolves all of them and sorts the problems (validate.go). Start reading with Validate.
package validation

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
)

// Env holds what an object is validated against. The zero value has no layers below the object and no permissions.
type Env struct {
	// Cluster has the AttuneDefaults; nil: there are none.
	Cluster *v1alpha1.AttuneDefaults
	// Namespace has the AttuneNamespaceDefaults of the object's namespace; nil: there are none.
	Namespace *v1alpha1.AttuneNamespaceDefaults
	// Operator is what the installation of attune allows.
	Operator policy.Operator
	// Stored is true for the update of a stored object.
	Stored bool
}

// Verdict is the result of Validate. The zero value accepts the object without a warning.
type Verdict struct {
	// Denied are the problems in which the object's own layer takes part; with any of them the object is rejected.
	Denied []policy.Problem
	// Warnings are the problems of the layers below, which prevent sizing too but are not caused by the object.
	Warnings []policy.Problem
	// Remarks are sentences about a valid policy that probably does not do what its author means.
	Remarks []string
}

// Validate validates an AttunePolicy, AttuneClusterPolicy, AttuneDefaults or AttuneNamespaceDefaults; it accepts any
// other object.
func Validate(object runtime.Object, env Env) Verdict {
	switch o := object.(type) {
	case *v1alpha1.AttunePolicy:
		return verdict(policy.Policy, env.Cluster, env.Namespace, o, env)
	case *v1alpha1.AttuneClusterPolicy:
		return clusterVerdict(o, env)
	case *v1alpha1.AttuneNamespaceDefaults:
		return verdict(policy.Namespace, env.Cluster, o, nil, env)
	case *v1alpha1.AttuneDefaults:
		return verdict(policy.Cluster, o, nil, nil, env)
	}
	return Verdict{}
}

// clusterVerdict validates a cluster policy over the AttuneDefaults. Conflicts with the defaults of a namespace are
// reported in that namespace.
func clusterVerdict(o *v1alpha1.AttuneClusterPolicy, env Env) Verdict {
	p := policy.Instance(o, "", true)
	v := verdict(policy.LevelOf(p), env.Cluster, nil, p, env)
	if _, err := policy.ScopeOf(o, env.Operator.Namespace); err != nil {
		v.Denied = append(v.Denied, policy.Problem{Fields: []string{"namespaceSelector"}, Levels: []policy.Level{policy.LevelOf(p)}, Sentence: err.Error()})
	}
	return v
}

// verdict separates the problems in which the object's own layer takes part from all others. Without this, a mistake
// in the AttuneDefaults would block every change of every policy.
func verdict(own policy.Level, cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, p *v1alpha1.AttunePolicy, env Env) Verdict {
	var v Verdict
	var invalid *policy.InvalidConfig
	settings, err := policy.ResolveAllowed(cluster, namespace, p, env.Operator)
	if !env.Stored { // earlier releases accepted such bounds, and an update of another field must pass
		for _, doubt := range settings.Doubts {
			if slices.Contains(doubt.Levels, own) {
				v.Denied = append(v.Denied, doubt)
			}
		}
	}
	// ResolveAllowed fails only with an InvalidConfig; otherwise the settings are valid.
	if !errors.As(err, &invalid) {
		if v.Remarks = settings.Remarks(); settings.Origin["sloGuardrails"] == own { // the errors quote the query
			v.Remarks = append(v.Remarks, queries(settings.Resize.Guardrails)...)
		}
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

// queries names the guardrails whose query Prometheus cannot parse. They are no problems, because other servers know
// more functions. Queries that are expensive to parse are left out.
func queries(guardrails []v1alpha1.SLOGuardrail) (remarks []string) {
	promQL := parser.NewParser(parser.Options{})
	for _, g := range guardrails {
		if policy.CheckCost(g.Query) != nil {
			continue
		}
		if _, err := promQL.ParseExpr(g.Query); err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			remarks = append(remarks, fmt.Sprintf("sloGuardrails[%s].query is not PromQL: %s", g.Name, clip.Text(first, mostOfError)))
		}
	}
	return remarks
}

// mostText is the longest text that the CRDs' schema allows in any field, in bytes; mostEntries is the greatest
// length of each list and map that the schema limits.
const mostText = 4096

var mostEntries = map[string]int{
	"sloGuardrails": 16, "windows": 24, "daysOfWeek": 7, "excludedContainers": 64, "containerPolicies": 64, "controlledResources": 2, "labels": 8, "headers": 16,
	"queryParameters": 16, "namespaces": 1000,
}

// bounded rejects texts and lists that are longer than the schema allows. The API server applies its schema before it
// calls the webhook, so only another caller sends such an object; it must not cost more than a review of an API
// server.
func bounded(spec any) error { return boundedField("", reflect.ValueOf(spec)) }

// boundedField checks a value and all its parts; path is its field.
func boundedField(path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		if n := v.Len(); n > mostText {
			return fmt.Errorf("%s has a text of %d bytes: use at most %d", path, n, mostText)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return boundedField(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			of, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if err := boundedField(strings.Trim(path+"."+of, "."), v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Map:
		if most, is := mostEntries[path[strings.LastIndex(path, ".")+1:]]; is && v.Len() > most {
			return fmt.Errorf("%s has %d entries: use at most %d", path, v.Len(), most)
		}
		for key, value := range v.Seq2() {
			if err := cmp.Or(boundedField(path, key), boundedField(path, value)); err != nil {
				return err
			}
		}
	}
	return nil
}
