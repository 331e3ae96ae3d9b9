package harm

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

const (
	// mostFloors is how many floors of a workload are stored.
	mostFloors = 32
	// floorLasts is the age at which a floor is dropped: after 10 weeks about a tenth of it is left (0.8^10).
	floorLasts = 10 * 7 * 24 * time.Hour
)

// LearnHarm adds the floors that follow from a verdict: after an OOM kill 1.3 times the limit at which the container
// was killed, after throttling 1.3 times the CPU limit, after other regressions the pod's prior request. They apply to
// the verdict's container, or to every container of the record if the verdict names none of them.
//
// ofPolicy is true if a server that a policy names tells the signals. Such a server could invent regressions that take
// room on a node from other namespaces, so a regression that only it saw teaches no more than the pod's prior size.
func LearnHarm(floors []v1alpha1.Floor, v resize.Verdict, record v1alpha1.ResizeRecord, ofPolicy bool, now time.Time) []v1alpha1.Floor {
	var learned []v1alpha1.Floor
	for _, c := range resize.Changes(record) {
		if v.Container != "" && v.Container != c.Container {
			continue
		}
		for r, amount := range floorsAfter(v, c) {
			if ofPolicy && v.Measured {
				amount = min(amount, c.Prior[r].Request)
			}
			learned = append(learned, floorOf(c.Container, recommender.Resource(r), amount, v, record, now))
		}
	}
	return addFloors(floors, learned, now)
}

// LearnKills adds floors for the OOM kills in a pod's status, whether or not it was ever resized: 1.3 times the memory
// limit in force at the kill (limitAtKill). Learning the same kill again changes nothing. records are the open ones;
// originals are the original resources of the pod's containers, by name.
//
// A kill of a pod that was resized since is not learned if the list is full and has only newer kills: then it was most
// likely learned before, and its row was dropped for a newer one.
func LearnKills(floors []v1alpha1.Floor, pod *corev1.Pod, records []v1alpha1.ResizeRecord, originals map[string]recommender.Size, now time.Time) []v1alpha1.Floor {
	var learned []v1alpha1.Floor
	hash := podview.GenerationOf(pod.Labels)
	for _, k := range podview.OOMKills(pod) {
		limit, certain := limitAtKill(pod, k, records, originals[k.Container], now)
		if !certain && olderThanStored(floors, k.At, now) {
			continue
		}
		learned = append(learned, v1alpha1.Floor{
			Container: k.Container, Resource: recommender.Memory.String(), Reason: string(resize.HarmOOM),
			Amount:    podview.Quantity(recommender.Memory, recommender.OOMFloor(limit)),
			LearnedAt: metav1.NewTime(k.At), Evidence: k.Evidence, TemplateHash: hash,
		})
	}
	return addFloors(floors, learned, now)
}

// rolledBackWithin is how long after its first pod a template generation may be rolled back so that its floors are
// dropped.
const rolledBackWithin = time.Hour

// DropRolledBack drops floors that only a rolled-back template generation taught: an older generation has replaced it
// within rolledBackWithin. A release that leaks memory must not enlarge the release before it. pods are the live ones;
// the caller checks that no rollout is in progress. It returns floors itself if nothing is dropped.
func DropRolledBack(floors []v1alpha1.Floor, generations []v1alpha1.Originals, pods []*corev1.Pod, now time.Time) []v1alpha1.Floor {
	if len(pods) == 0 || !slices.ContainsFunc(floors, func(f v1alpha1.Floor) bool { return f.TemplateHash != "" }) {
		return floors
	}
	current := podview.GenerationOf(pods[0].Labels)
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return podview.GenerationOf(pod.Labels) != current }) {
		return floors
	}
	restored, known := firstSeen(generations, current)
	rolledBack := func(f v1alpha1.Floor) bool {
		since, seen := firstSeen(generations, f.TemplateHash)
		return known && seen && f.TemplateHash != current && restored.Before(since) && now.Sub(since) <= rolledBackWithin
	}
	if !slices.ContainsFunc(floors, rolledBack) {
		return floors
	}
	return slices.DeleteFunc(slices.Clone(floors), rolledBack)
}

