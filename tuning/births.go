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

// learned owns what pods, regressions and verified resizes teach about the sizes of the workload.
type learned struct {
	view    *View
	records *records
	reports *reports
	// These are fields of the status.
	originals    []v1alpha1.Originals
	floors       []v1alpha1.Floor
	verified     []v1alpha1.VerifiedResources
	badSeeds     []string
	failedStarts []v1alpha1.FailedStart
	// crashed are the pods in a crash loop since they were created. starter.restoreBirths reads it.
	crashed []crash
}

// judgeBirths marks a seed bad if a pod that was created with it shows a regression. Such a pod has no record, so the
// watcher does not see it. By the next reconcile its controller may have replaced it with a pod that has the same
// seed. So every reconcile assesses every pod with terminated containers.
//
// It assesses only pods below their original resources: a seed that raised a pod is not blamed for a crash.
func (d *learned) judgeBirths() {
	for _, pod := range d.view.Pods {
		if !anyContainerTerminated(pod) {
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
			d.blockLowering(pod, birth, verdict)
		}
	}
}

// crash is a crash loop since creation of a pod that admission sized below its template.
type crash struct {
	// birth describes the creation as a resize from the template's resources to the seed. It is never stored.
	birth v1alpha1.ResizeRecord
	// verdict says why the seed is blamed, or that the cause is not clear.
	verdict resize.Verdict
}

// blockLowering stops lowering new pods of one template generation. It learns no floor: the program itself may be
// the cause, and a floor would keep a wrong size for weeks. It sends the event only when the generation is new in the
// list.
func (d *learned) blockLowering(pod *corev1.Pod, birth v1alpha1.ResizeRecord, verdict resize.Verdict) {
	crashes, fresh := harm.BlockLowering(d.failedStarts, pod, birth, d.view.bornOf, d.view.Now)
	if !fresh {
		return
	}
	d.failedStarts = crashes
	d.reports.addEvent(event.Warning(v1alpha1.EventLoweringBlocked, "attune no longer lowers new pods of template %s, because pod %s was created below its template's resources: %s",
		birth.TemplateHash, pod.Name, verdict.Message))
}

// anyContainerTerminated reports whether any container of the pod has terminated at least once. This cheap check runs
// before the annotations are decoded.
func anyContainerTerminated(pod *corev1.Pod) bool {
	ended := func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ended) || slices.ContainsFunc(pod.Status.ContainerStatuses, ended)
}

// markBad stops using a seed for new pods and learns floors from the regression. It does both once per revision
// (fresh): an old pod that was created with a bad seed stays visible for days and must not delete sizes that were
// verified since.
func (d *learned) markBad(revision string, harmful v1alpha1.ResizeRecord, verdict resize.Verdict) {
	marked, fresh := harm.MarkBad(d.badSeeds, revision, d.view.bornWith)
	if !fresh {
		return
	}
	d.badSeeds = marked
	d.floors = harm.LearnHarm(d.floors, verdict, harmful, d.view.Policy.Settings.Source.OfPolicy, d.view.Now)
	d.dropVerified(harmful)
	d.reports.addEvent(event.Warning(v1alpha1.EventSeedMarkedBad, "New pods no longer get seed %s, which caused a regression of pod %s: %s: %s",
		revision, harmful.PodName, verdict.Harm, verdict.Message))
}

// bornWith returns the creation time of the youngest pod that was created with a revision of the seed; zero: no such
// pod. The current revision counts as Now, because the next pod gets it. harm.MarkBad uses the time to decide which
// old revision to drop first.
func (v *View) bornWith(revision string) time.Time {
	if seed := v.Rec.Spec.Seed; seed != nil && seed.Revision == revision {
		return v.Now
	}
	return v.youngest(func(pod *corev1.Pod) bool {
		seeded := v.seededBy(pod)
		return seeded != nil && seeded.Revision == revision
	})
}

// bornOf returns the creation time of the youngest pod of a template generation; zero: no such pod.
func (v *View) bornOf(hash string) time.Time {
	return v.youngest(func(pod *corev1.Pod) bool { return podview.TemplateHash(pod) == hash })
}

// youngest returns the latest creation time of the pods that match a condition; zero: no pod matches.
func (v *View) youngest(of func(*corev1.Pod) bool) (born time.Time) {
	for _, pod := range v.Pods {
		if at := pod.CreationTimestamp.Time; of(pod) && at.After(born) {
			born = at
		}
	}
	return born
}

// readEnds replaces pods of the view by copies with corrected reasons of their terminations (harm.ReadEnds), and reports
// each OOM kill of a node once.
func (d *learned) readEnds() {
	if len(d.view.Usage.Ends) == 0 && len(d.floors) == 0 {
		return
	}
	d.view.Pods = slices.Clone(d.view.Pods)
	for i, pod := range d.view.Pods {
		if d.records.tooLarge(pod) || !anyContainerTerminated(pod) {
			continue
		}
		ends := harm.Ends{Facts: d.view.Usage.Ends, Node: d.view.Nodes[pod.Spec.NodeName].Node, Records: d.records.open, Originals: d.before(pod)}
		read, floors, messages, again := harm.ReadEnds(pod, d.floors, ends, d.view.Now)
		d.view.Pods[i], d.floors = read, floors
		for _, message := range messages {
			d.reports.addPodEvent(pod, event.Warning(v1alpha1.EventNodeOOM, "%s", message))
		}
		d.reports.requeueAfter(again)
	}
}

// learnOOMFloors learns floors from every OOM kill that the workload's pods show, also of pods that were never resized.
// So siblings and the next seed are raised too, and a size that was killed does not stay verified. Floors of a
// rolled-back template are dropped.
func (d *learned) learnOOMFloors() {
	for _, pod := range d.view.Pods {
		if d.records.tooLarge(pod) || !Killed(pod) {
			continue
		}
		d.floors = harm.LearnKills(d.floors, pod, d.records.open, d.before(pod), d.view.Now)
	}
	if !d.view.owner().Rollout.InProgress {
		d.floors = harm.DropRolledBack(d.floors, d.originals, d.view.Live(), d.view.Now)
	}
	d.verified = harm.DropBelowFloors(d.floors, d.verified, d.view.Now)
}

// learnHarm learns from a regression of a resize: floors, a dropped verified size, a bad seed.
func (d *learned) learnHarm(record v1alpha1.ResizeRecord, verdict resize.Verdict) {
	d.floors = harm.LearnHarm(d.floors, verdict, record, d.view.Policy.Settings.Source.OfPolicy, d.view.Now)
	d.dropVerified(record)
	// Without this, the revert fixes one pod while each new replica is created with the same size.
	if seed := d.view.Rec.Spec.Seed; harm.HarmsNewborn(seed, record) {
		d.markBad(seed.Revision, record, verdict)
	}
}

func (d *learned) addVerified(record v1alpha1.ResizeRecord) {
	d.verified = harm.AddVerified(d.verified, record, d.floors, d.view.Now)
}

func (d *learned) dropVerified(record v1alpha1.ResizeRecord) {
	d.verified = harm.DropVerified(d.verified, record)
}
