package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/withdraw"
)

// Namespace holds the bounds for every pod of a namespace. The zero value bounds nothing. The index makes it from
// LimitRanges and ResourceQuotas; it is never changed afterwards.
type Namespace struct {
	// Bounds are the demands of all LimitRanges together.
	Bounds constraint.Bounds
	// Quotas are the rests of the ResourceQuotas; each of them must admit the pod.
	Quotas []constraint.QuotaLeft
}

// Decision is what admission does with a pod. It never refuses one.
type Decision struct {
	// Reason is the result in one word: Seeded, or why the pod stays as it is.
	Reason Reason
	// Message adds to the reason where there is more to report; empty: nothing.
	Message string
	// Patch is a JSON patch; empty: nothing changes.
	Patch []byte
	// Held lists the resources that a seed exists for and that stay as they were.
	Held []Held
}

// Held is one resource that stays as it was, and why.
type Held struct {
	// Container is its name; empty: all containers of the pod.
	Container string
	// Resource that stays.
	Resource recommender.Resource
	// Reason why it stays.
	Reason Reason
	// Message adds the amounts to the reason where there are any to report; empty: nothing.
	Message string
}

// SeedPod fits the seed of a recommendation (nil: none) to a new pod. It is a pure function of its arguments, and
// a second call on its own result changes nothing; the API server may call a mutating webhook again after others
// changed the pod (reinvocation).
//
// The order of the steps matters:
//  1. leave ends with pods that are not sized at all.
//  2. recall finds the sizes before an earlier call, on which all else is computed.
//  3. seedUnits fits each container by itself.
//  4. fitNode gives a resource back where the pod as a whole would fit no node, keepRoom where the namespace would
//     refuse it. Both need the sizes of all containers.
//  5. keepClass comes last: what the two give back can change the class.
func SeedPod(p *Pod, rec *Recommendation, ns *Namespace, now time.Time) Decision {
	d := Decision{}
	units := sized(p, rec, ns, now, &d)
	if units == nil {
		return d
	}
	note := annotation(units, rec)
	d.Patch = patch(p, units, note)
	d.Reason = outcome(note, &d)
	return d
}

// sized returns the containers with the sizes that they are to have. It returns nil where the pod is not sized at all, with
// the reason in the decision.
func sized(p *Pod, rec *Recommendation, ns *Namespace, now time.Time, d *Decision) []unit {
	if *d = leave(p, rec, now); d.Reason != "" {
		return nil
	}
	units := unitsOf(p)
	// Sums of absurd amounts would overflow; the API server will refuse the pod itself, or no node will take it.
	if !sane(units) {
		*d = Decision{Reason: Unreadable, Message: "an amount is beyond any machine"}
		return nil
	}
	rec = rec.sparing(p)
	recall(p, units, rec, ns)
	seedUnits(units, rec.Seed, podview.GenerationOf(p.Metadata.Labels), ns, d)
	fitNode(p, units, &rec.Seed.Largest, d)
	keepRoom(p, units, ns, d)
	keepClass(p, units, ns, d)
	return units
}

// outcome is Seeded for a pod that was changed. For any other it is the reason of the last hold, which is the one
// that concerns most of the pod.
func outcome(note string, d *Decision) Reason {
	switch {
	case note != "":
		return Seeded
	case len(d.Held) > 0:
		return d.Held[len(d.Held)-1].Reason
	default:
		return AsSeeded
	}
}

// mirrorAnnotation marks the API server's copy of a static pod; the kubelet ignores changes of it.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// windows is the name of the system, of pods and in the label of nodes.
const windows = string(corev1.Windows)

// leave returns a decision with a reason where the pod is not to be sized at all, else the zero value.
func leave(p *Pod, rec *Recommendation, now time.Time) Decision {
	_, mirror := p.Metadata.Annotations[mirrorAnnotation]
	switch {
	case p.Metadata.Annotations[v1alpha1.SkipAnnotation] == "true":
		return Decision{Reason: Skipped}
	case mirror:
		return Decision{Reason: MirrorPod}
	case p.Spec.OS != nil && p.Spec.OS.Name == windows || p.Spec.NodeSelector.OS == windows:
		return Decision{Reason: Windows}
	case p.Spec.Resources != nil:
		return Decision{Reason: PodLevelResources}
	case rec == nil:
		return Decision{Reason: NoRecommendation}
	case withdraw.Stands(rec.withdrawn, now):
		return Decision{Reason: Withdrawn, Message: rec.withdrawn.Reason + ": " + rec.withdrawn.Message}
	case rec.Seed == nil:
		return Decision{Reason: NoSeed, Message: rec.Withheld}
	case !now.Before(rec.Seed.ValidUntil):
		return Decision{Reason: SeedExpired, Message: "valid until " + rec.Seed.ValidUntil.UTC().Format(time.RFC3339)}
	}
	return Decision{}
}

