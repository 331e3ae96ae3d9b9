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

// Namespace holds the limits for every pod of a namespace. The zero value has none. The index computes it from
// LimitRanges and ResourceQuotas; it is never changed afterwards.
type Namespace struct {
	// Bounds are the constraints of all LimitRanges together.
	Bounds constraint.Bounds
	// Quotas are the rests of the ResourceQuotas; each of them must admit the pod.
	Quotas []constraint.QuotaLeft
}

// Decision is the result of admission for a pod. It never rejects a pod.
type Decision struct {
	// Reason is the result in one word: Seeded, or why the pod is not changed.
	Reason Reason
	// Message adds details to the reason; empty: there are none.
	Message string
	// Patch is a JSON patch; empty: nothing changes.
	Patch []byte
	// Blocked lists the resources that a seed exists for and that are not changed.
	Blocked []Blocked
}

// Blocked is one resource that is not changed, and why.
type Blocked struct {
	// Container is its name; empty: all containers of the pod.
	Container string
	// Resource that is not changed.
	Resource recommender.Resource
	// Reason why it is not changed.
	Reason Reason
	// Message adds amounts to the reason; empty: there are none.
	Message string
}

// SeedPod fits the seed of a recommendation (nil: none) to a new pod. It is a pure function of its arguments, and a
// second call on its own result changes nothing: the API server may call a mutating webhook again after others
// changed the pod (reinvocation).
//
// The order of the steps matters:
//  1. leave ends with pods that are not sized at all.
//  2. recall finds the sizes before an earlier call, from which the later steps compute.
//  3. seedUnits fits each container by itself.
//  4. fitNode restores a resource if the pod as a whole would fit no node, keepRoom if the namespace would
//     reject it. Both need the sizes of all containers.
//  5. keepClass comes last, because the two restores can change the class.
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

// sized returns the containers with the sizes that they are to have. It returns nil if the pod is not sized at all,
// with the reason in the decision.
func sized(p *Pod, rec *Recommendation, ns *Namespace, now time.Time, d *Decision) []unit {
	if *d = leave(p, rec, now); d.Reason != "" {
		return nil
	}
	units := unitsOf(p)
	// Sums of absurd amounts would overflow. The API server will reject the pod anyway, or no node will fit it.
	if !sane(units) {
		*d = Decision{Reason: Unreadable, Message: "an amount is larger than any machine"}
		return nil
	}
	rec = rec.sparing(p)
	recall(p, units, rec, ns)
	seedUnits(p, units, rec.Seed, podview.GenerationOf(p.Metadata.Labels), ns, d)
	fitNode(p, units, &rec.Seed.Largest, d)
	keepRoom(p, units, ns, d)
	keepClass(p, units, rec.Seed, ns, d)
	return units
}

// outcome is Seeded for a pod that was changed. Otherwise it is the reason of the last held resource, which concerns
// most of the pod.
func outcome(note string, d *Decision) Reason {
	switch {
	case note != "":
		return Seeded
	case len(d.Blocked) > 0:
		return d.Blocked[len(d.Blocked)-1].Reason
	default:
		return AsSeeded
	}
}

// mirrorAnnotation marks the API server's copy of a static pod; the kubelet ignores changes of the copy.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// windows is the name of the operating system, in pods and in the label of nodes.
const windows = string(corev1.Windows)

// leave returns a decision with a reason if the pod must not be sized at all, otherwise the zero value.
func leave(p *Pod, rec *Recommendation, now time.Time) Decision {
	_, mirror := p.Metadata.Annotations[mirrorAnnotation]
	switch {
	case p.Metadata.Annotations[v1alpha1.SkipAnnotation] == "true":
		return Decision{Reason: Skipped}
	case mirror:
		return Decision{Reason: MirrorPod}
	case p.Spec.OS != nil && p.Spec.OS.Name == windows || p.Spec.NodeSelector.OS == windows:
		return Decision{Reason: Windows}
	case p.Spec.ownResources():
		return Decision{Reason: PodLevelResources}
	case rec == nil:
		return Decision{Reason: NoRecommendation}
	case withdraw.Stands(rec.withdrawn, now):
		return Decision{Reason: Withdrawn, Message: rec.withdrawn.Reason + ": " + rec.withdrawn.Message}
	case rec.Seed == nil:
		return Decision{Reason: NoSeed, Message: rec.SeedBlocked}
	case !now.Before(rec.Seed.ValidUntil):
		return Decision{Reason: SeedExpired, Message: "valid until " + rec.Seed.ValidUntil.UTC().Format(time.RFC3339)}
	}
	return Decision{}
}

