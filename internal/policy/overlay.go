package policy

import (
	"attune.io/attune/api/v1alpha1"
)

// layer is what one level sets. Its nested structs are never nil, so a field can be read without
// asking at every step on the way; a field that the level leaves out is nil.
type layer struct {
	level     Level
	namespace string // of the object
	v1alpha1.PolicySettings
	pricing v1alpha1.CostPricing
	weight  *int32
	target  *v1alpha1.TargetRef
}

// newLayer copies the structs on the way to the fields: the object stays as it is.
func newLayer(level Level, namespace string, settings v1alpha1.PolicySettings) layer {
	settings.MetricsSource = orEmpty(settings.MetricsSource)
	settings.MetricsSource.Prometheus = orEmpty(settings.MetricsSource.Prometheus)
	settings.CPU = orEmpty(settings.CPU)
	settings.Memory = orEmpty(settings.Memory)
	settings.UpdateStrategy = orEmpty(settings.UpdateStrategy)
	settings.UpdateStrategy.Canary = orEmpty(settings.UpdateStrategy.Canary)
	settings.UpdateStrategy.Schedule = orEmpty(settings.UpdateStrategy.Schedule)
	settings.Node = orEmpty(settings.Node)
	settings.Adaptive = orEmpty(settings.Adaptive)
	return layer{level: level, namespace: namespace, PolicySettings: settings}
}

// layersOf are the levels that exist, lowest first. Only the objects named default count.
func layersOf(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy) []layer {
	var layers []layer
	if cluster != nil && cluster.Name == v1alpha1.DefaultsName {
		l := newLayer(Cluster, cluster.Namespace, cluster.Spec.PolicySettings)
		l.pricing = *orEmpty(cluster.Spec.CostPricing)
		layers = append(layers, l)
	}
	if namespace != nil && namespace.Name == v1alpha1.DefaultsName {
		l := newLayer(Namespace, namespace.Namespace, namespace.Spec.PolicySettings)
		l.pricing = *orEmpty(namespace.Spec.CostPricing)
		layers = append(layers, l)
	}
	if policy != nil {
		l := newLayer(Policy, policy.Namespace, policy.Spec.PolicySettings)
		l.weight, l.target = policy.Spec.Weight, &policy.Spec.TargetRef
		layers = append(layers, l)
	}
	return layers
}

// overlay lays the levels over one another, field by field. It remembers which level set each field,
// and what is wrong with them.
type overlay struct {
	layers   []layer
	origin   map[string]Level
	problems []Problem
}

// pick is the value of the highest level that sets a field, else the built-in one. Every other way to
// read a field goes through it: the functions of fields.go, and the sections of a policy, each of which
// is a type or a function over the overlay (sourceFields, estimateFields, resizeFields, scheduleFields …).
func pick[T any](o *overlay, path string, builtIn T, field func(layer) *T) T {
	value, level := builtIn, BuiltIn
	for _, l := range o.layers {
		if set := field(l); set != nil {
			value, level = *set, l.level
		}
	}
	o.origin[path] = level
	return value
}

// orEmpty copies what p points to; nil becomes an empty value.
func orEmpty[T any](p *T) *T {
	var value T
	if p != nil {
		value = *p
	}
	return &value
}

// list and dict tell a list or map that is left out (nil) from one that is set, which may be empty.
func list[E any](l []E) *[]E {
	if l == nil {
		return nil
	}
	return &l
}

func dict(m map[string]string) *map[string]string {
	if m == nil {
		return nil
	}
	return &m
}

// present is a field that is itself a pointer.
func present[T any](p *T) **T {
	if p == nil {
		return nil
	}
	return &p
}

func nonEmpty[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}
