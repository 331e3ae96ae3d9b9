// Package lookup reads the autoscalers of a namespace from the cache, and
// follows whether the cluster has VerticalPodAutoscalers at all: their CRD may
// be missing, appear later, and go away again.
package lookup

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/autoscale"
)

// Served asks the API server which kinds it serves; discovery clients do.
type Served interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Options of a Lookup.
type Options struct {
	Cache  cache.Cache
	Served Served
	// Changed is told the namespace where a VPA was made, changed or deleted; "" stands for every one.
	Changed func(namespace string)
	Clock   clock.WithTicker
	// Every is how often it is looked whether the cluster has come to have VPAs; 0: every minute.
	Every time.Duration
}

// Lookup reads autoscalers. It is safe for concurrent use.
type Lookup struct {
	Options
	vpas atomic.Bool
}

// usual is how often the API server is asked for the VPAs' kind.
const usual = time.Minute

// patience with a list from the cache: it waits for an informer that may never come to be in step, for
// want of rights.
const patience = 10 * time.Second

// New asks the API server once. An error: it did not answer.
func New(o Options) (*Lookup, error) {
	if o.Every == 0 {
		o.Every = usual
	}
	l := &Lookup{Options: o}
	served, err := l.served()
	l.vpas.Store(served)
	return l, err
}

// In reads the autoscalers of a namespace. An error is worth a retry: nothing may be changed without
// knowing them.
func (l *Lookup) In(ctx context.Context, namespace string) (autoscale.Autoscalers, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hpas := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := l.Cache.List(ctx, hpas, client.InNamespace(namespace)); err != nil {
		return autoscale.Autoscalers{}, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	found := autoscale.Autoscalers{HPAs: hpas.Items}
	if !l.vpas.Load() {
		return found, nil
	}
	vpas := &unstructured.UnstructuredList{}
	vpas.SetGroupVersionKind(autoscale.VPAKind)
	if err := l.Cache.List(ctx, vpas, client.InNamespace(namespace)); err != nil {
		return autoscale.Autoscalers{}, fmt.Errorf("listing VerticalPodAutoscalers: %w", err)
	}
	found.VPAs = vpas.Items
	return found, nil
}

// served reports whether the API server serves VPAs.
func (l *Lookup) served() (bool, error) {
	list, err := l.Served.ServerResourcesForGroupVersion(autoscale.VPAKind.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking the API server for %s: %w", autoscale.VPAKind.GroupVersion(), err)
	}
	for _, r := range list.APIResources {
		if r.Kind == autoscale.VPAKind.Kind {
			return true, nil
		}
	}
	return false, nil
}

// Start watches VPAs while there are any to watch, until the context ends.
func (l *Lookup) Start(ctx context.Context) error {
	ticker := l.Clock.NewTicker(l.Every)
	defer ticker.Stop()
	watching := false
	for {
		next, err := l.follow(ctx, watching)
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot follow VerticalPodAutoscalers; trying again", "after", l.Every)
		}
		watching = next
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// follow begins or ends the watch where the kind has come or gone, and says whether there is one now.
func (l *Lookup) follow(ctx context.Context, watching bool) (bool, error) {
	served, err := l.served()
	if err != nil || served == watching && served == l.vpas.Load() {
		return watching, err
	}
	l.vpas.Store(served)
	l.Changed("")
	if served {
		return l.watch(ctx)
	}
	return false, l.Cache.RemoveInformer(ctx, kind())
}

func kind() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(autoscale.VPAKind)
	return u
}
