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
