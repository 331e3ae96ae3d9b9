package autoscale

import (
	"fmt"
	"maps"
	"math"
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

// keptFor is how long a proof is valid. keptWeek is how much history a proof needs, or less if the history window is
// shorter; a tenth of it may be missing.
const keptFor, keptWeek = 24 * time.Hour, 7 * 24 * time.Hour

// keptDay is the least history that a proof needs, in whole hours of a day of which a tenth may be missing.
const keptDay = 24 * time.Hour / 10 * 9

// clockSkew is how far apart the clocks of two leaders may be.
const clockSkew = 10 * time.Minute

// Fleet has the facts about a workload that decide whether another request keeps the number of replicas. Functions may
// be nil: nothing is known.
type Fleet struct {
	// Keeps reports whether the setting of a container's resource is Keep.
	Keeps func(container string, r recommender.Resource) bool
	// Retargets reports whether it is Retarget. Then Keeps does so too.
	Retargets func(container string, r recommender.Resource) bool
	// Pods of the workload. Terminated ones do not count.
	Pods []*corev1.Pod
	// Stranger is a pod of another owner that the selector of the workload matches; empty: there is none.
	Stranger string
	// Original returns the request of a container without attune, in millicores or bytes; 0: attune does not size it.
	Original func(container string, r recommender.Resource) recommender.Amount
	// Template returns the request of a container in the newest template; false: it has no such container.
	Template func(container string, r recommender.Resource) (recommender.Amount, bool)
	// Before returns the request of a container of a pod without attune; 0: it is the present one. Without the function, it is
	// Original.
	Before func(pod *corev1.Pod, container string, r recommender.Resource) recommender.Amount
	// Past returns the history of a container, or of whole pods with an empty name.
	Past func(container string, r recommender.Resource) Past
	// Tries of the workload. A target whose change was rejected lately is not changed.
	Tries []v1alpha1.Try
	// Read reports that the history has been read. Until then, after a restart, stored proofs count.
	Read bool
	// Now is the time of the reconcile.
	Now time.Time

	// sized are the containers that attune sizes.
	sized []string
	// unsized are the others of the resources, once they are known.
	unsized [2]*[2]float64
}

// Past is the history of the pods of a workload.
type Past struct {
	// Spans are the mean usage by the number of pods.
	Spans []replicas.Span
	// Since and Until are when at least nine tenths of the history are known; zero: nothing is known.
	Since, Until time.Time
	// Window is how far back the history reaches at most.
	Window time.Duration
	// Why is the reason why the newest read failed; nil: it did not.
	Why error
}

// Proof is a range of requests with which all HPAs that scale on a request keep the number of replicas: in the form for
// the recommender, and in the one for the AttuneRecommendation.
type Proof struct {
	recommender.Kept
	Stored v1alpha1.KeptRequest
	// Follower is the target that changes with the request; nil: the history proves the range.
	Follower *Follower
}

// request is a resource of a container.
type request struct {
	container string
	resource  recommender.Resource
}

// verdict is a proof, or why there is none; empty: nothing was tried.
type verdict struct {
	proof *Proof
	why   string
	// retarget: why says why the target of the HPA is not changed. proposed is the range if it were.
	retarget bool
	proposed *Proof
	// paired is Holds.Paired.
	paired recommender.Amount
}

// Keep returns the holds with a proof for each request of the containers that has one, from the history of the workload.
// Stored are the targets of the AttuneRecommendation.
func (h Holds) Keep(containers []string, stored []v1alpha1.ContainerTarget, f Fleet) Holds {
	f.sized = containers
	h.findFollower(&f)
	return h.judge(containers, f, func(of request) verdict {
		if !f.Read {
			if v := h.standing(of, stored, f); v.proof != nil {
				return v
			}
		}
		return h.orKept(of, &f, func() verdict { return h.prove(of, f) })
	})
}

// WithKept returns the holds with the stored proofs that still stand: for the same HPAs, not older than a day, and with
// the present requests within the range.
func (h Holds) WithKept(stored []v1alpha1.ContainerTarget, f Fleet) Holds {
	if len(h.bindings) == 0 {
		return h
	}
	f.sized = podview.Map(stored, func(t v1alpha1.ContainerTarget) string { return t.Name })
	h.findFollower(&f)
	return h.judge(f.sized, f,
		func(of request) verdict { return h.standing(of, stored, f) })
}

// Keeping reports whether the setting Keep matters to a container of the workload: an HPA scales on its request.
func (h Holds) Keeping(containers []string, keeps func(container string, r recommender.Resource) bool) bool {
	return slices.ContainsFunc(h.bindings, func(b Binding) bool {
		return slices.ContainsFunc(containers, func(c string) bool { return b.binds(c, b.Resource) && keeps(c, b.Resource) })
	})
}

// Kept returns the proof of a request; nil: there is none.
func (h Holds) Kept(container string, r recommender.Resource) *Proof {
	return h.kept[request{container, r}].proof
}

func (h Holds) judge(containers []string, f Fleet, judge func(request) verdict) Holds {
	h.kept = map[request]verdict{}
	for _, container := range containers {
		for _, r := range recommender.Resources {
			if of := (request{container, r}); len(h.on(of)) > 0 && f.Keeps(container, r) {
				v := judge(of)
				if v.paired = h.pair(of, &f); v.paired > 0 && v.proof != nil { // of Keep, for a target that a user has to restore
					v = verdict{why: h.refused(h.on(of)[0], &f), retarget: true, paired: v.paired}
				}
				h.kept[of] = v
			}
		}
	}
	h.settle()
	return h
}

// on returns the bindings of a request.
func (h Holds) on(of request) []Binding {
	return slices.DeleteFunc(slices.Clone(h.bindings), func(b Binding) bool { return !b.binds(of.container, of.resource) })
}

// scaler returns what the HPA of a binding says, and why that is not known; empty: it is.
func (h Holds) scaler(b Binding) (replicas.Scaler, string) {
	s, scales := h.scaling[b.HPA]
	switch s.Target = b.Percent; {
	case !b.Gone.IsZero(), !scales:
		return s, fmt.Sprintf("HorizontalPodAutoscaler %s does not exist or is fixed, so it is not known how it will scale", b.HPA)
	case h.through[b.HPA] != "":
		return s, h.through[b.HPA]
	case s.Target < 1:
		return s, fmt.Sprintf("the target of HorizontalPodAutoscaler %s is not known", b.HPA)
	case s.Min < 1:
		return s, fmt.Sprintf("HorizontalPodAutoscaler %s has minReplicas 0", b.HPA)
	}
	return h.bounds.widen(b.HPA, s), ""
}

// digest identifies the HPAs of a request, what they say, and the requests of a pod that have no range of their own.
func (h Holds) digest(of request, f *Fleet) string {
	var all []any
	for _, b := range h.on(of) {
		scaler, why := h.scaler(b)
		all = append(all, b.HPA, b.Container, scaler, why)
		if present, _ := f.present(b.Container, of.resource); b.Container == "" {
			for _, name := range slices.Sorted(maps.Keys(present)) {
				if all = append(all, name); !slices.Contains(f.sized, name) || !f.Keeps(name, of.resource) {
					all = append(all, present[name])
				}
			}
		}
	}
	return clip.Digest(all, 8)
}

// names returns the HPAs of a request, each once, at most v1alpha1.MaxHPABindings.
func (h Holds) names(of request) []string {
	names := podview.Map(h.on(of), func(b Binding) string { return b.HPA })
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), v1alpha1.MaxHPABindings)]
}

