package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// Reservation is the growth of an in-flight resize that the cache does not show yet. Without it, two workloads
// decided at the same moment would both count on the same free room of a node or a quota. It is comparable with ==.
type Reservation struct {
	// UID is the uid of the pod that grows.
	UID types.UID
	// Namespace and Node are the pod's: they name the quotas and the node whose room it takes.
	Namespace, Node string
	// Needs is the pod's footprint on the node after the resize, as the scheduler counts it: millicores of CPU and
	// bytes of memory.
	Needs [2]recommender.Amount
	// Growth is what the resize adds to the namespace's quotas: requests and limits, in millicores and bytes.
	Growth recommender.Size
}

// Reservations are the reservations of all workloads at one moment. The zero value has none.
type Reservations struct {
	// Version changes with each new reservation. The loop compares it before it accepts a decision: if it has
	// changed, the decision may count on room that is taken.
	Version int
	// All has no order.
	All []Reservation
}

// OnNode returns the reserved footprint on a node by pod uid, in millicores and bytes; empty: nothing is reserved.
func (l Reservations) OnNode(node string) map[types.UID][2]recommender.Amount {
	taken := map[types.UID][2]recommender.Amount{}
	for _, p := range l.All {
		if p.Node == node {
			taken[p.UID] = p.Needs
		}
	}
	return taken
}

// InNamespace returns the sum of the reserved growth in the quotas of a namespace.
func (l Reservations) InNamespace(namespace string) recommender.Size {
	var sum recommender.Size
	for _, p := range l.All {
		if p.Namespace == namespace {
			sum = podview.Sum(sum, p.Growth)
		}
	}
	return sum
}

// ReservationsOf derives the reservations from the records of a workload's pods. So they need no storage and survive
// a restart. pods returns a pod by its uid, or nil for a deleted pod, which reserves nothing.
func ReservationsOf(records []v1alpha1.ResizeRecord, pods func(types.UID) *corev1.Pod) []Reservation {
	var made []Reservation
	for _, record := range records {
		pod := pods(record.PodUID)
		if pod == nil || !lifecycle.OnItsWay(pod, record) {
			continue
		}
		plan := lifecycle.WholePlan(pod, record)
		made = append(made, Reservation{
			UID: pod.UID, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
			Needs: plan.Needs(pod), Growth: resize.GrowthOf(pod, plan),
		})
	}
	return made
}
