package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/workload"
)

var objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_bridge_vpa_objects",
	Help: "VerticalPodAutoscalers that tell other programs of recommendations: published, behind where one is still to be written or deleted, or foreign where another object has the name.",
}, []string{"state"})

func init() { metrics.Registry.MustRegister(objects) }

// counts are how many objects are in each state when a pass begins to write.
type counts struct{ published, behind, foreign int }

func show(c counts) {
	objects.WithLabelValues("published").Set(float64(c.published))
	objects.WithLabelValues("behind").Set(float64(c.behind))
	objects.WithLabelValues("foreign").Set(float64(c.foreign))
}

// differs is an object that is to be made or changed.
type differs struct {
	key   client.ObjectKey
	there *unstructured.Unstructured
	vpa   *VPA
}

// settle makes the operator's own VPAs those of the recommendations. Others are never written.
func (l *Loop) settle(ctx context.Context, w *world) error {
	kept := map[types.NamespacedName]bool{}
	var todo []differs
	var unread []error
	var c counts
	for i := range w.recommendations {
		rec := &w.recommendations[i]
		key := client.ObjectKey{Namespace: rec.Namespace, Name: autoscale.VPAName(workload.IdentityOf(rec))}
		vpa, err := l.wanted(ctx, w, rec)
		kept[key] = vpa != nil || err != nil
		there := w.vpas[key]
		switch {
		case err != nil:
			unread = append(unread, err)
		case vpa == nil:
		case there != nil && !autoscale.Ours(there):
			c.foreign++
			l.Events.Send(rec, nil, event.Warning("VPANotPublished",
				"another VerticalPodAutoscaler has the name %s: it is left alone, and other programs are not told of the recommendation until it is gone", vpa.Name))
		case there != nil && says(there, vpa):
			c.published++
		default:
			todo = append(todo, differs{key, there, vpa})
		}
	}
	gone, taken := w.leaving(kept)
	c.behind = len(todo) + len(gone)
	show(c)
	todo, gone, taken = l.due(todo, gone, taken, w.refused)
	b := budget{left: l.MostWrites}
	if w.refused {
		b.left *= hurry
	}
	l.leaveAll(ctx, gone, taken, b.left-min(len(todo), b.left/2), &b)
	l.writeAll(ctx, todo, &b)
	return errors.Join(append(unread, b.failures...)...)
}

// due leaves out what rests, and forgets what is not behind any more. What VPA's admission controller acts on never rests
// beside it.
func (l *Loop) due(todo []differs, gone, taken []*unstructured.Unstructured, urgent bool) ([]differs, []*unstructured.Unstructured, []*unstructured.Unstructured) {
	behind, now := map[request]bool{}, l.Clock.Now()
	rests := func(of request) bool {
		behind[of] = true
		return l.refused.rests(of, now)
	}
	leaves := func(vpa *unstructured.Unstructured) bool {
		return rests(request{client.ObjectKeyFromObject(vpa), true})
	}
	of := func(vpa *unstructured.Unstructured) bool { return leaves(vpa) && (!urgent || autoscale.Off(vpa)) }
	todo = slices.DeleteFunc(todo, func(d differs) bool { return rests(request{d.key, false}) })
	gone, taken = slices.DeleteFunc(gone, of), slices.DeleteFunc(taken, leaves)
	l.refused.forget(behind)
	return todo, gone, taken
}

// says reports whether one of the operator's own is there as it is wanted, as far as the cache keeps it: the digest tells what
// was written last, and the others whether somebody has changed it since.
func says(there *unstructured.Unstructured, vpa *VPA) bool {
	mode, _, _ := unstructured.NestedString(there.Object, "spec", "updatePolicy", "updateMode")
	version, _, _ := unstructured.NestedString(there.Object, "spec", "targetRef", "apiVersion")
	return there.GetAnnotations()[v1alpha1.PublishedAnnotation] == vpa.Annotations[v1alpha1.PublishedAnnotation] &&
		mode == vpa.Spec.UpdatePolicy.UpdateMode && version == vpa.Spec.TargetRef.APIVersion && autoscale.Recommends(there)
}

