package harm

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// BirthRecord describes the change by admission as a resize at the pod's creation: from the original resources, by
// container name, to the pod's current sizes. It returns false if no container has less than its original resources, or
// if the pod was resized since and so has its own records.
func BirthRecord(pod *corev1.Pod, originals map[string]recommender.Size) (v1alpha1.ResizeRecord, bool) {
	record := v1alpha1.ResizeRecord{
		PodUID: pod.UID, PodName: pod.Name, Node: pod.Spec.NodeName, Phase: v1alpha1.RecordApplied,
		WrittenAt: pod.CreationTimestamp, TemplateHash: podview.TemplateHash(pod),
	}
	// The API server raises a pod's generation with every change of its spec, so also with its first resize.
	if pod.Generation > 1 {
		return record, false
	}
	for _, c := range podview.Resizable(pod) {
		original, known := originals[c.Name]
		m := resize.Move{Container: c.Name, From: original, To: podview.ReadSpec(c.Resources)}
		if !known || !m.Lowers() {
			continue
		}
		record.Prior = append(record.Prior, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(m.From)})
		record.Desired = append(record.Desired, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(m.To)})
		record.Baseline = append(record.Baseline, v1alpha1.ContainerBaseline{Name: c.Name})
	}
	return record, len(record.Desired) > 0
}

// JudgeBirth returns the regression that a pod's admission resources caused. An OOM kill of a container with less
// memory than its original counts at any time, a crash loop only within the observation period plus startsWithin. A
// crash loop with another possible cause, such as a rollout, is inconclusive.
func JudgeBirth(pod *corev1.Pod, birth v1alpha1.ResizeRecord, now time.Time, rules resize.Rules, signals Signals) resize.Verdict {
	v := Shown(pod, birth)
	lowered := func(m resize.Move) bool { return m.Container == v.Container && m.LowersOf(recommender.Memory) }
	switch {
	case v.Harm == resize.HarmOOM && !resize.AnyChange(birth, lowered):
		return resize.Verdict{}
	case v.Harm == resize.HarmRestart && now.Sub(birth.WrittenAt.Time) > lifecycle.WatchFor(birth, rules)+startsWithin:
		return resize.Verdict{}
	}
	return excused(v, birth, signals)
}

// BirthPlan plans to restore the original resources of a birth record's containers; it lowers nothing. It waits until
// the containers run. A waiting container would start with a limit above the limit of the pod's cgroup, which kubelets
// do not change at that moment; with cgroup v1 it would not start at all.
func BirthPlan(pod *corev1.Pod, birth v1alpha1.ResizeRecord, caps resize.Capabilities, now time.Time) (resize.Plan, *resize.Refusal) {
	live, statuses := podview.ByName(podview.Read(pod)), podview.Statuses(pod)
	var wishes []podview.Container
	for _, c := range resize.Changes(birth) {
		if s := statuses[c.Container]; s == nil || s.State.Running == nil {
			return resize.Plan{PodUID: pod.UID, PodName: pod.Name}, resize.RefuseForNow(resize.ReasonFailedStart,
				"container %s was created with less than its template's resources and crashes; attune restores them when it runs again", c.Container)
		}
		of := live[c.Container]
		for _, r := range recommender.Resources {
			of.Size[r] = atLeast(of.Size[r], c.Prior[r])
		}
		wishes = append(wishes, of)
	}
	return resize.PlanBack(pod, wishes, caps, now, resize.WaveTemplate, resize.ReasonFailedStart)
}

// atLeast raises an allocation to the original one. It neither adds nor removes a limit.
func atLeast(has, original recommender.Allocation) recommender.Allocation {
	has.Request = max(has.Request, original.Request)
	if has.Limit > 0 {
		has.Limit = max(has.Limit, original.Limit)
	}
	return has
}

// BlockLowering adds the containers of a pod that was created below its template's size to crashes, after a crash
// loop with an unclear cause: the size is enough for a running process, but not for a start. It returns false if every
// entry is known, or the pod has no template generation. born returns the creation time of the youngest pod of a
// generation.
func BlockLowering(crashes []v1alpha1.FailedStart, pod *corev1.Pod, birth v1alpha1.ResizeRecord, born func(hash string) time.Time, now time.Time) (noted []v1alpha1.FailedStart, fresh bool) {
	if !podview.GenerationNamed(pod) {
		return crashes, false
	}
	noted = crashes
	for _, c := range birth.Desired {
		if LoweringBlocked(noted, c.Name, birth.TemplateHash) {
			continue
		}
		one := v1alpha1.FailedStart{Name: c.Name, TemplateHash: birth.TemplateHash, Since: metav1.NewTime(now)}
		after, fits := amongYoungest(noted, one, func(c v1alpha1.FailedStart) time.Time { return born(c.TemplateHash) }, v1alpha1.MaxFailedStarts)
		noted, fresh = after, fresh || fits
	}
	return noted, fresh
}

// amongYoungest adds a value. If there are already most values, it replaces the one whose pods are the oldest. It
// returns false if the new value is younger than none of them. So values that every reconcile sees never replace each
// other in turns, which would write the status for ever.
func amongYoungest[T any](known []T, one T, born func(T) time.Time, most int) ([]T, bool) {
	known = slices.Clone(known)
	if len(known) < most {
		return append(known, one), true
	}
	oldest := 0
	for i := range known {
		if born(known[i]).Before(born(known[oldest])) {
			oldest = i
		}
	}
	if !born(known[oldest]).Before(born(one)) {
		return known, false
	}
	return append(slices.Delete(known, oldest, oldest+1), one), true
}

// LoweringBlocked reports whether new pods of a template generation are not lowered in a container; false for an
// unnamed generation.
func LoweringBlocked(crashes []v1alpha1.FailedStart, container, templateHash string) bool {
	return templateHash != "" && slices.ContainsFunc(crashes, func(c v1alpha1.FailedStart) bool {
		return c.Name == container && c.TemplateHash == templateHash
	})
}

// startsWithin is the time that a pod may take to start and to fail twice.
const startsWithin = 5 * time.Minute

// HarmsNewborn reports whether a seed gives new pods no more than the size that caused a regression, of a resource that
// the resize had lowered. Seeds that only raise resources are never harmful.
func HarmsNewborn(seed *v1alpha1.Seed, harmful v1alpha1.ResizeRecord) bool {
	if seed == nil || seed.RaiseOnly {
		return false
	}
	for _, c := range resize.Changes(harmful) {
		given := podview.SeedRequests(seed, c.Container)
		raises := slices.ContainsFunc(seed.Containers, func(s v1alpha1.ContainerSeed) bool { return s.Name == c.Container && s.RaiseOnly })
		for _, r := range recommender.Resources {
			if !raises && given[r].Request > 0 && c.Move().LowersOf(r) && given[r].Request <= c.Desired[r].Request {
				return true
			}
		}
	}
	return false
}

// MarkBad adds a seed's revision to the revisions that caused a regression. If there are too many, it drops the
// revision whose pods are the oldest. It returns false if the revision was known, or is younger than none of them. born
// returns the creation time of the youngest pod with a revision.
func MarkBad(bad []string, revision string, born func(revision string) time.Time) ([]string, bool) {
	if slices.Contains(bad, revision) {
		return bad, false
	}
	return amongYoungest(bad, revision, born, v1alpha1.MaxBadSeeds)
}
