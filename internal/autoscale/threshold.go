package autoscale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
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
	// Present is the mean request of the pods that the HPA counts, in millicores. without is the one that they had
	// without attune: another one than that of the newest template, while older pods run.
	Present, without float64
	// mixed: pods were created from a template to which the original target does not belong.
	mixed bool
	// back: the target only moves towards the original one.
	back bool
	now  time.Time
	// original are the original requests of the containers that attune sizes, present the mean requests of all that the
	// HPA counts.
	original, present map[string]float64
}

// Follower returns the target that follows the requests of the pods, or nil: no target may be changed. It does not depend
// on a stored range: pods may have other requests although theirs must not change any more.
func (h Holds) Follower() *Follower { return h.follower }

// Tried returns the target that would follow if requests had ranges for it; nil: attune must not change it.
func (h Holds) Tried() *Follower { return h.tried }

// Proposed returns the range that a request would have if attune were allowed to change the target of the HPA; nil: it
// is allowed to, or no target fits.
func (h Holds) Proposed(container string, r recommender.Resource) *Proof {
	return h.kept[request{container, r}].proposed
}

// Paired returns the request of a container that belongs to the live target of an HPA, which attune has changed and cannot
// change at present: new pods get it, so that the HPA scales at the same usage. 0: it is the original one.
func (h Holds) Paired(container string, r recommender.Resource) recommender.Amount {
	return h.kept[request{container, r}].paired
}

// pair computes Paired.
func (h Holds) pair(of request, f *Fleet) recommender.Amount {
	b := h.on(of)[0]
	if of.resource != recommender.CPU || !b.object.rewritten || b.object.foreign != "" || b.object.live == b.original() || !h.retargets(of, f) || h.unwritable(b, f) == "" || targetsOf(h.bindings, b.Resource) > 1 {
		return 0
	}
	to, why := f.threshold(b)
	if why != "" || to.original[of.container] == 0 {
		return 0
	}
	pod := 100 * to.Threshold.Usage() / float64(b.object.live)
	_, paired := f.share(replicas.Kept{Least: pod, Greatest: pod}, of, to.present)
	return paired
}

// findFollower sets the follower of a workload of which a container has the setting Retarget, or had it: a target that was
// changed follows the requests until they are the original ones. If it must not be changed any more, it only moves towards
// the original one.
func (h *Holds) findFollower(f *Fleet) {
	h.follower, h.tried = nil, nil
	if h.Retargeted() {
		h.bindings = f.renewed(h.bindings)
	}
	for _, b := range h.bindings {
		follows := func(c string) bool {
			return b.binds(c, recommender.CPU) && f.retargets(c, recommender.CPU) && f.original(c, recommender.CPU) > 0
		}
		if !h.mayRetarget || b.Resource != recommender.CPU || b.object.foreign != "" || !b.object.rewritten && !slices.ContainsFunc(f.sized, follows) {
			continue
		}
		to, why := h.follow(b, f)
		switch {
		case why == "" && b.refused == "":
			h.follower, h.tried = to, to
		case b.object.rewritten:
			h.follower = &Follower{Binding: b, Threshold: replicas.Threshold{Target: b.original()}, back: true, mixed: b.object.adopted}
			h.follower.count(f)
		}
	}
}

// renewed returns bindings with the targets of users that are new original ones, although the annotation has another one: a
// user wrote the target together with the request of the template that belongs to it, or no pod has a request that attune
// changed.
func (f *Fleet) renewed(bindings []Binding) []Binding {
	return podview.Map(bindings, func(b Binding) Binding {
		if !b.object.rewritten || b.object.live < 1 {
			return b
		}
		b.object.adopted = f.adopted(&b)
		if b.object.adopted || b.object.foreign != "" && targetsOf(bindings, b.Resource) == 1 && f.untouched(&b) {
			b.object.renewed, b.object.foreign, b.Original = true, "", b.object.live
		}
		return b
	})
}

// adopted reports whether a user wrote the live target of a binding together with the request that belongs to it.
func (f *Fleet) adopted(b *Binding) bool {
	note := b.object.note
	if !note.valid() || note.Request == 0 || note.Metric != b.metric() || note.Original == b.object.live {
		return false
	}
	to, why := f.threshold(*b)
	if why != "" || to.object.request == 0 || to.object.request == note.Request {
		return false
	}
	was := replicas.Threshold{Target: note.Original, Request: float64(note.Request)}
	return was.At(float64(to.object.request)) == b.object.live
}

