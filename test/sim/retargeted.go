package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/test/plane"
	"attune.io/attune/test/sim/api"
)

// targetsFollow: with cpu.hpa: Retarget, the HPA scales at the usage per pod at which it would scale without attune: its target
// belongs to the requests of the pods, at each of its syncs.
type targetsFollow struct {
	deaf
	*scene
	w   *world
	all map[types.UID]*followedTarget
	// had are the CPU requests that a pod has had, in millicores, and since when.
	had map[types.UID]map[int64]time.Time
	// syncs of HPAs whose targets belong to attune and their user alone, and those at which the HPA asks for another number
	// than without attune, after its window.
	syncs, differ, excusedSyncs, excusedDiffer int
	writes, restored                           int
	// log has the first of them, last what happened last.
	log, last []string
	// edited is when a user last changed the target of the HPA of a workload.
	edited map[string]time.Time
	// unwritten are times in which an HPA has its original target because attune could not change it when it was created.
	unwritten []span
}

// span is a time in a world.
type span struct{ from, to time.Time }

// followedTarget is what is known of the target of one HPA.
type followedTarget struct {
	// user is the target of its user, live the one that it has.
	user, live int32
	// contested: somebody else wrote the target while the pods had other requests, and attune has not written it since.
	contested bool
	// kept: pods may have requests of Keep.
	kept bool
	// since when it is as it is, but for what attune writes.
	since time.Time
	// low and high are since when the HPA scales at another usage than without attune; zero: it does not.
	low, high time.Time
	// late is how far the operator's clock was behind since then, for pods count a minute after they are ready by this clock.
	late time.Duration
	// unwritten is when it was created, if attune could not change it then and still cannot; zero: it could.
	unwritten time.Time
	// idle is since when no pod has another request than without attune, and nothing else happens.
	idle time.Time
	// recent is what the HPA asked for with attune, without what it would have.
	recent, without []scaledAt
	// causes of writes, and writes, in the last hour.
	causes, wrote []time.Time
}

// scaledAt is a number of replicas that an HPA asks for at a time.
type scaledAt struct {
	at       time.Time
	replicas int32
}

const (
	// lowFor is how long the threshold may be too low: pods that came are counted by the HPA a little earlier than by attune.
	lowFor = time.Minute
	// restoredIn is how long a target stays changed at most after all pods have their original requests.
	restoredIn = 15 * time.Minute
	// mostSaid are the syncs that are told.
	mostSaid = 4
	// oneIn is how many syncs of HPAs there are at least to each one that differs.
	oneIn = 1000
)

func newTargetsFollow(s *scene, w *world) *targetsFollow {
	return &targetsFollow{scene: s, w: w, all: map[types.UID]*followedTarget{}, had: map[types.UID]map[int64]time.Time{}, edited: map[string]time.Time{}}
}

func (f *targetsFollow) of(h *autoscalingv2.HorizontalPodAutoscaler) *followedTarget {
	t := f.all[h.UID]
	if t == nil {
		target := plane.WantedUtilization(h, corev1.ResourceCPU)
		if target == nil {
			return &followedTarget{}
		}
		t = &followedTarget{user: *target, live: *target, since: f.now()}
		f.all[h.UID] = t
	}
	return t
}

func (f *targetsFollow) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		if e.Type == watch.Deleted {
			f.written(o)
			delete(f.all, o.UID)
			return
		}
		if t := f.of(o); e.Type == watch.Added && f.now().After(beginning) && f.w.unable(o) {
			t.unwritten = f.now()
		}
	case *corev1.Pod:
		old, was := e.Old.(*corev1.Pod)
		if !was || e.Type == watch.Deleted || isReady(old) != isReady(o) || old.DeletionTimestamp.IsZero() != o.DeletionTimestamp.IsZero() ||
			!equality.Semantic.DeepEqual(old.Spec.Containers[0].Resources, o.Spec.Containers[0].Resources) {
			f.cause()
		}
		if f.had[o.UID] == nil {
			f.had[o.UID] = map[int64]time.Time{}
		}
		if request := o.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); f.had[o.UID][request].IsZero() {
			f.had[o.UID][request] = f.now()
		}
		if e.Type == watch.Deleted {
			delete(f.had, o.UID)
		}
	case *v1alpha1.AttuneRecommendation:
		old, was := e.Old.(*v1alpha1.AttuneRecommendation)
		if was && len(old.Status.Records) != len(o.Status.Records) {
			f.cause()
		}
	}
}

// unable reports whether attune cannot change the original target of an HPA. It does not if the HPA is fixed.
func (w *world) unable(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return w.leader == nil || w.faults.any() || w.noTargets || w.targetsMiss != nil || *h.Spec.MinReplicas == h.Spec.MaxReplicas
}

