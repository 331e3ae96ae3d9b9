package bridge

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
)

// world is what a pass reads, from caches alone. Its objects are the caches' own.
type world struct {
	recommendations []v1alpha1.AttuneRecommendation
	// vpas are all of the cluster by their names, ours and others'.
	vpas map[types.NamespacedName]*unstructured.Unstructured
	// seeded are the namespaces whose new pods come to the webhook.
	seeded map[string]bool
	limits map[string][]*corev1.LimitRange
	owner  metav1.OwnerReference
	now    time.Time
	// refused: nothing is to be there, and soon.
	refused bool
}

func (l *Loop) read(ctx context.Context, owner metav1.OwnerReference) (*world, error) {
	w := &world{
		vpas: map[types.NamespacedName]*unstructured.Unstructured{}, seeded: map[string]bool{}, limits: map[string][]*corev1.LimitRange{},
		owner: owner, now: l.Clock.Now(),
	}
	vpas := &unstructured.UnstructuredList{}
	vpas.SetGroupVersionKind(autoscale.VPAKind)
	if err := l.VPAs.List(ctx, vpas, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing VerticalPodAutoscalers: %w", err)
	}
	for i := range vpas.Items {
		w.vpas[client.ObjectKeyFromObject(&vpas.Items[i])] = &vpas.Items[i]
	}
	recommendations := &v1alpha1.AttuneRecommendationList{}
	if err := l.Client.List(ctx, recommendations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing AttuneRecommendations: %w", err)
	}
	w.recommendations = recommendations.Items
	return w, l.readNamespaces(ctx, w)
}

// readNamespaces reads what decides how the namespaces' new pods are sized. The webhook leaves some out whatever their label.
func (l *Loop) readNamespaces(ctx context.Context, w *world) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(owners.Namespace().GroupVersionKind())
	if err := l.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		w.seeded[n.Name] = n.Labels[v1alpha1.InjectLabel] == v1alpha1.InjectEnabled && n.Name != metav1.NamespaceSystem && n.Name != l.Operator
	}
	limits := &corev1.LimitRangeList{}
	if err := l.Client.List(ctx, limits, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing LimitRanges: %w", err)
	}
	for i := range limits.Items {
		of := &limits.Items[i]
		w.limits[of.Namespace] = append(w.limits[of.Namespace], of)
	}
	return nil
}

// wanted returns the VPA of a recommendation; nil: there is to be none.
func (l *Loop) wanted(ctx context.Context, w *world, rec *v1alpha1.AttuneRecommendation) (*VPA, error) {
	view := View{Seeded: w.seeded[rec.Namespace], Limits: w.limits[rec.Namespace], Owner: w.owner, Now: w.now}
	if workload.NewObject(rec.Spec.Workload.Kind) == nil {
		return nil, nil // of a newer version, or one that the operator's owner adds: readers know the version of none of these
	}
	known, _, err := owners.Workload(ctx, l.Client, workload.Sized{}, workload.IdentityOf(rec), client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	view.Template = known.Template
	vpa, ok := Of(rec, view)
	if !ok {
		return nil, nil
	}
	return vpa, nil
}
