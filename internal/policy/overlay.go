package policy

import (
	"attune.io/attune/api/v1alpha1"
)

// layer is what one level sets. newLayer fills its nested structs, so that a field can be read without a nil check
// at every step; a field that the level does not set is nil.
type layer struct {
	level Level
	// namespace of the object that sets the layer; empty for AttuneDefaults.
	namespace string // of the object
	v1alpha1.PolicySettings
	pricing v1alpha1.CostPricing
	weight  *int32
	target  *v1alpha1.TargetRef
}

// newLayer makes a layer. It copies the nested structs before it fills them: the object may be in a shared cache
// and must not change.
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

// layersOf returns the layers that exist, the lowest first. Defaults objects with a name other than default are
// ignored.
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
		l := newLayer(LevelOf(policy), policy.Namespace, policy.Spec.PolicySettings)
		l.weight, l.target = policy.Spec.Weight, &policy.Spec.TargetRef
		layers = append(layers, l)
	}
	return layers
}

// overlay lays the layers over one another, field by field. It is used for one Resolve only.
type overlay struct {
	// layers are those above the built-in values, the lowest first.
	layers []layer
	// origin is the level that set each field that was read so far, by its path in the spec.
	origin map[string]Level
	// problems is what was found to be wrong so far, as InvalidConfig has it; found counts all.
	problems []Problem
	found    int
	// note is told the value of each field, as it is set; nil: nobody asks.
	note func(path string, value any)
}

// pick returns the value of the highest level that sets a field, else the built-in one, and notes the level. Every
// other way to read a field goes through it, so that origin is complete: the functions of fields.go, and the
// sections of a policy, each of which is a type or a function over the overlay (sourceFields, estimateFields,
// resizeFields, scheduleFields).
func pick[T any](o *overlay, path string, builtIn T, field func(layer) *T) T {
	value, level := builtIn, BuiltIn
	for _, l := range o.layers {
		if set := field(l); set != nil {
			value, level = *set, l.level
		}
	}
	o.origin[path] = level
	if o.note != nil {
		o.note(path, value)
	}
	return value
}

// orEmpty returns a copy of what p points to, or an empty value for nil.
func orEmpty[T any](p *T) *T {
	var value T
	if p != nil {
		value = *p
	}
	return &value
}

// list and dict distinguish a list or map that is not set (nil) from one that is set and empty: the empty one
// overrides lower levels.
func list[E any](l []E) *[]E {
	if l == nil {
		return nil
	}
	return &l
}

func dict[V any](m map[string]V) *map[string]V {
	if m == nil {
		return nil
	}
	return &m
}

// present returns a pointer to a field that is itself a pointer, in the form that pick expects.
func present[T any](p *T) **T {
	if p == nil {
		return nil
	}
	return &p
}

// nonEmpty treats the empty string as not set.
func nonEmpty[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}
