package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/workload"
)

// maxUnready is how many namespaces a cluster policy's status names.
const maxUnready = 20

// summary is everything that a cluster policy's status is computed from. It is only read.
type summary struct {
	policy *v1alpha1.AttuneClusterPolicy
	// settings over the AttuneDefaults alone.
	settings policy.Settings
	// namespaces are the selected ones by name, parts what was found in each.
	namespaces []string
	parts      []part
	// sized are the kinds of workloads that the operator watches.
	sized workload.Sized
}

// status adds up the parts. It is pure.
func (x summary) status() v1alpha1.AttuneClusterPolicyStatus {
	s := v1alpha1.AttuneClusterPolicyStatus{
		ObservedGeneration: x.policy.Generation,
		Mode:               x.settings.Resize.Mode,
		Conditions:         slices.Clone(x.policy.Status.Conditions),
		Namespaces:         &v1alpha1.NamespaceCounts{Selected: int32(len(x.namespaces))},
		Workloads:          &v1alpha1.WorkloadCounts{},
		Savings:            x.savings(),
	}
	for i, p := range x.parts {
		s.Workloads.Discovered += p.counts.Discovered
		s.Workloads.WithRecommendations += p.counts.WithRecommendations
		s.Workloads.Resized += p.counts.Resized
		s.Workloads.Pending += p.counts.Pending
		if p.ready.is {
			s.Namespaces.Ready++
		}
		if p.wants() && len(s.Unready) < maxUnready {
			s.Unready = append(s.Unready, v1alpha1.UnreadyNamespace{Namespace: x.namespaces[i], Reason: p.ready.reason, Message: p.ready.message})
		}
	}
	for _, c := range []metav1.Condition{
		x.ready(*s.Namespaces, s.Workloads.Discovered),
		x.first(v1alpha1.ConditionResizing, v1alpha1.ReasonIdle, func(p part) brief { return p.resizing }),
		x.first(v1alpha1.ConditionDegraded, v1alpha1.ReasonHealthy, func(p part) brief { return p.degraded }),
		x.first(v1alpha1.ConditionResizeBlocked, v1alpha1.ReasonNotBlocked, func(p part) brief { return p.blocked }),
	} {
		c.ObservedGeneration = x.policy.Generation
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

// wants reports that the policy is not ready in a namespace, and that this is worth a word: a namespace without
// workloads, or whose own policies size all of them, is as it should be.
func (p part) wants() bool {
	return !p.ready.is && p.ready.reason != v1alpha1.ReasonNoWorkloadsFound && p.ready.reason != v1alpha1.ReasonConflict
}

// ready is True where the policy is ready in any namespace. Elsewhere it has the reason of most namespaces.
func (x summary) ready(of v1alpha1.NamespaceCounts, workloads int32) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	reasons, example := map[string]int{}, map[string]string{}
	unready := 0
	for i, p := range x.parts {
		if !p.wants() {
			continue
		}
		unready++
		reasons[p.ready.reason]++
		if example[p.ready.reason] == "" {
			example[p.ready.reason] = x.namespaces[i] + ": " + p.ready.message
		}
	}
	if of.Ready > 0 {
		c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
			Message: fmt.Sprintf("watching %d workloads in %d namespaces", workloads, of.Ready)}
		if unready > 0 {
			c.Message += fmt.Sprintf("; not ready in %d namespaces, of which status.unready names the first", unready)
		}
		return c
	}
	switch {
	case of.Selected == 0:
		return no(v1alpha1.ReasonNoWorkloadsFound, "no namespace is selected")
	case unready == 0:
		return no(v1alpha1.ReasonNoWorkloadsFound, fmt.Sprintf("there is nothing to size in %d namespaces: no workload matches, or policies of the namespaces size them", of.Selected)+x.notSized())
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(reasons)), func(a, b string) int { return cmp.Compare(reasons[a], reasons[b]) })
	return no(most, fmt.Sprintf("in %d of %d namespaces, such as %s", reasons[most], of.Selected, example[most]))
}

// notSized is a clause about the policy's kind, or empty.
func (x summary) notSized() string {
	if x.policy.Spec.TargetRef == nil {
		return ""
	}
	return notSized(x.sized, x.policy.Spec.TargetRef.Kind)
}

// first returns the condition of the first namespace that has it True, with the namespace's name; otherwise a False one
// with the given reason.
func (x summary) first(kind, otherwise string, of func(part) brief) metav1.Condition {
	n := 0
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: otherwise}
	for i, p := range x.parts {
		b := of(p)
		if !b.is {
			continue
		}
		if n++; n == 1 {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, b.reason, x.namespaces[i]+": "+b.message
		}
	}
	if n > 1 {
		c.Message += fmt.Sprintf("; and in %d more namespaces", n-1)
	}
	return c
}

// savings adds up what the targets save; nil in the mode Observe. Money is
// counted at the prices of the AttuneDefaults.
func (x summary) savings() *v1alpha1.Savings {
	var sum savings.Pair
	any := false
	for _, p := range x.parts {
		if p.saved != nil {
			any, sum = true, sum.Plus(*p.saved)
		}
	}
	if !any {
		return nil
	}
	return savingsOf(sum, x.settings.Pricing)
}

// unreadyCluster sets the condition Ready to False. Everything else but the other conditions is empty.
func unreadyCluster(p *v1alpha1.AttuneClusterPolicy, reason, message string) v1alpha1.AttuneClusterPolicyStatus {
	return v1alpha1.AttuneClusterPolicyStatus{ObservedGeneration: p.Generation, Conditions: notReady(p.Status.Conditions, p.Generation, reason, message)}
}
