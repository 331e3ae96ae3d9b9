package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// errUntyped: a merge patch touches what only its text can be merged with.
var errUntyped = errors.New("no typed merge")

// merge a JSON merge patch (RFC 7386) into a value of a Go type, as if it were text: what the patch does not name
// stays as it is.
func merge(v reflect.Value, patch json.RawMessage) error {
	if !isObject(patch) || reflect.PointerTo(v.Type()).Implements(marshaler) {
		if isObject(patch) && !plain[v.Type()] {
			return errUntyped
		}
		v.SetZero()
		return json.Unmarshal(patch, v.Addr().Interface())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return merge(v.Elem(), patch)
	case reflect.Struct:
		return mergeStruct(v, patch)
	case reflect.Map:
		return mergeMap(v, patch)
	}
	return errUntyped
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
func isNull(raw json.RawMessage) bool   { return string(raw) == "null" }

func mergeStruct(v reflect.Value, patch json.RawMessage) error {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(patch, &keys); err != nil {
		return err
	}
	fields := fieldsOf(v.Type())
	for key, raw := range keys {
		path, known := fields[key]
		if !known {
			continue
		}
		field := v.FieldByIndex(path)
		if isNull(raw) {
			field.SetZero()
			continue
		}
		if err := merge(field, raw); err != nil {
			return err
		}
	}
	return nil
}

func mergeMap(v reflect.Value, patch json.RawMessage) error {
	if v.Type().Key().Kind() != reflect.String {
		return errUntyped
	}
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(patch, &keys); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for key, raw := range keys {
		name := reflect.ValueOf(key).Convert(v.Type().Key())
		if isNull(raw) {
			v.SetMapIndex(name, reflect.Value{})
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if had := v.MapIndex(name); had.IsValid() {
			value.Set(had)
		}
		if err := merge(value, raw); err != nil {
			return err
		}
		v.SetMapIndex(name, value)
	}
	return nil
}

// fields are the paths to the fields of structs by their names in JSON; worlds share them.
var fields sync.Map

func fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := fields.Load(t); ok {
		return known.(map[string][]int)
	}
	all := map[string][]int{}
	nameFields(all, t, nil)
	fields.Store(t, all)
	return all
}

func nameFields(all map[string][]int, t reflect.Type, path []int) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(path), i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name == "" && f.Anonymous:
			nameFields(all, f.Type, at)
		case name != "" && name != "-":
			all[name] = at
		}
	}
}