// standing returns the stored proof of a request, if it still stands.
func (h Holds) standing(of request, stored []v1alpha1.ContainerTarget, f Fleet) verdict {
	target := podview.First(stored, func(t v1alpha1.ContainerTarget) bool { return t.Name == of.container })
	row := podview.FirstIn(target.Kept, func(k *v1alpha1.KeptRequest) bool { return k.Resource == of.resource.String() })
	switch {
	case row == nil:
		return h.notStored(of, &f)
	case row.By != v1alpha1.HPARetarget && row.Digest != h.digest(of, &f):
		return verdict{why: "the HorizontalPodAutoscalers have changed since the range of requests was computed"}
	case !f.Now.Before(row.ValidUntil.Time):
		return verdict{why: "the range of requests was computed more than a day ago"}
	case row.ValidUntil.After(f.Now.Add(keptFor + clockSkew)):
		return verdict{why: "the range of requests was computed under a clock that was ahead"}
	case row.By == v1alpha1.HPARetarget:
		return h.followed(of, row, &f)
	}
	proof := &Proof{Stored: *row, Kept: *resize.KeptRange(target, of.resource)}
	proof.By = named(row.HPAs)
	present, why := f.present(of.container, of.resource)
	if why == "" && !within(&proof.Kept, present[of.container]) {
		why = fmt.Sprintf("the mean request of the running pods, %s, is not within the range", format(of.resource, present[of.container]))
	}
	if why == "" { // the range has a margin, which a pod that was resized to an older range may use
		const margin = 1 + replicas.Margin
		why = f.stray(of.container, of.resource, float64(proof.Least)/margin, float64(proof.Most)*margin)
	}
	if why != "" {
		return verdict{why: why}
	}
	return verdict{proof: proof}
}

