package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Namespace is what binds every pod of a namespace.
type Namespace struct {
	Bounds constraint.Bounds
	Quotas []constraint.QuotaLeft
}

// Decision is what admission does with a pod.
type Decision struct {
	Reason Reason
	// Message says more than the reason where there is more to say.
	Message string
	// Patch is a JSON patch; empty: nothing changes.
	Patch []byte
	// Held are the resources that a seed was there for and that stay as they were.
	Held []Held
}

// Held says why one resource of a container stays as it was; an empty container means all of them.
type Held struct {
	Container string
	Resource  recommender.Resource
	Reason    Reason
}

// SeedPod fits a recommendation's seed to a new pod. It is computed from the seed and from what the
// pod was created with, so a second call on its own result changes nothing. rec may be nil.
func SeedPod(p *Pod, rec *Recommendation, ns *Namespace, now time.Time) Decision {
	if d := leave(p, rec, now); d.Reason != "" {
		return d
	}
	units := unitsOf(p)
	if !sane(units) {
		return Decision{Reason: Unreadable, Message: "an amount is beyond any machine"}
	}
	recall(p, units, rec, ns)
	d := Decision{}
	seedUnits(units, rec.Seed, podview.GenerationOf(p.Metadata.Labels), ns, &d)
	keepRoom(p, units, ns, &d)
	keepClass(p, units, ns, &d)
	note := annotation(units, rec)
	d.Patch = patch(p, units, note)
	d.Reason = outcome(note, &d)
	return d
}

// outcome: a pod that was moved is seeded; another stays as it is for the reason of the last hold, which
// is the one that concerns most of it.
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

// mirrorAnnotation marks the API server's shadow of a static pod.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// leave is a decision with a reason where the pod is not to be sized at all.
func leave(p *Pod, rec *Recommendation, now time.Time) Decision {
	_, mirror := p.Metadata.Annotations[mirrorAnnotation]
	switch {
	case p.Metadata.Annotations[v1alpha1.SkipAnnotation] == "true":
		return Decision{Reason: Skipped}
	case mirror:
		return Decision{Reason: MirrorPod}
	case p.Spec.OS != nil && p.Spec.OS.Name == "windows":
		return Decision{Reason: Windows}
	case p.Spec.Resources != nil:
		return Decision{Reason: PodLevelResources}
	case rec == nil:
		return Decision{Reason: NoRecommendation}
	case rec.Seed == nil:
		return Decision{Reason: NoSeed, Message: rec.Withheld}
	case !now.Before(rec.Seed.ValidUntil):
		return Decision{Reason: SeedExpired, Message: "valid until " + rec.Seed.ValidUntil.UTC().Format(time.RFC3339)}
	}
	return Decision{}
}

// seedUnits fits the seed to each container that runs while the pod does.
func seedUnits(units []unit, seed *Seed, generation string, ns *Namespace, d *Decision) {
	f := frame{class: classOf(units, was), bounds: &ns.Bounds}
	for i := range units {
		u := &units[i]
		u.will, u.plain = u.was, recommender.Allocation{}
		s := seed.of(u.Name).forGeneration(generation)
		if s == nil || !u.runs() {
			continue
		}
		for _, r := range recommender.Resources {
			var held Reason
			if u.tight[r] && s.Of[r].request > 0 {
				held = FixedLimit
			} else {
				u.will[r], held = f.fit(r, s, u.was[r])
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

// boostUnit gives a container more CPU to start with, as far as what binds it lets it.
func (f frame) boostUnit(u *unit, s *ContainerSeed) {
	if s.Of[recommender.CPU].request == 0 || u.tight[recommender.CPU] {
		return
	}
	f.boost = s.boost
	boosted, _ := f.fit(recommender.CPU, s, u.was[recommender.CPU])
	if plain := u.will[recommender.CPU]; boosted.Request > plain.Request {
		u.will[recommender.CPU], u.plain = boosted, plain
	}
}

// keepRoom gives a resource back in all containers where the pod as a whole would not be admitted; of CPU
// the boost first.
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

// refuses is the reason why the namespace does not admit the pod with what it will have of a resource,
// and may well admit it as it is.
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

// withOverhead adds what the runtime class costs; a quota counts it, and a limit only where one is.
func (p *Pod) withOverhead(r recommender.Resource, a recommender.Allocation) recommender.Allocation {
	overhead := podview.AmountOf(r, *p.Spec.Overhead.of(r))
	a.Request += overhead
	if a.Limit > 0 {
		a.Limit += overhead
	}
	return a
}

// keepClass leaves the whole pod alone where its quality of service would change. The one change there
// is, is that a pod without any requests gets some: it could never be resized later. What is left without the boosts
// is another size, which has to be admitted too.
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

func keepsClass(units []unit) bool {
	from, to := classOf(units, is), classOf(units, will)
	return from == to || from == corev1.PodQOSBestEffort && to == corev1.PodQOSBurstable
}

func restore(units []unit, r recommender.Resource) {
	for i := range units {
		units[i].will[r] = units[i].is[r]
		if r == recommender.CPU {
			units[i].boost = units[i].claimed
		}
	}
}

// object is the pod's metadata as the owner's lookup reads it.
func (p *Pod) object() *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Labels: p.Metadata.Labels, OwnerReferences: p.Metadata.OwnerReferences}
}
