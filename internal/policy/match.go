package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Matcher finds the policy that owns a workload. It is read-only after NewMatcher, so it is safe for concurrent use.
// The zero value has no policies.
type Matcher struct {
	// candidates are the policies of each namespace, in order of precedence.
	candidates map[string][]candidate
}

// candidate is a policy with its parsed selector.
type candidate struct {
	policy   *v1alpha1.AttunePolicy
	selector labels.Selector
}

// Conflict is a policy that selects a workload that another policy owns.
type Conflict struct {
	// Policy selects the workload, Winner owns it.
	Policy, Winner *v1alpha1.AttunePolicy
}

// Reason says why the winner takes precedence, such as "weight 200 over 100".
func (c Conflict) Reason() string { return reason(c.Winner, c.Policy) }

// NewMatcher returns a matcher of the policies that may own a workload. It leaves out policies that are being deleted,
// and policies with an invalid targetRef (Resolve reports why). The matcher points into the slice, which must not
// change.
//
// A policy with other invalid settings keeps its workloads. Otherwise, a typing error would hand its workloads to
// another policy, with other rules, until a user corrects the error.
func NewMatcher(policies []v1alpha1.AttunePolicy) Matcher {
	m := Matcher{candidates: map[string][]candidate{}}
	for i := range policies {
		p := &policies[i]
		selector, err := targetOf(p.Spec.TargetRef, OfCluster(p))
		if err != nil || p.DeletionTimestamp != nil {
			continue
		}
		m.candidates[p.Namespace] = append(m.candidates[p.Namespace], candidate{p, selector})
	}
	for _, candidates := range m.candidates {
		slices.SortFunc(candidates, func(a, b candidate) int { return byStrength(a.policy, b.policy) })
	}
	return m
}

// Match returns the policy that owns a workload (nil if no policy selects it) and the conflicts with the other policies
// that select it. Match ignores a part of another workload, such as the ReplicaSet of a Deployment or the Job of a
// CronJob.
func (m Matcher) Match(w workload.Workload) (winner *v1alpha1.AttunePolicy, losers []Conflict) {
	if w.Part() {
		return nil, nil
	}
	for _, c := range m.candidates[w.Namespace] {
		switch {
		case !c.selects(w):
		case winner == nil:
			winner = c.policy
		default:
			losers = append(losers, Conflict{Policy: c.policy, Winner: winner})
		}
	}
	return winner, losers
}

// selects reports whether the policy's targetRef selects the workload. If the cache dropped the labels of a workload,
// only a selector that matches everything selects it.
func (c candidate) selects(w workload.Workload) bool {
	ref := c.policy.Spec.TargetRef
	if w.TooLarge() && len(w.Labels) == 0 && !c.selector.Empty() {
		return false // its labels are not known
	}
	return (ref.Kind == "" || ref.Kind == w.Kind) && (ref.Name == "" || ref.Name == w.Name) && c.selector.Matches(labels.Set(w.Labels))
}

// byStrength orders policies: AttunePolicies before cluster policies, then the highest weight, then the oldest, then by
// name. The order is total, so two policies never alternate as owners.
func byStrength(a, b *v1alpha1.AttunePolicy) int {
	return cmp.Or(
		falseFirst(OfCluster(a), OfCluster(b)),
		cmp.Compare(weightOf(b), weightOf(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// reason describes the first difference in the order of byStrength.
func reason(winner, loser *v1alpha1.AttunePolicy) string {
	switch {
	case OfCluster(winner) != OfCluster(loser):
		return "an AttunePolicy takes precedence over an AttuneClusterPolicy"
	case weightOf(winner) != weightOf(loser):
		return fmt.Sprintf("weight %d over %d", weightOf(winner), weightOf(loser))
	case !winner.CreationTimestamp.Equal(&loser.CreationTimestamp):
		return fmt.Sprintf("equal weight %d; created %s, before %s", weightOf(winner), utc(winner), utc(loser))
	}
	return fmt.Sprintf("equal weight %d and age; name %s before %s", weightOf(winner), winner.Name, loser.Name)
}

func utc(p *v1alpha1.AttunePolicy) string {
	return p.CreationTimestamp.UTC().Format(time.RFC3339)
}

// weightOf returns the weight of a policy, or the built-in one. It reads the object, because a policy with invalid
// settings is matched too.
func weightOf(p *v1alpha1.AttunePolicy) int32 {
	return ptr.Deref(p.Spec.Weight, weight)
}
