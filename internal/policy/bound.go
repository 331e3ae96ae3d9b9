package policy

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// MostPolicies is how many policies of a namespace are used. Each policy is evaluated after every change in its
// namespace, so the bound limits what a namespace costs the operator.
const MostPolicies = 100

// MostWorkloads is how many workloads of a namespace are sized, MostContainers the most containers of one of them,
// and OnAverage the most containers per workload over all of them. Every container is a target that is stored in
// an object, kept by each webhook in about a KiB, and reported in some series of metrics.
const (
	MostWorkloads  = 2000
	MostContainers = 64
	OnAverage      = 4
)

// Used sorts the policies of a namespace and returns those that are used, the oldest, and those beyond the bound.
// A policy that is being deleted takes no place. It sorts the slice that it is given, and both results share its
// array.
func Used(policies []v1alpha1.AttunePolicy) (used, beyond []v1alpha1.AttunePolicy) {
	return oldest(policies, MostPolicies, func(p *v1alpha1.AttunePolicy) *metav1.ObjectMeta { return &p.ObjectMeta })
}

// oldest sorts the oldest objects first, and those that are being deleted last, which most does not count.
func oldest[T any](objects []T, most int, of func(*T) *metav1.ObjectMeta) (used, beyond []T) {
	slices.SortFunc(objects, func(x, y T) int {
		a, b := of(&x), of(&y)
		return cmp.Or(
			falseFirst(a.DeletionTimestamp != nil, b.DeletionTimestamp != nil),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	most = min(len(objects), most)
	for most < len(objects) && of(&objects[most]).DeletionTimestamp != nil {
		most++
	}
	return objects[:most], objects[most:]
}

// falseFirst sorts what a condition holds for behind all others.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// TooMany is the message for a policy beyond the bound.
func TooMany(namespace string) string {
	return fmt.Sprintf("namespace %s has more than %d policies, of which the oldest are used and this one is not: "+
		"delete some, or have one policy select more workloads", namespace, MostPolicies)
}

// TooManyContainers reports whether a pod has more containers than are sized. Init containers that end count too.
func TooManyContainers(spec *corev1.PodSpec) bool {
	return containers(spec) > MostContainers
}

// containers is how many containers a pod has, of both lists; ephemeral ones are not in a template.
func containers(spec *corev1.PodSpec) int { return len(spec.InitContainers) + len(spec.Containers) }

// Younger returns the workloads beyond the bounds of a namespace: all but the oldest most workloads, or fewer
// where these have more than OnAverage containers per workload. Equally old ones keep the order of the argument
// (kind and name), so that the same workloads are left out in every pass. Jobs that have ended come last, since
// they make no more pods.
func Younger(workloads []workload.Workload, most int) []workload.Workload {
	byAge := slices.Clone(workloads)
	slices.SortStableFunc(byAge, func(a, b workload.Workload) int {
		return cmp.Or(falseFirst(a.Ended, b.Ended), a.Created.Compare(b.Created))
	})
	// Age decides and not size, so that a large new workload takes no place from those that are sized already.
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
