package sim

import (
	"cmp"
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/usage"
)

// ramp is memory that a container comes to need, at so many bytes a second, up to a top, until it needs none of it.
type ramp struct {
	from, until time.Time
	speed, top  float64
	// every: it climbs anew so often, and needs none of it once the climb has lasted so long; zero: it climbs once.
	every, lasts time.Duration
	// varied: each climb has a top of its own, from a quarter to four times as much.
	varied bool
	// own: each process climbs from its own start on.
	own bool
	// apart is how much later the last replica may climb than the first.
	apart time.Duration
	// stalls: its tasks wait for memory where little is left.
	stalls bool
}

// at is what a replica needs at a time.
func (r ramp) at(now, started time.Time, replica string) float64 {
	if r.speed == 0 {
		return 0
	}
	from, until := r.from, r.until
	if r.apart > 0 {
		later := time.Duration(noise(0, replica, 0) * float64(r.apart))
		from, until = from.Add(later), until.Add(later)
	}
	if now.Before(from) || !now.Before(until) {
		return 0
	}
	if r.own && started.After(from) {
		from = started
	}
	since, top := now.Sub(from), r.top
	if r.every > 0 {
		if r.varied {
			top *= math.Pow(4, 2*noise(uint64(r.top), "top", int64(since/r.every))-1)
		}
		since %= r.every
	}
	if r.every > 0 && since >= r.lasts {
		return 0
	}
	return min(top, r.speed*since.Seconds())
}

const (
	// rampStep is how exactly the time is foreseen at which a climb is over a limit, rampAhead how far ahead.
	rampStep, rampAhead = 5 * time.Second, 5 * time.Minute
)

// over is when a container that may climb is over its limit, or is to be looked at again; zero: it does not climb soon.
func (r ramp) over(d demand, run kubelet.Run, limit float64, now time.Time) time.Time {
	if r.speed == 0 || now.Add(rampAhead).Before(r.from) || now.After(r.until.Add(r.apart)) {
		return time.Time{}
	}
	at := now.Truncate(rampStep).Add(rampStep)
	for ; at.Sub(now) < rampAhead; at = at.Add(rampStep) {
		if !at.Before(run.StartedAt.Add(fillsIn)) && d.memoryAt(at, run.StartedAt, run.Pod.Name) > limit {
			break
		}
	}
	return at
}

const (
	// climbsEvery is how often containers near their limits are looked at, tracedFor how far back they are told of, and
	// mostTraced by how many samples.
	climbsEvery, tracedFor, mostTraced = 15 * time.Second, 20 * time.Minute, 80
)

// traces tell of the memory of containers, a sample each climbsEvery.
type traces struct{ of *operator }

func (s traces) Lately(_ context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error) {
	s.of.takes(5 * time.Millisecond)
	if err := s.of.w.faults.silent(s.of); err != nil {
		return nil, err
	}
	out := usage.Traces{}
	for _, name := range pods {
		if pod := s.of.w.pod(namespace, name); pod != nil && !s.of.w.faults.unanswered(pod) {
			out[name] = s.of.w.tracesOf(pod, at)
		}
	}
	return out, nil
}

// tracesOf a pod's containers.
func (w *world) tracesOf(pod *corev1.Pod, now time.Time) map[string]usage.Trace {
	out := map[string]usage.Trace{}
	for _, l := range w.lives.all[string(pod.UID)] {
		var samples []usage.Sample
		every := cmp.Or(w.plan.Sampled, climbsEvery)
		for at := now.Add(-min(tracedFor, mostTraced*every)).Truncate(every).Add(every); !at.After(now); at = at.Add(every) {
			if !at.Before(l.started.Add(fillsIn)) && (l.ended.IsZero() || !at.After(l.ended)) {
				samples = append(samples, usage.Sample{At: at.UnixMilli(), Value: l.memoryAt(at)})
			}
		}
		out[l.container] = usage.Trace{Samples: samples, Stalled: l.stalled(memoryLimitOf(pod, l.container), now)}
	}
	return out
}

// stalled is the part of the time for which a container waits for memory.
func (l *life) stalled(limit float64, now time.Time) float64 {
	if l.of.ramp.stalls && l.of.memoryAt(now, l.started, l.pod) > 0.93*limit {
		return 0.3
	}
	return 0
}

// wakeClimbing wakes the workloads with a container that is on its way to its memory limit, as the embedded source does.
func (o *operator) wakeClimbing() {
	w := o.w
	if o.dead || w.leader != o || w.faults.silent(o) != nil {
		return
	}
	for _, uid := range w.lives.order {
		of := w.lives.all[uid][0]
		pod := w.pod(of.namespace, of.pod)
		if pod == nil || string(pod.UID) != uid || !of.ended.IsZero() {
			continue
		}
		if !w.rises(pod, w.lives.all[uid]) {
			continue
		}
		for name, trace := range w.tracesOf(pod, w.time.now) {
			if limit := memoryLimitOf(pod, name); limit > 0 && workloadloop.Near(limit, trace.Samples, w.time.now) {
				if rec := w.watching.workloadOf("Pod", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); rec.Name != "" {
					o.look(rec)
				}
				break
			}
		}
	}
}