// written: attune can change an HPA again that was created when it could not, or the HPA is deleted. The next attempt comes
// after the backoff, and the replicas that the HPA has added stay for its window.
func (f *targetsFollow) written(h *autoscalingv2.HorizontalPodAutoscaler) {
	if t := f.all[h.UID]; t != nil && !t.unwritten.IsZero() {
		const backoff = 10 * time.Minute
		f.unwritten = append(f.unwritten, span{t.unwritten, f.now().Add(backoff + plane.ScaleDownWindow(h) + lowFor)})
		t.unwritten = time.Time{}
	}
}

// cause: something happened that may need another target.
func (f *targetsFollow) cause() {
	for _, t := range f.all {
		t.causes = append(t.causes, f.now())
	}
}

func (f *targetsFollow) disturbed(what string) {
	f.cause()
	f.last = append(f.last[max(0, len(f.last)-4):], f.now().Format("15:04:05 ")+what)
}

func (f *targetsFollow) says(h *autoscalingv2.HorizontalPodAutoscaler, t *followedTarget, pods []*corev1.Pod, wants, would int32) string {
	return fmt.Sprintf("at %s, HPA %s asks for %d replicas instead of %d with a target of %d %% (%d %% of its user): %s, after %q",
		f.now().Format("01-02T15:04:05"), h.Name, wants, would, t.live, t.user, f.counted(pods), f.last)
}

func (f *targetsFollow) wrote(w api.Write) {
	if w.Verb == "patch/resize" && w.Changed && strings.HasPrefix(w.Actor, "attune") {
		f.resized(keyOf(w.Key))
	}
	if w.Kind != "HorizontalPodAutoscaler" || strings.HasSuffix(w.Verb, "/status") {
		return
	}
	namespace, name, _ := strings.Cut(w.Key, "/")
	h, is := f.w.server.Peek(&autoscalingv2.HorizontalPodAutoscaler{}, key2(namespace, name)).(*autoscalingv2.HorizontalPodAutoscaler)
	if !is {
		return
	}
	t, ours := f.of(h), strings.HasPrefix(w.Actor, "attune")
	if ours {
		t.wrote = append(t.wrote, f.now())
	}
	target := plane.WantedUtilization(h, corev1.ResourceCPU)
	if !w.Changed || target == nil {
		return
	}
	before := t.live
	t.live = *target
	_, noted := h.Annotations[autoscale.OriginalTargetAnnotation]
	switch {
	case ours:
		t.contested = false
		f.writes++
		if least, most := min(replicas.LeastTarget, t.user), max(replicas.GreatestTarget, t.user); *target < least || *target > most {
			f.violate("targets are bounded", f.about(h), "HPA %s has the target %d %%, and its user wrote %d %%", w.Key, *target, t.user)
		}
		if noted != (*target != t.user) {
			f.violate("targets are restored", f.about(h), "HPA %s has the target %d %%, its user wrote %d %%, and its annotations are %v", w.Key, *target, t.user, h.Annotations)
		}
	default:
		t.since = f.now()
		var note autoscale.Rewritten
		if json.Unmarshal([]byte(h.Annotations[autoscale.OriginalTargetAnnotation]), &note) == nil && note.Written == *target {
			t.user, t.contested = note.Original, false // it cannot be told from attune's
		} else if *target != before {
			if *target != t.user {
				f.edited[f.about(h)] = f.now()
			}
			t.user, t.contested = *target, true
		}
		t.causes = append(t.causes, f.now())
	}
}

// resized: attune resizes a pod. If its request becomes one that it has not had, the target is already high enough.
func (f *targetsFollow) resized(key types.NamespacedName) {
	pod := f.w.pod(key.Namespace, key.Name)
	if pod == nil {
		return
	}
	c := &pod.Spec.Containers[0]
	request := c.Resources.Requests.Cpu().MilliValue()
	back := f.had[pod.UID][request].Before(f.now()) && !f.had[pod.UID][request].IsZero() || request == f.without(pod, c)
	for _, o := range f.w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		h := o.(*autoscalingv2.HorizontalPodAutoscaler)
		t := f.all[h.UID]
		if back || t == nil || t.contested || t.live == t.user && f.keeps(h) || h.Namespace != key.Namespace || h.Spec.ScaleTargetRef.Name != pod.Labels[appLabel] || *h.Spec.MinReplicas == h.Spec.MaxReplicas ||
			f.now().Before(t.since.Add(lowFor)) {
			continue
		}
		pods := f.w.podsOf(keyOf(f.about(h)))
		if is, original, rounding, known := f.threshold(t, pods); known && is < original-rounding-0.5 && t.live < max(replicas.GreatestTarget, t.user) {
			f.violate("targets are raised before", f.about(h), "pod %s is resized to %dm when HPA %s has the target %d %%, which is %.1fm per pod instead of %.1fm: %s", key, request, h.Name, t.live, is, original, f.counted(pods))
		}
	}
}