// prove computes the range of a request in which each HPA keeps the number of replicas.
func (h Holds) prove(of request, f Fleet) verdict {
	proof := &Proof{Kept: recommender.Kept{Least: 1, By: named(h.names(of)), Reason: resize.ReasonHPA}}
	var since time.Time
	for _, b := range h.on(of) {
		scaler, why := h.scaler(b)
		if why != "" {
			return verdict{why: why}
		}
		b.HPA = h.bounds.called(b.HPA)
		from, why := f.keep(b, scaler, of, &proof.Kept)
		if why != "" {
			return verdict{why: why}
		}
		if from.After(since) {
			since = from
		}
	}
	at := func(t time.Time) metav1.Time { return metav1.Time{Time: t.UTC().Truncate(time.Second)} }
	proof.Stored = v1alpha1.KeptRequest{
		Resource: of.resource.String(), Least: podview.Quantity(of.resource, proof.Least), Most: podview.ToPointer(of.resource, proof.Most),
		HPAs: h.names(of), Digest: h.digest(of, &f), Since: at(since), ValidUntil: at(f.Now.Add(keptFor)),
	}
	return verdict{proof: proof}
}

// keep narrows the range of a request to the one in which an HPA keeps the number of replicas. It returns since when the
// history is known, and why nothing is proven; empty: the range is proven, and includes the present request.
func (f *Fleet) keep(b Binding, scaler replicas.Scaler, of request, kept *recommender.Kept) (time.Time, string) {
	present, past, why := f.known(b, of)
	if why != "" {
		return time.Time{}, why
	}
	now := sum(present)
	bare := scaler.Keep(past.Spans, now)
	bareLeast, bareMost := f.share(bare, of, present)
	least, most := f.share(bare.WithMargin(now, replicas.Margin), of, present)
	below, above := instead("less", of.resource, of.resource.WholeDown(bareLeast), b.HPA, bare.Below), instead("more", of.resource, of.resource.Whole(bareMost), b.HPA, bare.Above)
	mean := present[of.container]
	if whole := of.resource.Whole(least); float64(whole) <= mean {
		least = whole
	}
	if whole := of.resource.WholeDown(most); whole > 0 && float64(whole) >= mean {
		most = whole
	}
	switch {
	case bare.Least >= bare.Greatest:
		return time.Time{}, fmt.Sprintf("no other request is proven to keep the number of replicas, because it follows the usage: HorizontalPodAutoscaler %s asks for %d replicas at %s, and for %d at %s",
			b.HPA, bare.Below.Instead, minute(bare.Below.At), bare.Above.Instead, minute(bare.Above.At))
	case float64(least) >= mean && most > 0 && float64(most) <= mean:
		return time.Time{}, fmt.Sprintf("no other request than %s is proven to keep the number of replicas: %s, and %s", format(of.resource, mean), below, above)
	case !within(&recommender.Kept{Least: least, Most: most}, mean):
		return time.Time{}, fmt.Sprintf("the present request %s of container %s is not within its part of the range of the pod's request",
			format(of.resource, mean), of.container)
	}
	if why := f.outside(bare, of.resource, present); why != "" {
		return time.Time{}, why
	}
	if least > kept.Least {
		kept.Least, kept.Below = least, below
	}
	if most > 0 && (kept.Most == 0 || most < kept.Most) {
		kept.Most, kept.Above = most, above
	}
	return past.Since, ""
}

