package policy

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// MostPolicies of a namespace are used. Each is looked at after every change in the namespace, so that a bound on them is
// one on what a namespace costs.
const MostPolicies = 100

// MostWorkloads of a namespace are sized, of at most MostContainers each and OnAverage together: every container is a target
// that is stored and that each webhook keeps, in about a KiB, and some series of the metrics.
const (
	MostWorkloads  = 2000
	MostContainers = 64
	OnAverage      = 4
)

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

// TooManyContainers: a pod of the workload, or any, has more containers than are sized. Those that end before others begin count.
func TooManyContainers(spec *corev1.PodSpec) bool {
	return containers(spec) > MostContainers
}

func containers(spec *corev1.PodSpec) int { return len(spec.InitContainers) + len(spec.Containers) }

func ended(w workload.Workload) int {
	if w.Ended {
		return 1
	}
	return 0
}

// Younger are the workloads beyond the most that are sized of a namespace, and beyond the containers that these have OnAverage:
// all but the oldest, and of equally old ones all but the first by kind and name. Jobs that have ended come last: they make no
// more pods. What it is given is in the order of kind and name, and stays so.
func Younger(workloads []workload.Workload, most int) []workload.Workload {
	byAge := slices.Clone(workloads)
	slices.SortStableFunc(byAge, func(a, b workload.Workload) int {
		return cmp.Or(ended(a)-ended(b), a.Created.Compare(b.Created))
	})
	sum := 0
	for i, w := range byAge {
		if w.Template != nil {
			sum += containers(&w.Template.Spec)
		}
		if i >= most || sum > OnAverage*most {
			return byAge[i:]
		}
	}
	return nil
}
