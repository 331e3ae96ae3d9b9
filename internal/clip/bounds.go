package clip

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MostText is how many bytes the operator keeps of the labels of an object, of a selector, or of what says where a pod may
// run: honest ones take 1 to 3 KiB.
const MostText = 16 << 10

// LabelsLeftOut is the label of a namespace in the cache whose labels are more than 16 KiB: the selectors of cluster
// policies do not select it. Who sets it on a namespace has the same.
const LabelsLeftOut = "attune.io/labels-left-out"

// selectorLeftOut is the operator of the only requirement of a selector that was left out. Kubernetes does not
// know this operator, so the selector is invalid. GreatSelector recognises it.
const selectorLeftOut metav1.LabelSelectorOperator = "TooLarge"

// GreatSelector returns whether a selector is too large to be kept, or was left out already. nil is not.
// It recognises both because a selector may come from the cache or from the API server.
func GreatSelector(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	return len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Operator == selectorLeftOut || Size(s) > MostText
}

// LeftOut returns the selector that stands for one that was left out.
func LeftOut() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "selector", Operator: selectorLeftOut}}}
}

// Size returns about how many bytes of memory values take: texts, lists and maps, and what they point to.
// It looks at no capacity and no padding: it is an estimate, used for bounds that are far above usual objects.
func Size(values ...any) int {
	bytes := 0
	for _, value := range values {
		bytes += sizeOf(reflect.ValueOf(value))
	}
	return bytes
}

// plain are types without texts that a user could make long. sizeOf does not look into them.
var plain = map[reflect.Type]bool{reflect.TypeFor[resource.Quantity](): true, reflect.TypeFor[metav1.Time](): true}

// sizeOf returns the bytes that a value points to. Its own bytes are counted by what holds it.
func sizeOf(v reflect.Value) int {
	// A nil in an interface is not valid.
	if !v.IsValid() || plain[v.Type()] {
		return 0
	}
	bytes := 0
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	// What a pointer points to is on the heap too, so its own size counts.
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + sizeOf(v.Elem())
		}
	// The fields' own bytes are part of what holds the struct; only what they point to is added.
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += sizeOf(v.Field(i))
		}
	// The length counts, not the capacity: lists have been cut to their length before.
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

// entriesOf returns the bytes of a map's keys and values beyond their fixed sizes. Common types are handled
// without reflection, since this runs for every pod event.
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
