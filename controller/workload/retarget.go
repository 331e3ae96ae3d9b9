package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// targetChange is the last change of the target of a workload's HPA.
type targetChange struct {
	// of is the UID of the HPA or ScaledObject.
	of types.UID
	// to is the last target that was written, in percent, and from the one before; 0: none.
	from, to int32
	at       time.Time
	// sent is the last one that was sent. If the answer was lost, the API server may have carried it out.
	sent int32
	// why is why the target is not changed until a time; empty: another writer was first.
	why   string
	until time.Time
	wait  time.Duration
	// conflicts counts how often in a row another writer was first.
	conflicts int
	// rejected is the last change that did not last, if it is not likely to last when it is tried again soon.
	rejected resize.RejectedTarget
	// accepted is when the API server last accepted a change, or a dry run of one.
	accepted time.Time
	// setBack counts how often in a row another writer set the target back.
	setBack int
	// above is since when the target is a little too high; zero: it is not.
	above time.Time
}

const (
	// rejectedFirst and rejectedLast are the backoff after a change of a target was rejected.
	rejectedFirst, rejectedLast = time.Minute, 10 * time.Minute
	// tooLowFor and tooHighFor are how long a target stays as another writer set it back after attune had changed it,
	// doubled each time in a row, up to setBackLast. A target that is too high may remove replicas after the HPA's window.
	tooLowFor, tooHighFor, setBackLast = 10 * time.Minute, time.Minute, 24 * time.Hour
	// mostConflicts in a row, a minute with the waits between them, count as a race with another writer. More are a rejection.
	mostConflicts = 6
	// raisedFor is how long a raised target stays although the resize that needs it does not start, so that the two do not
	// take turns. The shortest window of scaling down covers it.
	raisedFor = 30 * time.Second
	// littleFor is how long a target stays one percentage point too high, so that each pod that comes or goes does not
	// change it.
	littleFor = time.Minute
	// acceptedFor is how long no dry run follows a change that the API server accepted.
	acceptedFor = time.Minute
	// targetEvery is the time until the next pass while a target is not the one that belongs to the requests, if no event
	// comes.
	targetEvery = 5 * time.Second
)

// targetWait says whether resizes wait for the target of an HPA.
type targetWait struct {
	// why new resizes of the requests wait; empty: they need not. soon: they wait for seconds only.
	why  string
	soon bool
	// again is when another pass is needed; 0: after an event.
	again time.Duration
}

// followTarget changes the target of the HPA that scales on the CPU request of the workload (setting Retarget), at most
// once in a pass, so that the HPA keeps the usage per pod at which it scales. The target belongs to the lowest requests
// that the pods have or are about to get: before requests are lowered, it is raised; after they were raised, it is
// lowered. In between it is too high, which the HPA's window for scaling down covers.
func (c *Controller) followTarget(ctx context.Context, w *tuning.View, d tuning.Decision) (wait targetWait) {
	f := w.Autoscalers.Follower()
	if f == nil {
		return wait
	}
	needed, key := f.At(f.Request(lowestRequests(w, d))), client.ObjectKeyFromObject(w.Rec)
	settled := f.Settled(needed) && !hasOriginal(w, f)
	if !settled && !begins(d, f) && !followed(w, f) {
		return wait
	}
	switch left := c.memory.stored.staysRaised(key, f.Live(), needed, needed == f.Threshold.Target, w.Now); {
	case left > 0:
		wait.again = left
	case needed != f.Live(), settled:
		wait.why = c.changeTarget(ctx, w, f, needed)
		if wait.again = c.memory.stored.targets.Of(key).until.Sub(w.Now); wait.again <= 0 {
			wait.again = targetEvery
		}
	}
	switch last := c.memory.stored.targets.Of(key); {
	case !begins(d, f):
		wait.why = ""
	case wait.why == "" && f.Percent < needed:
		wait.why = fmt.Sprintf("HorizontalPodAutoscaler %s has the target %d %%, and the resize waits until it has %d %%", f.HPA, f.Percent, needed)
		wait.soon, wait.again = last.until.After(w.Now) || w.Now.Sub(last.at) < acceptedFor, targetEvery
	case wait.why == "":
		wait.why = c.tryTarget(ctx, w, f, d)
	}
	wait.again = tuning.Soonest(wait.again, f.NextCounted(w.Pods))
	return wait
}