// seedUnits fits the seed to each container that runs as long as the pod, and records the held resources. Init
// containers that end are never sized.
func seedUnits(p *Pod, units []unit, seed *Seed, generation string, ns *Namespace, d *Decision) {
	f := frame{class: classOf(units, was), bounds: &ns.Bounds, largest: seed.Largest, sandboxed: p.withOverhead(recommender.Memory, recommender.Allocation{}).Request > 0}
	f.limitKept = ns.limitKept(f.sandboxed)
	podSizes := podSizesVolume(units)
	for i := range units {
		u := &units[i]
		u.will, u.plain, u.unkept = u.was, recommender.Allocation{}, recommender.Allocation{}
		s := seed.of(u.Name).forGeneration(generation)
		if s == nil || !u.runs() {
			continue
		}
		f.reportLimit(u, &s.Of[recommender.CPU], d)
		volumes := u.facts.Volumes
		sized := volumes
		sized.Unbounded = sized.Unbounded || podSizes
		for _, r := range recommender.Resources {
			var held Reason
			if u.tight[r] && s.Of[r].request > 0 {
				held = FixedLimit
			} else {
				u.facts.Volumes = sized
				u.will[r], held = f.fit(r, s, u.was[r], &u.facts)
			}
			if held == MemoryVolume {
				u.facts.Volumes = podview.MemoryVolumes{}
				u.unkept, _ = f.fit(r, s, u.was[r], &u.facts)
			}
			u.facts.Volumes = volumes
			if r == recommender.CPU && held == "" && u.boost {
				f.boostUnit(u, s)
			}
			if held != "" {
				d.Blocked = append(d.Blocked, Blocked{Container: u.Name, Resource: r, Reason: held})
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
		volumes.Unbounded = volumes.Unbounded || u.facts.Volumes.Unbounded
		volumes.Size = max(volumes.Size, u.facts.Volumes.Size)
	}
	return volumes.Unbounded || volumes.Size > 0 && volumes.Size >= limits
}

// boostUnit gives a container its boost, within the limits of the namespace and the class. plain keeps the size
// without it.
func (f frame) boostUnit(u *unit, s *ContainerSeed) {
	if s.Of[recommender.CPU].request == 0 || u.tight[recommender.CPU] {
		return
	}
	// The frame is a copy (value receiver), so the boost applies only to this container.
	f.boost = s.boost
	boosted, _ := f.fit(recommender.CPU, s, u.was[recommender.CPU], &u.facts)
	if plain := u.will[recommender.CPU]; boosted.Request > plain.Request {
		u.will[recommender.CPU], u.plain = boosted, plain
	}
}

// fitNode restores a resource in all containers if the pod would request more of it than the largest node has, and
// more than its template. For CPU it first removes only the boosts. Without that the pod would stay Pending. The
// containers get the sizes before attune, even if an earlier call changed them: another webhook may have added a
// container since.
func fitNode(p *Pod, units []unit, largest *recommender.Size, d *Decision) {
	for _, r := range recommender.Resources {
		most := largest[r].Request
		requests := func(of version) recommender.Amount { return p.withOverhead(r, effective(units, r, of)).Request }
		allowed, wanted := max(most, requests(was)), requests(will)
		if most == 0 || wanted <= allowed || r == recommender.CPU && unboost(units) && requests(will) <= allowed {
			continue
		}
		restoreOriginals(units, r)
		d.Blocked = append(d.Blocked, Blocked{Resource: r, Reason: NodeCapacity, Message: "the pod would request " + recommender.Format(r, wanted) +
			" of " + r.String() + ", but the largest node on which it may run has " + recommender.Format(r, most)})
	}
}

// restoreOriginals restores a resource of all containers to its amount before attune, without boosts.
func restoreOriginals(units []unit, r recommender.Resource) {
	for i := range units {
		units[i].will[r] = units[i].was[r]
		if r == recommender.CPU {
			units[i].boost, units[i].claimed = false, false
		}
	}
}

// keepRoom restores a resource in all containers if the namespace would reject the pod as a whole. For CPU it first
// removes only the boosts.
func keepRoom(p *Pod, units []unit, ns *Namespace, d *Decision) {
	for _, r := range recommender.Resources {
		reason := ns.refuses(p, units, r)
		if reason != "" && r == recommender.CPU && unboost(units) {
			reason = ns.refuses(p, units, r)
		}
		if reason != "" {
			restore(units, r)
			d.Blocked = append(d.Blocked, Blocked{Resource: r, Reason: reason})
		}
	}
}

// refuses is the reason why the namespace would not admit the pod with its new amounts of a resource, or empty. It
// judges only changes from the received pod: attune must not cause a rejection, but cannot prevent another one.
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

// withOverhead adds the overhead of the runtime class, which quotas count. It adds it to a limit only if there is
// one.
func (p *Pod) withOverhead(r recommender.Resource, a recommender.Allocation) recommender.Allocation {
	overhead := podview.AmountOf(r, *p.Spec.Overhead.of(r))
	a.Request += overhead
	if a.Limit > 0 {
		a.Limit += overhead
	}
	return a
}

// keepClass does not change the pod at all if its QoS class would change. One change is allowed: a pod without any
// requests gets some, because a BestEffort pod can never be resized later. Without the boosts, or with a request that
// stays just below its limit, the pod has another size, which must be admitted too, so keepRoom runs again.
func keepClass(p *Pod, units []unit, seed *Seed, ns *Namespace, d *Decision) {
	if keepsClass(units) {
		return
	}
	if unboost(units) {
		keepRoom(p, units, ns, d)
		if keepsClass(units) {
			return
		}
	}
	if kept := stayBurstable(p, units, seed, ns); kept != nil {
		keepRoom(p, units, ns, d)
		if keepsClass(units) {
			d.Blocked = append(d.Blocked, *kept)
			return
		}
	}
	for _, r := range recommender.Resources {
		restore(units, r)
		d.Blocked = append(d.Blocked, Blocked{Resource: r, Reason: QoSClass})
	}
}

// stayBurstable keeps one request of a pod that would become Guaranteed one unit below its limit, and returns which; nil:
// none can stay there. A later call must choose the same one, so the choice depends on was and will only.
func stayBurstable(p *Pod, units []unit, seed *Seed, ns *Namespace) *Blocked {
	if classOf(units, is) != corev1.PodQOSBurstable {
		return nil
	}
	// Init containers come last, as in a plan for a running pod.
	at := func(i int) *unit { return &units[(i+len(p.Spec.InitContainers))%len(units)] }
	from, to := make([]recommender.Size, len(units)), make([]recommender.Size, len(units))
	for i := range units {
		from[i], to[i] = at(i).was, at(i).will
	}
	i, r, found := podview.StayBurstable(from, to, func(i int, r recommender.Resource, below recommender.Allocation) bool {
		s := seed.of(at(i).Name).forGeneration(podview.GenerationOf(p.Metadata.Labels))
		return s != nil && (below.Request == from[i][r].Request || s.Of[r].kept.Contains(below.Request)) && !ns.Bounds.Container[r].ViolatedBy(below)
	})
	if !found {
		return nil
	}
	u := at(i)
	u.will[r] = podview.BelowLimit(u.will[r])
	return &Blocked{Container: u.Name, Resource: r, Reason: QoSClass, Message: resize.BelowLimitMessage(r, u.will[r].Limit)}
}

// keepsClass reports whether the class stays, or changes from BestEffort to Burstable.
func keepsClass(units []unit) bool {
	from, to := classOf(units, is), classOf(units, will)
	return from == to || from == corev1.PodQOSBestEffort && to == corev1.PodQOSBurstable
}

// restore resets a resource of all containers to the amount in the received pod, including a boost from an earlier
// call.
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

// Reason is the decision on a pod, or on one of its resources, in one word. It is a label of attune_admission_total,
// so the number of reasons is small and fixed.
type Reason string

const (
	// Seeded: the pod was changed, or has its seed already.
	Seeded Reason = "Seeded"

	// The other reasons do not change the pod, or one of its resources.

	NotAPod           Reason = "NotAPod"                     // not the creation of a pod
	Probed            Reason = "Probed"                      // a dry run that asks whether the webhook answers
	Unreadable        Reason = "Unreadable"                  // not decodable, or with absurd amounts
	Failed            Reason = "Failed"                      // a defect of ours, recovered
	NoOwner           Reason = "NoOwner"                     // no workload that attune sizes
	NoRecommendation  Reason = "NoRecommendation"            // there is no recommendation for the workload
	NoSeed            Reason = "NoSeed"                      // the recommendation has no seed, or a bad one
	Withdrawn         Reason = "AdmissionWithdrawn"          // pods were rejected or did not start with the seed
	SeedExpired       Reason = "SeedExpired"                 // no fresh data since then
	Skipped           Reason = "Skipped"                     // the pod opts out
	Windows           Reason = "Windows"                     // cannot be resized later
	MirrorPod         Reason = "MirrorPod"                   // a static pod's mirror: changes have no effect
	PodLevelResources Reason = "PodLevelResources"           // sized as a whole by its author
	AsSeeded          Reason = "AsSeeded"                    // already has these values
	LimitRange        Reason = "LimitRange"                  // the seed does not fit the namespace's limit ranges
	Quota             Reason = "Quota"                       // the namespace's quotas may not have enough room
	TemplateChanged   Reason = "TemplateChanged"             // its author requests more than the seed was computed for
	QoSClass          Reason = "QoSClass"                    // the seed would change the pod's quality of service
	FixedLimit        Reason = resize.ReasonFixedLimit       // a Guaranteed pod with RequestsOnly, or a limit of zero
	CriticalPriority  Reason = resize.ReasonCriticalPriority // the scheduler could evict other pods for it
	Queued            Reason = resize.ReasonQueue            // room is reserved for the template's requests
	MemoryLimitKnown  Reason = resize.ReasonMemoryLimitKnown // the process may use more memory than a lower limit
	MemoryVolume      Reason = resize.ReasonMemoryVolume     // the memory limit stays: a memory-backed volume may fill up to it
	NodeCapacity      Reason = resize.ReasonNodeCapacity     // the pod would fit no node on which it may run
	HPA               Reason = resize.ReasonHPA              // an HPA scales on it: the fitted request would change the number of replicas
	CPULimitNeeded    Reason = constraint.LimitNeeded        // cpu.limits Remove, but the pod or its namespace needs the limit
)