// seedUnits fits the seed to each container that runs as long as the pod, and notes what is held. Init containers
// that end are never sized.
func seedUnits(units []unit, seed *Seed, generation string, ns *Namespace, d *Decision) {
	f := frame{class: classOf(units, was), bounds: &ns.Bounds, largest: seed.Largest}
	podSizes := podSizesVolume(units)
	for i := range units {
		u := &units[i]
		u.will, u.plain, u.unkept = u.was, recommender.Allocation{}, recommender.Allocation{}
		s := seed.of(u.Name).forGeneration(generation)
		if s == nil || !u.runs() {
			continue
		}
		volumes := u.volumes
		volumes.Unbounded = volumes.Unbounded || podSizes
		for _, r := range recommender.Resources {
			var held Reason
			if u.tight[r] && s.Of[r].request > 0 {
				held = FixedLimit
			} else {
				u.will[r], held = f.fit(r, s, u.was[r], volumes)
			}
			if held == MemoryVolume {
				u.unkept, _ = f.fit(r, s, u.was[r], podview.MemoryVolumes{})
			}
			if r == recommender.CPU && held == "" && u.boost {
				f.boostUnit(u, s)
			}
			if held != "" {
				d.Held = append(d.Held, Held{Container: u.Name, Resource: r, Reason: held})
			}
		}
	}
}

// podSizesVolume reports whether the kubelet sizes a memory-backed volume by the memory limits of the whole pod
// (calculateEmptyDirMemorySize): all containers have a limit, and the volume has no size limit below their sum.
func podSizesVolume(units []unit) bool {
	var volumes podview.MemoryVolumes
	var limits recommender.Amount
	for i := range units {
		u := &units[i]
		limit := u.was[recommender.Memory].Limit
		if limit == 0 {
			return false
		}
		if u.runs() {
			limits = min(limits+limit, recommender.MaxAmount)
		}
		volumes.Unbounded = volumes.Unbounded || u.volumes.Unbounded
		volumes.Size = max(volumes.Size, u.volumes.Size)
	}
	return volumes.Unbounded || volumes.Size > 0 && volumes.Size >= limits
}

// boostUnit gives a container its boost, as far as the bounds of the namespace and the class allow. plain keeps
// the size without it.
func (f frame) boostUnit(u *unit, s *ContainerSeed) {
	if s.Of[recommender.CPU].request == 0 || u.tight[recommender.CPU] {
		return
	}
	// The frame is a copy (value receiver), so the boost applies to this container alone.
	f.boost = s.boost
	boosted, _ := f.fit(recommender.CPU, s, u.was[recommender.CPU], podview.MemoryVolumes{})
	if plain := u.will[recommender.CPU]; boosted.Request > plain.Request {
		u.will[recommender.CPU], u.plain = boosted, plain
	}
}

// fitNode gives a resource back in all containers where the pod would request more of it than the largest node has, and more
// than its template; of CPU first only the boosts. Without that the pod would stay Pending. The containers get what the pod had
// before attune, also what an earlier call gave them: another webhook may have added a container since.
func fitNode(p *Pod, units []unit, largest *recommender.Size, d *Decision) {
	for _, r := range recommender.Resources {
		most := largest[r].Request
		requests := func(of version) recommender.Amount { return p.withOverhead(r, effective(units, r, of)).Request }
		allowed, wanted := max(most, requests(was)), requests(will)
		if most == 0 || wanted <= allowed || r == recommender.CPU && unboost(units) && requests(will) <= allowed {
			continue
		}
		giveBack(units, r)
		d.Held = append(d.Held, Held{Resource: r, Reason: NodeCapacity, Message: "the pod would request " + recommender.Format(r, wanted) +
			" of " + r.String() + ", and the largest node on which it may run has " + recommender.Format(r, most)})
	}
}

// giveBack gives all containers what they had of a resource before attune, without boosts.
func giveBack(units []unit, r recommender.Resource) {
	for i := range units {
		units[i].will[r] = units[i].was[r]
		if r == recommender.CPU {
			units[i].boost, units[i].claimed = false, false
		}
	}
}

// keepRoom gives a resource back in all containers where the namespace would refuse the pod as a whole; of CPU
// first only the boosts.
func keepRoom(p *Pod, units []unit, ns *Namespace, d *Decision) {
	for _, r := range recommender.Resources {
		reason := ns.refuses(p, units, r)
		if reason != "" && r == recommender.CPU && unboost(units) {
			reason = ns.refuses(p, units, r)
		}
		if reason != "" {
			restore(units, r)
			d.Held = append(d.Held, Held{Resource: r, Reason: reason})
		}
	}
}