// followed reports whether attune has changed the target or the requests of pods. The target does not follow requests that
// only other writers have changed.
func followed(w *tuning.View, f *autoscale.Follower) bool {
	return f.Live() != f.Threshold.Target || len(w.Rec.Status.Records) > 0 || slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool {
		_, seeded := pod.Annotations[v1alpha1.SeededAnnotation]
		return seeded || !podview.ResizedByAttune(pod).IsZero()
	})
}

// hasOriginal reports whether the policy loop has stored another original target. Without the annotation, it would count.
func hasOriginal(w *tuning.View, f *autoscale.Follower) bool {
	return slices.ContainsFunc(w.Rec.Spec.HPABindings, func(b v1alpha1.HPABinding) bool {
		return b.HPA == f.HPA && b.Container == f.Container && b.Resource == f.Resource.String() && b.OriginalPercent > 0
	})
}

// forgetTargetBefore forgets the last change of an HPA that was deleted: no change of the one that was created after it was
// rejected or set back.
func (x *stored) forgetTargetBefore(key types.NamespacedName, of types.UID) {
	if x.targets.Of(key).of != of {
		x.targets.Put(key, targetChange{of: of})
	}
}

// staysRaised returns how long a live target stays although it is higher than needed; 0: it does not stay. original: the one
// that is needed is the user's.
func (x *stored) staysRaised(key types.NamespacedName, live, needed int32, original bool, now time.Time) time.Duration {
	last := x.targets.Of(key)
	little := needed == live-1 && !original
	switch {
	case !little && !last.above.IsZero():
		last.above = time.Time{}
		x.targets.Put(key, last)
	case little && last.above.IsZero():
		last.above = now
		x.targets.Put(key, last)
	}
	left := time.Duration(0)
	if needed < live {
		left = last.raised(live, now)
	}
	if little {
		left = max(left, last.above.Add(littleFor).Sub(now))
	}
	if left > max(raisedFor, littleFor) { // of a clock that was wrong
		return 0
	}
	return max(left, 0)
}

// raised returns how long a live target stays that was raised for a resize; 0 or less: it does not stay.
func (t targetChange) raised(live int32, now time.Time) time.Duration {
	if t.to != live || t.from >= t.to {
		return 0
	}
	return t.at.Add(raisedFor).Sub(now)
}

// awaited reports whether a decision begins a resize for which the target was raised. It does not wait for the pace of writes:
// that may be longer than the target stays raised, and then neither would ever end.
func (x *stored) awaited(w tuning.View, d tuning.Decision) bool {
	f := w.Autoscalers.Follower()
	if f == nil || !begins(d, f) {
		return false
	}
	left := x.targets.Of(client.ObjectKeyFromObject(w.Rec)).raised(f.Live(), w.Now)
	return left > 0 && left <= raisedFor
}

// tryTarget returns why requests on which the HPA scales do not change now; empty: they may. Before they are raised, a dry
// run finds out whether the target can be lowered afterwards: otherwise the HPA would have too few replicas.
func (c *Controller) tryTarget(ctx context.Context, w *tuning.View, f *autoscale.Follower, d tuning.Decision) (why string) {
	last := c.memory.stored.targets.Of(client.ObjectKeyFromObject(w.Rec))
	if last.waits(w.Now) && last.why != "" {
		return last.why
	}
	pods := slices.Clone(w.Pods)
	for _, write := range d.Writes {
		if i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == write.Pod.UID }); i >= 0 {
			pods[i] = write.Plan.Apply(pods[i])
		}
	}
	lowered := f.At(f.Request(pods))
	if since := w.Now.Sub(last.accepted); lowered >= f.Live() || since >= 0 && since < acceptedFor {
		return ""
	}
	return c.changeTarget(ctx, w, f, lowered, client.DryRunAll)
}

// awaitTarget decides again without the resizes that wait for the target of an HPA. A decision that is too early to be
// written begins nothing.
func (c *Controller) awaitTarget(ctx context.Context, w *tuning.View, d decided) decided {
	sent := d.Decision
	if c.early(*w, sent) > 0 {
		sent.Writes, sent.Status.Records = nil, w.Rec.Status.Records
	}
	if f := cmp.Or(w.Autoscalers.Follower(), w.Autoscalers.Tried()); f != nil {
		c.memory.stored.forgetTargetBefore(client.ObjectKeyFromObject(w.Rec), f.UID())
	}
	wait := c.followTarget(ctx, w, sent)
	if wait.why != "" {
		c.memory.limit.returnTokens(d.turns)
		w.Autoscalers, w.Begin.TargetSoon = w.Autoscalers.Await(wait.why), wait.soon
		d = c.decide(ctx, w)
	}
	if f := w.Autoscalers.Tried(); f != nil {
		if to := probed(w, f); to > 0 {
			c.changeTarget(ctx, w, f, to, client.DryRunAll)
		}
		wait.again = tuning.Soonest(wait.again, c.memory.stored.rememberTarget(w, f, &d.Status))
	}
	d.target = wait.again
	d.Wake(wait.again)
	return d
}

