package sim

import (
	"encoding/json"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of what is kept.
const (
	// mostBytes of an object of ours.
	mostBytes = 64 << 10
	// someEntries, and more for each object that there is, are what a process may remember. 1024 of them are the newest
	// changes of nodes, quotas and LimitRanges, which the workload loop keeps however few objects there are.
	someEntries, entriesPerObject = 1024 + 200, 40
)

// bounded: objects of ours stay small, and what a process remembers is bounded by the objects that there are.
type bounded struct {
	deaf
	*scene
	minutes int
	// objects of ours, remembers the things that a process holds, there how many objects there are.
	objects   func() []client.Object
	remembers func() []any
	there     func() int
}

func (b *bounded) tick() {
	if b.minutes++; b.minutes%60 != 0 {
		return
	}
	for _, o := range b.objects() {
		raw, err := json.Marshal(o)
		if err != nil || len(raw) > mostBytes {
			b.violate("bounded", "", "%T %s/%s has %d bytes (%v)", o, o.GetNamespace(), o.GetName(), len(raw), err)
		}
	}
	n, most := 0, someEntries+entriesPerObject*b.there()
	for _, thing := range b.remembers() {
		n += entries(reflect.ValueOf(thing), 0)
	}
	if n > most {
		b.violate("bounded", "", "the process remembers %d entries, more than %d for %d objects", n, most, b.there())
	}
}

// entries of all maps below a value, its clients and clocks left out.
func entries(v reflect.Value, depth int) (n int) {
	if depth > 6 {
		return 0
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return entries(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += entries(v.Field(i), depth+1)
		}
	case reflect.Map:
		n = v.Len()
		for _, key := range v.MapKeys() {
			n += entries(v.MapIndex(key), depth+1)
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct || kind == reflect.Pointer {
			n = v.Len()
		}
	}
	return n
}
