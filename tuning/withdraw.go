package tuning

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/withdraw"
)

// judgeAdmission advances status.admissionWithdrawn. Admission resources are withdrawn if pods with them are rejected
// or do not start. It never evicts or deletes a pod. While the workload or namespace is being deleted, the status
// stays as it is.
//
// It returns the pods that fit no node with their admission resources, or no node has room now, and the pods that do not
// start on their nodes, and the young pods that were deleted.
func (d *deciders) judgeAdmission() (unscheduled, stuck []*corev1.Pod, deletions withdraw.Deletions) {
	of, looked := d.view.owner(), d.view.Looked
	if d.view.Workload == nil || of.Deleting || d.view.Namespace.Terminating {
		return nil, nil, deletions
	}
	leaving := d.youngLeaving()
	found := withdraw.Judge(withdraw.Input{
		Now: d.view.Now, Status: d.status.AdmissionWithdrawn, Seed: d.view.Rec.Spec.Seed, Template: of.Template, Pods: d.view.Live(), All: d.view.Pods,
		Seeded: d.view.seededBy, Originals: d.learned.originalsOf, Rejected: d.view.Past.Rejected, Stalled: looked.Stalled, Cluster: looked.Cluster, Rooms: looked.Rooms,
		Leaving: leaving, Deletions: d.view.Past.Deletions, Replicas: of.Replicas,
		Largest: podview.LargestNode(d.view.Rec.Spec.LargestNode),
		Unread: func(node string) bool {
			return node == "" && looked.Unread.Cluster != nil || looked.Unread.Nodes[node] != nil
		},
	})
	d.status.AdmissionWithdrawn = found.Status
	d.reports.storeNow(found.Due)
	d.reports.events = append(d.reports.events, podview.Map(found.Events, func(e event.Event) Event { return Event{Event: e, OnWorkload: true} })...)
	d.reports.requeueAfter(found.After)
	ask := &d.unknowns
	ask.Nodes = ask.Nodes || found.Nodes
	ask.Rooms, ask.Stalled = append(ask.Rooms, found.Rooms...), append(ask.Stalled, found.Stalled...)
	return found.Unscheduled, found.Stuck, found.Deletions
}

// youngLeaving returns the pods that are being deleted and have not finished. The pods of Jobs come and go, so none of them
// counts as deleted.
func (d *deciders) youngLeaving() (leaving []*corev1.Pod) {
	for _, pod := range d.view.Pods {
		if pod.DeletionTimestamp != nil && !resize.Finished(pod) && !d.view.batch() {
			leaving = append(leaving, pod)
		}
	}
	return leaving
}