// probed returns the target that was rejected, if the wait is over and a dry run has to find out whether it would be accepted
// now; 0: none.
func probed(w *tuning.View, f *autoscale.Follower) int32 {
	row := resize.TargetRow(w.Rec.Status.Tries, f.Object())
	if row == nil || row.Amount == nil || w.Now.Before(row.Until.Time) {
		return 0
	}
	if to := row.Amount.Value(); to > 0 && to <= math.MaxInt32 && to != int64(f.Live()) {
		return int32(to)
	}
	return 0
}

// rememberTarget stores that the change of a target was rejected or set back: until a change is accepted again, the policy
// loop gives new pods no requests that need another target. It returns when another pass is needed; 0: after an event.
func (x *stored) rememberTarget(w *tuning.View, f *autoscale.Follower, s *v1alpha1.AttuneRecommendationStatus) time.Duration {
	row, last := resize.TargetRow(s.Tries, f.Object()), x.targets.Of(client.ObjectKeyFromObject(w.Rec))
	switch {
	case last.why != "" && last.rejected.Of == f.Object():
		s.Tries = resize.TargetRejected(s.Tries, last.rejected, w.Now)
	case row == nil || last.why != "":
	case last.accepted.After(row.Since.Time), !w.Now.Before(row.Until.Time) && row.Amount != nil && row.Amount.Value() == int64(f.Live()):
		s.Tries = resize.TargetAccepted(s.Tries, f.Object())
	}
	if row = resize.TargetRow(s.Tries, f.Object()); row == nil || row.Amount == nil {
		return 0
	}
	return max(row.Until.Sub(w.Now), last.until.Sub(w.Now), targetEvery)
}

// noDryRun reports whether an admission webhook rejects all dry runs, because its configuration does not exclude side effects.
func noDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// lasts reports whether an answer is likely to stay the same: of the API server's rights, validation or a webhook, or after
// several tries.
func lasts(err error, wait time.Duration) bool {
	if _, setBack := errors.AsType[setBackError](err); setBack || wait >= rejectedLast {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// begins reports whether a decision begins a resize of a request that an HPA scales on.
func begins(d tuning.Decision, f *autoscale.Follower) bool {
	return slices.ContainsFunc(d.Writes, func(w tuning.Write) bool {
		return w.Begins && slices.ContainsFunc(w.Plan.Moves, func(m resize.Move) bool {
			return f.Counts(m.Container) && m.To[recommender.CPU].Request != m.From[recommender.CPU].Request
		})
	})
}

// lowestRequests returns the pods with the lowest CPU requests that they have, or that their open records will give them.
// A revert counts only when it begins: a node that is gone may never carry it out. The pods of the view are not changed.
func lowestRequests(w *tuning.View, d tuning.Decision) []*corev1.Pod {
	pods := slices.Clone(w.Pods)
	for _, record := range d.Status.Records {
		i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == record.PodUID })
		if i < 0 {
			continue
		}
		ahead := slices.Concat(record.Desired, record.Then)
		if resize.PuttingBack(record) {
			if ahead = record.Prior; !w.Looked.CacheLags[record.PodUID] && !revertBegins(w, d, record) {
				continue
			}
		}
		pods[i] = resize.Plan{}.Apply(pods[i])
		for _, container := range podview.Resizable(pods[i]) {
			for _, next := range ahead {
				to := podview.FromResources(next.Resources)[recommender.CPU].Request
				if next.Name == container.Name && to > 0 && to < podview.AmountIn(recommender.CPU, container.Resources.Requests) {
					container.Resources.Requests = podview.Put(container.Resources.Requests, recommender.CPU, to)
				}
			}
		}
	}
	return pods
}

