package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/test/kubelet"
)

// processes run in the containers as the demand of their workload says. What happens to them is foreseen, so that
// nothing is looked at while nothing happens.
type processes struct{ w *world }

var _ kubelet.Processes = processes{}

const (
	// fillsIn is how long a process takes to fill its memory, foresees how far Next looks.
	fillsIn, foresees = 10 * time.Second, time.Hour
	// roomForCode is what page cache leaves below a memory limit.
	roomForCode = 1 << 20
	// gaveUpAfter is how long a process tries to come up.
	gaveUpAfter = 5 * time.Second
)

// startedWith is the CPU request, in cores, that a container had when it was started last.
func (w *world) startedWith(run kubelet.Run) float64 {
	return w.startOf(run).cpu
}

// startOf a container that runs, the last one.
func (w *world) startOf(run kubelet.Run) start {
	key := string(run.Pod.UID) + "/" + run.Container
	if s := w.starts[key]; s.at.Equal(run.StartedAt) {
		return s
	}
	w.starts[key] = start{run.StartedAt, run.Actual.Requests.Cpu().AsApproximateFloat64(), float64(run.Actual.Limits.Memory().Value())}
	return w.starts[key]
}

// start of a container, and the CPU request, in cores, and the memory limit, in bytes, that it had then.
type start struct {
	at         time.Time
	cpu, limit float64
}

// Memory that a container needs and holds.
func (p processes) Memory(run kubelet.Run, now time.Time) (needs, holds int64) {
	d, known := p.w.demandOf(run.Pod)
	if !known || now.Sub(run.StartedAt) < fillsIn {
		return 0, 0
	}
	need := d.memoryAt(now, run.StartedAt, run.Pod.Name) + p.w.heap(d, run)
	needs, holds = int64(need), int64(need+d.cache+d.elastic.most(run))
	if limit := run.Actual.Limits.Memory().Value(); limit > 0 {
		holds = min(holds, max(limit-roomForCode, 0))
	}
	return needs, max(holds, needs)
}

// Healthy unless the image is broken, once it came up.
func (p processes) Healthy(run kubelet.Run, now time.Time) (alive, ready bool) {
	if d, known := p.w.demandOf(run.Pod); known && d.startCPU > 0 && now.Sub(run.StartedAt) <= gaveUpAfter {
		return true, false
	}
	for _, c := range run.Pod.Spec.Containers {
		if c.Name == run.Container && c.Image == brokenImage {
			return true, false
		}
	}
	return true, true
}

// Ends once the work of a Job's pod is done, where it fails now and then, or soon if it does not come up.
func (p processes) Ends(run kubelet.Run) (at time.Time, code int32) {
	d, known := p.w.demandOf(run.Pod)
	if known && d.startCPU > 0 && p.w.startedWith(run) < d.startCPU {
		return run.StartedAt.Add(gaveUpAfter), 1
	}
	if !known || d.work == 0 || run.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return time.Time{}, 0
	}
	if noise(d.seed, run.Pod.Name+"/end", int64(run.Restarts)) < 0.05 {
		code = 1
	}
	return run.StartedAt.Add(d.work), code
}

// Next is when the container is done, or needs more memory than it may have.
func (p processes) Next(run kubelet.Run, now time.Time) time.Time {
	d, known := p.w.demandOf(run.Pod)
	if !known {
		return time.Time{}
	}
	next, _ := p.Ends(run)
	if !next.After(now) {
		next = time.Time{}
	}
	if up := run.StartedAt.Add(gaveUpAfter + time.Second); d.startCPU > 0 && up.After(now) {
		next = earliest(next, up)
	}
	limit := float64(run.Actual.Limits.Memory().Value())
	if limit == 0 {
		return next
	}
	if at := d.ramp.over(d, run, limit, now); !at.IsZero() {
		return earliest(next, at)
	}
	full, heap := run.StartedAt.Add(fillsIn), p.w.heap(d, run)
	for at := now.Truncate(time.Minute).Add(time.Minute); at.Sub(now) < foresees; at = at.Add(time.Minute) {
		if full.After(now) && full.Before(at) && heap+d.memoryAt(full, run.StartedAt, run.Pod.Name) > limit {
			return earliest(next, full)
		}
		if at.After(full) && heap+d.memoryAt(at, run.StartedAt, run.Pod.Name) > limit {
			return earliest(next, at)
		}
	}
	return next
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
