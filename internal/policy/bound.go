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

// MostPolicies is the number of policies of a namespace that attune uses. attune evaluates each policy after every
// change in its namespace, so this limits the cost of a namespace.
const MostPolicies = 100

// MostWorkloads is the number of workloads of a namespace that attune sizes. MostContainers is the limit of containers
// in one of them, OnAverage the limit of their average. Every container has a target: it is stored in an object, takes
// about 1 KiB in each webhook, and has several metric series.
const (
	MostWorkloads  = 2000
	MostContainers = 64
	OnAverage      = 4
)

// Used sorts the policies of a namespace and returns the oldest, which are used, and the ones beyond the limit. A
// policy that is being deleted does not count. Used sorts the given slice, and both results share its array.
func Used(policies []v1alpha1.AttunePolicy) (used, beyond []v1alpha1.AttunePolicy) {
	return oldest(policies, MostPolicies, func(p *v1alpha1.AttunePolicy) *metav1.ObjectMeta { return &p.ObjectMeta })
}

// oldest sorts objects by age, oldest first. Objects that are being deleted come last and do not count towards most.
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

// falseFirst sorts false before true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// TooMany is the message of a policy beyond the limit.
func TooMany(namespace string) string {
	return fmt.Sprintf("namespace %s has more than %d policies: attune uses the oldest and ignores this one. "+
		"Delete some policies, or select more workloads with one policy", namespace, MostPolicies)
}

// TooManyContainers reports whether a pod has more containers than attune sizes. Init containers count too, also those
// that end.
func TooManyContainers(spec *corev1.PodSpec) bool {
	return containers(spec) > MostContainers
}

// containers returns the number of containers and init containers. A template has no ephemeral containers.
func containers(spec *corev1.PodSpec) int { return len(spec.InitContainers) + len(spec.Containers) }

// Younger returns the workloads beyond the limits of a namespace: all except the oldest most workloads, or fewer if
// these have more than OnAverage containers per workload. Workloads of equal age keep their order (kind and name), so
// that every reconcile leaves out the same ones. Ended Jobs come last, because they create no more pods.
func Younger(workloads []workload.Workload, most int) []workload.Workload {
	byAge := slices.Clone(workloads)
	slices.SortStableFunc(byAge, func(a, b workload.Workload) int {
		return cmp.Or(falseFirst(a.Ended, b.Ended), a.Created.Compare(b.Created))
	})
	// Age decides, not size: a large new workload must not displace workloads that are already sized.
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
