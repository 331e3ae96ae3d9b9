package lookup

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// AutoscalerOptions of Autoscalers.
type AutoscalerOptions struct {
	Cache  cache.Cache
	Served loop.Served
	// Changed is told the namespace where a VPA was made, changed or deleted; "" stands for every one.
	Changed func(namespace string)
	Clock   clock.WithTicker
	// Every is how often it is looked whether the cluster has come to have VPAs; 0: every minute.
	Every time.Duration
}

// Autoscalers reads autoscalers. It is safe for concurrent use.
type Autoscalers struct {
	AutoscalerOptions
	// vpas: there are any to look at.
	vpas atomic.Bool
	// indexed: the informer of VPAs has its index. It is for NewAutoscalers, and then for Start alone.
	indexed bool
}

// askedEvery is how often the API server is asked for the VPAs' kind.
const askedEvery = time.Minute

// listPatience with a list from the cache: it waits for an informer that may never come to be in step, for
// want of rights.
const listPatience = 10 * time.Second

// NewAutoscalers asks the API server once. An error: it did not answer.
func NewAutoscalers(ctx context.Context, o AutoscalerOptions) (*Autoscalers, error) {
	if o.Every == 0 {
		o.Every = askedEvery
	}
	l := &Autoscalers{AutoscalerOptions: o}
	served, err := l.served()
	if err != nil {
		return nil, err
	}
	if err := l.index(ctx, &autoscalingv2.HorizontalPodAutoscaler{}); err != nil {
		return nil, err
	}
	if served {
		err = l.indexVPAs(ctx)
	}
	l.vpas.Store(served)
	return l, err
}

// byTarget indexes autoscalers by the key of their target.
const byTarget = "attune.target"

func (l *Autoscalers) index(ctx context.Context, of client.Object) error {
	err := l.Cache.IndexField(ctx, of, byTarget, func(o client.Object) []string { return []string{autoscale.TargetKey(o)} })
	if err != nil {
		return fmt.Errorf("indexing %T: %w", of, err)
	}
	return nil
}

// indexVPAs once for each informer: a second index of the name is an error.
func (l *Autoscalers) indexVPAs(ctx context.Context) error {
	if l.indexed {
		return nil
	}
	err := l.index(ctx, vpaObject())
	l.indexed = err == nil
	return err
}

// Of are the holds that autoscalers put on a workload. It looks at those that name it as their target,
// however many others there are. An error is worth a retry: nothing may be changed without knowing them.
func (l *Autoscalers) Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	var found autoscale.Autoscalers // the objects are the cache's own
	for _, key := range autoscale.TargetKeys(w) {
		options := []client.ListOption{client.InNamespace(w.Namespace), client.MatchingFields{byTarget: key}, client.UnsafeDisableDeepCopy}
		hpas := &autoscalingv2.HorizontalPodAutoscalerList{}
		if err := l.Cache.List(ctx, hpas, options...); err != nil {
			return autoscale.Holds{}, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
		}
		found.HPAs = append(found.HPAs, hpas.Items...)
		if !l.vpas.Load() {
			continue
		}
		vpas := &unstructured.UnstructuredList{}
		vpas.SetGroupVersionKind(autoscale.VPAKind)
		if err := l.Cache.List(ctx, vpas, options...); err != nil {
			return autoscale.Holds{}, fmt.Errorf("listing VerticalPodAutoscalers: %w", err)
		}
		found.VPAs = append(found.VPAs, vpas.Items...)
	}
	return found.Of(w), nil
}

// served reports whether the API server serves VPAs.
func (l *Autoscalers) served() (bool, error) {
	return loop.Serves(l.Served, autoscale.VPAKind.GroupVersion().WithResource("verticalpodautoscalers"))
}

// Start watches VPAs while there are any to watch, until the context ends.
func (l *Autoscalers) Start(ctx context.Context) error {
	watching := false
	for range loop.Every(ctx, l.Clock, l.Every) {
		next, err := l.follow(ctx, watching)
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot follow VerticalPodAutoscalers; trying again", "after", l.Every)
		}
		watching = next
	}
	return nil
}

// follow begins or ends the watch where the kind has come or gone, and says whether there is one now.
func (l *Autoscalers) follow(ctx context.Context, watching bool) (bool, error) {
	served, err := l.served()
	if err != nil {
		return watching, err
	}
	if served == watching && served == l.vpas.Load() {
		if served {
			return true, nil
		}
		// Who was about to list VPAs when they went may have begun a watch again, that would fail for ever.
		return false, l.Cache.RemoveInformer(ctx, vpaObject())
	}
	if served {
		// Before VPAs are looked for by it.
		if err := l.indexVPAs(ctx); err != nil {
			return watching, err
		}
	}
	l.vpas.Store(served)
	l.Changed("")
	if served {
		return l.watch(ctx)
	}
	l.indexed = false
	return false, l.Cache.RemoveInformer(ctx, vpaObject())
}

func vpaObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(autoscale.VPAKind)
	return u
}

// HasVPAs reports whether the cluster serves VPAs, as far as is known.
func (l *Autoscalers) HasVPAs() bool { return l.vpas.Load() }

// watch tells of every change of what VPAs want. Their status moves by the minute. The operator's own hold nothing.
func (l *Autoscalers) watch(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	informer, err := l.Cache.GetInformer(ctx, vpaObject())
	if err != nil {
		return false, fmt.Errorf("watching VerticalPodAutoscalers: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: l.tell,
		UpdateFunc: func(before, after any) {
			if !equality.Semantic.DeepEqual(specOf(before), specOf(after)) && !(isOurs(before) && isOurs(after)) {
				l.tellAny(after)
			}
		},
		DeleteFunc: l.tell,
	})
	return err == nil, err
}

func specOf(object any) any {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object["spec"]
	}
	return nil
}

func isOurs(object any) bool {
	u, ok := object.(*unstructured.Unstructured)
	return ok && autoscale.Ours(u)
}

// tell tells of a VPA that came or went, unless it is the operator's own.
func (l *Autoscalers) tell(object any) {
	if !isOurs(object) {
		l.tellAny(object)
	}
}

// tellAny takes a VPA, or the tombstone of one whose end was missed.
func (l *Autoscalers) tellAny(object any) {
	if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		namespace, _, _ := toolscache.SplitMetaNamespaceKey(key)
		l.Changed(namespace)
	}
}
