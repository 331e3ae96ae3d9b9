package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// judgeBirths marks seeds bad that harmed a pod which was born with them: such a pod has no record, and by
// the time anybody looks it may have been replaced by another that was born with the same seed.
func (d *decision) judgeBirths(w world) {
	for _, pod := range w.pods {
		if !suffered(pod) {
			continue
		}
		seeded := seededOf(pod)
		if seeded == nil || seeded.Recommendation != w.rec.Name {
			continue
		}
		birth, lowered := resize.BirthRecord(pod, d.originalsOf(pod))
		if !lowered {
			continue
		}
		verdict := resize.JudgeBirth(pod, birth, w.now, w.settings.Resize, w.signals(birth))
		if verdict.Harm == resize.HarmRestart || verdict.Inconclusive {
			d.crashed = append(d.crashed, crash{birth, verdict})
		}
		switch {
		case verdict.Harm != "":
			d.markBad(seeded.Revision, birth, verdict, w)
		case verdict.Inconclusive:
			d.withholdLowering(pod, birth, verdict, w)
		}
	}
}

// crash is a crash loop since a pod's birth below its template's size.
type crash struct {
	birth   v1alpha1.ResizeRecord
	verdict resize.Verdict
}

// restoreBirths gives pods that crash since their birth what their template says, once: they may be what a rollout waits
// for, and no other pod comes before they are well. Where the program is what crashes, that costs one resize.
func (d *decision) restoreBirths(w world) {
	for _, c := range d.crashed {
		pod := w.pod(c.birth.PodUID)
		if !w.settings.Resize.AutoRevert || pod.DeletionTimestamp != nil || hasRecord(d.status.Records, pod) || w.unread.of(pod) != nil {
			continue
		}
		plan, refusal := resize.BirthPlan(pod, c.birth, d.capabilities(w, pod), w.now)
		if refusal == nil {
			plan, refusal = resize.Admit(pod, plan, d.gateWorld(w, pod))
		}
		if refusal != nil {
			d.refused.add(pod, refusal)
			continue
		}
		d.tellOfPod(pod, event.Warning(v1alpha1.EventReverted, "Giving pod %s what its template says, as it crashes since it was born with less: %s", pod.Name, c.verdict.Message))
		d.start(w, pod, plan)
	}
}

// withholdLowering keeps new pods of a template generation from being lowered. Nothing is learned of the size: the
// program may be what crashes.
func (d *decision) withholdLowering(pod *corev1.Pod, birth v1alpha1.ResizeRecord, verdict resize.Verdict, w world) {
	crashes, fresh := resize.WithholdLowering(d.status.BirthCrashes, pod, birth, w.bornOf, w.now)
	if !fresh {
		return
	}
	d.status.BirthCrashes = crashes
	d.tell(event.Warning(v1alpha1.EventLoweringWithheld, "New pods of template %s are no longer lowered, as pod %s was born below its template's size: %s",
		birth.TemplateHash, pod.Name, verdict.Message))
}

// suffered: some container ended at least once. Of all others there is nothing to judge.
func suffered(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
				return true
			}
		}
	}
	return false
}

// markBad keeps new pods from a seed. What a seed teaches is learned once: sizes that are proven later on
// are not dropped because of an old pod.
func (d *decision) markBad(revision string, harmful v1alpha1.ResizeRecord, verdict resize.Verdict, w world) {
	marked, fresh := resize.MarkBad(d.status.BadSeeds, revision, w.bornWith)
	if !fresh {
		return
	}
	d.status.BadSeeds = marked
	d.status.Floors = resize.LearnHarm(d.status.Floors, verdict, harmful, w.now)
	d.status.Kept = resize.Unkeep(d.status.Kept, harmful)
	d.tell(event.Warning(v1alpha1.EventSeedMarkedBad, "New pods are no longer born with seed %s, which harmed pod %s: %s: %s",
		revision, harmful.PodName, verdict.Harm, verdict.Message))
}

// markSeedOf marks the seed in force bad where new pods would be born with what has just harmed another.
func (d *decision) markSeedOf(record v1alpha1.ResizeRecord, verdict resize.Verdict, w world) {
	if resize.HarmsNewborn(w.rec.Spec.Seed, record) {
		d.markBad(w.rec.Spec.Seed.Revision, record, verdict, w)
	}
}

// bornWith is when the youngest pod was that was born with a revision of the seed. The one in force is that of pods to
// come.
func (w world) bornWith(revision string) time.Time {
	if seed := w.rec.Spec.Seed; seed != nil && seed.Revision == revision {
		return w.now
	}
	return w.youngest(func(pod *corev1.Pod) bool {
		seeded := seededOf(pod)
		return seeded != nil && seeded.Recommendation == w.rec.Name && seeded.Revision == revision
	})
}

// bornOf is when the youngest pod of a template generation was.
func (w world) bornOf(hash string) time.Time {
	return w.youngest(func(pod *corev1.Pod) bool { return podview.TemplateHash(pod) == hash })
}

func (w world) youngest(of func(*corev1.Pod) bool) (born time.Time) {
	for _, pod := range w.pods {
		if at := pod.CreationTimestamp.Time; of(pod) && at.After(born) {
			born = at
		}
	}
	return born
}
