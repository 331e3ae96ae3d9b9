package workload

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/tuning"
)

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
