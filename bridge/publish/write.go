package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/workload"
)

var objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_bridge_vpa_objects",
	Help: "VerticalPodAutoscalers that tell other programs of recommendations: published, or foreign where another object has the name.",
}, []string{"state"})

func init() { metrics.Registry.MustRegister(objects) }

func show(published, foreign int) {
	objects.WithLabelValues("published").Set(float64(published))
	objects.WithLabelValues("foreign").Set(float64(foreign))
}

// differs is an object that is to be made or changed.
type differs struct {
	key   client.ObjectKey
	there *unstructured.Unstructured
	vpa   *bridge.VPA
}

// settle makes the operator's own VPAs those of the recommendations. Others are never written.
func (l *Loop) settle(ctx context.Context, w *world) error {
	kept := map[types.NamespacedName]bool{}
	var todo []differs
	var unread []error
	published, foreign := 0, 0
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
			foreign++
			l.Events.Send(rec, nil, event.Warning("VPANotPublished",
				"another VerticalPodAutoscaler has the name %s: it is left alone, and other programs are not told of the recommendation until it is gone", vpa.Name))
		default:
			published++
			if there == nil || there.GetAnnotations()[v1alpha1.PublishedAnnotation] != vpa.Annotations[v1alpha1.PublishedAnnotation] {
				todo = append(todo, differs{key, there, vpa})
			}
		}
	}
	show(published, foreign)
	b := budget{left: l.MostWrites}
	l.removeAll(ctx, w, kept, &b)
	l.writeAll(ctx, todo, &b)
	return errors.Join(append(unread, b.failures...)...)
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
func (b *budget) spend(err error) {
	b.left--
	b.ended = b.left <= 0 || meta.IsNoMatchError(err) || apierrors.IsTooManyRequests(err)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && len(b.failures) < mostFailures {
		b.failures = append(b.failures, err)
	}
}

// removeAll deletes the operator's own VPAs that are not kept, with at most half of the budget.
func (l *Loop) removeAll(ctx context.Context, w *world, kept map[types.NamespacedName]bool, b *budget) {
	half := (b.left + 1) / 2
	for key, vpa := range w.vpas {
		if b.ended || b.left <= half-1 {
			return
		}
		if !kept[key] && autoscale.Ours(vpa) && vpa.GetDeletionTimestamp() == nil {
			b.spend(l.remove(ctx, key, vpa))
		}
	}
}

// remove deletes the very object that was seen, and no later one of its name.
func (l *Loop) remove(ctx context.Context, key client.ObjectKey, vpa *unstructured.Unstructured) error {
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
		if err := l.write(ctx, d); err != nil {
			b.spend(fmt.Errorf("writing VerticalPodAutoscaler %s: %w", d.key, err))
			continue
		}
		b.spend(nil)
	}
}

// write makes or changes a VPA. The digest is written last: where the operator ends before, the next pass writes all again. Each
// write is for the version that the one before has seen, so that an object that somebody else has put there is never changed.
func (l *Loop) write(ctx context.Context, d differs) error {
	object := d.there
	if object == nil {
		object = named(d.key)
		object.SetLabels(d.vpa.Labels)
		object.SetOwnerReferences(d.vpa.OwnerReferences)
		spec, err := fields(d.vpa.Spec)
		if err != nil {
			return err
		}
		object.Object["spec"] = spec
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
	spec, err := fields(d.vpa.Spec)
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

// fields returns a value as its JSON object.
func fields(of any) (out map[string]any, err error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

func named(key client.ObjectKey) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(autoscale.VPAKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}