// rises: a container holds half of its memory limit, and more in the newest sample than in the ones before.
func (w *world) rises(pod *corev1.Pod, of []*life) bool {
	every := cmp.Or(w.plan.Sampled, climbsEvery)
	last := w.time.now.Truncate(every)
	for _, l := range of {
		limit, holds := memoryLimitOf(pod, l.container), l.memoryAt(last)
		if limit > 0 && holds*2 >= limit && holds > l.memoryAt(last.Add(-max(every, 2*rampStep))) {
			return true
		}
	}
	return false
}

// memoryLimitOf a container in bytes; 0: it has none.
func memoryLimitOf(pod *corev1.Pod, container string) float64 {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return float64(c.Resources.Limits.Memory().Value())
		}
	}
	return 0
}

// climbing are worlds in which containers climb towards their limits.
func climbing() map[string]plan {
	return map[string]plan{
		"containers climb":   spikes(),
		"a container leaks":  leak(),
		"it climbs on 1.33":  spikesOn(33),
		"it climbs in crash": crashesInSpikes(),
	}
}

// spikes: three replicas climb to half as much again as their limit, and half an hour later need little. None is killed, none
// is blamed, and all of them are given their old limits back.
func spikes() plan { return spikesOn(36) }

// unknowing is a policy that knows too little to recommend anything, so that nothing but climbs and kills changes a size.
func unknowing() policyPlan {
	p := hasty(v1alpha1.KindDeployment)
	p.Spec.MetricsSource, p.Spec.Memory.AllowDecrease = &v1alpha1.MetricsSource{MinimumDataPoints: ptr(int32(2016))}, ptr(false)
	return p
}

func spikesOn(minor int) plan {
	of := web(3)
	of.Containers = []corev1.Container{container(amounts("1", "256Mi"), amounts("1", "512Mi"))}
	of.Demand.ramp = ramp{from: beginning.Add(4 * time.Hour), until: beginning.Add(5 * time.Hour), speed: 0.2 * mib, top: 550 * mib}
	p := roomy(12*time.Hour, of)
	p.Minor, p.Climbs, p.NothingHarms = minor, true, true
	p.Policies = []policyPlan{unknowing()}
	p.Script = func(w *world) {
		w.time.after(4*time.Hour, func() { w.watching.disturbed("they climb") })
		w.time.after(4*time.Hour+55*time.Minute, func() { w.eachLimit("raised before a kill", func(limit float64) bool { return limit > 550*mib }) })
		w.time.after(5*time.Hour, func() { w.watching.disturbed("they need little again") })
		w.time.after(7*time.Hour, func() {
			w.eachLimit("given back", func(limit float64) bool { return minor < 34 || limit == 512*mib })
		})
	}
	return p
}

// eachLimit is an invariant of the memory limits of all pods at a time.
func (w *world) eachLimit(invariant string, holds func(float64) bool) {
	for _, o := range w.server.Stored(&corev1.Pod{}) {
		pod := o.(*corev1.Pod)
		if limit := memoryLimitOf(pod, "app"); !holds(limit) {
			w.violate(invariant, "pod %s has a memory limit of %.0fMi\n%s", pod.Name, limit/mib, w.describe("shop/deployment-web"))
		}
	}
}

// leak: a container climbs without an end. It is raised three times, and then it is killed and answered as ever.
func leak() plan {
	of := web(1)
	of.Containers = []corev1.Container{container(amounts("1", "256Mi"), amounts("1", "512Mi"))}
	of.Demand.ramp = ramp{from: beginning.Add(3 * time.Hour), until: beginning.Add(16 * time.Hour), speed: 0.1 * mib, top: 1 << 50}
	p := roomy(16*time.Hour, of)
	p.Climbs, p.Policies = true, []policyPlan{unknowing()}
	p.Script = func(w *world) {
		w.time.after(3*time.Hour, func() { w.watching.disturbed("it climbs") })
		w.time.after(9*time.Hour, func() {
			raises := 0
			for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
				for _, t := range o.(*v1alpha1.AttuneRecommendation).Status.Tries {
					if t.What == v1alpha1.TryClimb {
						raises += int(t.Times)
					}
				}
			}
			if raises != 3 {
				w.violate("raises are bounded", "the container was raised %d times\n%s", raises, w.describe("shop/deployment-web"))
			}
		})
	}
	return p
}

// crashesInSpikes: the same, while the operator is killed at any call now and then.
func crashesInSpikes() plan {
	p := spikesOn(36)
	p.NothingHarms, p.Down = false, 20*time.Second
	for i := range 40 {
		p.Troubles = append(p.Troubles, trouble{After: 4*time.Hour + time.Duration(i)*3*time.Minute, Kind: "kill", Which: 1 + i%7})
	}
	p.Script = func(w *world) {
		w.time.after(4*time.Hour, func() { w.watching.disturbed("they climb") })
		w.time.after(5*time.Hour, func() { w.watching.disturbed("they need little again") })
	}
	return p
}
