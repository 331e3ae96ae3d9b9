package workload

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/board"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// memory is what the loop remembers between passes, of nodes, pods and workloads. All of it may be lost,
// for example with a change of leader; the comment of each type says what happens then. Each is bounded by
// what exists in the cluster, or by time. Every field has its own mutex: no two of them are ever held
// together.
type memory struct {
	nodes        nodeMemory
	reservations reservations
	waiting      waiting
	// queue is since when the pods of each workload wait to be resized as their nodes grant (strategy Node). Only as many
	// pods as there is room for records are resized at a time, and the longest wait goes first. It may be lost: then all pods
	// have just come.
	queue board.Table[types.NamespacedName, map[types.UID]time.Time]
	podAnswers
	// lastAsked is when pods were last asked to be put back. Since when a revert is tried, and what is in the way, is stored
	// in the tries of the status; the single moments are not worth a write each. They may be lost: then a pod is asked once
	// more.
	lastAsked       fresh[types.UID, time.Time]
	seenGenerations seenGenerations
	meters          meters
	retries         retries
	conflicts       retries
	stored          stored
	steps           steps
	pace            pace
	limit           limit
	// traced is what the pods of a workload held lately, by its recommendation.
	traced fresh[types.NamespacedName, usage.Traces]
}

// podAnswers are what others answered about pods.
type podAnswers struct {
	// memoryHeld is what the containers of pods held lately. It may be lost: then a source is asked once more.
	memoryHeld fresh[types.UID, heldNow]
	rejections rejections
	// stalled is what kubelets reported of pods that do not start. It may be lost: they are asked again.
	stalled fresh[types.UID, string]
}

// meters remembers what metrics are made of.
type meters struct {
	counted counted
	fleet   fleet
}

// forget drops what is remembered of a recommendation that is gone. What is keyed by pods or nodes is
// dropped by time.
func (m *memory) forget(name types.NamespacedName) {
	m.meters.counted.drop(name)
	m.reservations.make(name, nil, tuning.Reservations{})
	m.rejections.Forget(name)
	m.waiting.wait(name, nil, 0)
	m.queue.Forget(name)
	m.retries.Forget(name)
	m.conflicts.Forget(name)
	m.stored.Forget(name)
	m.steps.note(name, nil)
	m.pace.Forget(name)
	m.meters.fleet.Forget(name)
}

// put enters a value into a map that is made with its first entry.
func put[K comparable, V any](into *map[K]V, key K, value V) {
	if *into == nil {
		*into = map[K]V{}
	}
	(*into)[key] = value
}

// fresh holds values that are of use for some time after they were noted, and then go.
type fresh[K comparable, V any] struct {
	board.Table[K, noted[V]]
	// swept is when old values were removed last, so that a note costs little.
	swept atomic.Pointer[time.Time]
}

// noted is a value and when it was noted.
type noted[V any] struct {
	value V
	at    time.Time
}

// read returns the last value of a key; false: there is none, or it is too old.
func (x *fresh[K, V]) read(key K, lasts time.Duration, now time.Time) (V, bool) {
	last, known := x.Find(key)
	return last.value, known && now.Sub(last.at).Abs() < lasts
}

// note remembers a value. Old ones are removed.
func (x *fresh[K, V]) note(key K, value V, lasts time.Duration, now time.Time) {
	x.sweep(lasts, now)
	x.Put(key, noted[V]{value, now})
}

// sweep removes old values, once in the time that they last.
func (x *fresh[K, V]) sweep(lasts time.Duration, now time.Time) {
	if swept := x.swept.Load(); swept == nil || now.Sub(*swept).Abs() >= lasts {
		x.ForgetIf(func(_ K, last noted[V]) bool { return now.Sub(last.at).Abs() >= lasts })
		x.swept.Store(&now)
	}
}

// reservations are those of every workload of this process. They may be lost: each follows from a stored
// record and is made again with the next look at it. mutex guards both fields; version changes whenever
// room may have been taken.
type reservations struct {
	mutex   sync.Mutex
	of      map[types.NamespacedName][]tuning.Reservation
	version int
}

// read returns a copy of all reservations with the version that it was read at.
func (p *reservations) read() tuning.Reservations {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return tuning.Reservations{Version: p.version, All: slices.Concat(slices.Collect(maps.Values(p.of))...)}
}

// make replaces the reservations of a workload, and reports whether it did. It refuses where one of them
// is new and others were made since read: two passes that both saw the last free room would otherwise both
// take it (optimistic locking). Reservations that only end, or stay, are always accepted.
func (p *reservations) make(workload types.NamespacedName, made []tuning.Reservation, read tuning.Reservations) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	fresh := slices.ContainsFunc(made, func(m tuning.Reservation) bool { return !slices.Contains(p.of[workload], m) })
	if fresh && p.version != read.Version {
		return false
	}
	if fresh {
		p.version++
	}
	p.set(workload, made)
	return true
}

// renew replaces the reservations of a workload that begins nothing new, without a check.
func (p *reservations) renew(workload types.NamespacedName, made []tuning.Reservation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.version++
	p.set(workload, made)
}

// set stores reservations; the caller holds the mutex.
func (p *reservations) set(workload types.NamespacedName, made []tuning.Reservation) {
	if len(made) == 0 {
		delete(p.of, workload)
	} else {
		put(&p.of, workload, made)
	}
}