// firstSeen returns when the first pod of a generation was seen; false: not known.
func firstSeen(generations []v1alpha1.Originals, hash string) (time.Time, bool) {
	i := slices.IndexFunc(generations, func(o v1alpha1.Originals) bool { return o.TemplateHash == hash && o.Since != nil })
	if i < 0 || hash == "" {
		return time.Time{}, false
	}
	return generations[i].Since.Time, true
}

// limitAtKill returns the memory limit in bytes that was in force at a kill; the request if no limit is set. In order:
//   - While the pod is being reverted, it is at most the limit that is being reverted, although the pod may already show
//     the restored limit.
//   - If an open record's resize came before the kill, it is no more than the record's limits.
//   - If the pod was not resized since, it is the pod's current limit.
//   - Otherwise it is not known: certain is false, and the limit is the smaller of the current and the original one. It is
//     0, from which nothing is learned, if the original is not known either.
func limitAtKill(pod *corev1.Pod, k podview.OOM, records []v1alpha1.ResizeRecord, original recommender.Size, now time.Time) (limit recommender.Amount, certain bool) {
	record, change, open := changeOf(pod, records, k.Container)
	before := podview.LimitOrRequest(original[recommender.Memory])
	switch {
	case open && record.Phase == v1alpha1.RecordReverting:
		return min(k.Limit, podview.LimitOrRequest(change.Desired[recommender.Memory])), true
	case open && endedSince(pod, k, change.Baseline):
		return ceiling(k.Limit, k.ContainerID, record, change), true
	case !podview.ResizedSince(pod, k.At, now):
		return k.Limit, true
	}
	return min(k.Limit, before), false
}

// changeOf returns the open record of a pod that changes a container, and the change; false: there is no such record.
func changeOf(pod *corev1.Pod, records []v1alpha1.ResizeRecord, container string) (v1alpha1.ResizeRecord, resize.Change, bool) {
	for _, record := range records {
		if record.PodUID != pod.UID {
			continue
		}
		for _, c := range resize.Changes(record) {
			if c.Container == container {
				return record, c, true
			}
		}
	}
	return v1alpha1.ResizeRecord{}, resize.Change{}, false
}

// ceiling returns the memory limit, in bytes, at which a container was killed after the baseline of a record. It is the
// container's current limit, but no more than the record's limits, since another writer may have raised it after the
// kill. The run of the baseline (killed is the id of the killed run) had the smaller limit until the resize was
// verified.
func ceiling(has recommender.Amount, killed string, record v1alpha1.ResizeRecord, c resize.Change) recommender.Amount {
	desired := podview.LimitOrRequest(c.Desired[recommender.Memory])
	prior := cmp.Or(c.Prior[recommender.Memory].Limit, desired)
	if killed == c.Baseline.ContainerID && record.VerifiedOnce == nil && record.WatchUntil == nil {
		return min(has, prior, desired)
	}
	return min(has, max(prior, desired))
}

// endedSince reports whether a kill happened after the baseline of a record (podview.EndedSince).
func endedSince(pod *corev1.Pod, k podview.OOM, baseline v1alpha1.ContainerBaseline) bool {
	status := podview.Statuses(pod)[k.Container]
	return slices.ContainsFunc(podview.Terminations(status), func(t *corev1.ContainerStateTerminated) bool {
		return podview.Evidence(t) == k.Evidence && podview.EndedSince(status, t, baseline)
	})
}

// olderThanStored reports whether the list is full, and a time is no later than all floors that are kept for their age.
func olderThanStored(floors []v1alpha1.Floor, at, now time.Time) bool {
	great := greatestFloors(floors, now)
	return len(floors) >= mostFloors && !slices.ContainsFunc(floors, func(f v1alpha1.Floor) bool {
		return !great[identity(f)] && f.LearnedAt.Time.Before(at)
	})
}