// untouched reports whether all running pods have the requests of a binding that they have without attune.
func (f *Fleet) untouched(b *Binding) bool {
	pods := 0
	for _, pod := range f.Pods {
		if resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		pods++
		for _, c := range podview.Resizable(pod) {
			has := podview.AmountIn(b.Resource, c.Resources.Requests)
			if b.binds(c.Name, b.Resource) && f.before(pod, c.Name, b.Resource, has) != has {
				return false
			}
		}
	}
	return pods > 0
}

// Settled reports whether nothing is left of attune's changes but the annotation, if the target is needed.
func (f *Follower) Settled(needed int32) bool {
	return f.object.rewritten && !f.object.noteLost && !f.mixed && needed == f.object.live && needed == f.Threshold.Target
}

// count sets the mean requests of the pods that the HPA counts: those that they have, and those that they had without attune.
func (f *Follower) count(of *Fleet) {
	f.now = of.Now
	pods := f.counted(of.Pods)
	f.Present, f.without = f.mean(pods, nil), f.mean(pods, of)
}

// Request returns the mean request of some pods of the workload, in millicores.
func (f *Follower) Request(pods []*corev1.Pod) float64 { return f.mean(f.counted(pods), nil) }

// readyFor is how long a pod has to be ready to be counted. HPA does not count the usage of pods that start.
const readyFor = time.Minute

// counted returns the pods that are ready for a while, or all that run if there are none.
func (f *Follower) counted(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return resize.Finished(p) || p.DeletionTimestamp != nil })
	ready := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !f.now.Before(c.LastTransitionTime.Add(readyFor))
		})
	})
	if len(ready) == 0 {
		return pods
	}
	return ready
}

// NextCounted returns when the next of some pods is counted that is ready for a shorter time, or may be after a jump of a
// clock that is behind; 0: there is none.
func (f *Follower) NextCounted(pods []*corev1.Pod) (next time.Duration) {
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if left := min(c.LastTransitionTime.Add(readyFor).Sub(f.now), readyFor); c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue &&
				left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
	}
	return next
}

// mean returns the mean of the pods' requests, with a fleet of those that they had without attune; 0: there are no pods.
func (f *Follower) mean(pods []*corev1.Pod, without *Fleet) (all float64) {
	for _, pod := range pods {
		for _, c := range podview.Resizable(pod) {
			if f.Container != "" && c.Name != f.Container {
				continue
			}
			request := podview.AmountIn(f.Resource, c.Resources.Requests)
			if without != nil {
				request = without.before(pod, c.Name, f.Resource, request)
			}
			all += float64(request)
		}
	}
	return all / max(1, float64(len(pods)))
}

// before returns the request of a container of a pod without attune.
func (f *Fleet) before(pod *corev1.Pod, container string, r recommender.Resource, has recommender.Amount) recommender.Amount {
	if f.Before != nil {
		return cmp.Or(f.Before(pod, container, r), has)
	}
	template := recommender.Amount(0)
	if f.Template != nil {
		template, _ = f.Template(container, r)
	}
	return cmp.Or(f.original(container, r), template, has)
}

// follow returns how the target of a binding follows the requests, or why it cannot.
func (h Holds) follow(b Binding, f *Fleet) (*Follower, string) {
	if n := targetsOf(h.bindings, b.Resource); n > 1 {
		return nil, fmt.Sprintf("%d targets of CPU utilization scale the workload, and attune changes the target only of one", n)
	}
	if _, why := h.scaler(b); why != "" {
		return nil, why
	}
	return f.threshold(b)
}

// targetsOf counts the targets of a resource.
func targetsOf(bindings []Binding, r recommender.Resource) (n int) {
	for _, b := range bindings {
		if b.Resource == r {
			n++
		}
	}
	return n
}

// threshold returns a follower with the usage at which the HPA of a binding scales, or why that is not known.
func (f *Fleet) threshold(b Binding) (*Follower, string) {
	present, why := f.present(b.Container, b.Resource)
	if why != "" {
		return nil, why
	}
	to := &Follower{Binding: b, original: map[string]float64{}, present: present}
	to.count(f)
	to.Threshold.Target, to.object.request = b.original(), f.template(present, b.Resource)
	for container, mean := range present {
		if original := float64(f.original(container, b.Resource)); original > 0 {
			to.original[container], mean = original, original
		}
		to.Threshold.Request += mean
	}
	if b.object.adopted { // the target belongs to the newest template only
		to.mixed = to.without != to.Threshold.Request
		to.without = to.Threshold.Request
	}
	return to, ""
}

// At returns the target that belongs to a mean request of the pods that the HPA counts; without one it is the original
// target.
func (f *Follower) At(request float64) int32 {
	to := f.Threshold.Target
	if request > 0 && f.without > 0 {
		to = replicas.Threshold{Target: to, Request: f.without}.At(request)
	}
	if f.back {
		return max(min(f.Threshold.Target, f.object.live), min(to, max(f.Threshold.Target, f.object.live)))
	}
	return to
}

