package pod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// Known returns the facts that admission needs, from memory and without waiting. Implementations are safe for
// concurrent use.
type Known interface {
	// Recommendation of a workload; nil if there is none. It must not be changed.
	Recommendation(of workload.Identity) *Recommendation
	// Newest recommendation of the workloads with the namespace and kind of a workload, and with an identity; nil if there
	// is none. It must not be changed.
	Newest(of workload.Identity, identity string) *Recommendation
	// Recommends reports whether any workload of a namespace has a recommendation.
	Recommends(namespace string) bool
	// Namespace returns the limits for the pods of a namespace; never nil. It must not be changed.
	Namespace(name string) *Namespace
}

// Index holds every workload's seed and every namespace's limits, from informer events. Returned values are never
// changed, only replaced, so that readers copy nothing. The cluster's objects limit its size: one entry for each
// recommendation, and for each namespace with LimitRanges or quotas.
type Index struct {
	// mu guards all maps.
	mu              sync.RWMutex
	recommendations map[types.NamespacedName]*Recommendation
	identities      map[identity]map[types.NamespacedName]*Recommendation
	// counts are the recommendations of each namespace.
	counts     map[string]int
	namespaces map[string]*Namespace
	// ranges and quotas are the inputs of namespaces.
	ranges map[string][]*corev1.LimitRange
	quotas map[string][]*corev1.ResourceQuota
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		recommendations: map[types.NamespacedName]*Recommendation{},
		identities:      map[identity]map[types.NamespacedName]*Recommendation{},
		counts:          map[string]int{},
		namespaces:      map[string]*Namespace{},
		ranges:          map[string][]*corev1.LimitRange{},
		quotas:          map[string][]*corev1.ResourceQuota{},
	}
}

// Recommendation returns the seed of a workload, or nil. Two workloads may share the name of a recommendation,
// because long names are cut and end in a short hash. So the full identity is compared.
func (x *Index) Recommendation(of workload.Identity) *Recommendation {
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.RecommendationName()}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.recommendations[key]; r != nil && r.Of == of {
		return r
	}
	return nil
}

// Recommends reports whether any workload of a namespace has a recommendation.
func (x *Index) Recommends(namespace string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.counts[namespace] > 0
}

// count adds to the number of recommendations of a namespace. The caller holds mu.
func (x *Index) count(namespace string, more int) {
	if x.counts[namespace] += more; x.counts[namespace] == 0 {
		delete(x.counts, namespace)
	}
}

// identity is what workloads with the same recommended resources have in common.
type identity struct {
	kind            v1alpha1.WorkloadKind
	namespace, name string
}

// Newest returns the newest recommendation of an identity, or nil. Objects of the same age are ordered by name.
func (x *Index) Newest(of workload.Identity, name string) (newest *Recommendation) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, r := range x.identities[identity{of.Kind, of.Namespace, name}] {
		if newest == nil || r.created.After(newest.created) || r.created.Equal(newest.created) && r.Name > newest.Name {
			newest = r
		}
	}
	return newest
}

// identify adds a recommendation to its identity, or removes it. The caller holds mu.
func (x *Index) identify(name types.NamespacedName, r *Recommendation, there bool) {
	if r == nil || r.identity == "" {
		return
	}
	key := identity{r.Of.Kind, r.Of.Namespace, r.identity}
	all := x.identities[key]
	if delete(all, name); there {
		podview.SetIn(&all, name, r)
	}
	if x.identities[key] = all; len(all) == 0 {
		delete(x.identities, key)
	}
}

// unbound is the result for namespaces without limits.
var unbound Namespace

// Namespace returns the limits for the pods of a namespace; never nil.
func (x *Index) Namespace(name string) *Namespace {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if ns := x.namespaces[name]; ns != nil {
		return ns
	}
	return &unbound
}

// Set stores a recommendation, LimitRange or ResourceQuota. It panics on any other type.
func (x *Index) Set(object any) { x.change(object, true) }

// Delete removes an object. It panics on the same types as Set.
func (x *Index) Delete(object any) { x.change(object, false) }

func (x *Index) change(object any, there bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := object.(type) {
	case *v1alpha1.AttuneRecommendation:
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		x.identify(name, x.recommendations[name], false)
		if _, known := x.recommendations[name]; known {
			x.count(name.Namespace, -1)
		}
		if delete(x.recommendations, name); there {
			x.recommendations[name] = Read(o)
			x.count(name.Namespace, 1)
		}
		x.identify(name, x.recommendations[name], true)
	case *corev1.LimitRange:
		x.ranges[o.Namespace] = changed(x.ranges[o.Namespace], o, there)
		x.bind(o.Namespace)
	case *corev1.ResourceQuota:
		x.quotas[o.Namespace] = changed(x.quotas[o.Namespace], o, there)
		x.bind(o.Namespace)
	default:
		panic("no such object is indexed")
	}
}

// bind computes the limits of a namespace again. The caller holds mu.
func (x *Index) bind(name string) {
	ranges, quotas := x.ranges[name], x.quotas[name]
	if len(ranges) == 0 && len(quotas) == 0 {
		delete(x.ranges, name)
		delete(x.quotas, name)
		delete(x.namespaces, name)
		return
	}
	ns := &Namespace{Bounds: constraint.BoundsOf(ranges), Quotas: podview.Map(quotas, constraint.QuotaLeftOf)}
	x.namespaces[name] = ns
}

// changed returns the list with the object in place of the one with its name, or without it. It may reuse the array,
// because lists are only read under mu.
func changed[T interface{ GetName() string }](list []T, object T, there bool) []T {
	list = slices.DeleteFunc(list, func(o T) bool { return o.GetName() == object.GetName() })
	if there {
		list = append(list, object)
	}
	return list
}

// Handler returns the event handler for the informer of any of the three types.
func (x *Index) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    x.Set,
		UpdateFunc: func(_, object any) { x.Set(object) },
		DeleteFunc: func(object any) {
			// A watch that missed the deletion reports the last known object in a wrapper.
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			x.Delete(object)
		},
	}
}

// Feed connects the index to a cache's informers, without waiting for them. An error means that an informer could not
// be created. The returned check is for readiness: it succeeds once the index holds all objects that existed at the
// start. Pods that are created before that are admitted unsized. BlockUntilSynced(false) returns at once; HasSynced
// of the registration reports when the index has all objects.
func (x *Index) Feed(ctx context.Context, informers cache.Informers) (func(*http.Request) error, error) {
	var synced []func() bool
	for _, object := range []client.Object{&v1alpha1.AttuneRecommendation{}, &corev1.LimitRange{}, &corev1.ResourceQuota{}} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(x.Handler())
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return func(*http.Request) error {
		for _, done := range synced {
			if !done() {
				return errors.New("the caches of recommendations, LimitRanges and quotas are not synced yet")
			}
		}
		return nil
	}, nil
}
