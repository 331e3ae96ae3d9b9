// Package plane plays the control plane of a cluster beside an API server: the controllers of the built-in
// workloads, the scheduler, the node lifecycle, quotas, budgets, garbage and namespaces. The API server is the
// caller's, a real one or one in memory, and is reached through a plain client alone.
//
// Nothing runs by itself. Sync takes every part one step at a time that the caller names; a caller repeats it until
// nothing is written. Next says when a part has something to do by itself. Equal calls give equal clusters, names
// included.
//
// The rules are those of Kubernetes 1.36 (kubernetes/pkg/controller, pkg/scheduler); each file names its own source.
package plane

import (
	"context"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Part is one of the loops of the control plane.
type Part string

// Parts of the control plane, in the order in which they take their step.
const (
	Namespaces  Part = "namespaces"
	Collector   Part = "garbage collector"
	Lifecycle   Part = "node lifecycle"
	CronJobs    Part = "cronjobs"
	Jobs        Part = "jobs"
	Autoscalers Part = "horizontal pod autoscalers"
	Deployments Part = "deployments"
	ReplicaSets Part = "replicasets"
	Stateful    Part = "statefulsets"
	Daemons     Part = "daemonsets"
	Scheduler   Part = "scheduler"
	Drains      Part = "drains"
	Budgets     Part = "poddisruptionbudgets"
	Quotas      Part = "resourcequotas"
)

// parts are all of them.
var parts = []Part{
	Namespaces, Collector, Lifecycle, CronJobs, Jobs, Autoscalers, Deployments, ReplicaSets, Stateful, Daemons, Scheduler, Drains, Budgets, Quotas,
}

// AllBut are the parts that do not run where only some do.
func AllBut(some ...Part) map[Part]bool {
	without := map[Part]bool{}
	for _, part := range parts {
		without[part] = !slices.Contains(some, part)
	}
	return without
}

// Plane is the control plane. It is for one goroutine.
type Plane struct {
	Client client.Client
	// Namespaces that are played; empty: all.
	Namespaces []string
	// Nodes that are played; empty: all there are.
	Nodes []string
	// Admit sees each pod before it is created, as a mutating webhook does. Nil: none does.
	Admit func(*corev1.Pod) error
	// Without are the parts that do not run.
	Without map[Part]bool
	// Silent says since when a node's kubelet is not heard, if it is not. Nil: every one is.
	Silent func(node string) (since time.Time, silent bool)
	// CPU is what a container uses, in millicores, as the metrics API has it. Nil: nothing is known.
	CPU func(pod *corev1.Pod, container string, now time.Time) (milli int64, known bool)
	// Synced is called at each sync of an HPA with the pods of its workload, the present number, and the one that its
	// metrics ask for. Nil: nobody listens.
	Synced func(hpa *autoscalingv2.HorizontalPodAutoscaler, pods []*corev1.Pod, current, asked int32)
	// Memory is the working set of a container, in bytes, as the metrics API has it. Nil: nothing is known.
	Memory func(pod *corev1.Pod, container string, now time.Time) (bytes int64, known bool)
	// Stored are all objects of a kind by namespace and name, shared, as an API server in memory has them: what a list
	// costs less than through the client. Nil: the client lists.
	Stored func(of client.Object) []client.Object
	// Contents are further kinds that go with their namespace.
	Contents []client.ObjectList
	// QuotaLag is how much later than the pods a quota's status changes.
	QuotaLag time.Duration

	// made counts the pods of each owner: no name comes twice.
	made map[string]int
	// templates are the revisions of StatefulSets and DaemonSets, by owner and hash.
	templates map[types.UID]map[string]corev1.PodTemplateSpec
	// hashes are those of templates, by owner, until its generation changes.
	hashes map[types.UID]hashed
	// scaled is what each HPA remembers.
	scaled map[types.UID]*scaling
	// quotas is when a quota's usage was first seen to differ.
	quotas map[types.UID]time.Time
	// drained are the nodes that are being emptied.
	drained map[string]time.Time
	// missing is since when a node of a pod is not there.
	missing map[string]time.Time
	// footprints, and what quotas charge, of pods.
	footprints perPod[footprint]
	charged    perPod[corev1.ResourceList]
	// next is the earliest time that a part has asked for.
	next time.Time
}

// step is what one part does in one Sync.
type step struct {
	part Part
	run  func(context.Context, *view) error
}

// Sync takes every part one step, with the cluster as it was listed when the step began.
func (p *Plane) Sync(ctx context.Context, now time.Time) error {
	p.next = time.Time{}
	p.footprints.next()
	p.charged.next()
	v, err := p.look(ctx, now)
	if err != nil {
		return err
	}
	for _, s := range []step{
		{Namespaces, p.namespaces}, {Collector, p.collect}, {Lifecycle, p.lifecycle}, {CronJobs, p.cronJobs}, {Jobs, p.jobs},
		{Autoscalers, p.autoscale}, {Deployments, p.deployments}, {ReplicaSets, p.replicaSets}, {Stateful, p.statefulSets},
		{Daemons, p.daemonSets}, {Scheduler, p.schedule}, {Drains, p.drains}, {Budgets, p.budgets}, {Quotas, p.resourceQuotas},
	} {
		if p.Without[s.part] {
			continue
		}
		if err := s.run(ctx, v); err != nil {
			return fmt.Errorf("%s: %w", s.part, err)
		}
	}
	return nil
}

// Next is when something is due by itself, as far as the last Sync knew; zero: nothing is.
func (p *Plane) Next(now time.Time) time.Time {
	if !p.next.After(now) {
		return time.Time{}
	}
	return p.next
}

// wake asks for a step at a time to come.
func (p *Plane) wake(v *view, at time.Time) {
	if at.After(v.now) && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}
