package history

import (
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// MaxCheckpoint is the most that one container's checkpoint takes, in bytes.
const MaxCheckpoint = 2048

// Checkpoint is a container's history in a compact form of at most so many bytes; nil where there is none that fits, or
// where the source keeps the past itself (Options.Forgets). Where stored was made of the same history, it is returned as it
// is: to pack one costs milliseconds.
func (s *Store) Checkpoint(key Key, most int, stored []byte) []byte {
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
	copied, version := history.copied(pool.settings.QueryStep), history.version
	s.mutex.RUnlock()
	// Thousands of values are packed without the lock.
	data := codec.PackCheckpoint(copied, most)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	history.packed = packed{version, most, maphash.Bytes(seed, data)}
	return data
}

// packed says of which version of a history, and for how much room, a checkpoint was made last, and is its hash.
type packed struct {
	version uint64
	most    int
	hash    uint64
}

var seed = maphash.MakeSeed()

// Forgets says whether the histories of a source are worth a checkpoint.
func (s *Store) Forgets(settings usage.SourceSettings) bool { return s.options.Forgets(settings) }

// Restore puts a checkpoint under a container's history, once: what has been measured stays. What is not
// wanted is left alone. An error says that the checkpoint is of no use; it is said once.
func (s *Store) Restore(key Key, packed []byte, now time.Time) error {
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
		return fmt.Errorf("the checkpoint of %s's history is of no use: %w", key.Container, err)
	}
	return pool.restore(history, past, now)
}

// fill the steps without a value, where there is room, and return how many it filled. Several short steps make a long
// one: the highest counts.
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

// copied values of the whole window.
func (h *history) copied(step time.Duration) codec.Checkpoint {
	first, last := h.cpu.first, h.cpu.last
	return codec.Checkpoint{
		Step: step, First: first, CPU: h.cpu.values(first, last), Peak: h.peakValues(first, last), Memory: h.memory.values(first, last),
	}
}