// revertBegins reports whether a decision sends a revert for the first time.
func revertBegins(w *tuning.View, d tuning.Decision, record v1alpha1.ResizeRecord) bool {
	return slices.ContainsFunc(d.Writes, func(w tuning.Write) bool { return w.Pod.UID == record.PodUID }) &&
		!slices.ContainsFunc(w.Rec.Status.Records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == record.PodUID && resize.PuttingBack(r) })
}

// changeTarget writes a target, or tries to in a dry run. It returns why it cannot; empty: it could, or another writer was
// first.
func (c *Controller) changeTarget(ctx context.Context, w *tuning.View, f *autoscale.Follower, to int32, trial ...client.PatchOption) (why string) {
	key := client.ObjectKeyFromObject(w.Rec)
	last := c.memory.stored.targets.Of(key)
	if last.waits(w.Now) {
		return last.why
	}
	kind, name := f.Written()
	change, err := c.writeTarget(ctx, w, f, to, last, trial...)
	switch {
	case apierrors.IsConflict(err) && last.conflicts < mostConflicts: // the next pass decides on what another writer wrote
		last.why, last.until = "", w.Now.Add(time.Second<<last.conflicts)
		last.conflicts++
		c.memory.stored.targets.Put(key, last)
		return ""
	case err != nil:
		if len(trial) == 0 && change != nil {
			last.sent = to
		}
		next := last.failed(err, f, to, w.Now)
		c.memory.stored.targets.Put(key, next)
		log.FromContext(ctx).Info("Cannot change the target of an HPA; trying again", "kind", kind.Kind, "name", name, "after", next.wait, "cause", err.Error())
		if _, again := errors.AsType[setBackError](err); !again || next.why != last.why {
			c.Events.Send(w.Rec, nil, event.Warning(v1alpha1.EventTargetNotChanged, "%s", next.why))
		}
		return next.why
	case change == nil: // the cache does not show the last change yet
		return ""
	}
	last.why, last.until, last.wait, last.conflicts, last.accepted, last.rejected = "", time.Time{}, 0, 0, w.Now, resize.RejectedTarget{}
	if len(trial) > 0 || change.From == to { // a trial, or only the annotation
		c.memory.stored.targets.Put(key, last)
		return ""
	}
	c.memory.stored.targets.Put(key, last.written(change.From, to, w.Now))
	log.FromContext(ctx).Info("Changed the target of an HPA", "kind", kind.Kind, "name", name, "from", change.From, "to", change.To)
	c.Events.Send(w.Rec, nil, event.Normal(v1alpha1.EventTargetChanged, "Changed the target CPU utilization of %s %s from %d %% to %d %%, because the pods request %s on average",
		kind.Kind, name, change.From, change.To, recommender.Format(recommender.CPU, recommender.Amount(f.Request(w.Pods)))))
	return ""
}

// failed is the state after a change to a target failed: the next attempt waits twice as long as the last one. If the error
// lasts, the change is a rejected one.
func (t targetChange) failed(err error, f *autoscale.Follower, to int32, now time.Time) targetChange {
	kind, name := f.Written()
	t.wait = max(rejectedFirst, min(2*t.wait, rejectedLast))
	t.why, t.until = fmt.Sprintf("the target of %s %s is not changed: %v", kind.Kind, name, err), now.Add(t.wait)
	if again, setBack := errors.AsType[setBackError](err); lasts(err, t.wait) || t.rejected.Of != "" {
		t.rejected = resize.RejectedTarget{Of: f.Object(), To: to, Message: t.why, At: now, Until: again.until}
		if setBack {
			t.rejected.To = 0
		}
	}
	return t
}

// written is the state after a target was changed.
func (t targetChange) written(from, to int32, now time.Time) targetChange {
	switch {
	case t.wasSetBack(from, now):
		t.setBack++
	case now.Sub(t.at) > tooLowFor:
		t.setBack = 0
	}
	t.from, t.to, t.sent, t.at, t.above = from, to, to, now, time.Time{}
	return t
}

// waits reports whether the target is not changed yet because of the last answer.
func (t targetChange) waits(now time.Time) bool {
	left := t.until.Sub(now)
	return left > 0 && left <= rejectedLast // more is of a clock that was wrong
}

// setBackError says that another writer set a target back.
type setBackError struct {
	error
	// until is how long the target stays.
	until time.Time
}

// wasSetBack reports whether another writer changed a target after attune had.
func (t targetChange) wasSetBack(live int32, now time.Time) bool {
	return t.to > 0 && t.to != live && t.sent != live && now.Sub(t.at) < 2*setBackLast
}

