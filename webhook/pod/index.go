package pod

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/workload"
)

// Known answers what admission needs to know, from memory.
type Known interface {
	// Recommendation of a workload, or nil.
	Recommendation(of workload.Identity) *Recommendation
	// Namespace is what binds the pods of a namespace; never nil.
	Namespace(name string) *Namespace
}

// Index is what is known of every workload and namespace, kept by informers' events. Reading it copies
// nothing: what it hands out is never changed, only replaced.
type Index struct {
	mu              sync.RWMutex
	recommendations map[types.NamespacedName]*Recommendation
	namespaces      map[string]*Namespace
	ranges          map[string][]*corev1.LimitRange
	quotas          map[string][]*corev1.ResourceQuota
}

// NewIndex is empty.
func NewIndex() *Index {
	return &Index{
		recommendations: map[types.NamespacedName]*Recommendation{},
		namespaces:      map[string]*Namespace{},
		ranges:          map[string][]*corev1.LimitRange{},
		quotas:          map[string][]*corev1.ResourceQuota{},
	}
}

// Recommendation of a workload, or nil.
func (x *Index) Recommendation(of workload.Identity) *Recommendation {
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.RecommendationName()}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if r := x.recommendations[key]; r != nil && r.Of == of {
		return r
	}
	return nil
}

var unbound Namespace

// Namespace is what binds the pods of a namespace.
func (x *Index) Namespace(name string) *Namespace {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if ns := x.namespaces[name]; ns != nil {
		return ns
	}
	return &unbound
}

// Set takes in a recommendation, a limit range or a quota. It panics on anything else.
func (x *Index) Set(object any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := object.(type) {
	case *v1alpha1.AttuneRecommendation:
		x.recommendations[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = Read(o)
	case *corev1.LimitRange:
		x.ranges[o.Namespace] = with(x.ranges[o.Namespace], o)
		x.bind(o.Namespace)
	case *corev1.ResourceQuota:
		x.quotas[o.Namespace] = with(x.quotas[o.Namespace], o)
		x.bind(o.Namespace)
	default:
		panic("no such object is indexed")
	}
}

// Delete forgets an object. It panics on what Set does not take.
func (x *Index) Delete(object any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := object.(type) {
	case *v1alpha1.AttuneRecommendation:
		delete(x.recommendations, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case *corev1.LimitRange:
		x.ranges[o.Namespace] = without(x.ranges[o.Namespace], o)
		x.bind(o.Namespace)
	case *corev1.ResourceQuota:
		x.quotas[o.Namespace] = without(x.quotas[o.Namespace], o)
		x.bind(o.Namespace)
	default:
		panic("no such object is indexed")
	}
}

// bind works out anew what binds a namespace.
func (x *Index) bind(name string) {
	ranges, quotas := x.ranges[name], x.quotas[name]
	if len(ranges) == 0 && len(quotas) == 0 {
		delete(x.ranges, name)
		delete(x.quotas, name)
		delete(x.namespaces, name)
		return
	}
	ns := &Namespace{Bounds: constraint.BoundsOf(ranges)}
	for _, q := range quotas {
		ns.Quotas = append(ns.Quotas, constraint.QuotaLeftOf(q))
	}
	x.namespaces[name] = ns
}

type named interface{ GetName() string }

func with[T named](list []T, object T) []T {
	return append(without(list, object), object)
}

func without[T named](list []T, object T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o.GetName() == object.GetName() })
}

// Handler is for an informer of one of the three kinds.
func (x *Index) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    x.Set,
		UpdateFunc: func(_, object any) { x.Set(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			x.Delete(object)
		},
	}
}
