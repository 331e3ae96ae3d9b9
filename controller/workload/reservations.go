package workload

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/tuning"
)

// reservations are those of every workload. They may be lost: each follows from a record, and is made again with the
// next look at it. They are safe for concurrent use.
type reservations struct {
	mutex   sync.Mutex
	of      map[types.NamespacedName][]tuning.Reservation
	version int
}

func (p *reservations) read() tuning.Reservations {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return tuning.Reservations{Version: p.version, All: slices.Concat(slices.Collect(maps.Values(p.of))...)}
}

// make replaces the reservations of a workload. It does not where any of them is new and others were made since the
// tuning.Reservations was read: then the decision rests on room that may be taken.
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

// renew replaces the reservations of a workload that begins nothing new.
func (p *reservations) renew(workload types.NamespacedName, made []tuning.Reservation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.version++
	p.set(workload, made)
}

func (p *reservations) set(workload types.NamespacedName, made []tuning.Reservation) {
	if p.of == nil {
		p.of = map[types.NamespacedName][]tuning.Reservation{}
	}
	if len(made) == 0 {
		delete(p.of, workload)
	} else {
		p.of[workload] = made
	}
}
