package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// layer has the fields that one level sets. newLayer fills its nested structs, so that reads need no nil checks; a
// field that is not set is nil.
type layer struct {
	level Level
	// namespace of the object that sets the layer; empty for AttuneDefaults.
	namespace string
	v1alpha1.PolicySettings
	pricing v1alpha1.CostPricing
	weight  *int32
	target  *v1alpha1.TargetRef
}

// newLayer returns a layer. It copies the nested structs before it fills them: the object may belong to a shared cache
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

// of returns the settings of a resource in the layer.
func (l *layer) of(r recommender.Resource) *v1alpha1.ResourceSettings {
	if r == recommender.CPU {
		return &l.CPU.ResourceSettings
	}
	return &l.Memory.ResourceSettings
}

// layersOf returns the existing layers, the lowest first. It ignores defaults objects with a name other than default.
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

// overlay merges layers field by field. One Resolve uses one overlay.
type overlay struct {
	// layers are the levels above the built-in values, the lowest first.
	layers []layer
	// origin is the level that set each field read so far, by its path in the spec.
	origin map[string]Level
	// problems are the errors found so far, limited as in InvalidConfig; found counts all of them.
	problems []Problem
	found    int
	// doubts are for Settings.Doubts.
	doubts []Problem
	// note is called with the value of each field; nil means no caller needs the values.
	note func(path string, value any)
}

// pick returns the value of the highest level that sets a field, or the built-in value, and records the level. All
// reads of fields go through pick, so that origin is complete.
func pick[T any](o *overlay, path string, builtIn T, field func(*layer) *T) T {
	value, level := builtIn, BuiltIn
	for i := len(o.layers) - 1; i >= 0; i-- {
		if set := field(&o.layers[i]); set != nil {
			value, level = *set, o.layers[i].level
			break
		}
	}
	o.origin[path] = level
	if o.note != nil {
		o.note(path, value)
	}
	return value
}

// orEmpty returns a copy of *p, or an empty value for nil.
func orEmpty[T any](p *T) *T {
	var value T
	if p != nil {
		value = *p
	}
	return &value
}

// list and dict distinguish a list or map that is not set (nil) from an empty one, which overrides lower levels.
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

// nonZero treats a zero value, such as an empty string or a nil pointer, as not set.
func nonZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// Each of these functions reads one field of one type and checks it as the CRD does: settings may come from files that
// no API server has checked. It records an invalid value and uses the built-in value instead.

// oneOf reads a field with a fixed set of values. A built-in value is not checked: it may be a value that users cannot
// choose, such as the empty ranking.
func oneOf[T ~string | ~int32](o *overlay, path string, builtIn T, allowed []T, field func(*layer) *T) T {
	value := pick(o, path, builtIn, field)
	if o.origin[path] != BuiltIn && !slices.Contains(allowed, value) {
		o.invalid(path, "%s %s is not one of %s", path, o.quote(path, value), join(allowed))
		return builtIn
	}
	return value
}

// within reads an integer between least and most, both inclusive.
func within(o *overlay, path string, builtIn, least, most int32, field func(*layer) *int32) int {
	value := pick(o, path, builtIn, field)
	if value < least || value > most {
		o.invalid(path, "%s %s must be between %d and %d, e.g. %d", path, o.quote(path, value), least, most, builtIn)
		return int(builtIn)
	}
	return int(value)
}

// span reads a duration between least and most, both inclusive.
func span(o *overlay, path string, builtIn, least, most time.Duration, field func(*layer) *v1alpha1.Duration) time.Duration {
	return o.checkSpan(path, pick(o, path, v1alpha1.Duration{Duration: metav1.Duration{Duration: builtIn}}, field).Duration.Duration, builtIn, least, most)
}

// checkSpan checks a duration that was already read.
func (o *overlay) checkSpan(path string, value, builtIn, least, most time.Duration) time.Duration {
	if value < least || value > most {
		o.invalid(path, "%s %s must be between %s and %s, e.g. %s", path, o.quote(path, short(value)), short(least), short(most), short(builtIn))
		return builtIn
	}
	return value
}

// number reads a decimal number between least and most from a string. The API has decimals as strings, because the
// Kubernetes API conventions advise against floating-point fields.
func number[S ~string](o *overlay, path string, builtIn S, least, most float64, field func(*layer) *S) float64 {
	return o.checkNumber(path, string(pick(o, path, builtIn, field)), string(builtIn), least, most)
}

// checkNumber checks a number that was already read.
func (o *overlay) checkNumber(path, text, builtIn string, least, most float64) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err == nil && value >= least && value <= most && decimal.MatchString(text) {
		return value
	}
	o.invalid(path, "%s %s must be a decimal number between %s and %s, e.g. %q", path, o.quote(path, text), plain(least), plain(most), builtIn)
	value, _ = strconv.ParseFloat(builtIn, 64)
	return value
}

func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// decimal accepts less than ParseFloat: no exponent, hexadecimal, Inf, NaN or underscore.
var decimal = regexp.MustCompile(`^-?[0-9]+([.][0-9]+)?$`)

// maxAmounts limits amounts in settings, far below integer overflow: a million cores, 1Ei.
var maxAmounts = [2]resource.Quantity{
	recommender.CPU:    resource.MustParse("1000000"),
	recommender.Memory: resource.MustParse("1Ei"),
}

// amount reads a quantity that bounds a request, in millicores or bytes; 0 if not set.
func amount(o *overlay, path string, r recommender.Resource, example string, field func(*layer) *resource.Quantity) recommender.Amount {
	value := pick(o, path, resource.Quantity{}, field)
	if o.origin[path] == BuiltIn {
		return 0
	}
	if value.Sign() <= 0 || value.Cmp(maxAmounts[r]) > 0 {
		o.invalid(path, "%s %s must be greater than 0 and at most %s, e.g. %s", path, o.quote(path, value.String()), maxAmounts[r].String(), example)
		return 0
	}
	if r == recommender.Memory {
		if why := UnlikelyBound(r, value, false); why != "" {
			o.doubts = append(o.doubts, Problem{Fields: []string{path}, Levels: []Level{o.origin[path]}, Sentence: path + " " + o.quote(path, value.String()) + " " + why})
		}
	}
	return podview.AmountOf(r, value)
}

// short formats a duration: 1h instead of 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
