package input

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// decodeStrict decodes an object into a pointer to a struct, as strictly as the API server: an unknown field or a
// value of the wrong type is a mistake. It applies no defaults and validates only types. The decoders of the
// Kubernetes libraries name neither the field of a wrong quantity nor the fields that exist, so decodeStrict first
// checks the text against the type. On an error it does not change into. The error has all mistakes, separated by
// semicolons, in the order of their paths.
func decodeStrict(text []byte, into any) error {
	// Check first, because decoding stops at the first mistake and does not name its field.
	if problems := check("", text, reflect.TypeOf(into)); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return json.Unmarshal(text, into)
}

// unmarshaler is the interface of types that decode themselves, such as quantities. Decoding checks them.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check compares the value at a path with its type, and returns one sentence for each mistake. null is valid for every
// type. The order of the cases matters: a type that decodes itself, such as a quantity, may be a struct whose fields
// are not in the JSON. Bytes are a string in JSON, not a list.
func check(path string, text json.RawMessage, t reflect.Type) []string {
	if string(text) == "null" {
		return nil
	}
	// A pointer is an optional value of its element's type.
	if t.Kind() == reflect.Pointer {
		return check(path, text, t.Elem())
	}
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		return checkValue(path, text, t)
	case t.Kind() == reflect.Struct:
		return checkObject(path, text, func(name string) (reflect.Type, string) {
			known := fieldsOf(t)
			return known[name], unknownField(path, name, known)
		})
	case t.Kind() == reflect.Map:
		return checkObject(path, text, func(string) (reflect.Type, string) { return t.Elem(), "" })
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return checkList(path, text, t)
	}
	return checkValue(path, text, t)
}

// checkObject checks every field of an object. field returns the type of a field, or nil and the mistake.
func checkObject(path string, text json.RawMessage, field func(name string) (reflect.Type, string)) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return []string{fmt.Sprintf("%s %s must be an object: write its fields under it", orDocument(path), text)}
	}
	var problems []string
	// The order is fixed, so that the same file gives the same error.
	for _, name := range slices.Sorted(maps.Keys(object)) {
		t, problem := field(name)
		// The field is unknown, so its value is not checked.
		if t == nil {
			problems = append(problems, problem)
			continue
		}
		problems = append(problems, check(join(path, name), object[name], t)...)
	}
	return problems
}

// checkList checks every element of a list. The path of an element has its index, such as containers[0].
func checkList(path string, text json.RawMessage, t reflect.Type) []string {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return []string{fmt.Sprintf("%s %s must be a list, e.g. [%s]", path, text, text)}
	}
	var problems []string
	for i, item := range list {
		problems = append(problems, check(path+"["+strconv.Itoa(i)+"]", item, t.Elem())...)
	}
	return problems
}

// checkValue decodes a value without parts into a temporary variable.
func checkValue(path string, text json.RawMessage, t reflect.Type) []string {
	into := t
	if t == reflect.TypeFor[resource.Quantity]() {
		into = reflect.TypeFor[workload.BoundedQuantity]() // the file may be from another person
	}
	if json.Unmarshal(text, reflect.New(into).Interface()) == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s %s must be %s", orDocument(path), text, wanted(text, t))}
}

// wanted describes a valid value of the type, with an example if the type has its own format.
func wanted(text json.RawMessage, t reflect.Type) string {
	switch t {
	case reflect.TypeFor[v1alpha1.Duration]():
		return `a duration, e.g. "5m" or "168h"`
	case reflect.TypeFor[resource.Quantity]():
		return "a Kubernetes quantity, e.g. 500m or 64Mi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "a number or a percentage, e.g. 2 or 10%"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return fmt.Sprintf("a string: write %q", strings.Trim(string(text), `"`))
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "a whole number without quotes, e.g. 95"
	}
	return "of the type " + t.String()
}

// fieldsOf returns a struct's fields by their JSON names, including the fields of inlined structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		// Such a field is not part of the JSON.
		case name == "-":
		case name != "":
			fields[name] = f.Type
		case f.Anonymous:
			maps.Copy(fields, fieldsOf(f.Type))
		}
	}
	return fields
}

// unknownField returns the sentence for an unknown field, with the known ones.
func unknownField(path, name string, known map[string]reflect.Type) string {
	return fmt.Sprintf("unknown field %s: %s has the fields %s",
		join(path, name), orDocument(path), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// join appends a field name to a path, which is empty at the top.
func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// orDocument returns the path, or a name for the top of the document.
func orDocument(path string) string { return cmp.Or(path, "the document") }
