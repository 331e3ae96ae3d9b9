package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// judgeBirths marks seeds bad that harmed a pod which was born with them. Such a pod has no record, so the watcher does
// not see it, and when it is looked at next, its controller may have replaced it with a pod that has the same seed. So every pod
// that has ended containers is judged in every pass.
//
// Only pods below their original size are judged: a seed that raises a pod is not blamed for a crash.
func (d *pass) judgeBirths() {
	for _, pod := range d.view.Pods {
		if !suffered(pod) {
			continue
		}
		seeded := d.view.seededBy(pod)
		if seeded == nil {
			continue
		}
		birth, lowered := harm.BirthRecord(pod, d.originalsOf(pod))
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

// crash is a crash loop since the birth of a pod that is below its template's size.
type crash struct {
	// birth describes the birth as if it were a resize: from the template's size to the seed. It is never
	// stored.
	birth v1alpha1.ResizeRecord
	// verdict is why the birth is believed to be the cause, or that the cause is not clear.
	verdict resize.Verdict
}

// withholdLowering stops lowering new pods of one template generation. No floor is learned from it: the
// program itself may be what crashes, and a floor would keep a wrong size for weeks. The event is sent
// only when the generation is new in the list.
func (d *pass) withholdLowering(pod *corev1.Pod, birth v1alpha1.ResizeRecord, verdict resize.Verdict) {
	crashes, fresh := harm.WithholdLowering(d.out.Status.BirthCrashes, pod, birth, d.view.bornOf, d.view.Now)
	if !fresh {
		return
	}
	d.out.Status.BirthCrashes = crashes
	d.tell(event.Warning(v1alpha1.EventLoweringWithheld, "New pods of template %s are no longer lowered, as pod %s was born below its template's size: %s",
		birth.TemplateHash, pod.Name, verdict.Message))
}

// suffered reports whether some container of the pod has ended at least once. Other pods have nothing to
// judge; this cheap test runs before the annotations are decoded.
func suffered(pod *corev1.Pod) bool {
	ended := func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ended) || slices.ContainsFunc(pod.Status.ContainerStatuses, ended)
}

// markBad stops giving a seed to new pods and learns floors from the harm. Both happen once for each
// revision of the seed (fresh): a pod that was born long ago with a bad seed stays visible for days, and
// must not delete sizes that were proven since.
func (d *pass) markBad(revision string, harmful v1alpha1.ResizeRecord, verdict resize.Verdict) {
	marked, fresh := harm.MarkBad(d.out.Status.BadSeeds, revision, d.view.bornWith)
	if !fresh {
		return
	}
	d.out.Status.BadSeeds = marked
	d.out.Status.Floors = harm.LearnHarm(d.out.Status.Floors, verdict, harmful, d.view.Now)
	d.out.Status.Kept = harm.Unkeep(d.out.Status.Kept, harmful)
	d.tell(event.Warning(v1alpha1.EventSeedMarkedBad, "New pods are no longer born with seed %s, which harmed pod %s: %s: %s",
		revision, harmful.PodName, verdict.Harm, verdict.Message))
}

// markSeedOf marks the current seed bad where new pods would get the size that has just harmed a running
// pod. Without this, the revert repairs one pod while each new replica is born with the harm.
func (d *pass) markSeedOf(record v1alpha1.ResizeRecord, verdict resize.Verdict) {
	if harm.HarmsNewborn(d.view.Rec.Spec.Seed, record) {
		d.markBad(d.view.Rec.Spec.Seed.Revision, record, verdict)
	}
}

// bornWith returns the creation time of the youngest pod that was born with a revision of the seed. The
// revision that is in force counts as Now, since the next pod is born with it. harm.MarkBad uses the time
// to decide which old revision is forgotten first; zero: no pod has it.
func (v *View) bornWith(revision string) time.Time {
	if seed := v.Rec.Spec.Seed; seed != nil && seed.Revision == revision {
		return v.Now
	}
	return v.youngest(func(pod *corev1.Pod) bool {
		seeded := v.seededBy(pod)
		return seeded != nil && seeded.Revision == revision
	})
}

// bornOf returns the creation time of the youngest pod of a template generation; zero: it has none.
func (v *View) bornOf(hash string) time.Time {
	return v.youngest(func(pod *corev1.Pod) bool { return podview.TemplateHash(pod) == hash })
}

// youngest returns the latest creation time of the pods that a condition accepts; zero: it accepts none.
func (v *View) youngest(of func(*corev1.Pod) bool) (born time.Time) {
	for _, pod := range v.Pods {
		if at := pod.CreationTimestamp.Time; of(pod) && at.After(born) {
			born = at
		}
	}
	return born
}
