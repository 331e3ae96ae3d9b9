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
	Help: "Number of VerticalPodAutoscalers that attune publishes, by state: published (up to date), behind (still to be written or deleted), foreign (not written, because another object has the name).",
}, []string{"state"})

func init() { metrics.Registry.MustRegister(objects) }

// counts holds the number of objects in each state when a pass starts writing.
type counts struct{ published, behind, foreign int }

func show(c counts) {
	objects.WithLabelValues("published").Set(float64(c.published))
	objects.WithLabelValues("behind").Set(float64(c.behind))
	objects.WithLabelValues("foreign").Set(float64(c.foreign))
}

// differs is an object to create or change.
type differs struct {
	key   client.ObjectKey
	there *unstructured.Unstructured
	vpa   *VPA
}

// settle makes our VPAs match the recommendations. It never writes VPAs of others.
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
				"the recommendation is not published, because another VerticalPodAutoscaler has the name %s. Delete or rename it", vpa.Name))
		case there != nil && upToDate(there, vpa):
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
	l.removeObsolete(ctx, gone, taken, b.left-min(len(todo), b.left/2), &b)
	l.writeAll(ctx, todo, &b)
	return errors.Join(append(unread, b.failures...)...)
}

// due drops objects in backoff, and clears the backoff of objects that are in sync. While VPA's admission controller
// is installed, objects that it would use never back off.
func (l *Loop) due(todo []differs, gone, taken []*unstructured.Unstructured, urgent bool) ([]differs, []*unstructured.Unstructured, []*unstructured.Unstructured) {
	behind, now := map[request]bool{}, l.Clock.Now()
	inBackoff := func(of request) bool {
		behind[of] = true
		return l.refused.inBackoff(of, now)
	}
	leaves := func(vpa *unstructured.Unstructured) bool {
		return inBackoff(request{client.ObjectKeyFromObject(vpa), true})
	}
	of := func(vpa *unstructured.Unstructured) bool { return leaves(vpa) && (!urgent || autoscale.Off(vpa)) }
	todo = slices.DeleteFunc(todo, func(d differs) bool { return inBackoff(request{d.key, false}) })
	gone, taken = slices.DeleteFunc(gone, of), slices.DeleteFunc(taken, leaves)
	maps.DeleteFunc(l.refused, func(of request, _ refusal) bool { return !behind[of] }) // what is in sync
	return todo, gone, taken
}

// upToDate reports whether our VPA already has the wanted content. The digest covers our last write; mode, apiVersion and
// recommender reveal later edits by others. The cache holds no other fields.
func upToDate(there *unstructured.Unstructured, vpa *VPA) bool {
	mode, _, _ := unstructured.NestedString(there.Object, "spec", "updatePolicy", "updateMode")
	version, _, _ := unstructured.NestedString(there.Object, "spec", "targetRef", "apiVersion")
	return there.GetAnnotations()[v1alpha1.PublishedAnnotation] == vpa.Annotations[v1alpha1.PublishedAnnotation] &&
		mode == vpa.Spec.UpdatePolicy.UpdateMode && version == vpa.Spec.TargetRef.APIVersion && autoscale.Recommends(there)
}

// leaving returns our VPAs to delete, and those that users took over. The first list begins with VPAs by which VPA's
// admission controller would size pods. VPAs in the second list are no longer ours, but our ClusterRole still owns
// them.
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

// budget limits the writes of a pass.
type budget struct {
	// left is how many more objects the pass may write.
	left int
	// failures are the first errors.
	failures []error
	// ended: the pass writes nothing more.
	ended bool
}

// mostFailures limits the errors that a pass returns, because most of them are the same.
const mostFailures = 3

// spend counts a write. An object that changed since it was read is not a failure: the next pass reads it again.
func (l *Loop) spend(b *budget, of request, err error) {
	b.left--
	stop := meta.IsNoMatchError(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, context.DeadlineExceeded)
	b.ended = b.left <= 0 || stop
	changed := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	if !stop && !changed {
		l.refused.record(of, err, l.Clock.Now(), l.Every)
	}
	if err != nil && !changed && len(b.failures) < mostFailures {
		b.failures = append(b.failures, err)
	}
}

// removeObsolete deletes obsolete VPAs and releases VPAs that users took over, at most so many in total: the part of the
// budget that the writes do not need, but at least half.
func (l *Loop) removeObsolete(ctx context.Context, gone, taken []*unstructured.Unstructured, most int, b *budget) {
	for i := 0; i < min(len(gone), most) && !b.ended; i++ {
		l.spend(b, request{client.ObjectKeyFromObject(gone[i]), true}, l.remove(ctx, gone[i]))
	}
	for i := 0; i < min(len(taken), most-len(gone)) && !b.ended; i++ {
		l.spend(b, request{client.ObjectKeyFromObject(taken[i]), true}, l.release(ctx, taken[i]))
	}
}

// release removes our marks from a VPA that a user took over, so that it is not garbage-collected with the bridge.
// Without the marks it is a foreign object, and the bridge no longer writes it.
func (l *Loop) release(ctx context.Context, vpa *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(vpa)
	metadata := map[string]any{"ownerReferences": nil, "annotations": map[string]any{v1alpha1.PublishedAnnotation: nil}}
	if vpa.GetLabels()[autoscale.ManagedByLabel] == autoscale.ManagedBy {
		metadata["labels"] = map[string]any{autoscale.ManagedByLabel: nil}
	}
	whole := func(o *unstructured.Unstructured, p client.Patch) error { return l.Client.Patch(ctx, o, p) }
	if _, err := patch(key, vpa.GetResourceVersion(), whole, map[string]any{"metadata": metadata}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing VerticalPodAutoscaler %s, which was taken over: %w", key, err)
	}
	return nil
}

// remove deletes only the object that was read, not a later one with the same name.
func (l *Loop) remove(ctx context.Context, vpa *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(vpa)
	seen := client.Preconditions{UID: ptr.To(vpa.GetUID()), ResourceVersion: ptr.To(vpa.GetResourceVersion())}
	if err := l.Client.Delete(ctx, named(key), seen); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting VerticalPodAutoscaler %s: %w", key, err)
	}
	return nil
}

// writeAll starts after the object that was written last.
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

// write creates or changes a VPA. It writes the digest last: if attune stops before, the next pass writes all again.
// Each write is for the version that the previous write returned, so that it never changes an object that another
// writer created meanwhile.
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

// patch sends a merge patch for one version, and returns the new version.
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

// mostPasses limits the backoff of a rejected object, in passes: half an hour.
const mostPasses = 30

// refusal is the number of consecutive rejections of a write or deletion, and the end of its backoff.
type refusal struct {
	times int
	until time.Time
}

// request is a write or a deletion of an object. They fail independently of each other.
type request struct {
	client.ObjectKey
	leaves bool
}

// refusals has one entry for each write or deletion that was rejected. The backoff grows while the API server rejects
// it, such as because of a quota.
type refusals map[request]refusal

// record stores the result of a write or deletion; nil: it succeeded.
func (r refusals) record(of request, err error, now time.Time, every time.Duration) {
	if err == nil {
		delete(r, of)
		return
	}
	times := r[of].times + 1
	rest := backoff.Wait(2*every, mostPasses*every, times)
	r[of] = refusal{times, now.Add(rest - every/2)} // the pass that is due then may start a little early
}

// inBackoff reports whether a write or deletion is in backoff.
func (r refusals) inBackoff(of request, now time.Time) bool { return now.Before(r[of].until) }