// known returns the mean requests that an HPA divides by, by container, and the history, or why one of them is not known.
func (f *Fleet) known(b Binding, of request) (present map[string]float64, past Past, why string) {
	if present, why = f.present(b.Container, of.resource); why != "" {
		return nil, past, why
	}
	if len(present) > 1 && f.original(of.container, of.resource) == 0 {
		return nil, past, fmt.Sprintf("the template of container %s has no %s request", of.container, of.resource)
	}
	past = f.past(b.Container, of.resource)
	return present, past, past.tooLittle(f.Now)
}

func sum(of map[string]float64) (all float64) {
	for _, amount := range of {
		all += amount
	}
	return all
}

// share returns the part of a range of a pod's request that one container may have. Containers that attune does not
// size keep their present requests. The others divide the rest like their requests without attune, which do not change
// while pods are resized. So the sum of each pod is within the range with any mix of sizes, and whole amounts stay within
// it. The mean of all pods would not do: an HPA does not count all of them.
func (f *Fleet) share(all replicas.Kept, of request, present map[string]float64) (least, most recommender.Amount) {
	sized, own := 0.0, 1.0
	for container := range present {
		switch original := float64(f.original(container, of.resource)); {
		case len(present) == 1:
			sized = 1
		case original > 0:
			sized += original
			if container == of.container {
				own = original
			}
		}
	}
	rounding, others := 0., [2]float64{} // nothing is divided
	if len(present) > 1 {
		rounding, others = 1e-9, f.others(of.resource)
	}
	least = 1 + recommender.Amount(math.Floor((1+rounding)*max(0, all.Least-others[0])*own/sized))
	if math.IsInf(all.Greatest, 1) {
		return least, 0
	}
	return least, max(1, recommender.Amount(math.Floor((1-rounding)*(all.Greatest-others[1])*own/sized)))
}

// others returns what the containers that attune does not size request in the pods: the least and the greatest sum.
func (f *Fleet) others(r recommender.Resource) [2]float64 {
	if f.unsized[r] != nil {
		return *f.unsized[r]
	}
	least, greatest := math.Inf(1), 0.0
	for _, pod := range f.Pods {
		if resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		sum := 0.0
		for _, c := range podview.Resizable(pod) {
			if f.original(c.Name, r) == 0 {
				sum += float64(podview.AmountIn(r, c.Resources.Requests))
			}
		}
		least, greatest = min(least, sum), max(greatest, sum)
	}
	f.unsized[r] = &[2]float64{least, greatest}
	return *f.unsized[r]
}

// outside returns which container of which pod is not within its part of the range; empty: none. The range holds for the
// sum of the mean requests. Another container or pod could bring that outside if one is outside and stays there.
func (f *Fleet) outside(all replicas.Kept, r recommender.Resource, present map[string]float64) string {
	for _, container := range slices.Sorted(maps.Keys(present)) {
		if len(present) > 1 && f.original(container, r) == 0 {
			continue
		}
		least, most := f.share(all, request{container, r}, present)
		if why := f.stray(container, r, float64(least), float64(most)); why != "" {
			return why
		}
	}
	return ""
}

// stray returns which pod requests less or more for a container; empty: none. most is 0 without a limit.
func (f *Fleet) stray(container string, r recommender.Resource, least, most float64) string {
	for _, pod := range f.Pods {
		if resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range podview.Resizable(pod) {
			amount := podview.AmountIn(r, c.Resources.Requests)
			if c.Name == container && (float64(amount) < least || most > 0 && float64(amount) > most) {
				return fmt.Sprintf("container %s of pod %s requests %s, which is not within the range that keeps the number of replicas",
					c.Name, pod.Name, recommender.Format(r, amount))
			}
		}
	}
	return ""
}

