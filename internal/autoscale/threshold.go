package autoscale

import (
	"fmt"
	"maps"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
)

// noRight is why no target is changed if the operator may not write HPAs.
const noRight = "attune may not change its target. Set the chart value hpa.retarget: true"

// Follower is the target of an HPA that follows the requests of the pods (setting Retarget).
type Follower struct {
	// Binding is the metric of the HPA. Its Percent is the live target.
	Binding
	// Threshold is the original target of the original request of a pod, in millicores.
	Threshold replicas.Threshold
	// Present is the mean request of the running pods, in millicores.
	Present float64
	// original are the original requests of the containers that attune sizes, present the mean requests of all that the
	// HPA counts.
	original, present map[string]float64
}

// Follower returns the target that follows the requests of the pods, or nil: no target may be changed. It does not depend
// on a stored range: pods may have other requests although theirs must not change any more.
func (h Holds) Follower() *Follower { return h.follower }

// Proposed returns the range that a request would have if attune were allowed to change the target of the HPA; nil: it
// is allowed to, or no target fits.
func (h Holds) Proposed(container string, r recommender.Resource) *Proof {
	return h.kept[request{container, r}].proposed
}

// findFollower sets the follower of a workload of which a container has the setting Retarget, or had it: a target that was
// changed follows the requests until they are the original ones.
func (h *Holds) findFollower(f *Fleet) {
	h.follower = nil
	for _, b := range h.bindings {
		follows := func(c string) bool {
			return b.binds(c, recommender.CPU) && f.retargets(c, recommender.CPU) && f.original(c, recommender.CPU) > 0
		}
		if !h.mayRetarget || b.Resource != recommender.CPU || b.refused != "" || !b.rewritten && !slices.ContainsFunc(f.sized, follows) {
			continue
		}
		if follower, why := h.follow(b, f); why == "" {
			h.follower = follower
		}
	}
}

// follow returns how the target of a binding follows the requests, or why it cannot.
func (h Holds) follow(b Binding, f *Fleet) (*Follower, string) {
	n := 0
	for _, other := range h.bindings {
		if other.Resource == b.Resource {
			n++
		}
	}
	if n > 1 {
		return nil, fmt.Sprintf("%d targets of CPU utilization scale the workload, and attune changes the target only of one", n)
	}
	if _, why := h.scaler(b); why != "" {
		return nil, why
	}
	present, why := f.present(b.Container, b.Resource)
	if why != "" {
		return nil, why
	}
	to := &Follower{Binding: b, Present: sum(present), original: map[string]float64{}, present: present}
	to.Threshold.Target = b.original()
	for container, mean := range present {
		if original := float64(f.original(container, b.Resource)); original > 0 {
			to.original[container], mean = original, original
		}
		to.Threshold.Request += mean
	}
	return to, ""
}

// At returns the target that belongs to a mean request of the pods; without one it is the original target.
func (f *Follower) At(request float64) int32 {
	if request <= 0 {
		return f.Threshold.Target
	}
	return f.Threshold.At(request)
}

// With returns the target that belongs to these requests of containers; the other ones keep those without attune.
func (f *Follower) With(requests map[string]recommender.Amount) int32 {
	all := f.Threshold.Request
	for container, request := range requests {
		if original := f.original[container]; original > 0 {
			all += float64(request) - original
		}
	}
	return f.At(all)
}

// others is the request of a pod without one container, if the other ones request what they did without attune.
func (f *Follower) others(container string) float64 {
	return f.Threshold.Request - f.original[container]
}

// digest identifies what a range depends on.
func (f *Follower) digest() string {
	all := []any{v1alpha1.HPARetarget, f.HPA, f.Container, f.Threshold.Target}
	for _, name := range slices.Sorted(maps.Keys(f.present)) {
		original, sized := f.original[name]
		if !sized {
			original = f.present[name]
		}
		all = append(all, name, sized, original)
	}
	return clip.Digest(all, 8)
}

// retarget computes the range of a request for which the target of the HPA stays within its bounds. If the history proves
// that the target at a bound keeps the number of replicas with other requests too, the range includes them.
func (h Holds) retarget(of request, f *Fleet) verdict {
	b := h.on(of)[0]
	to, why := h.follow(b, f)
	switch {
	case why != "":
		return verdict{why: why, retarget: true}
	case to.original[of.container] == 0:
		return verdict{why: fmt.Sprintf("the template of container %s has no %s request, to which the target belongs", of.container, of.resource), retarget: true}
	}
	proof := &Proof{Follower: to, Kept: recommender.Kept{By: named([]string{b.HPA}), Reason: resize.ReasonHPA}}
	all, since := h.reach(to, f, proof)
	proof.Least, proof.Most = f.share(all, of, to.present)
	proof.Retarget = &recommender.Retarget{Threshold: to.Threshold, Others: to.others(of.container)}
	now := f.Now.UTC().Truncate(time.Second)
	proof.Stored = v1alpha1.KeptRequest{
		Resource: of.resource.String(), Least: podview.Quantity(of.resource, proof.Least), Most: podview.ToPointer(of.resource, proof.Most),
		HPAs: []string{b.HPA}, By: v1alpha1.HPARetarget, OriginalPercent: to.Threshold.Target, Digest: to.digest(),
		Since: metav1.Time{Time: since.UTC().Truncate(time.Second)}, ValidUntil: metav1.Time{Time: now.Add(keptFor)},
	}
	switch {
	case !h.mayRetarget:
		return verdict{why: noRight, proposed: proof, retarget: true}
	case b.refused != "":
		return verdict{why: b.refused, proposed: proof, retarget: true}
	}
	return verdict{proof: proof}
}