// keeps reports whether pods may have requests of a range that keeps the number of replicas although the target stays (Keep).
func (f *targetsFollow) keeps(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	rec, is := f.w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(f.about(h))).(*v1alpha1.AttuneRecommendation)
	t := f.of(h)
	t.kept = t.kept || is && slices.ContainsFunc(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool {
		return slices.ContainsFunc(t.Kept, func(k v1alpha1.KeptRequest) bool { return k.By != v1alpha1.HPARetarget })
	})
	return t.kept
}

// threshold is the usage per pod at which an HPA scales, the one without attune, and by how much the rounding of a target
// changes it, in millicores. It is not known without pods that the HPA counts.
func (f *targetsFollow) threshold(t *followedTarget, pods []*corev1.Pod) (is, original, rounding float64, known bool) {
	mean, alone, n := 0.0, 0.0, 0
	for _, pod := range pods {
		if !plane.Counted(pod, f.now()) {
			continue
		}
		n++
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			mean, alone = mean+float64(c.Resources.Requests.Cpu().MilliValue()), alone+float64(f.without(pod, c))
		}
	}
	if n == 0 {
		return 0, 0, 0, false
	}
	mean, alone = mean/float64(n), alone/float64(n)
	return float64(t.live) * mean / 100, float64(t.user) * alone / 100, 0.5*mean/100 + 0.01, true
}

func (f *targetsFollow) about(h *autoscalingv2.HorizontalPodAutoscaler) string {
	return fmt.Sprintf("%s/%s-%s", h.Namespace, strings.ToLower(h.Spec.ScaleTargetRef.Kind), h.Spec.ScaleTargetRef.Name)
}

// without attune a container has the request of its template.
func (f *targetsFollow) without(pod *corev1.Pod, c *corev1.Container) int64 {
	made, known := f.w.watching.templates[pod.UID][c.Name]
	if !known {
		return c.Resources.Requests.Cpu().MilliValue()
	}
	return made.Requests.Cpu().MilliValue()
}

// sync of an HPA.
func (f *targetsFollow) sync(h *autoscalingv2.HorizontalPodAutoscaler, pods []*corev1.Pod, current, with int32) {
	t, now := f.of(h), f.now()
	if t.user == 0 {
		return
	}
	// Without a request and target of its own, the HPA asks for what it asked.
	alone := with
	if n, known := f.w.cluster.ByCPU(pods, current, t.user, f.without, now); known {
		alone = n
	}
	window := plane.ScaleDownWindow(h)
	clamp := func(n int32) int32 { return max(*h.Spec.MinReplicas, min(n, h.Spec.MaxReplicas)) }
	var wants, would int32
	t.recent, wants = stabilized(t.recent, now, clamp(with), window)
	t.without, would = stabilized(t.without, now, clamp(alone), window)
	fixed := *h.Spec.MinReplicas == h.Spec.MaxReplicas
	switch {
	case t.contested, f.unproven(h, pods): // what it asks for then, and keeps for its window, is of who wrote the target
		t.recent, t.without = nil, nil
	case f.excused():
		f.excusedSyncs++
		if wants != would {
			f.excusedDiffer++
			f.log = append(f.log, f.says(h, t, pods, wants, would))
		}
	default:
		f.syncs++
		if wants != would {
			f.differ++
			f.log = append(f.log, f.says(h, t, pods, wants, would))
		}
	}
	f.log = f.log[:min(len(f.log), mostSaid)]
	f.judgeThreshold(h, t, pods, fixed)
}

// unproven reports whether pods still have requests that attune gave them when the user's target was another one: the range
// was one of that target.
func (f *targetsFollow) unproven(h *autoscalingv2.HorizontalPodAutoscaler, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		c := &pod.Spec.Containers[0]
		request := c.Resources.Requests.Cpu().MilliValue()
		return request != f.without(pod, c) && f.had[pod.UID][request].Before(f.edited[f.about(h)])
	})
}

func stabilized(recent []scaledAt, now time.Time, want int32, window time.Duration) (kept []scaledAt, highest int32) {
	for _, r := range append(recent, scaledAt{now, want}) {
		if now.Sub(r.at) < window || r.at.Equal(now) {
			kept, highest = append(kept, r), max(highest, r.replicas)
		}
	}
	return kept, highest
}

// counted are the requests of the pods that the HPA counts, and those without attune.
func (f *targetsFollow) counted(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		c := &pod.Spec.Containers[0]
		all = append(all, fmt.Sprintf("%s %dm (%dm) counted %v", pod.Name, c.Resources.Requests.Cpu().MilliValue(), f.without(pod, c), plane.Counted(pod, f.now())))
	}
	return strings.Join(all, ", ")
}

