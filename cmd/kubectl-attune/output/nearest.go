package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// WhyNoRecommendation returns a sentence that says why an existing workload has no recommendation. policies are the
// policies of its namespace.
func WhyNoRecommendation(w workload.Workload, policies []v1alpha1.AttunePolicy) string {
	switch where, skipped := w.Skipped(); {
	case w.Part():
		return fmt.Sprintf("%s belongs to %s/%s, which attune manages as a whole: specify that one", w, w.OwnedBy.Kind, w.OwnedBy.Name)
	case w.Unreadable != "":
		return fmt.Sprintf("no recommendation for %s in namespace %s: its pod template cannot be read: %s", w, w.Namespace, w.Unreadable)
	case skipped:
		return fmt.Sprintf("no recommendation for %s in namespace %s: %s has the annotation %s", w, w.Namespace, where, v1alpha1.SkipAnnotation)
	case len(policies) == 0:
		return fmt.Sprintf("no policy selects %s: no AttunePolicy or AttuneClusterPolicy covers namespace %s", w, w.Namespace)
	}
	if winner, _ := policy.NewMatcher(policies).Match(w); winner != nil {
		return fmt.Sprintf("policy %s selects %s in namespace %s, but there is no recommendation yet: %s", winner.Name, w, w.Namespace, policyState(winner))
	}
	misses := podview.Map(podview.Pointers(policies), func(p *v1alpha1.AttunePolicy) miss { return missOf(p, w) })
	best := slices.MinFunc(misses, func(a, b miss) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.policy, b.policy)) })
	return fmt.Sprintf("no policy selects %s in namespace %s; the closest match is %s, which %s", w, w.Namespace, best.policy, best.why)
}

// policyState describes the state of a policy from its conditions.
func policyState(p *v1alpha1.AttunePolicy) string {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case policy.OfCluster(p):
		return "the operator has not reconciled the workload yet; kubectl attune status -A shows the policy"
	case ready == nil:
		return "the operator has not reconciled the policy yet"
	case ready.Status == metav1.ConditionTrue:
		return "the operator has not reconciled the workload yet"
	}
	return ready.Reason + ", " + ready.Message
}

// miss is why a policy does not select a workload, and its distance.
type miss struct {
	policy, why string
	far         int
}

// Distances of a policy from a workload. Each label that does not match adds one to labelled.
const (
	deleted   = 0
	labelled  = 1
	named     = 1000
	otherKind = 2000
	invalid   = 3000
)

// missOf returns why the policy does not select the workload.
func missOf(p *v1alpha1.AttunePolicy, w workload.Workload) miss {
	ref := p.Spec.TargetRef
	switch {
	case ref.Kind != "" && ref.Kind != w.Kind:
		return miss{p.Name, "selects workloads of kind " + string(ref.Kind), otherKind}
	case ref.Name != "" && ref.Name != w.Name:
		return miss{p.Name, "selects only " + string(ref.Kind) + "/" + ref.Name, named}
	}
	if selector, err := metav1.LabelSelectorAsSelector(ref.Selector); err == nil && ref.Selector != nil {
		requirements, selectable := selector.Requirements()
		if missing := unmet(requirements, w.Labels); selectable && missing != nil {
			return miss{p.Name, "requires " + strings.Join(missing, " and "), labelled + len(missing)}
		}
	}
	if p.DeletionTimestamp != nil {
		return miss{p.Name, "is being deleted", deleted}
	}
	return miss{p.Name, "has an invalid targetRef: kubectl attune status shows why", invalid}
}

// unmet describes each requirement that the labels do not meet, with the actual value.
func unmet(requirements labels.Requirements, has map[string]string) (all []string) {
	for i := range requirements {
		r := &requirements[i]
		if r.Matches(labels.Set(has)) {
			continue
		}
		instead := "no such label"
		if value, there := has[r.Key()]; there {
			instead = r.Key() + "=" + value
		}
		all = append(all, fmt.Sprintf("%s (the workload has %s)", r, instead))
	}
	return all
}