// reach returns the requests of a pod that a target can follow, and since when the history behind them is known. It writes
// into a proof what would happen beyond.
func (h Holds) reach(to *Follower, f *Fleet, proof *Proof) (all replicas.Kept, since time.Time) {
	since = f.Now
	const included = 1e-8 // both bounds of the threshold are part of the range
	least, greatest := to.Threshold.Range()
	all.Least, all.Greatest = least*(1-included), greatest*(1+included)
	proof.Below = fmt.Sprintf("with less, its target would be above %d %%", max(replicas.GreatestTarget, to.Threshold.Target))
	proof.Above = fmt.Sprintf("with more, its target would be below %d %%", min(replicas.LeastTarget, to.Threshold.Target))
	if past := f.past(to.Container, to.Resource); past.tooLittle(f.Now) == "" {
		scaler, _ := h.scaler(to.Binding)
		proven := scaler.Retarget(to.Threshold, past.Spans)
		if proven.Least < least {
			all.Least, proof.Below, since = proven.Least, beyond("less", to.HPA, proven.Below), past.Since
		}
		if proven.Greatest > greatest {
			all.Greatest, proof.Above, since = proven.Greatest, beyond("more", to.HPA, proven.Above), past.Since
		}
	}
	return all, since
}

// beyond writes what an HPA with its target at a bound would have done with less or more than a range.
func beyond(with, hpa string, c replicas.Change) string {
	if c.At.IsZero() {
		return fmt.Sprintf("with %s, HorizontalPodAutoscaler %s would have asked for another number of replicas", with, hpa)
	}
	return fmt.Sprintf("with %s, HorizontalPodAutoscaler %s would have asked for %d replicas instead of %d at %s, apart from the margin",
		with, hpa, c.Instead, c.Asked, minute(c.At))
}

// orKept returns the range of a request whose target may change; otherwise that of the history, or why there is neither.
func (h Holds) orKept(of request, f *Fleet, kept func() verdict) verdict {
	if !f.retargets(of.container, of.resource) {
		return kept()
	}
	v := h.retarget(of, f)
	if v.proof == nil {
		if proven := kept(); proven.proof != nil {
			return proven
		}
	}
	return v
}

// followed returns the stored range of a request whose target may change, if it still stands.
func (h Holds) followed(of request, row *v1alpha1.KeptRequest, f *Fleet) verdict {
	if !f.retargets(of.container, of.resource) {
		return verdict{why: "no range of requests is proven to keep the number of replicas"}
	}
	v := h.retarget(of, f)
	if v.proof == nil {
		return v
	}
	if v.proof.Stored.Digest != row.Digest {
		return verdict{why: "the target of the HorizontalPodAutoscaler or the requests of the template have changed since the range of requests was computed", retarget: true}
	}
	v.proof.Stored = *row // the caller may not have the history behind it
	v.proof.Least, v.proof.Most = podview.AmountOf(of.resource, row.Least), podview.FromPointer(of.resource, row.Most)
	return v
}

func (f *Fleet) retargets(container string, r recommender.Resource) bool {
	return r == recommender.CPU && f.Retargets != nil && f.Retargets(container, r)
}

// original is the target of the binding as its user wrote it.
func (b Binding) original() int32 {
	if b.Original > 0 {
		return b.Original
	}
	return b.Percent
}

// originals returns the bindings of an HPA with the original targets, or why attune must not change them.
func (a Autoscalers) originals(hpa *autoscalingv2.HorizontalPodAutoscaler, w workload.Workload) []Binding {
	bindings := Bindings(hpa, w)
	for i := range bindings {
		if b := &bindings[i]; b.Resource == recommender.CPU {
			a.addTarget(hpa, b, w)
		}
	}
	return bindings
}

// void is the verdict without a proof, because none is stored.
func (v verdict) void() verdict {
	if v.proof != nil {
		v = verdict{why: "the range of requests has not been computed yet", retarget: true}
	}
	return v
}