// judgeThreshold: the usage per pod at which the HPA scales is the one without attune, but for the rounding of a target.
func (f *targetsFollow) judgeThreshold(h *autoscalingv2.HorizontalPodAutoscaler, t *followedTarget, pods []*corev1.Pod, fixed bool) {
	is, original, rounding, known := f.threshold(t, pods)
	if !known || fixed || t.live == t.user && f.keeps(h) || t.contested || f.excused() || f.now().Before(t.since.Add(lowFor)) {
		t.low, t.high = time.Time{}, time.Time{}
		return
	}
	low := is < original-rounding && t.live < max(replicas.GreatestTarget, t.user)
	high := is > original+rounding && t.live > min(replicas.LeastTarget, t.user)
	if !low && !high {
		t.late = 0
	} else if behind := -f.w.leader.ahead; behind > 0 { // the pass after a jump of the clock comes within a minute
		t.late = max(t.late, behind+lowFor)
	}
	f.judgeFor(h, &t.low, low, lowFor+t.late, "low", is, original, pods)
	f.judgeFor(h, &t.high, high, plane.ScaleDownWindow(h)+t.late, "high", is, original, pods)
}

func (f *targetsFollow) judgeFor(h *autoscalingv2.HorizontalPodAutoscaler, since *time.Time, wrong bool, atMost time.Duration, how string, is, original float64, pods []*corev1.Pod) {
	switch now := f.now(); {
	case !wrong:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	case now.Sub(*since) >= atMost:
		f.violate("targets follow", f.about(h), "the threshold is too %s since %s: the target of HPA %s is %d %%, which is %.1fm per pod instead of %.1fm: %s, annotations %v",
			how, since.Format(time.TimeOnly), h.Name, *plane.WantedUtilization(h, corev1.ResourceCPU), is, original, f.counted(pods), h.Annotations)
		*since = now
	}
}

// tick: a workload whose pods have the requests of their templates has the target of its user.
func (f *targetsFollow) tick() {
	now := f.now()
	for _, o := range f.w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		h := o.(*autoscalingv2.HorizontalPodAutoscaler)
		t := f.all[h.UID]
		if t == nil {
			continue
		}
		t.prune(now)
		if !f.w.unable(h) {
			f.written(h)
		}
		if most := len(t.causes) + 4; len(t.wrote) > 2*most && !f.excused() {
			f.violate("targets rest", f.about(h), "HPA %s was written %d times in an hour in which %d things happened", h.Name, len(t.wrote), len(t.causes))
			t.wrote = nil
		}
		f.judgeRestored(h, t, now)
	}
}

func (t *followedTarget) prune(now time.Time) {
	for len(t.causes) > 0 && now.Sub(t.causes[0]) > time.Hour {
		t.causes = t.causes[1:]
	}
	for len(t.wrote) > 0 && now.Sub(t.wrote[0]) > time.Hour {
		t.wrote = t.wrote[1:]
	}
}

func (f *targetsFollow) judgeRestored(h *autoscalingv2.HorizontalPodAutoscaler, t *followedTarget, now time.Time) {
	_, noted := h.Annotations[autoscale.OriginalTargetAnnotation]
	rec, _ := f.w.server.Peek(&v1alpha1.AttuneRecommendation{}, keyOf(f.about(h))).(*v1alpha1.AttuneRecommendation)
	pods := f.w.podsOf(keyOf(f.about(h)))
	idle := len(pods) > 0 && rec != nil && len(rec.Status.Records) == 0 && !t.contested && !f.excused() && *h.Spec.MinReplicas != h.Spec.MaxReplicas
	for _, pod := range pods {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			idle = idle && isReady(pod) && c.Resources.Requests.Cpu().MilliValue() == f.without(pod, c)
		}
	}
	switch {
	case !idle:
		t.idle = time.Time{}
	case t.idle.IsZero():
		t.idle, t.kept = now, false
	case now.Sub(t.idle) < restoredIn:
	case noted || t.live != t.user:
		f.violate("targets are restored", f.about(h), "all pods have their original requests since %s, and HPA %s has the target %d %% instead of %d %% and the annotations %v",
			t.idle.Format(time.TimeOnly), h.Name, t.live, t.user, h.Annotations)
		t.idle = time.Time{}
	default:
		f.restored++
	}
}

func (f *targetsFollow) end() {
	if f.w.plan.AsProven && f.differ > 0 && f.differ*oneIn > max(f.syncs, oneIn) {
		f.violate("replicas are those without attune", "", "at %d of %d syncs, and first\n%s", f.differ, f.syncs, strings.Join(f.log, "\n"))
	}
}

func (f *targetsFollow) String() string {
	return fmt.Sprintf("syncs %d (differ %d), excused %d (differ %d), writes %d, restored %d min %s", f.syncs, f.differ, f.excusedSyncs, f.excusedDiffer, f.writes, f.restored, strings.Join(f.log, "\n"))
}
