package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

const (
	// every is the time between two passes. Karpenter reads VPAs every 30 s.
	every = time.Minute
	// patience bounds a pass.
	patience = 50 * time.Second
	// mostWrites is how many objects a pass creates, changes and deletes at most. The next pass continues with the
	// others.
	mostWrites = 100
	// hurry multiplies the number of deletions in a pass while VPA's admission controller would act on the objects.
	hurry = 10
)

// Options of a Loop.
type Options struct {
	// Client reads from the cache, and writes. The cache has VPAs without Go types.
	Client client.Client
	// VPAs reads them from the same cache.
	VPAs client.Reader
	// Live reads from the API server.
	Live client.Reader
	// HasVPAs reports whether the cluster serves the kind.
	HasVPAs func() bool
	// Role is the ClusterRole that permits writing VPAs. It owns all our VPAs, so that they are garbage-collected
	// with it.
	Role string
	// Admission knows in which namespaces the webhook sizes new pods.
	Admission workload.Admission
	Events    *event.Recorder
	Clock     clock.WithTicker
	// Every is the time between two passes; 0: one minute.
	Every time.Duration
	// MostWrites of a pass; 0: 100.
	MostWrites int
}

// Loop runs on the leader only: two replicas would write the same objects. Its methods must not run concurrently.
type Loop struct {
	Options
	// said is the reason, last logged, why the loop publishes nothing.
	said string
	// last is the name of the last written object. The next pass starts after it, so that objects that cannot be
	// written, such as because of a quota, do not delay others.
	last string
	// refused holds the writes and deletions that the API server rejected.
	refused refusals
}

// New returns a loop with the defaults of the options.
func New(o Options) *Loop {
	o.Every, o.MostWrites = cmp.Or(o.Every, every), cmp.Or(o.MostWrites, mostWrites)
	return &Loop{Options: o, refused: refusals{}}
}

// Start makes passes until the context ends. A failure is logged, and the next pass tries again.
func (l *Loop) Start(ctx context.Context) error {
	for range loop.Every(ctx, l.Clock, l.Every) {
		if err := l.Pass(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot publish VerticalPodAutoscalers; retrying", "after", l.Every)
		}
	}
	return nil
}

// Pass creates, changes and deletes VPAs until they match the recommendations. An error of one object does not stop
// it; it ends if the cluster no longer serves the kind.
func (l *Loop) Pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !l.HasVPAs() {
		l.explain(ctx, "the cluster does not serve VerticalPodAutoscalers (autoscaling.k8s.io/v1). Install their CustomResourceDefinition")
		show(counts{})
		return nil
	}
	owner, err := l.owner(ctx)
	if err != nil {
		return err
	}
	refused, err := l.vpaInstalled(ctx)
	if err != nil {
		return err
	}
	world, err := l.read(ctx, owner)
	if err != nil {
		return err
	}
	if refused {
		l.explain(ctx, "VPA's admission controller is registered (MutatingWebhookConfiguration "+autoscale.VPAWebhook+") and would size new pods by the same objects. "+
			"Uninstall it and delete the MutatingWebhookConfiguration, or set bridge.vpa: false")
		world.recommendations, world.refused = nil, true
	} else {
		l.explain(ctx, "")
	}
	return l.settle(ctx, world)
}

// owner returns the reference to the ClusterRole.
func (l *Loop) owner(ctx context.Context) (metav1.OwnerReference, error) {
	role := &rbacv1.ClusterRole{}
	if err := l.Live.Get(ctx, client.ObjectKey{Name: l.Role}, role); err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("reading the ClusterRole that owns the published VerticalPodAutoscalers: %w", err)
	}
	return metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
}

// vpaInstalled reports whether VPA's admission controller is installed, which would act on the published objects. VPA's
// updater acts on neither of our modes, and does nothing without the admission controller.
func (l *Loop) vpaInstalled(ctx context.Context) (bool, error) {
	err := l.Live.Get(ctx, client.ObjectKey{Name: autoscale.VPAWebhook}, &admissionv1.MutatingWebhookConfiguration{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for VPA's admission controller: %w", err)
	}
	return err == nil, nil
}

// explain logs, once, why nothing is published. Empty: publishing continues.
func (l *Loop) explain(ctx context.Context, why string) {
	if why == l.said {
		return
	}
	l.said = why
	if why == "" {
		log.FromContext(ctx).Info("Publishing VerticalPodAutoscalers")
		return
	}
	log.FromContext(ctx).Info("Not publishing VerticalPodAutoscalers", "reason", why, "nextCheckIn", l.Every.String())
}

// world is what a pass reads, only from caches. Its objects belong to the caches: do not change them.
type world struct {
	recommendations []v1alpha1.AttuneRecommendation
	// vpas are all VPAs of the cluster by name, ours and others.
	vpas map[types.NamespacedName]*unstructured.Unstructured
	// seeded are the namespaces whose new pods the webhook receives.
	seeded map[string]bool
	limits map[string][]*corev1.LimitRange
	owner  metav1.OwnerReference
	now    time.Time
	// refused: VPA is installed, so all our VPAs must be deleted now.
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

// readNamespaces reads in which namespaces the webhook sizes new pods, and their LimitRanges.
func (l *Loop) readNamespaces(ctx context.Context, w *world) error {
	namespaces, err := lookup.Reader{Client: l.Client}.Namespaces(ctx)
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		w.seeded[n.Name] = l.Admission.NotSized(n.Name, n.Labels) == ""
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

// wanted returns the VPA of a recommendation; nil: there must be none.
func (l *Loop) wanted(ctx context.Context, w *world, rec *v1alpha1.AttuneRecommendation) (*VPA, error) {
	view := View{Seeded: w.seeded[rec.Namespace], Limits: w.limits[rec.Namespace], Owner: w.owner, Now: w.now}
	if workload.NewObject(rec.Spec.Workload.Kind) == nil {
		return nil, nil // of a newer version, or a kind that scaledKinds adds: readers do not know its API version
	}
	known, _, err := lookup.Workload(ctx, l.Client, workload.Sized{}, workload.IdentityOf(rec), client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	view.Template = known.Template
	vpa, _ := Of(rec, view)
	return vpa, nil
}
