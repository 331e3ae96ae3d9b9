package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// WithSecond adds the second part of a plan (Split) to the record of its first part. Both parts are one resize: they
// are observed and restored together. Containers that only the second part changes are added with their current size as
// prior and desired.
func WithSecond(record v1alpha1.ResizeRecord, second resize.Plan, pod *corev1.Pod) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	statuses := podview.Statuses(pod)
	for _, m := range second.Moves {
		known := slices.ContainsFunc(record.Prior, func(c v1alpha1.ContainerResources) bool { return c.Name == m.Container })
		if !known {
			from := v1alpha1.ContainerResources{Name: m.Container, Resources: podview.ToResources(m.From)}
			record.Prior, record.Desired = append(record.Prior, from), append(record.Desired, from)
			record.Baseline = append(record.Baseline, baselineOf(m.Container, statuses[m.Container]))
		}
		record.Then = append(record.Then, v1alpha1.ContainerResources{Name: m.Container, Resources: podview.ToResources(m.To)})
	}
	return record
}

// InSecondPatch reports whether the first patch was verified and the second one may or may not have been sent.
func InSecondPatch(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordSecondWritten
}

// onTheWire reports whether the API server may or may not have received the record's patch.
func onTheWire(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWritten || InSecondPatch(record)
}

// secondPatch returns the record just before its second patch is sent, for the first time or again. Begun keeps the
// time at which the resize was decided, since WrittenAt is renewed here.
func secondPatch(record v1alpha1.ResizeRecord, now time.Time) v1alpha1.ResizeRecord {
	if record.Reason == resize.ReasonNotRunning && len(record.Then) > 0 {
		record.Prior = record.Desired // the second patch is the reverse of the first
	}
	record = whole(record)
	record.Begun = &metav1.Time{Time: begun(record)}
	record.VerifiedOnce, record.WatchUntil = nil, nil
	record.Phase, record.WrittenAt = v1alpha1.RecordSecondWritten, metav1.NewTime(now)
	record.Deadline = &metav1.Time{Time: now.Add(MemoryActuatedFor)}
	return record
}

// whole returns the record with the second patch added to the desired size.
func whole(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	for _, then := range record.Then {
		for i := range record.Desired {
			if record.Desired[i].Name == then.Name {
				record.Desired[i] = then
			}
		}
	}
	record.Then = nil
	return record
}

// waitsForRun reports whether the second patch raises the CPU limit of a container that does not run. It could then not
// start (resize.StartPlan).
func waitsForRun(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if len(record.Then) == 0 && !InSecondPatch(record) {
		return false
	}
	specs, statuses := podview.Specs(pod), podview.Statuses(pod)
	return slices.ContainsFunc(resize.Changes(whole(record)), func(c resize.Change) bool {
		status, limit := statuses[c.Container], specs[c.Container][recommender.CPU].Limit
		return limit > 0 && c.Desired[recommender.CPU].Limit > limit && (status == nil || status.State.Running == nil)
	})
}

// OnItsWay reports whether the pod, as attune last read it, does not yet have all amounts of its record in its spec.
func OnItsWay(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	return !resize.PuttingBack(record) && (onTheWire(record) || len(record.Then) > 0 || pod.Generation < record.Generation)
}

// WholePlan returns the rest of a record's resize, including its second patch.
func WholePlan(pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Plan {
	return RestPlan(pod, whole(record))
}

// givingUpLimits returns the record without the memory changes of containers whose memory limit it lowered. It returns
// false if nothing of the resize would remain, or if a limit was added, which cannot be removed.
func givingUpLimits(record v1alpha1.ResizeRecord) (v1alpha1.ResizeRecord, bool) {
	record = *record.DeepCopy()
	left, added := false, false
	for _, c := range resize.Changes(record) {
		m := c.Move()
		if m.LowersMemoryLimit() {
			added = added || c.Prior[recommender.Memory].Limit == 0
			m.To = resize.WithoutMemory(m)
		}
		left = left || m.From != m.To
		for i := range record.Desired {
			if record.Desired[i].Name == c.Container {
				record.Desired[i].Resources = podview.ToResources(m.To)
			}
		}
	}
	record.Then = nil
	return record, left && !added
}

// SecondRefused returns the record after the API server refused its second patch. The pod keeps the result of the first
// patch, which is then observed. If the second patch was to restore a memory limit that could not be lowered, the whole
// pod is reverted: a container that crashes would otherwise start with the lower limit. If it was to restore the size
// of a container that was started with less (resize.StartPlan), that restore goes on as any other.
func SecondRefused(record v1alpha1.ResizeRecord, pod *corev1.Pod) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	if record.Reason == resize.ReasonNotRunning {
		return startRestoring(record, v1alpha1.RecordWithdrawing, record.Reason)
	}
	specs := podview.Specs(pod)
	onlySet := func(desired, spec recommender.Amount) recommender.Amount {
		if desired > 0 {
			return spec
		}
		return 0
	}
	for i, desired := range record.Desired {
		if spec, ok := specs[desired.Name]; ok {
			record.Desired[i].Resources = podview.ToResources(podview.Combine(podview.FromResources(desired.Resources), spec, onlySet))
		}
	}
	if record.Reason == resize.ReasonActuation {
		return startRestoring(record, v1alpha1.RecordReverting, resize.ReasonActuation)
	}
	record.Phase, record.Attempts = v1alpha1.RecordApplied, 0
	return record
}

// mostAttempts is the maximum count of attempts. Higher counts would change no interval, and only cause writes of the
// status.
const mostAttempts = 10

// Sent counts a patch that restores the record's pod, or that is its second half. Other patches are sent once and not
// counted.
func Sent(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	if resize.PuttingBack(record) || InSecondPatch(record) {
		record.Attempts = min(record.Attempts+1, mostAttempts)
	}
	return record
}

// RestPlan returns the changes that the pod's spec still needs to match the record's desired size. It is bound to the
// pod's current version: a second patch that arrives late must not lower a memory limit again that was restored in
// between.
func RestPlan(pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Plan {
	plan := resize.PlanOf(pod)
	plan.Version = pod.ResourceVersion
	specs := podview.Specs(pod)
	for _, c := range resize.Changes(record) {
		from, ok := specs[c.Container]
		if !ok {
			continue
		}
		plan.Moves = resize.AppendMove(plan.Moves, resize.Move{
			Container: c.Container, Sidecar: podview.IsSidecar(pod, podview.ContainerOf(pod, c.Container)), From: from, To: podview.Fill(c.Desired, from),
		})
	}
	return plan
}