// rests returns until when a target stays as another writer set it back. A target that is too high is corrected sooner.
func (t targetChange) rests(live, to int32) time.Time {
	rest := tooLowFor
	if to < live {
		rest = tooHighFor
	}
	return t.at.Add(min(rest<<min(t.setBack, 12), setBackLast))
}

// writeTarget reads the object from the API server and patches it; nil: it has the target. The patch fails if the object has
// changed since it was read.
func (c *Controller) writeTarget(ctx context.Context, w *tuning.View, f *autoscale.Follower, to int32, last targetChange, trial ...client.PatchOption) (*autoscale.Rewrite, error) {
	kind, name := f.Written()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.Live.Get(ctx, types.NamespacedName{Namespace: w.Rec.Namespace, Name: name}, object); err != nil {
		return nil, err
	}
	change, err := f.Rewrite(object, to)
	if change == nil || err != nil {
		return nil, err
	}
	if again := last.rests(change.From, to); change.From != to && last.wasSetBack(change.From, w.Now) && w.Now.Before(again) {
		return nil, setBackError{fmt.Errorf("%s set it back from %d %% to %d %% after attune had changed it; attune waits until %s. Let only one of the two write it",
			writerOf(object), last.to, change.From, again.UTC().Format(time.RFC3339)), again}
	}
	patch := client.RawPatch(types.JSONPatchType, change.Patch)
	err = c.Client.Patch(ctx, object, patch, append(trial, client.FieldOwner(podview.FieldManager))...)
	if noDryRun(err) {
		err = fmt.Errorf("%w. Set its sideEffects to None or NoneOnDryRun: attune raises a request only after a dry run of the lower target", err)
	}
	return change, err
}

// writerOf names the field manager other than attune that wrote the targets of an object last.
func writerOf(o *unstructured.Unstructured) string {
	var newest metav1.ManagedFieldsEntry
	for _, entry := range o.GetManagedFields() {
		raw := ""
		if entry.FieldsV1 != nil {
			raw = entry.FieldsV1.GetRawString()
		}
		writes := strings.Contains(raw, `"f:metrics"`) || strings.Contains(raw, `"f:triggers"`)
		if writes && entry.Manager != podview.FieldManager && (newest.Manager == "" || newest.Time.Before(entry.Time)) {
			newest = entry
		}
	}
	if newest.Manager == "" {
		return "another writer"
	}
	return fmt.Sprintf("field manager %q", newest.Manager)
}

// restoreTargets gives the HPAs and ScaledObjects of a deleted workload their original targets back, before its
// recommendation is deleted. A target that cannot be restored keeps its annotation.
func restoreTargets(ctx context.Context, live client.Reader, writes client.Client, rec *v1alpha1.AttuneRecommendation) {
	// If another writer was first, such as the HPA controller, the API server answers 409 or 422.
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
	for _, b := range rec.Spec.HPABindings {
		if b.Resource != recommender.CPU.String() {
			continue
		}
		err := retry.OnError(retry.DefaultRetry, raced, func() error { return restoreTarget(ctx, live, writes, rec, b.HPA) })
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot restore the target of the HPA of a deleted workload", "name", b.HPA)
		}
	}
}

// restoreTarget restores the target of an HPA, or of the ScaledObject from which KEDA writes it, if it still scales the
// deleted workload.
func restoreTarget(ctx context.Context, live client.Reader, writes client.Client, rec *v1alpha1.AttuneRecommendation, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	err := live.Get(ctx, types.NamespacedName{Namespace: rec.Namespace, Name: name}, object)
	of, _, _ := unstructured.NestedStringMap(object.Object, "spec", "scaleTargetRef")
	if err != nil || of["kind"] != string(rec.Spec.Workload.Kind) || of["name"] != rec.Spec.Workload.Name {
		return client.IgnoreNotFound(err)
	}
	if owner := autoscale.ScaledObjectOf(object); owner != "" {
		object = &unstructured.Unstructured{}
		object.SetGroupVersionKind(autoscale.ScaledObjectKind)
		if err := live.Get(ctx, types.NamespacedName{Namespace: rec.Namespace, Name: owner}, object); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	change, err := autoscale.Restore(object)
	if err != nil || change == nil {
		return err
	}
	return writes.Patch(ctx, object, client.RawPatch(types.JSONPatchType, change.Patch), client.FieldOwner(podview.FieldManager))
}
