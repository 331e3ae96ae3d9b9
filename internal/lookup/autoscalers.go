package lookup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// AutoscalerOptions configure Autoscalers.
type AutoscalerOptions struct {
	Cache  cache.Cache
	Served loop.Served
	// Changed is called with the namespace of a VPA or ScaledObject that was created, changed or deleted; "" means all
	// namespaces.
	Changed func(namespace string)
	Clock   clock.WithTicker
	// Tolerance of HPAs that set none; 0 means replicas.DefaultTolerance.
	Tolerance float64
	// MayRetarget reports that the operator may change the targets of HPAs (flag --hpa-retarget).
	MayRetarget bool
	// Every is the interval at which Start checks whether the cluster serves VPAs and ScaledObjects; 0 means 1 minute.
	Every time.Duration
}

// Autoscalers reads the holds of HPAs, VPAs and KEDA's ScaledObjects. It is safe for concurrent use.
type Autoscalers struct {
	AutoscalerOptions
	vpas, scaledObjects optional
}

// optional is a kind that not every cluster serves.
type optional struct {
	kind schema.GroupVersionKind
	// serves: the cluster serves the kind.
	serves atomic.Bool
	// indexed: the informer of the kind has its index. Only NewAutoscalers and then Start use it.
	indexed bool
}

// object returns an empty object of the kind.
func (o *optional) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.kind)
	return u
}

// askedEvery is the default of AutoscalerOptions.Every.
const askedEvery = time.Minute

// listPatience is the timeout of a list from the cache. The cache waits for its informer to sync, and an informer
// without permission never does.
const listPatience = 10 * time.Second

// NewAutoscalers asks the API server once. An error means that it did not answer.
func NewAutoscalers(ctx context.Context, o AutoscalerOptions) (*Autoscalers, error) {
	o.Every = cmp.Or(o.Every, askedEvery)
	l := &Autoscalers{AutoscalerOptions: o}
	l.vpas.kind, l.scaledObjects.kind = autoscale.VPAKind, autoscale.ScaledObjectKind
	for _, kind := range l.optional() {
		served, err := l.served(kind)
		if err == nil && served {
			err = l.indexOnce(ctx, kind)
		}
		if err != nil {
			return nil, err
		}
		kind.serves.Store(served)
	}
	return l, l.index(ctx, &autoscalingv2.HorizontalPodAutoscaler{})
}

func (l *Autoscalers) optional() []*optional { return []*optional{&l.vpas, &l.scaledObjects} }

// byTarget is the index of autoscalers by the key of their target.
const byTarget = "attune.target"

func (l *Autoscalers) index(ctx context.Context, of client.Object) error {
	err := l.Cache.IndexField(ctx, of, byTarget, func(o client.Object) []string { return []string{autoscale.TargetKey(o)} })
	if err != nil {
		return fmt.Errorf("indexing %T: %w", of, err)
	}
	return nil
}

// indexOnce adds the index once per informer: a second index with the same name is an error.
func (l *Autoscalers) indexOnce(ctx context.Context, kind *optional) error {
	if kind.indexed {
		return nil
	}
	err := l.index(ctx, kind.object())
	kind.indexed = err == nil
	return err
}

// Of returns the holds of autoscalers on a workload. It reads only the autoscalers that target the workload, so its
// cost does not depend on the others. An error needs a retry: attune must not change the workload without its holds.
func (l *Autoscalers) Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	found := autoscale.Autoscalers{Tolerance: l.Tolerance, MayRetarget: l.MayRetarget} // the objects belong to the cache
	for _, key := range autoscale.TargetKeys(w) {
		options := []client.ListOption{client.InNamespace(w.Namespace), client.MatchingFields{byTarget: key}, client.UnsafeDisableDeepCopy}
		hpas := &autoscalingv2.HorizontalPodAutoscalerList{}
		if err := l.Cache.List(ctx, hpas, options...); err != nil {
			return autoscale.Holds{}, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
		}
		found.HPAs = append(found.HPAs, hpas.Items...)
		for _, kind := range l.optional() {
			if !kind.serves.Load() {
				continue
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.kind)
			if err := l.Cache.List(ctx, list, options...); err != nil {
				return autoscale.Holds{}, fmt.Errorf("listing %ss: %w", kind.kind.Kind, err)
			}
			if kind == &l.vpas {
				found.VPAs = append(found.VPAs, list.Items...)
			} else {
				found.ScaledObjects = append(found.ScaledObjects, list.Items...)
			}
		}
	}
	return found.Of(w), nil
}

// served reports whether the API server serves the kind.
func (l *Autoscalers) served(kind *optional) (bool, error) {
	return loop.Serves(l.Served, kind.kind.GroupVersion().WithResource(strings.ToLower(kind.kind.Kind)+"s"))
}

// Start watches VPAs and ScaledObjects while the cluster serves them, until the context ends.
func (l *Autoscalers) Start(ctx context.Context) error {
	watching := map[*optional]bool{}
	for range loop.Every(ctx, l.Clock, l.Every) {
		for _, kind := range l.optional() {
			next, err := l.follow(ctx, kind, watching[kind])
			if err != nil {
				log.FromContext(ctx).Error(err, "Cannot follow a kind of autoscalers; trying again", "kind", kind.kind.Kind, "after", l.Every)
			}
			watching[kind] = next
		}
	}
	return nil
}

// follow starts or stops the watch when the kind appears or disappears, and returns whether a watch is running.
func (l *Autoscalers) follow(ctx context.Context, kind *optional, watching bool) (bool, error) {
	served, err := l.served(kind)
	if err != nil {
		return watching, err
	}
	if served == watching && served == kind.serves.Load() {
		if served {
			return true, nil
		}
		// A list that ran while the kind disappeared may have started a new watch, which would fail for ever.
		return false, l.Cache.RemoveInformer(ctx, kind.object())
	}
	if served {
		// Add the index before Of lists the kind by it.
		if err := l.indexOnce(ctx, kind); err != nil {
			return watching, err
		}
	}
	kind.serves.Store(served)
	l.Changed("")
	if served {
		return l.watch(ctx, kind)
	}
	kind.indexed = false
	return false, l.Cache.RemoveInformer(ctx, kind.object())
}

// HasVPAs reports whether the cluster served VPAs at the last check.
func (l *Autoscalers) HasVPAs() bool { return l.vpas.serves.Load() }

// watch calls Changed for every change of an object's spec. Status changes every minute and does not matter. attune's
// own VPAs hold nothing.
func (l *Autoscalers) watch(ctx context.Context, kind *optional) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	informer, err := l.Cache.GetInformer(ctx, kind.object())
	if err != nil {
		return false, fmt.Errorf("watching %ss: %w", kind.kind.Kind, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: l.notify,
		UpdateFunc: func(before, after any) {
			if !equality.Semantic.DeepEqual(specOf(before), specOf(after)) && !(isOurs(before) && isOurs(after)) {
				l.notifyTombstone(after)
			}
		},
		DeleteFunc: l.notify,
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

// notify calls Changed for a created or deleted autoscaler, unless attune wrote it.
func (l *Autoscalers) notify(object any) {
	if !isOurs(object) {
		l.notifyTombstone(object)
	}
}

// notifyTombstone calls Changed for an autoscaler, or for the tombstone of one whose deletion event was missed.
func (l *Autoscalers) notifyTombstone(object any) {
	if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		namespace, _, _ := toolscache.SplitMetaNamespaceKey(key)
		l.Changed(namespace)
	}
}
