package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// drawOutages draws what happens to the flow of usage. It has random numbers of its own, as further has.
func (p *plan) drawOutages(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x05a6e))
	kinds, span := slices.Sorted(maps.Keys(outages)), p.Length-p.Calm-2*time.Hour
	for range r.IntN(int(2 + p.Length.Hours()/24)) {
		p.Troubles = append(p.Troubles, trouble{
			After: time.Duration(r.Int64N(int64(span))), Kind: pick(r, kinds...), For: time.Duration(1+r.IntN(120)) * time.Minute,
			Which: r.IntN(1 << 16), Much: r.Float64(),
		})
	}
}

// outages are what happens to the flow of usage, by name.
var outages = map[string]func(w *world, t trouble){
	"an outage of the source":  troubles["silence"],
	"some pods are not told":   troubles["partial answers"],
	"little is told at a time": func(w *world, t trouble) { w.faults.meagre(t.For, 3+int64(t.Much*60)) },
	"a source that comes and goes": func(w *world, t trouble) {
		until := w.time.now.Add(t.For)
		w.time.every(3*time.Minute, func() bool {
			if w.random.IntN(2) == 0 {
				w.faults.silentUntil = w.time.now.Add(2 * time.Minute)
			}
			return w.time.now.Before(until)
		})
	},
	"a clock is hours off": func(w *world, t trouble) {
		o := w.leader
		if o == nil {
			return
		}
		o.ahead = time.Duration((t.Much - 0.5) * 2 * float64(12*time.Hour))
		w.later(time.Duration(1+t.Which%20)*time.Minute, "the clock is right", func() { o.ahead = 0 })
	},
	"a workload each minute": func(w *world, t trouble) {
		n, until := 0, w.time.now.Add(min(t.For, 40*time.Minute))
		w.time.every(time.Minute, func() bool {
			if w.time.now.After(until) {
				return false
			}
			n++
			w.preview(fmt.Sprintf("preview-%d-%d", t.Which, n))
			return true
		})
	},
}

// meagre answers about so many steps at once at most.
func (f *faults) meagre(d time.Duration, steps int64) {
	f.meagreUntil, f.mostSteps = f.w.time.now.Add(d), steps
}

// preview is a workload that is there for a quarter of an hour.
func (w *world) preview(name string) {
	of := workloadPlan{
		Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: name, Replicas: 1,
		Containers: []corev1.Container{container(amounts("20m", "32Mi"), nil)},
		Demand:     demand{shape: steady, cpu: 0.01, memory: 20 * mib},
	}
	w.demands[of.Namespace+"/"+of.Name] = of.Demand
	o := of.object()
	w.must(w.people.Create(context.Background(), o))
	w.watching.disturbed("a workload comes")
	w.later(15*time.Minute, "a workload goes", func() {
		w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), o)))
	})
}