// leaving returns the operator's own VPAs that are not kept, first those by which VPA's admission controller would size pods,
// and those that somebody has taken over: they are the operator's no more, but still belong to its ClusterRole.
func (w *world) leaving(kept map[types.NamespacedName]bool) (gone, taken []*unstructured.Unstructured) {
	var off []*unstructured.Unstructured
	for key, vpa := range w.vpas {
		switch ours := autoscale.Ours(vpa); {
		case vpa.GetDeletionTimestamp() != nil || ours && kept[key]:
		case !ours:
			if of := vpa.GetOwnerReferences(); len(of) == 1 && of[0].UID == w.owner.UID {
				taken = append(taken, vpa)
			}
		case autoscale.Off(vpa):
			off = append(off, vpa)
		default:
			gone = append(gone, vpa)
		}
	}
	return append(gone, off...), taken
}

// budget bounds what a pass writes.
type budget struct {
	// left is how many objects may still be written.
	left int
	// failures are the first ones.
	failures []error
	// ended: nothing more is written.
	ended bool
}

// mostFailures that are kept: those of a pass are mostly the same.
const mostFailures = 3

// spend counts a write. What has changed since it was seen is looked at again in the next pass, and is no failure.
func (l *Loop) spend(b *budget, of request, err error) {
	b.left--
	stop := meta.IsNoMatchError(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, context.DeadlineExceeded)
	b.ended = b.left <= 0 || stop
	changed := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	if !stop && !changed {
		l.refused.note(of, err, l.Clock.Now(), l.Every)
	}
	if err != nil && !changed && len(b.failures) < mostFailures {
		b.failures = append(b.failures, err)
	}
}

// leaveAll deletes what is gone and lets go what is taken over, at most so many. That is what the writes do not need of the
// budget, and at least half of it.
func (l *Loop) leaveAll(ctx context.Context, gone, taken []*unstructured.Unstructured, most int, b *budget) {
	for i := 0; i < min(len(gone), most) && !b.ended; i++ {
		l.spend(b, request{client.ObjectKeyFromObject(gone[i]), true}, l.remove(ctx, gone[i]))
	}
	for i := 0; i < min(len(taken), most-len(gone)) && !b.ended; i++ {
		l.spend(b, request{client.ObjectKeyFromObject(taken[i]), true}, l.letGo(ctx, taken[i]))
	}
}

// letGo takes the operator's marks off an object that somebody has taken over, so that it does not go with the bridge. Without
// them it is as any other, and is written no more.
func (l *Loop) letGo(ctx context.Context, vpa *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(vpa)
	metadata := map[string]any{"ownerReferences": nil, "annotations": map[string]any{v1alpha1.PublishedAnnotation: nil}}
	if vpa.GetLabels()[autoscale.ManagedByLabel] == autoscale.ManagedBy {
		metadata["labels"] = map[string]any{autoscale.ManagedByLabel: nil}
	}
	whole := func(o *unstructured.Unstructured, p client.Patch) error { return l.Client.Patch(ctx, o, p) }
	if _, err := patch(key, vpa.GetResourceVersion(), whole, map[string]any{"metadata": metadata}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting go VerticalPodAutoscaler %s, which was taken over: %w", key, err)
	}
	return nil
}

// remove deletes the very object that was seen, and no later one of its name.
func (l *Loop) remove(ctx context.Context, vpa *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(vpa)
	seen := client.Preconditions{UID: ptr.To(vpa.GetUID()), ResourceVersion: ptr.To(vpa.GetResourceVersion())}
	if err := l.Client.Delete(ctx, named(key), seen); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting VerticalPodAutoscaler %s: %w", key, err)
	}
	return nil
}