// With returns the target that belongs to these requests of containers; the other ones keep those without attune.
func (f *Follower) With(requests map[string]recommender.Amount) int32 {
	all := f.Threshold.Request
	for container, request := range requests {
		if original := f.original[container]; original > 0 {
			all += float64(request) - original
		}
	}
	return f.Threshold.At(all)
}

// others is the request of a pod without one container, if the other ones request what they did without attune.
func (f *Follower) others(container string) float64 {
	return f.Threshold.Request - f.original[container]
}

// digest identifies what a range depends on: neither the present target nor the present requests of sized containers.
func (f *Follower) digest(scaler replicas.Scaler) string {
	scaler.Target = f.Threshold.Target
	all := []any{v1alpha1.HPARetarget, f.HPA, f.Container, scaler}
	for _, name := range slices.Sorted(maps.Keys(f.present)) {
		original, sized := f.original[name]
		if !sized {
			original = f.present[name]
		}
		all = append(all, name, sized, original)
	}
	return clip.Digest(all, 8)
}

// follows returns how the target of the HPA of a request follows it, or why it does not.
func (h Holds) follows(of request, f *Fleet) (*Follower, string) {
	to, why := h.follow(h.on(of)[0], f)
	if why == "" && to.original[of.container] == 0 {
		why = fmt.Sprintf("the template of container %s has no %s request, to which the target belongs", of.container, of.resource)
	}
	return to, why
}

// refused returns why requests must not depend on another target of a binding; empty: they may. After a rejected change the
// target still follows the requests that pods have.
func (h Holds) refused(b Binding, f *Fleet) string {
	if why := cmp.Or(b.refused, b.object.foreign); h.mayRetarget && why != "" {
		return why
	}
	return h.unwritable(b, f)
}

// unwritable returns why attune cannot write the target of a binding at present, also not the original one; empty: it can.
func (h Holds) unwritable(b Binding, f *Fleet) string {
	row := resize.TargetRow(f.Tries, b.Object())
	switch {
	case !h.mayRetarget:
		return noRight
	case row != nil && resize.RefusesTarget(*row, f.Now):
		return fmt.Sprintf("%s. attune tries again at %s", strings.TrimRight(row.Message, "."), minute(row.Until.Time))
	}
	return ""
}

// retarget computes the range of a request in which the HPA keeps the number of replicas, if its target follows. The history
// proves it.
func (h Holds) retarget(of request, f *Fleet) verdict {
	to, why := h.follows(of, f)
	if why != "" {
		return verdict{why: why, retarget: true}
	}
	refused := h.refused(to.Binding, f)
	past := f.past(to.Container, to.Resource)
	if why := past.tooLittle(f.Now); why != "" {
		return verdict{why: cmp.Or(refused, why), retarget: true}
	}
	scaler, _ := h.scaler(to.Binding)
	proven := scaler.Retarget(to.Threshold, past.Spans)
	below, above := to.beyond(h.bounds.called(to.HPA), "less", proven.Below, proven.Least), to.beyond(h.bounds.called(to.HPA), "more", proven.Above, proven.Greatest)
	if proven.Least >= to.Threshold.Request && proven.Greatest <= to.Threshold.Request {
		why := fmt.Sprintf("no other request of a pod than %s is proven to keep the number of replicas while the target follows: %s, and %s",
			format(of.resource, to.Threshold.Request), below, above)
		return verdict{why: cmp.Or(refused, why), retarget: true}
	}
	const included = 1e-8 // the original request is part of the range
	proven.Least = min(proven.Least, to.Threshold.Request*(1-included))
	proven.Greatest = max(proven.Greatest, to.Threshold.Request*(1+included))
	proof := &Proof{Follower: to, Kept: recommender.Kept{By: named([]string{to.HPA}), Reason: resize.ReasonHPA, Below: below, Above: above}}
	proof.Least, proof.Most = f.share(proven, of, to.present)
	if original := to.original[of.container]; !within(&proof.Kept, original) {
		others := f.others(of.resource)
		return verdict{why: cmp.Or(refused, fmt.Sprintf("the other containers of a pod request from %s to %s, which leaves no range around %s for container %s",
			format(of.resource, others[0]), format(of.resource, others[1]), format(of.resource, original), of.container)), retarget: true}
	}
	proof.Retarget = &recommender.Retarget{Threshold: to.Threshold, Others: to.others(of.container)}
	at := func(t time.Time) metav1.Time { return metav1.Time{Time: t.UTC().Truncate(time.Second)} }
	proof.Stored = v1alpha1.KeptRequest{
		Resource: of.resource.String(), Least: podview.Quantity(of.resource, proof.Least), Most: podview.ToPointer(of.resource, proof.Most),
		HPAs: []string{to.HPA}, By: v1alpha1.HPARetarget, OriginalPercent: to.Threshold.Target, Digest: to.digest(scaler),
		Since: at(past.Since), ValidUntil: at(f.Now.Add(keptFor)),
	}
	if refused != "" {
		return verdict{why: refused, proposed: proof, retarget: true}
	}
	return verdict{proof: proof}
}