// floorsAfter returns the minimums learned for a container, indexed by Resource; 0: no floor.
func floorsAfter(v resize.Verdict, c resize.Change) [2]recommender.Amount {
	var floors [2]recommender.Amount
	switch v.Harm {
	case resize.HarmOOM:
		floors[recommender.Memory] = recommender.OOMFloor(v.Ceiling)
	case resize.HarmThrottle:
		floors[recommender.CPU] = recommender.ThrottleFloor(podview.LimitOrRequest(c.Desired[recommender.CPU]))
	case "": // no regression
	default:
		for _, r := range recommender.Resources {
			if c.Desired[r].Request < c.Prior[r].Request {
				floors[r] = c.Prior[r].Request
			}
		}
	}
	return floors
}

// floorOf returns a floor as old as the regression, so that learning the same regression again does not make it
// younger.
func floorOf(container string, r recommender.Resource, amount recommender.Amount, v resize.Verdict, record v1alpha1.ResizeRecord, now time.Time) v1alpha1.Floor {
	f := v1alpha1.Floor{
		Container: container, Resource: r.String(), Amount: podview.Quantity(r, amount), Reason: string(v.Harm),
		LearnedAt: metav1.NewTime(v.At), Evidence: cmp.Or(v.Evidence, resizeEvidence(record)),
	}
	if v.At.IsZero() {
		f.LearnedAt = metav1.NewTime(now)
	}
	return f
}

// resizeEvidence identifies a resize as the source of a floor if there is no container id.
func resizeEvidence(record v1alpha1.ResizeRecord) string {
	return string(record.PodUID) + "@" + record.WrittenAt.UTC().Format(time.RFC3339)
}

// addFloors adds floors whose evidence is new, drops floors older than floorLasts, and keeps at most mostFloors. All
// floors decay at one rate, so the greatest floor of a container and resource stays the greatest: it is always kept. Of
// the rest the newest are kept, since their evidence prevents a kill from being learned twice. A floor with the same
// evidence is already known: every reconcile sees the same kill while the pod shows it.
func addFloors(floors, learned []v1alpha1.Floor, now time.Time) []v1alpha1.Floor {
	all := slices.Clone(floors)
	for _, f := range learned {
		same := func(known v1alpha1.Floor) bool { return identity(known) == identity(f) }
		if f.Amount.Sign() > 0 && !slices.ContainsFunc(all, same) {
			all = append(all, f)
		}
	}
	return bounded(all, now)
}

// bounded drops floors from a list, in place, as addFloors describes.
func bounded(all []v1alpha1.Floor, now time.Time) []v1alpha1.Floor {
	all = slices.DeleteFunc(all, func(f v1alpha1.Floor) bool { return now.Sub(f.LearnedAt.Time) > floorLasts })
	if len(all) <= mostFloors {
		return all
	}
	great := greatestFloors(all, now)
	slices.SortStableFunc(all, func(a, b v1alpha1.Floor) int {
		if first := great[identity(a)]; first != great[identity(b)] {
			return map[bool]int{true: -1, false: 1}[first]
		}
		return b.LearnedAt.Time.Compare(a.LearnedAt.Time)
	})
	return all[:mostFloors]
}

// greatestFloors returns the identities of the greatest floor of each container and resource.
func greatestFloors(floors []v1alpha1.Floor, now time.Time) map[string]bool {
	greatest := map[string]v1alpha1.Floor{}
	for _, f := range floors {
		of := f.Container + "/" + f.Resource
		if known, ok := greatest[of]; !ok || resize.DecayedFloor(f, now) > resize.DecayedFloor(known, now) {
			greatest[of] = f
		}
	}
	identities := map[string]bool{}
	for _, f := range greatest {
		identities[identity(f)] = true
	}
	return identities
}

// identity identifies a floor by container, resource and evidence.
func identity(f v1alpha1.Floor) string { return f.Container + "/" + f.Resource + "/" + f.Evidence }
