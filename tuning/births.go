package tuning

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// births judge seeds by the pods that were born with them.
type births struct {
	*pass
	originals *originals
	// crashed are pods that crash since their births.
	crashed []crash
}

// judge marks seeds bad that harmed a pod which was born with them: such a pod has no record, and by
// the time anybody looks it may have been replaced by another that was born with the same seed.
func (d *births) judge() {
	for _, pod := range d.view.Pods {
		if !suffered(pod) {
			continue
		}
		seeded := seededOf(pod)
		if seeded == nil || seeded.Recommendation != d.view.Rec.Name {
			continue
		}
		birth, lowered := harm.BirthRecord(pod, d.originals.of(pod))
		if !lowered {
			continue
		}
		verdict := harm.JudgeBirth(pod, birth, d.view.Now, d.view.Policy.Settings.Resize, d.view.signals(birth))
		if verdict.Harm == resize.HarmRestart || verdict.Inconclusive {
			d.crashed = append(d.crashed, crash{birth, verdict})
		}
		switch {
		case verdict.Harm != "":
			d.markBad(seeded.Revision, birth, verdict)
		case verdict.Inconclusive:
			d.withholdLowering(pod, birth, verdict)
		}
	}
}

// crash is a crash loop since a pod's birth below its template's size.
type crash struct {
	birth   v1alpha1.ResizeRecord
	verdict resize.Verdict
}

// withholdLowering keeps new pods of a template generation from being lowered. Nothing is learned of the size: the
// program may be what crashes.
func (d *births) withholdLowering(pod *corev1.Pod, birth v1alpha1.ResizeRecord, verdict resize.Verdict) {
	crashes, fresh := harm.WithholdLowering(d.out.Status.BirthCrashes, pod, birth, d.bornOf, d.view.Now)
	if !fresh {
		return
	}
	d.out.Status.BirthCrashes = crashes
	d.tell(loweringWithheld(birth, pod, verdict.Message))
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
func (d *births) markBad(revision string, harmful v1alpha1.ResizeRecord, verdict resize.Verdict) {
	marked, fresh := harm.MarkBad(d.out.Status.BadSeeds, revision, d.bornWith)
	if !fresh {
		return
	}
	d.out.Status.BadSeeds = marked
	d.out.Status.Floors = harm.LearnHarm(d.out.Status.Floors, verdict, harmful, d.view.Now)
	d.out.Status.Kept = harm.Unkeep(d.out.Status.Kept, harmful)
	d.tell(seedMarkedBad(revision, harmful, string(verdict.Harm), verdict.Message))
}

// markSeedOf marks the seed in force bad where new pods would be born with what has just harmed another.
func (d *births) markSeedOf(record v1alpha1.ResizeRecord, verdict resize.Verdict) {
	if harm.HarmsNewborn(d.view.Rec.Spec.Seed, record) {
		d.markBad(d.view.Rec.Spec.Seed.Revision, record, verdict)
	}
}

// bornWith is when the youngest pod was that was born with a revision of the seed. The one in force is that of pods to
// come.
func (d *births) bornWith(revision string) time.Time {
	if seed := d.view.Rec.Spec.Seed; seed != nil && seed.Revision == revision {
		return d.view.Now
	}
	return d.youngest(func(pod *corev1.Pod) bool {
		seeded := seededOf(pod)
		return seeded != nil && seeded.Recommendation == d.view.Rec.Name && seeded.Revision == revision
	})
}

// bornOf is when the youngest pod of a template generation was.
func (d *births) bornOf(hash string) time.Time {
	return d.youngest(func(pod *corev1.Pod) bool { return podview.TemplateHash(pod) == hash })
}

func (d *births) youngest(of func(*corev1.Pod) bool) (born time.Time) {
	for _, pod := range d.view.Pods {
		if at := pod.CreationTimestamp.Time; of(pod) && at.After(born) {
			born = at
		}
	}
	return born
}