// writeAll begins behind the object that was written last.
func (l *Loop) writeAll(ctx context.Context, todo []differs, b *budget) {
	slices.SortFunc(todo, func(a, b differs) int { return strings.Compare(a.key.String(), b.key.String()) })
	first := slices.IndexFunc(todo, func(d differs) bool { return d.key.String() > l.last })
	for i := range todo {
		if b.ended {
			return
		}
		d := todo[(max(first, 0)+i)%len(todo)]
		l.last = d.key.String()
		err := l.write(ctx, d)
		if err != nil {
			err = fmt.Errorf("writing VerticalPodAutoscaler %s: %w", d.key, err)
		}
		l.spend(b, request{d.key, false}, err)
	}
}

// write makes or changes a VPA. The digest is written last: where the operator ends before, the next pass writes all again. Each
// write is for the version that the one before has seen, so that an object that somebody else has put there is never changed.
func (l *Loop) write(ctx context.Context, d differs) error {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.vpa.Spec)
	if err != nil {
		return err
	}
	object := d.there
	if object == nil {
		object = named(d.key)
		object.SetLabels(d.vpa.Labels)
		object.SetOwnerReferences(d.vpa.OwnerReferences)
		object.Object["spec"] = runtime.DeepCopyJSON(spec)
		if err := l.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	status := func(o *unstructured.Unstructured, p client.Patch) error { return l.Client.Status().Patch(ctx, o, p) }
	whole := func(o *unstructured.Unstructured, p client.Patch) error { return l.Client.Patch(ctx, o, p) }
	version, err := patch(d.key, object.GetResourceVersion(), status, map[string]any{"status": d.vpa.Status})
	if err != nil {
		return err
	}
	if d.vpa.Spec.ResourcePolicy == nil {
		spec["resourcePolicy"] = nil // a merge patch removes it
	}
	_, err = patch(d.key, version, whole, map[string]any{"spec": spec, "metadata": map[string]any{
		"labels": d.vpa.Labels, "annotations": d.vpa.Annotations, "ownerReferences": d.vpa.OwnerReferences,
	}})
	return err
}

// send patches an object, or its status.
type send func(object *unstructured.Unstructured, patch client.Patch) error

// patch sends a merge patch for one version, and returns the next one.
func patch(key client.ObjectKey, version string, to send, changes map[string]any) (string, error) {
	metadata, _ := changes["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = version
	changes["metadata"] = metadata
	text, err := json.Marshal(changes)
	if err != nil {
		return "", err
	}
	object := named(key)
	err = to(object, client.RawPatch(types.MergePatchType, text))
	return object.GetResourceVersion(), err
}

func named(key client.ObjectKey) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(autoscale.VPAKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// mostPasses is how many passes an object rests at most that the API server refused: half an hour.
const mostPasses = 30

// refusal is how often in a row an object could not be written or deleted, and until when it rests.
type refusal struct {
	times int
	until time.Time
}

// request is what is asked for an object. That one is refused says nothing of the other.
type request struct {
	client.ObjectKey
	leaves bool
}

// refusals are those of the objects that are behind. What is refused for long, such as by a quota, is asked ever less often.
type refusals map[request]refusal

// note what became of an object; nil: it was written.
func (r refusals) note(of request, err error, now time.Time, every time.Duration) {
	if err == nil {
		delete(r, of)
		return
	}
	times := r[of].times + 1
	rest := backoff.Wait(2*every, mostPasses*every, times)
	r[of] = refusal{times, now.Add(rest - every/2)} // the pass that is due then may be a little early
}

// rests reports whether an object is left for a later pass.
func (r refusals) rests(of request, now time.Time) bool { return now.Before(r[of].until) }

// forget all but those that are still behind.
func (r refusals) forget(behind map[request]bool) {
	maps.DeleteFunc(r, func(of request, _ refusal) bool { return !behind[of] })
}
