package clip

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MostText is the size limit in bytes for the labels of an object, for a selector, and for the scheduling constraints
// of a pod. Usual ones have 1 to 3 KiB.
const MostText = 16 << 10

// LabelsLeftOut is the label that the cache gives a namespace with labels over 16 KiB: the selectors of cluster
// policies do not select it. A user who sets the label on a namespace gets the same effect.
const LabelsLeftOut = "attune.io/labels-left-out"

// selectorLeftOut is the operator in the only requirement of a dropped selector. Kubernetes does not know the operator,
// so the selector is invalid. GreatSelector recognizes it.
const selectorLeftOut metav1.LabelSelectorOperator = "TooLarge"

// GreatSelector reports whether a selector is too large or was already dropped; false for nil. It recognizes both
// because a selector may come from the API server or from the cache.
func GreatSelector(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	return len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Operator == selectorLeftOut || Size(s) > MostText
}

// LeftOut returns the placeholder of a dropped selector.
func LeftOut() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "selector", Operator: selectorLeftOut}}}
}

// Size estimates how many bytes of memory values take: strings, lists and maps, and the values that they point to. It
// ignores capacity and padding: the limits are far above usual objects.
func Size(values ...any) int {
	bytes := 0
	for _, value := range values {
		bytes += sizeOf(reflect.ValueOf(value))
	}
	return bytes
}

// plain has types without strings that a user could make long. sizeOf skips them.
var plain = map[reflect.Type]bool{reflect.TypeFor[resource.Quantity](): true, reflect.TypeFor[metav1.Time](): true}

// sizeOf returns the bytes that a value points to. The caller counts the value's own bytes.
func sizeOf(v reflect.Value) int {
	// A nil interface is not valid.
	if !v.IsValid() || plain[v.Type()] {
		return 0
	}
	bytes := 0
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	// The value that a pointer points to is on the heap too, so its own size counts.
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + sizeOf(v.Elem())
		}
	// The caller counts the struct with its fields; this adds only the bytes that the fields point to.
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += sizeOf(v.Field(i))
		}
	// Length, not capacity: lists are clipped before.
	case reflect.Slice:
		bytes = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			bytes += sizeOf(v.Index(i))
		}
	case reflect.Map:
		return v.Len()*int(v.Type().Key().Size()+v.Type().Elem().Size()) + entriesOf(v)
	}
	return bytes
}

// entriesOf returns the bytes of a map's keys and values beyond their fixed sizes. Common types avoid reflection,
// because this runs for every pod event.
func entriesOf(v reflect.Value) (bytes int) {
	switch of := v.Interface().(type) {
	case map[string]string:
		for key, value := range of {
			bytes += len(key) + len(value)
		}
	case corev1.ResourceList:
		for name := range of {
			bytes += len(name)
		}
	default:
		for entries := v.MapRange(); entries.Next(); {
			bytes += sizeOf(entries.Key()) + sizeOf(entries.Value())
		}
	}
	return bytes
}
