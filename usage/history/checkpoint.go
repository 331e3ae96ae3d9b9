package history

import (
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// MaxCheckpoint is the maximum size of one container's checkpoint, in bytes.
const MaxCheckpoint = 2048

// Checkpoint returns a container's history in a compact form of at most `most` bytes, and never more than
// MaxCheckpoint. It returns nil if there is no history, if nothing fits, or if the source keeps the past itself
// (Options.Forgets). stored is the checkpoint in the recommendation. If it was made from the same version of the
// history, it is returned unchanged, because packing a history takes milliseconds.
//
// For a key without a container it returns what Spans returns, of all containers: at most codec.MostFleet bytes for each
// container, and for whole pods.
func (s *Store) Checkpoint(key Key, most int, stored []byte) []byte {
	if key.Container == "" {
		return s.fleetCheckpoint(key, most, stored)
	}
	s.mutex.RLock()
	pool, history := s.find(key)
	if history == nil || !s.options.Forgets(pool.settings) {
		s.mutex.RUnlock()
		return nil
	}
	most = min(most, MaxCheckpoint)
	if len(stored) > 0 && history.packed == (packed{history.version, most, maphash.Bytes(seed, stored)}) {
		s.mutex.RUnlock()
		return stored
	}
	first, last, version := history.cpu.first, history.cpu.last, history.version
	copied := codec.Checkpoint{
		Step: pool.settings.QueryStep, First: first,
		CPU: history.cpu.values(first, last), Peak: history.peakValues(first, last), Memory: history.memory.values(first, last),
		Start: history.starts.within(last, pool.length),
	}
	s.mutex.RUnlock()
	// Thousands of values are packed without the lock.
	data := codec.PackCheckpoint(copied, most)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	history.packed = packed{version, most, maphash.Bytes(seed, data)}
	return data
}

// packed identifies the last checkpoint of a history: the version of the values, the size limit, and the hash of its
// bytes. The zero value matches no checkpoint.
type packed struct {
	version uint64
	most    int
	hash    uint64
}

// seed of the hashes in packed. It differs in every process, so no hash is ever stored.
var seed = maphash.MakeSeed()

// Forgets reports whether the histories of a source need checkpoints.
func (s *Store) Forgets(settings usage.SourceSettings) bool { return s.options.Forgets(settings) }

// Restore fills a container's history from a checkpoint, once in the lifetime of the history. Measured values stay, and
// only empty steps are filled. It does nothing for a container that no policy wants. An error means that the checkpoint
// is unusable: broken, of another version, or of steps that do not divide the source's step. Only the call that tries
// the checkpoint returns the error; later calls return nil. A key without a container is as in Checkpoint.
func (s *Store) Restore(key Key, packed []byte, now time.Time) error {
	if key.Container == "" {
		return s.restoreFleet(key, packed, now)
	}
	s.mutex.RLock()
	pool, history := s.find(key)
	needed := pool != nil && (history == nil || !history.restored)
	s.mutex.RUnlock()
	if !needed {
		return nil
	}
	past, err := codec.UnpackCheckpoint(packed)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pool, history = s.find(key)
	if pool == nil {
		return err
	}
	if history == nil {
		if history = pool.add(key); history == nil {
			return nil
		}
	}
	history.restored = true
	if err != nil {
		return fmt.Errorf("the checkpoint of container %s cannot be used: %w", key.Container, err)
	}
	var most usage.Most
	if s.options.Most != nil {
		most = s.options.Most()
	}
	return pool.restore(history, past, most, now)
}

// drop turns impossible values into gaps.
func drop(values []float64, most usage.Most, memory bool) {
	for i, value := range values {
		if most.DropOf(value, memory) != "" {
			values[i] = math.NaN()
		}
	}
}

// fill writes the values of a checkpoint into empty steps and returns how many steps it filled. It fills nothing if the
// share has no room. If the checkpoint has shorter steps than the series, a step gets the highest of their values.
func fill(to *series, from []float64, past codec.Checkpoint, step time.Duration) (filled int) {
	if len(from) == 0 {
		return 0
	}
	of := func(i int) int64 { return usage.StepHolding(usage.StepEnd(past.First+int64(i), past.Step), step) }
	first, last := max(to.first, of(0)), min(to.last, of(len(from)-1))
	if first > last || !to.room(first, last-first+1) {
		return 0
	}
	highest := gaps(last - first + 1)
	for i, value := range from {
		if n := of(i) - first; n >= 0 && n < int64(len(highest)) && !math.IsNaN(value) && !(highest[n] >= value) {
			highest[n] = value
		}
	}
	to.open(first)
	for i, value := range highest {
		if n := first + int64(i); !math.IsNaN(value) && math.IsNaN(to.opened(n)) && to.put(n, value) {
			filled++
		}
	}
	to.close()
	return filled
}
