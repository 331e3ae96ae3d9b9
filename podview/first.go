package podview

import "slices"

// First returns the first element with a property; zero: there is none.
func First[T any](of []T, is func(T) bool) (first T) {
	if i := slices.IndexFunc(of, is); i >= 0 {
		first = of[i]
	}
	return first
}

// FirstIn returns a pointer into the list, to the first element with a property; nil: there is none.
func FirstIn[T any](of []T, is func(*T) bool) *T {
	for i := range of {
		if is(&of[i]) {
			return &of[i]
		}
	}
	return nil
}

// Pointers returns pointers to the elements of a list, not to copies.
func Pointers[T any](of []T) []*T {
	out := make([]*T, len(of))
	for i := range of {
		out[i] = &of[i]
	}
	return out
}

// SetIn sets a key of a map that may be nil.
func SetIn[K comparable, V any](into *map[K]V, key K, value V) {
	if *into == nil {
		*into = map[K]V{}
	}
	(*into)[key] = value
}

// Map returns the results of a function on each element; nil: there is no element.
func Map[T, U any](of []T, to func(T) U) (out []U) {
	out = slices.Grow(out, len(of))
	for _, element := range of {
		out = append(out, to(element))
	}
	return out
}
