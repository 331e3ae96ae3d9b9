// Package lifecycle follows a resize from its record to its end: the pod's state, the actions, and all ways to restore
// the pod.
//
// A record goes through these files in order:
//  1. record.go: the ResizeRecord that is stored before the patch is sent, so that any process can restore the pod;
//     second.go: its second patch; stored.go: records that another process wrote.
//  2. state.go: the pod's progress in the resize, as a State. Package resize/harm adds the regression.
//  3. next.go: Next decides the action, and Advance writes it into the record; no other function does.
//  4. revert.go, putback.go, errands.go, evict.go, evicted.go: the ways to restore or evict, and when each is given up.
//  5. history.go: the history rows and the backoff after a closed record.
//
// The package is pure, as resize is: no clock, no client.
package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Deadlines of a resize, from the time its record was written.
const (
	// ActuatedFor is how long the node may take to carry the resize out; MemoryActuatedFor is the same for memory.
	ActuatedFor       = 60 * time.Second
	MemoryActuatedFor = 120 * time.Second
	// DeferredFor is how long a resize may wait for room. All that time it reserves the scheduler's capacity and quota.
	// Without a limit it could be granted hours later, when it is no longer wanted.
	DeferredFor = 5 * time.Minute
	// SyncPeriod is longer than a kubelet takes to sync a pod again. A resize counts as verified if two reads that far
	// apart agree, since the first one can be premature.
	SyncPeriod = 15 * time.Second
)

// NewRecord returns the data needed to restore the pod of a plan: the sizes before and after, and the baseline of the
// containers for judging regressions. The caller stores it before it sends the resize, so that after a crash between
// the two another process can still restore the pod. The deadline allows more time for memory, and for the grace period
// of containers that restart.
func NewRecord(plan resize.Plan, pod *corev1.Pod, now time.Time, rules resize.Rules) v1alpha1.ResizeRecord {
	record := v1alpha1.ResizeRecord{
		PodUID: plan.PodUID, PodName: plan.PodName, Node: plan.Node, Phase: v1alpha1.RecordWritten,
		WrittenAt: metav1.NewTime(now), TemplateHash: plan.TemplateHash, Wave: plan.Wave, Reason: plan.Reason,
	}
	statuses := podview.Statuses(pod)
	budget := ActuatedFor
	for _, m := range plan.Moves {
		if m.From[recommender.Memory] != m.To[recommender.Memory] {
			budget = MemoryActuatedFor
		}
		record.Prior = append(record.Prior, v1alpha1.ContainerResources{Name: m.Container, Resources: podview.ToResources(m.From)})
		record.Desired = append(record.Desired, v1alpha1.ContainerResources{Name: m.Container, Resources: podview.ToResources(m.To)})
		record.Baseline = append(record.Baseline, baselineOf(m.Container, statuses[m.Container]))
	}
	if plan.Restarts {
		budget += time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
	}
	record.Deadline = &metav1.Time{Time: now.Add(budget)}
	return record
}

// RecordReturned returns the record after the API server accepted the resize. It stores the generation that the kubelet
// has to observe, and the amounts that a LimitRange added: these count as set by the record from then on.
func RecordReturned(record v1alpha1.ResizeRecord, returned *corev1.Pod) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	record.Generation = returned.Generation
	if !onTheWire(record) {
		return record
	}
	record.Phase = v1alpha1.RecordApplied
	spec := podview.Specs(returned)
	for i, desired := range record.Desired {
		if got, ok := spec[desired.Name]; ok {
			record.Desired[i].Resources = podview.ToResources(podview.Fill(podview.FromResources(desired.Resources), got))
		}
	}
	return record
}

// baselineOf returns the state of a container before its resize. StartedAt is set only for a running container.
func baselineOf(name string, status *corev1.ContainerStatus) v1alpha1.ContainerBaseline {
	baseline := v1alpha1.ContainerBaseline{Name: name}
	if status == nil {
		return baseline
	}
	baseline.ContainerID = status.ContainerID
	baseline.RestartCount = status.RestartCount
	baseline.Ready = status.Ready
	if running := status.State.Running; running != nil {
		baseline.StartedAt = running.StartedAt.DeepCopy()
	}
	return baseline
}
