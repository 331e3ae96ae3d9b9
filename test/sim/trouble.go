package sim

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// trouble is something that happens at a time.
type trouble struct {
	After time.Duration
	Kind  string
	// For is how long it lasts, Which whom it concerns.
	For   time.Duration
	Which int
	Much  float64
}

// troubles by name.
var troubles = map[string]func(w *world, t trouble){
	"storm": func(w *world, t trouble) {
		w.faults.stormUntil, w.faults.rate = w.time.now.Add(t.For), t.Much
	},
	"lag": func(w *world, t trouble) { w.faults.lagUntil = w.time.now.Add(t.For) },
	"silence": func(w *world, t trouble) {
		w.faults.silentUntil, w.faults.hangs = w.time.now.Add(t.For), t.Much > 0.7
	},
	"relist": func(w *world, t trouble) {
		if w.leader != nil {
			w.leader.cache.cut(&corev1.Pod{}, t.For)
		}
	},
	"kill": func(w *world, t trouble) {
		if w.leader != nil {
			w.leader.left = t.Which % 60
		}
	},
	"clock": func(w *world, t trouble) {
		if w.leader != nil {
			w.leader.ahead = time.Duration((t.Much - 0.5) * 2 * float64(t.For))
		}
	},
	"clock right": func(w *world, _ trouble) {
		if w.leader != nil {
			w.leader.ahead = 0
		}
	},
	"delete pod": func(w *world, t trouble) {
		if pods := w.server.Stored(&corev1.Pod{}); len(pods) > 0 {
			pod := pods[t.Which%len(pods)].DeepCopyObject().(client.Object)
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), pod)))
		}
	},
	"delete recommendation": func(w *world, t trouble) {
		if recs := w.server.Stored(&v1alpha1.AttuneRecommendation{}); len(recs) > 0 {
			rec := recs[t.Which%len(recs)].DeepCopyObject().(client.Object)
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), rec)))
		}
	},
	"scale":           func(w *world, t trouble) { w.scale(t.Which, int32(t.Much*6)) },
	"partial answers": func(w *world, t trouble) { w.faults.partialUntil = w.time.now.Add(t.For) },
	"leader change":   func(w *world, t trouble) { w.succeed(time.Duration(t.Much * float64(10*time.Second))) },
	"runtime refuses": func(w *world, t trouble) {
		n := w.cluster.Nodes()[t.Which%len(w.cluster.Nodes())]
		n.Faults.Error = "the runtime is broken"
		w.time.after(t.For, func() {
			n.Faults.Error = ""
			w.watching.disturbed("a runtime is whole again")
		})
	},
	"growth": func(w *world, t trouble) {
		for i, of := range w.plan.Workloads {
			if i == t.Which%len(w.plan.Workloads) {
				w.grow(of.Namespace+"/"+of.Name, 1+t.Much)
			}
		}
	},
}

// scale a Deployment, to nothing as well.
func (w *world) scale(which int, to int32) {
	all := w.server.Stored(&appsv1.Deployment{})
	if len(all) == 0 {
		return
	}
	d := all[which%len(all)].DeepCopyObject().(*appsv1.Deployment)
	d.Spec.Replicas = &to
	w.must(w.people.Update(context.Background(), d))
}

// drawnKindsOfTrouble are all; those that are likely in a cluster come more often.
func drawnKindsOfTrouble() []string {
	all := []string{"kill", "kill", "delete pod", "rollout", "rollout", "scale", "policy edited"}
	for _, of := range []map[string]func(*world, trouble){troubles, deeds, accidents} {
		all = append(all, slices.Sorted(maps.Keys(of))...)
	}
	return all
}

func drawnTroubles(r *rand.Rand, p plan) []trouble {
	var all []trouble
	kinds := drawnKindsOfTrouble()
	span := p.Length - p.Calm - 2*time.Hour
	for range r.IntN(int(2 + p.Length.Hours()/4)) {
		t := trouble{
			After: time.Duration(r.Int64N(int64(span))), Kind: pick(r, kinds...), For: time.Duration(10+r.IntN(3590)) * time.Second,
			Which: r.IntN(1 << 16), Much: r.Float64(),
		}
		if t.Kind == "silence" || t.Kind == "partial answers" {
			t.For = min(t.For*time.Duration(pick(r, 1, 10, 48)), span-t.After+time.Minute)
		}
		all = append(all, t)
	}
	return all
}

// act does what a trouble says.
func (w *world) act(t trouble) {
	for _, of := range []map[string]func(*world, trouble){troubles, deeds, accidents, mishaps, outages, hazards, acts()} {
		if do := of[t.Kind]; do != nil {
			do(w, t)
			return
		}
	}
	panic("no trouble " + t.Kind)
}

// disturb the world as planned.
func (p plan) disturb(w *world) {
	for _, t := range p.Troubles {
		w.time.after(t.After, func() {
			w.watching.disturbed(t.Kind)
			w.act(t)
			if _, acts := actors[t.Kind]; !acts { // what must hold holds while others act
				w.watching.lasts(t)
			}
		})
	}
}

// deployment is a copy to be changed.
func (w *world) deployment(namespace, name string) *appsv1.Deployment {
	return w.server.Peek(&appsv1.Deployment{}, key2(namespace, name)).DeepCopyObject().(*appsv1.Deployment)
}
