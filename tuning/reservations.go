package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Reservation is growth that is under way and that the cache does not show: no other pod is given the same room.
type Reservation struct {
	UID             types.UID
	Namespace, Node string
	// Needs is what the pod will take of its node, Growth what it will take more of its namespace's quotas.
	Needs  [2]recommender.Amount
	Growth recommender.Size
}

// Reservations are those of all workloads at a moment. Version changes with each that is added.
type Reservations struct {
	Version int
	All     []Reservation
}

// OnNode is what is reserved of a node, by pod.
func (l Reservations) OnNode(node string) map[types.UID][2]recommender.Amount {
	taken := map[types.UID][2]recommender.Amount{}
	for _, p := range l.All {
		if p.Node == node {
			taken[p.UID] = p.Needs
		}
	}
	return taken
}

// InNamespace is what is reserved of the quotas of a namespace.
func (l Reservations) InNamespace(namespace string) recommender.Size {
	var sum recommender.Size
	for _, p := range l.All {
		if p.Namespace == namespace {
			sum = plus(sum, p.Growth)
		}
	}
	return sum
}

// ReservationsOf are what the open records of a workload's pods reserve.
func ReservationsOf(records []v1alpha1.ResizeRecord, pods func(types.UID) *corev1.Pod) []Reservation {
	var made []Reservation
	for _, record := range records {
		pod := pods(record.PodUID)
		if pod == nil || !resize.OnItsWay(pod, record) {
			continue
		}
		plan := resize.WholePlan(pod, record)
		made = append(made, Reservation{
			UID: pod.UID, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
			Needs: plan.Needs(pod), Growth: resize.GrowthOf(pod, plan),
		})
	}
	return made
}

func plus(a, b recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		a[r].Request += b[r].Request
		a[r].Limit += b[r].Limit
	}
	return a
}
