package board

import (
	"maps"
	"sync"
)

// Table is a map with a mutex, safe for concurrent use. The zero value is empty. Values are copied: do not change a
// pointed-to value, a map or a slice after Put.
type Table[K comparable, V any] struct {
	mutex sync.Mutex
	of    map[K]V
}

// Of returns the value of a key, or the zero value if the key is not set.
func (t *Table[K, V]) Of(key K) V {
	value, _ := t.Find(key)
	return value
}

// Find returns the value of a key, and whether the key is set.
func (t *Table[K, V]) Find(key K) (V, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	value, known := t.of[key]
	return value, known
}

// Put stores a value and replaces an earlier one.
func (t *Table[K, V]) Put(key K, value V) {
	t.Change(key, func(V) V { return value })
}

// Change sets a key to the result of change, called with the current value or the zero value. change must not use the
// table.
func (t *Table[K, V]) Change(key K, change func(V) V) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.of == nil {
		t.of = map[K]V{}
	}
	t.of[key] = change(t.of[key])
}

// Forget removes a key.
func (t *Table[K, V]) Forget(key K) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.of, key)
}

// ForgetIf removes the entries for which old returns true.
func (t *Table[K, V]) ForgetIf(old func(K, V) bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	maps.DeleteFunc(t.of, old)
}

// Any reports whether is returns true for at least one entry. is must not use the table.
func (t *Table[K, V]) Any(is func(K, V) bool) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for key, value := range t.of {
		if is(key, value) {
			return true
		}
	}
	return false
}

// All returns a copy of the map.
func (t *Table[K, V]) All() map[K]V {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return maps.Clone(t.of)
}
