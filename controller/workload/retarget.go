package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	// to is the last target that was written, in percent, and from the one before; 0: none.
	from, to int32
	at       time.Time
	// why is why the target is not changed until a time; empty: another writer was first.
	why   string
	until time.Time
	wait  time.Duration
}

const (
	// rejectedFirst and rejectedLast are the backoff after a change of a target was rejected.
	rejectedFirst, rejectedLast = time.Minute, 10 * time.Minute
	// setBackFor is how long a target stays as another writer set it back right after attune had changed it.
	setBackFor = 10 * time.Minute
	// raisedFor is how long a raised target stays although the resize that needs it does not start, so that the two do not
	// take turns. The shortest window of scaling down covers it.
	raisedFor = 30 * time.Second
	// targetEvery is the time until the next pass while resizes wait for a target, if no event comes.
	targetEvery = 5 * time.Second
)

// followTarget changes the target of the HPA that scales on the CPU request of the workload (setting Retarget), at most
// once in a pass, so that the HPA keeps the usage per pod at which it scales. The target belongs to the lowest requests
// that the pods have or are about to get: before requests are lowered, it is raised; after they were raised, it is
// lowered. In between it is too high, which the HPA's window for scaling down covers.
//
// It returns why new resizes of these requests wait; empty: they need not. It needs another pass after a duration; 0: not.
func (c *Controller) followTarget(ctx context.Context, w *tuning.View, d tuning.Decision) (wait string, again time.Duration) {
	f := w.Autoscalers.Follower()
	if f == nil {
		return "", 0
	}
	needed, key := f.At(f.Request(lowestRequests(w.Pods, d.Status.Records))), client.ObjectKeyFromObject(w.Rec)
	if last := c.memory.stored.targets.Of(key); needed < f.Live() && last.to == f.Live() && last.from < last.to {
		if left := last.at.Add(raisedFor).Sub(w.Now); left > 0 && left <= raisedFor {
			return "", left
		}
	}
	if needed != f.Live() {
		wait = c.changeTarget(ctx, w, f, needed)
		again = c.memory.stored.targets.Of(key).until.Sub(w.Now)
	}
	switch {
	case !begins(d, f):
		return "", again
	case wait == "" && f.Percent < needed:
		return fmt.Sprintf("HorizontalPodAutoscaler %s has the target %d %%, and the resize waits until it has %d %%", f.HPA, f.Percent, needed), targetEvery
	}
	return wait, again
}

// awaitTarget decides again without the resizes that wait for the target of an HPA.
func (c *Controller) awaitTarget(ctx context.Context, w *tuning.View, d decided) decided {
	wait, again := c.followTarget(ctx, w, d.Decision)
	if wait != "" {
		c.memory.limit.returnTokens(d.turns)
		w.Autoscalers = w.Autoscalers.Await(wait)
		d = c.decide(ctx, w)
	}
	d.Wake(again)
	return d
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
// The pods of the argument are not changed.
func lowestRequests(pods []*corev1.Pod, records []v1alpha1.ResizeRecord) []*corev1.Pod {
	pods = slices.Clone(pods)
	for _, record := range records {
		i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == record.PodUID })
		if i < 0 {
			continue
		}
		ahead := slices.Concat(record.Desired, record.Then)
		if resize.PuttingBack(record) {
			ahead = record.Prior
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

// changeTarget writes a target. It returns why it cannot; empty: it could, or another writer was first.
func (c *Controller) changeTarget(ctx context.Context, w *tuning.View, f *autoscale.Follower, to int32) (why string) {
	key := client.ObjectKeyFromObject(w.Rec)
	last := c.memory.stored.targets.Of(key)
	if left := last.until.Sub(w.Now); left > 0 && left <= rejectedLast { // more is of a clock that was wrong
		return last.why
	}
	kind, name := f.Written()
	change, err := c.writeTarget(ctx, w, f, to, last)
	switch {
	case apierrors.IsConflict(err): // the next pass decides on what another writer wrote
		last.why, last.until = "", w.Now.Add(time.Second)
		c.memory.stored.targets.Put(key, last)
		return ""
	case err != nil:
		last.wait = max(rejectedFirst, min(2*last.wait, rejectedLast))
		last.why, last.until = fmt.Sprintf("the target of %s %s is not changed: %v", kind.Kind, name, err), w.Now.Add(last.wait)
		c.memory.stored.targets.Put(key, last)
		log.FromContext(ctx).Info("Cannot change the target of an HPA; trying again", "kind", kind.Kind, "name", name, "after", last.wait, "cause", err.Error())
		c.Events.Send(w.Rec, nil, event.Warning(v1alpha1.EventTargetNotChanged, "%s", last.why))
		return last.why
	case change == nil: // the cache does not show the last change yet
		return ""
	}
	c.memory.stored.targets.Put(key, targetChange{from: change.From, to: to, at: w.Now})
	log.FromContext(ctx).Info("Changed the target of an HPA", "kind", kind.Kind, "name", name, "from", change.From, "to", change.To)
	c.Events.Send(w.Rec, nil, event.Normal(v1alpha1.EventTargetChanged, "Changed the target CPU utilization of %s %s from %d %% to %d %%, because the pods request %s on average",
		kind.Kind, name, change.From, change.To, recommender.Format(recommender.CPU, recommender.Amount(f.Request(w.Pods)))))
	return ""
}

// writeTarget reads the object from the API server and patches it; nil: it has the target. The patch fails if the object has
// changed since it was read.
func (c *Controller) writeTarget(ctx context.Context, w *tuning.View, f *autoscale.Follower, to int32, last targetChange) (*autoscale.Rewrite, error) {
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
	if again := last.at.Add(setBackFor); last.to > 0 && last.to != change.From && w.Now.Before(again) {
		return nil, fmt.Errorf("it was set back from %d %% to %d %% right after attune had changed it; attune waits until %s",
			last.to, change.From, again.UTC().Format(time.RFC3339))
	}
	return change, c.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, change.Patch), client.FieldOwner(podview.FieldManager))
}
