package demand

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/test/kubelet"
)

// Of is what a container of a pod needs; false: nothing at all.
type Of func(pod *corev1.Pod, container string) (Demand, bool)

var _ kubelet.Processes = Processes{}

// Processes run in containers as their demand says.
type Processes struct{ Of Of }

// foresees is how far Next looks.
const foresees = time.Hour

// Memory that the container needs and holds, in bytes: page cache fills what the limit leaves, less a MiB, and stays.
func (p Processes) Memory(run kubelet.Run, now time.Time) (needs, holds int64) {
	d, known := p.Of(run.Pod, run.Container)
	if !known {
		return 0, 0
	}
	need, cache := d.MemoryAt(now, run.StartedAt, run.Pod.Name)
	needs, holds = int64(need), int64(need+cache)
	if limit := run.Actual.Limits.Memory().Value(); limit > 0 {
		holds = min(holds, max(limit-1<<20, 0))
	}
	return needs, max(holds, needs)
}

// Healthy as far as the CPU limit leaves the probes enough.
func (p Processes) Healthy(run kubelet.Run, now time.Time) (alive, ready bool) {
	d, known := p.Of(run.Pod, run.Container)
	if !known {
		return true, true
	}
	limit := run.Actual.Limits.Cpu().AsApproximateFloat64()
	share := 1 / slowed(d.CPUAt(now, run.StartedAt, run.Pod.Name), limit)
	alive = share >= d.AliveWith
	return alive, alive && share >= d.ReadyWith && !now.Before(d.readyAt(run.StartedAt, limit))
}

// readyAt is when a start is over.
func (d Demand) readyAt(started time.Time, limit float64) time.Time {
	return started.Add(time.Duration(float64(d.ReadyAfter) * slowed(d.CPU*max(1, d.StartCPU), limit)))
}

// Ends is when the work is done.
func (p Processes) Ends(run kubelet.Run) (at time.Time, code int32) {
	d, known := p.Of(run.Pod, run.Container)
	if !known || d.Work == 0 {
		return time.Time{}, 0
	}
	limit := run.Actual.Limits.Cpu().AsApproximateFloat64()
	if noise(d.Seed, run.Pod.Name+"/end", int64(run.Restarts)) < d.Fails {
		code = 1
	}
	return run.StartedAt.Add(time.Duration(float64(d.Work) * slowed(d.CPU, limit))), code
}

// Next is the first minute, or moment of the start, at which the container needs more memory than it may have, a probe
// changes its mind, or the work is done.
func (p Processes) Next(run kubelet.Run, now time.Time) time.Time {
	d, known := p.Of(run.Pod, run.Container)
	if !known {
		return time.Time{}
	}
	next, _ := p.Ends(run)
	if !next.After(now) {
		next = time.Time{}
	}
	alive, ready := p.Healthy(run, now)
	limit := run.Actual.Limits.Memory().Value()
	differs := func(at time.Time) bool {
		if a, r := p.Healthy(run, at); a != alive || r != ready {
			return true
		}
		needs, _ := p.Memory(run, at)
		return limit > 0 && needs > limit
	}
	cpu := run.Actual.Limits.Cpu().AsApproximateFloat64()
	for _, at := range []time.Time{run.StartedAt.Add(fillsIn), run.StartedAt.Add(startsFor), d.readyAt(run.StartedAt, cpu)} {
		if at.After(now) && (next.IsZero() || at.Before(next)) && differs(at) {
			next = at
		}
	}
	end := now.Add(foresees)
	if !next.IsZero() {
		end = next
	}
	for at := now.Truncate(time.Minute).Add(time.Minute); at.Before(end); at = at.Add(time.Minute) {
		if differs(at) {
			return at
		}
	}
	return next
}
