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

// Reservation is growth that is under way and that the cache does not show yet. Without it, two workloads
// that are decided at the same moment would both count on the same free room of a node or a quota. It is
// comparable with ==.
type Reservation struct {
	// UID is that of the pod that grows.
	UID types.UID
	// Namespace and Node are those of the pod: the quotas and the node whose room it takes.
	Namespace, Node string
	// Needs is what the node must have for the pod once the plan is carried out, as the scheduler counts
	// it: millicores of CPU and bytes of memory.
	Needs [2]recommender.Amount
	// Growth is what the pod takes more of its namespace's quotas, requests and limits.
	Growth recommender.Size
}

// Reservations are those of all workloads at one moment. The zero value has none.
type Reservations struct {
	// Version changes with each reservation that is added. The loop compares it before it accepts a
	// decision: another version means that the decision may count on room that is taken.
	Version int
	// All has no order.
	All []Reservation
}

// OnNode returns what is reserved of a node by pod uid, in millicores and bytes; empty: nothing.
func (l Reservations) OnNode(node string) map[types.UID][2]recommender.Amount {
	taken := map[types.UID][2]recommender.Amount{}
	for _, p := range l.All {
		if p.Node == node {
			taken[p.UID] = p.Needs
		}
	}
	return taken
}

// InNamespace returns the sum of what is reserved of the quotas of a namespace.
func (l Reservations) InNamespace(namespace string) recommender.Size {
	var sum recommender.Size
	for _, p := range l.All {
		if p.Namespace == namespace {
			sum = podview.Sum(sum, p.Growth)
		}
	}
	return sum
}

// ReservationsOf derives the reservations from the open records of a workload's pods. So they need no
// storage: after a restart they follow from the stored records. pods finds a pod by its uid and returns
// nil for one that is gone, which reserves nothing.
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
