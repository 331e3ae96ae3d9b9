package tuning

import (
	"attune.io/attune/podview"
	"attune.io/attune/resize/withdraw"
)

// judgeAdmission advances status.admissionWithdrawn. Admission resources are withdrawn if pods with them are rejected
// or do not start. It never evicts or deletes a pod. While the workload or namespace is being deleted, the status
// stays as it is.
func (d *pass) judgeAdmission() {
	of, looked := d.view.owner(), d.view.Looked
	if d.view.Workload == nil || of.Deleting || d.view.Namespace.Terminating {
		return
	}
	found := withdraw.Judge(withdraw.Input{
		Now: d.view.Now, Status: d.out.Status.AdmissionWithdrawn, Seed: d.view.Rec.Spec.Seed, Template: of.Template, Pods: d.view.Live(),
		Seeded: d.view.seededBy, Originals: d.originalsOf, Rejected: d.view.Past.Rejected, Stalled: looked.Stalled, Cluster: looked.Cluster, Rooms: looked.Rooms,
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
	d.requeueAfter(found.After)
	ask := &d.out.Unknowns
	ask.Nodes = ask.Nodes || found.Nodes
	ask.Rooms, ask.Stalled = append(ask.Rooms, found.Rooms...), append(ask.Stalled, found.Stalled...)
}
