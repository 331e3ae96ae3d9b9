package policy

import (
	"cmp"
	"fmt"
	"slices"

	"attune.io/attune/api/v1alpha1"
)

// MostPolicies of a namespace are used. Each is looked at after every change in the namespace, so that a bound on them is
// one on what a namespace costs.
const MostPolicies = 100

// Used parts the policies of a namespace, all of which it puts in order, into those that are used, the oldest, and those
// beyond the bound. One that is being deleted takes no place.
func Used(policies []v1alpha1.AttunePolicy) (used, beyond []v1alpha1.AttunePolicy) {
	slices.SortFunc(policies, func(a, b v1alpha1.AttunePolicy) int {
		return cmp.Or(
			cmp.Compare(place(a), place(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	most := min(len(policies), MostPolicies)
	for most < len(policies) && place(policies[most]) > 0 {
		most++
	}
	return policies[:most], policies[most:]
}

// place: those that are being deleted come last.
func place(p v1alpha1.AttunePolicy) int {
	if p.DeletionTimestamp != nil {
		return 1
	}
	return 0
}

// TooMany is what is said to a policy beyond the bound.
func TooMany(namespace string) string {
	return fmt.Sprintf("namespace %s has more than %d policies, of which the oldest are used and this one is not: "+
		"delete some, or have one policy select more workloads", namespace, MostPolicies)
}
