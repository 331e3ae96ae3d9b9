package api

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// wire is an object as it arrives at the server: times in whole seconds, amounts in their canonical form, no empty
// lists. It is what a round trip through JSON makes of it, without the text.
func wire(o client.Object) client.Object {
	arrived := copied(o)
	arrived.SetManagedFields(nil)
	v := reflect.ValueOf(arrived).Elem()
	if tidy := tidierOf(v.Type()); tidy != nil {
		tidy(v)
	}
	return arrived
}

// tidier does in place to a value what a round trip does; nil: nothing.
type tidier func(v reflect.Value)

// tidiers are those of the types that were met; worlds share them.
var tidiers sync.Map

func tidierOf(t reflect.Type) tidier {
	if known, ok := tidiers.Load(t); ok {
		return known.(tidier)
	}
	made := newTidier(t)
	tidiers.Store(t, made)
	return made
}

// plain are types with their own text that a round trip leaves as they are.
var plain = map[reflect.Type]bool{
	reflect.TypeFor[intstr.IntOrString](): true, reflect.TypeFor[metav1.Duration](): true, reflect.TypeFor[v1alpha1.Duration](): true,
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	timePointer   = reflect.TypeFor[*metav1.Time]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func newTidier(t reflect.Type) tidier {
	switch {
	case plain[t]:
		return nil
	case t == reflect.TypeFor[resource.Quantity]():
		return func(v reflect.Value) { tidyQuantity(v.Addr().Interface().(*resource.Quantity)) }
	case t == reflect.TypeFor[corev1.ResourceList]():
		return func(v reflect.Value) { tidyAmounts(v.Interface().(corev1.ResourceList)) }
	case t == reflect.TypeFor[metav1.Time]():
		return func(v reflect.Value) { tidyTime(v.Addr().Interface().(*metav1.Time)) }
	case t.Kind() != reflect.Pointer && (reflect.PointerTo(t).Implements(marshaler) || reflect.PointerTo(t).Implements(textMarshaler)):
		return roundTrip
	}
	switch t.Kind() {
	case reflect.Struct:
		return structTidier(t)
	case reflect.Pointer:
		return pointerTidier(tidierOf(t.Elem()))
	case reflect.Slice:
		return sliceTidier(tidierOf(t.Elem()))
	case reflect.Map:
		return mapTidier(t, tidierOf(t.Elem()))
	case reflect.Interface, reflect.Array:
		return roundTrip
	}
	return nil
}

func tidyQuantity(q *resource.Quantity) { *q = resource.MustParse(q.String()) }

func tidyAmounts(list corev1.ResourceList) {
	for name, q := range list {
		tidyQuantity(&q)
		list[name] = q
	}
}

func tidyTime(t *metav1.Time) {
	if t.IsZero() {
		*t = metav1.Time{}
		return
	}
	t.Time = time.Unix(t.Unix(), 0)
}

// roundTrip is for what has its own text.
func roundTrip(v reflect.Value) {
	raw, err := json.Marshal(v.Addr().Interface())
	if err != nil {
		panic(err)
	}
	v.SetZero()
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		panic(err)
	}
}

func pointerTidier(of tidier) tidier {
	if of == nil {
		return nil
	}
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		if of(v.Elem()); v.Type() == timePointer && v.Elem().IsZero() {
			v.SetZero() // its text is null
		}
	}
}

func sliceTidier(of tidier) tidier {
	if of == nil {
		return nil
	}
	return func(v reflect.Value) {
		for i := range v.Len() {
			of(v.Index(i))
		}
	}
}

func mapTidier(t reflect.Type, of tidier) tidier {
	if of == nil {
		return nil
	}
	return func(v reflect.Value) {
		for it := v.MapRange(); it.Next(); {
			value := reflect.New(t.Elem()).Elem()
			value.Set(it.Value())
			of(value)
			v.SetMapIndex(it.Key(), value)
		}
	}
}

// fieldTidier is a field of which something may be left out.
type fieldTidier struct {
	index int
	// hidden: it has no text at all; omitted: it has none where it is empty.
	hidden, omitted bool
	of              tidier
}

func structTidier(t reflect.Type) tidier {
	var fields []fieldTidier
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		_, options, _ := strings.Cut(tag, ",")
		kind := f.Type.Kind()
		tidy := fieldTidier{
			index: i, hidden: tag == "-",
			omitted: (kind == reflect.Slice || kind == reflect.Map) && strings.Contains(options, "omitempty"),
			of:      tidierOf(f.Type),
		}
		if tidy.hidden || tidy.omitted || tidy.of != nil {
			fields = append(fields, tidy)
		}
	}
	if fields == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			switch field := v.Field(f.index); {
			case f.hidden || f.omitted && field.Len() == 0:
				field.SetZero()
			case f.of != nil:
				f.of(field)
			}
		}
	}
}