// beyond writes what the HPA would have done with less or more than a range, although its target followed. attune stays away
// from it by a margin, which depends on whether the target still follows there.
func (f *Follower) beyond(hpa, with string, c replicas.Change, bound float64) string {
	if c.At.IsZero() {
		return fmt.Sprintf("with %s, HorizontalPodAutoscaler %s would have asked for another number of replicas", with, hpa)
	}
	margin := replicas.RetargetMargin
	if least, greatest := f.Threshold.Range(); bound <= least || bound >= greatest {
		margin = replicas.Margin
	}
	return fmt.Sprintf("with %s, HorizontalPodAutoscaler %s would have asked for %d replicas instead of %d at %s; the margin is %v %%",
		with, hpa, c.Instead, c.Asked, minute(c.At), 100*margin)
}

// orKept returns the range of a request whose target may change. If none is proven, it returns the one that the history
// proves for a target that does not change, or why there is neither.
func (h Holds) orKept(of request, f *Fleet, kept func() verdict) verdict {
	if !h.retargets(of, f) {
		return kept()
	}
	v := h.retarget(of, f)
	if v.proof == nil && !h.moves(of) {
		if proven := kept(); proven.proof != nil {
			return proven
		}
	}
	return v
}

// retargets reports whether the target of the HPA of a request may change, because of this container or another one.
func (h Holds) retargets(of request, f *Fleet) bool {
	return slices.ContainsFunc(f.sized, func(c string) bool {
		return f.retargets(c, of.resource) && h.on(of)[0].binds(c, of.resource)
	})
}

// moves reports whether the target of the HPA of a request changes at present, because attune has changed it before.
func (h Holds) moves(of request) bool {
	return h.follower != nil && h.follower.object.rewritten && h.follower.binds(of.container, of.resource)
}

// settle leaves either ranges with a target that follows, or ranges that hold for the present target only and no follower.
func (h *Holds) settle() {
	if h.follower == nil {
		return
	}
	fixed, follows := []request{}, h.follower.object.rewritten
	for of, v := range h.kept {
		if v.proof != nil && h.follower.binds(of.container, of.resource) {
			if follows = follows || v.proof.Follower != nil; v.proof.Follower == nil {
				fixed = append(fixed, of)
			}
		}
	}
	switch {
	case len(fixed) > 0 && !follows:
		h.follower = nil
	case follows:
		for _, of := range fixed {
			h.kept[of] = verdict{why: fmt.Sprintf("the target of HorizontalPodAutoscaler %s follows the requests, and the range was computed for one that does not", h.follower.HPA), retarget: true}
		}
	}
}

// followed returns the stored range of a request whose target may change, if it still stands.
func (h Holds) followed(of request, row *v1alpha1.KeptRequest, f *Fleet) verdict {
	if !h.retargets(of, f) {
		return verdict{why: "no range of requests is proven to keep the number of replicas"}
	}
	to, why := h.follows(of, f)
	if why == "" {
		why = h.refused(to.Binding, f)
	}
	if why != "" {
		return verdict{why: why, retarget: true}
	}
	if scaler, _ := h.scaler(to.Binding); to.digest(scaler) != row.Digest {
		return verdict{why: "the HorizontalPodAutoscaler or the requests of the template have changed since the range of requests was computed", retarget: true}
	}
	proof := &Proof{Follower: to, Stored: *row, Kept: recommender.Kept{By: named(row.HPAs), Reason: resize.ReasonHPA}}
	proof.Least, proof.Most = podview.AmountOf(of.resource, row.Least), podview.FromPointer(of.resource, row.Most)
	proof.Retarget = &recommender.Retarget{Threshold: to.Threshold, Others: to.others(of.container)}
	return verdict{proof: proof}
}

// notStored is the verdict on a request without a stored range.
func (h Holds) notStored(of request, f *Fleet) verdict {
	if !h.retargets(of, f) {
		return verdict{why: "no range of requests is proven to keep the number of replicas"}
	}
	to, why := h.follows(of, f)
	if why == "" {
		why = h.refused(to.Binding, f)
	}
	return verdict{why: cmp.Or(why, "the range of requests in which the target can follow has not been computed yet, or is not proven"), retarget: true}
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
