package tuning

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/resize/withdraw"
)

// withdrawer withdraws the admission resources of a workload (status.admissionWithdrawn) where its pods are rejected
// with them or do not start. It never evicts or deletes a pod.
type withdrawer struct {
	*pass
	originals *originals
	// unscheduled are pods that fit no node, or none now, with what admission gave them. starter.restoreUnscheduled
	// reads them.
	unscheduled []*corev1.Pod
}

// judge moves status.admissionWithdrawn one step on. A workload or namespace that is being deleted keeps it as it is.
func (d *withdrawer) judge() {
	of, looked := d.view.owner(), d.view.Looked
	if d.view.Workload == nil || of.Deleting || d.view.Namespace.Terminating {
		return
	}
	found := withdraw.Judge(withdraw.Input{
		Now: d.view.Now, Status: d.out.Status.AdmissionWithdrawn, Seed: d.view.Rec.Spec.Seed, Template: of.Template, Pods: d.view.Live(),
		Seeded: d.view.seededBy, Originals: d.originals.of, Rejected: d.view.Past.Rejected, Stalled: looked.Stalled, Cluster: looked.Cluster, Rooms: looked.Rooms,
		Largest: podview.LargestNode(d.view.Rec.Spec.LargestNode),
		Unread: func(node string) bool {
			return node == "" && looked.Unread.Cluster != nil || looked.Unread.Nodes[node] != nil
		},
	})
	d.out.Status.AdmissionWithdrawn, d.unscheduled = found.Status, found.Unscheduled
	d.out.Due = d.out.Due || found.Due
	for _, e := range found.Events {
		d.out.Events = append(d.out.Events, Event{Event: e, OnWorkload: true})
	}
	d.wake(found.After)
	ask := &d.out.Unknowns
	ask.Nodes = ask.Nodes || found.Nodes
	ask.Rooms, ask.Stalled = append(ask.Rooms, found.Rooms...), append(ask.Stalled, found.Stalled...)
}