// refuses is the reason why the namespace would not admit the pod with its new amounts of a resource, or empty.
// Only what differs from the pod as it came is judged: attune must not be the cause of a refusal, but cannot
// prevent one either.
func (ns *Namespace) refuses(p *Pod, units []unit, r recommender.Resource) Reason {
	from, to := effective(units, r, is), effective(units, r, will)
	if from == to {
		return ""
	}
	if ns.Bounds.Pod[r].ViolatedBy(to) {
		return LimitRange
	}
	if len(ns.Quotas) == 0 {
		return ""
	}
	from, to = p.withOverhead(r, from), p.withOverhead(r, to)
	leavesClass := classOf(units, is) != classOf(units, will)
	for i := range ns.Quotas {
		if left := &ns.Quotas[i]; left.ByClass && leavesClass || !left.Admits(r, from, to) {
			return Quota
		}
	}
	return ""
}

// withOverhead adds the overhead of the runtime class, which quotas count; to a limit only where there is one.
func (p *Pod) withOverhead(r recommender.Resource, a recommender.Allocation) recommender.Allocation {
	overhead := podview.AmountOf(r, *p.Spec.Overhead.of(r))
	a.Request += overhead
	if a.Limit > 0 {
		a.Limit += overhead
	}
	return a
}

// keepClass leaves the whole pod alone where its class of quality of service would change. One change is allowed:
// a pod without any requests gets some, because a BestEffort pod can never be resized later. Without the boosts
// the pod has another size, which has to be admitted too, so keepRoom runs again.
func keepClass(p *Pod, units []unit, ns *Namespace, d *Decision) {
	if keepsClass(units) {
		return
	}
	if unboost(units) {
		keepRoom(p, units, ns, d)
		if keepsClass(units) {
			return
		}
	}
	for _, r := range recommender.Resources {
		restore(units, r)
		d.Held = append(d.Held, Held{Resource: r, Reason: QoSClass})
	}
}

// keepsClass reports whether the class stays, or changes from BestEffort to Burstable.
func keepsClass(units []unit) bool {
	from, to := classOf(units, is), classOf(units, will)
	return from == to || from == corev1.PodQOSBestEffort && to == corev1.PodQOSBurstable
}

// restore gives a resource back in all containers: they keep what the pod came with, including a boost from an
// earlier call.
func restore(units []unit, r recommender.Resource) {
	for i := range units {
		units[i].will[r] = units[i].is[r]
		if r == recommender.CPU {
			units[i].boost = units[i].claimed
		}
	}
}

// object is the pod's metadata in the form that workload.OwnerOf reads.
func (p *Pod) object() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Labels: p.Metadata.Labels, OwnerReferences: p.Metadata.OwnerReferences}
}

// Reason is the decision on a pod, or on one of its resources, in one word. The words label
// attune_admission_total, so their number is small and fixed.
type Reason string

const (
	// Seeded: the pod was changed, or has its seed already.
	Seeded Reason = "Seeded"

	// The other reasons leave the pod, or one of its resources, as it is.

	NotAPod           Reason = "NotAPod"                 // not the creation of a pod
	Unreadable        Reason = "Unreadable"              // not decodable, or with absurd amounts
	Failed            Reason = "Failed"                  // a defect of ours, recovered
	NoOwner           Reason = "NoOwner"                 // no workload that attune sizes
	NoRecommendation  Reason = "NoRecommendation"        // nothing is known of the workload
	NoSeed            Reason = "NoSeed"                  // the recommendation has none, or a bad one
	Withdrawn         Reason = "AdmissionWithdrawn"      // pods were rejected or did not start with the seed
	SeedExpired       Reason = "SeedExpired"             // no fresh data since
	Skipped           Reason = "Skipped"                 // the pod opts out
	Windows           Reason = "Windows"                 // cannot be resized later
	MirrorPod         Reason = "MirrorPod"               // a static pod's shadow: changing it changes nothing
	PodLevelResources Reason = "PodLevelResources"       // sized as a whole by its author
	AsSeeded          Reason = "AsSeeded"                // has these values by itself
	LimitRange        Reason = "LimitRange"              // the seed does not fit the namespace's limit ranges
	Quota             Reason = "Quota"                   // room in the namespace's quotas is not known to suffice
	TemplateChanged   Reason = "TemplateChanged"         // its author asks for more than the seed was made for
	QoSClass          Reason = "QoSClass"                // the seed would change the pod's quality of service
	FixedLimit        Reason = "FixedLimit"              // a Guaranteed pod whose limits the policy leaves alone, or a limit of zero
	MemoryVolume      Reason = resize.ReasonMemoryVolume // the memory limit stays: a memory-backed volume may fill up to it
	NodeCapacity      Reason = resize.ReasonNodeCapacity // the pod would fit no node on which it may run
)
