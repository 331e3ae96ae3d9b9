package lookup

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
)

// PoliciesInScope returns the cluster policies with their status, for a report (policy.AsPolicy). For all namespaces it
// returns each one. For one namespace it returns the ones that select it or size one of its workloads, with the counts
// of this namespace. recs are the recommendations of the namespace; empty means all. selector matches labels of
// policies; nil matches all.
//
// A caller without permission to read them gets an error only if a recommendation refers to a cluster policy.
func PoliciesInScope(ctx context.Context, reader Reader, namespace string, selector labels.Selector, recs []v1alpha1.AttuneRecommendation) ([]v1alpha1.AttunePolicy, error) {
	used, beyond, err := reader.ClusterPolicies(ctx)
	if err != nil {
		return nil, unlessUnneeded(err, recs)
	}
	there := map[string]bool{}
	if namespace != "" {
		instances, err := reader.Instances(ctx, namespace)
		// A caller that may not read the namespace sees only the policies that size its workloads.
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		for i := range instances {
			there[instances[i].Name] = true
		}
		for i := range recs {
			there[policy.NameOf(recs[i].Spec.Policy)] = true
		}
	}
	var out []v1alpha1.AttunePolicy
	for _, p := range append(used[:len(used):len(used)], beyond...) {
		as := policy.AsPolicy(&p)
		if selector != nil && !selector.Matches(labels.Set(p.Labels)) || namespace != "" && !there[as.Name] {
			continue
		}
		if namespace != "" {
			as.Status.Workloads, as.Status.Savings = countsOf(as, recs), nil
		}
		out = append(out, *as)
	}
	return out, nil
}

// InstancesInScope returns the instances of the cluster policies in one namespace, or in all of them (""). A caller
// without permission to read them gets an empty result.
func InstancesInScope(ctx context.Context, reader Reader, namespace string) ([]v1alpha1.AttunePolicy, error) {
	instances, err := reader.Instances(ctx, namespace)
	return instances, unlessUnneeded(err, nil)
}

// unlessUnneeded returns err, but drops a missing permission or kind if no recommendation refers to a cluster policy.
func unlessUnneeded(err error, recs []v1alpha1.AttuneRecommendation) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return err
	}
	for i := range recs {
		if recs[i].Spec.Policy.Kind == v1alpha1.PolicyKindCluster {
			return err
		}
	}
	return nil
}

// SizedBy reports whether a policy owns a recommendation.
func SizedBy(rec *v1alpha1.AttuneRecommendation, p *v1alpha1.AttunePolicy) bool {
	return policy.NameOf(rec.Spec.Policy) == p.Name && (policy.OfCluster(p) || rec.Namespace == p.Namespace)
}

// countsOf counts only the given recommendations.
func countsOf(p *v1alpha1.AttunePolicy, recs []v1alpha1.AttuneRecommendation) *v1alpha1.WorkloadCounts {
	out := &v1alpha1.WorkloadCounts{}
	for i := range recs {
		if !SizedBy(&recs[i], p) {
			continue
		}
		out.Discovered++
		if podview.HasTarget(recs[i].Spec) {
			out.WithRecommendations++
		}
		if len(recs[i].Status.Verified) > 0 {
			out.Resized++
		}
		if len(recs[i].Status.Records) > 0 {
			out.Pending++
		}
	}
	return out
}
