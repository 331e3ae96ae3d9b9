package workload

import (
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/tuning"
)

// memory is what the loop remembers between passes, of nodes, pods and workloads. All of it may be lost,
// for example with a change of leader; the comment of each type says what happens then. Each is bounded by
// what exists in the cluster, or by time. Every field has its own mutex: no two of them are ever held
// together.
type memory struct {
	nodes        nodeMemory
	reservations reservations
	waiting      waiting
	queue        queue
	podAnswers
	lastAsked       lastAsked
	seenGenerations seenGenerations
	meters          meters
	retries         retries
	conflicts       retries
	stored          stored
	steps           steps
	pace            pace
	limit           limit
	traced          traced
}

// podAnswers are what others answered about pods.
type podAnswers struct {
	memoryHeld memoryHeld
	rejections rejections
	stalled    stalled
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
	m.rejections.forget(name)
	m.waiting.wait(name, nil, 0)
	m.queue.keep(name, nil)
	m.retries.over(name)
	m.conflicts.over(name)
	m.stored.forget(name)
	m.steps.note(name, nil)
	m.pace.forget(name)
	m.meters.fleet.forget(name)
}

// put enters a value into a map that is made with its first entry.
func put[K comparable, V any](into *map[K]V, key K, value V) {
	if *into == nil {
		*into = map[K]V{}
	}
	(*into)[key] = value
}