// present returns the mean requests of the running pods by container, with an empty container those of all that an HPA
// counts: regular containers and native sidecars. It also returns why an HPA cannot scale or the requests are not known.
func (f *Fleet) present(container string, r recommender.Resource) (map[string]float64, string) {
	if f.Stranger != "" {
		return nil, fmt.Sprintf("the selector of the workload matches pod %s too, so the HorizontalPodAutoscaler counts it. Give it other labels", f.Stranger)
	}
	sums, seen, pods := map[string]float64{}, map[string]int{}, 0
	for _, pod := range f.Pods {
		if resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		pods++
		if container == "" && podview.HasPodLevelResources(pod) {
			return nil, fmt.Sprintf("pod %s has pod-level resources, by which the HorizontalPodAutoscaler divides", pod.Name)
		}
		for _, c := range podview.Resizable(pod) {
			if container != "" && c.Name != container {
				continue
			}
			request := podview.AmountIn(r, c.Resources.Requests)
			if request <= 0 {
				return nil, fmt.Sprintf("container %s of pod %s has no %s request, so the HorizontalPodAutoscaler does not scale", c.Name, pod.Name, r)
			}
			sums[c.Name] += float64(request)
			seen[c.Name]++
		}
	}
	if pods == 0 {
		return nil, "no pod runs"
	}
	for name, n := range seen {
		if n != pods {
			return nil, fmt.Sprintf("only %d of %d pods have container %s", n, pods, name)
		}
		sums[name] /= float64(pods)
	}
	if len(sums) == 0 {
		return nil, "no pod has container " + container
	}
	return sums, ""
}

// tooLittle returns why a history is too short or too old; empty: it suffices.
func (p *Past) tooLittle(now time.Time) string {
	const of = "the mean usage and the number of pods are "
	needed := min(keptWeek, p.Window) / 10 * 9
	switch unknown := p.Since.IsZero() || p.Until.IsZero() || len(p.Spans) == 0; {
	case unknown && p.Why != nil:
		return of + "not known: " + p.Why.Error()
	case unknown:
		return of + "not known yet"
	case now.Sub(p.Until) > keptFor:
		return of + "known only until " + minute(p.Until)
	case needed < keptDay:
		return "historyWindow is shorter than a day, which shows no daily peak"
	case p.Until.Sub(p.Since) < needed:
		return fmt.Sprintf(of+"known since %s; enough at %s if no sample is missing", minute(p.Since), minute(p.Since.Add(needed)))
	}
	return ""
}

func (f *Fleet) past(container string, r recommender.Resource) Past {
	if f.Past == nil {
		return Past{}
	}
	return f.Past(container, r)
}

func (f *Fleet) original(container string, r recommender.Resource) recommender.Amount {
	if f.Original == nil {
		return 0
	}
	return f.Original(container, r)
}

// template returns the request of a pod of the newest template, in millicores, with the present requests of containers that are
// injected; 0: not known.
func (f *Fleet) template(present map[string]float64, r recommender.Resource) int64 {
	all := 0.0
	for container, mean := range present {
		if f.Template == nil {
			return 0
		}
		request, has := f.Template(container, r)
		switch {
		case !has:
			all += mean
		case request == 0:
			return 0
		default:
			all += float64(request)
		}
	}
	return int64(math.Round(all))
}

// within reports whether a mean request is within a range.
func within(k *recommender.Kept, mean float64) bool {
	return mean >= float64(k.Least) && (k.Most == 0 || mean <= float64(k.Most))
}

// instead writes what an HPA would have done at a time with less or more than a request. attune stays away from it by a
// margin, for usage that the history does not show.
func instead(with string, r recommender.Resource, bound recommender.Amount, hpa string, c replicas.Change) string {
	if c.At.IsZero() {
		return fmt.Sprintf("with %s, HorizontalPodAutoscaler %s would have asked for another number of replicas", with, hpa)
	}
	return fmt.Sprintf("with %s than %s, HorizontalPodAutoscaler %s would have asked for %d replicas instead of %d at %s; the margin is %v %%",
		with, recommender.Format(r, bound), hpa, c.Instead, c.Asked, minute(c.At), 100*replicas.Margin)
}

func named(hpas []string) string {
	if len(hpas) == 1 {
		return "HorizontalPodAutoscaler " + hpas[0]
	}
	return "each of the HorizontalPodAutoscalers " + strings.Join(hpas, ", ")
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func format(r recommender.Resource, mean float64) string {
	return recommender.Format(r, recommender.Amount(math.Round(mean)))
}
