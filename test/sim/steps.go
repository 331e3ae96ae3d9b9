package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

const (
	// stepEndsWithin is how long ten replicas take at the defaults for a step of 50 %, from the first resize to the end of
	// the last observation.
	stepEndsWithin = 75 * time.Minute
	// stepFrom and stepTo are the CPU requests before and after it, in millicores.
	stepFrom, stepTo = 500, 250
)

// stepWorlds are those in which ten replicas finish a resize step of 50 % at the defaults, by name.
func stepWorlds() map[string]plan {
	return map[string]plan{
		"ten replicas finish a step": stepOf(nil),
		"ten replicas finish a step, one is deferred": stepOf(func(w *world, pod *corev1.Pod) {
			node := w.cluster.Node(pod.Spec.NodeName)
			node.Faults.Rejects = "The node had condition: [DiskPressure]. "
			w.time.after(10*time.Minute, func() { node.Faults.Rejects = ""; w.touchNodes() })
		}),
		"ten replicas finish a step, one is replaced": stepOf(func(w *world, pod *corev1.Pod) {
			w.must(w.people.Delete(context.Background(), pod.DeepCopy()))
		}),
		"ten replicas finish a step, the operator restarts": stepOf(func(w *world, _ *corev1.Pod) { w.takeover(true, 0) }),
	}
}

// stepOf ten replicas at the defaults. Something happens as soon as the fifth pod is about to be resized.
func stepOf(happens func(*world, *corev1.Pod)) plan {
	of := web(10)
	of.Containers = []corev1.Container{container(amounts("500m", "256Mi"), nil)}
	of.Demand.cpu = 0.05
	p := roomy(7*time.Hour, of)
	p.Nodes, p.Down = 10, 20*time.Second
	p.Policies = []policyPlan{{Namespace: "shop", Name: "all"}}
	p.Policies[0].Spec.TargetRef.Kind = v1alpha1.KindDeployment
	p.Policies[0].Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr(v1alpha1.UpdateAuto)}
	p.Script = func(w *world) {
		s := &step{w: w, happens: happens}
		w.watching.invariants = append(w.watching.invariants, s)
		w.time.every(judgedEach, func() bool { s.look(); return s.ended.IsZero() })
	}
	return p
}

// step judges a resize step.
type step struct {
	deaf
	w       *world
	happens func(*world, *corev1.Pod)
	// resized is how many resizes were stored, began when the first one was, ended when the step was over.
	resized      int
	began, ended time.Time
}

func (s *step) changed(e api.Event) {
	rec, is := e.Object.(*v1alpha1.AttuneRecommendation)
	old, was := e.Old.(*v1alpha1.AttuneRecommendation)
	if !is || !was {
		return
	}
	known := map[string]bool{}
	for _, r := range old.Status.Records {
		known[string(r.PodUID)] = true
	}
	for _, r := range rec.Status.Records {
		if known[string(r.PodUID)] {
			continue
		}
		if s.resized++; s.resized == 1 {
			s.began = s.w.time.now
		}
		if !s.ended.IsZero() && s.w.time.now.Sub(s.ended) < time.Hour-judgedEach {
			s.w.violate("steps end", "the next step begins %s after the end of the last one, in its cooldown", s.w.time.now.Sub(s.ended))
		}
		if s.resized == 5 && s.happens != nil {
			pod := s.w.pod(rec.Namespace, r.PodName)
			s.w.time.after(0, func() { s.w.watching.disturbed("in a step"); s.happens(s.w, pod) })
		}
	}
	if most := 1; len(rec.Status.Records) > most {
		s.w.violate("steps end", "%d pods are resized or observed at once, at most %d of ten may be", len(rec.Status.Records), most)
	}
}

func (s *step) look() {
	rec, found := s.w.server.Peek(&v1alpha1.AttuneRecommendation{}, webKey).(*v1alpha1.AttuneRecommendation)
	if !found || s.began.IsZero() {
		return
	}
	lowered, pods := 0, s.w.podsOf(webKey)
	for _, pod := range pods {
		if running(pod, "app", 0) == stepTo {
			lowered++
		}
	}
	switch took := s.w.time.now.Sub(s.began); {
	case len(pods) == 10 && lowered == len(pods) && len(rec.Status.Records) == 0:
		s.ended = s.w.time.now
		s.w.stepTook = took
	case took > stepEndsWithin:
		s.ended = s.w.time.now
		s.w.violate("steps end", "after %s %d of %d pods have %dm\n%s", took, lowered, len(pods), stepTo, s.w.describe(webKey.String()))
	}
}

// end: the step ended.
func (s *step) end() {
	if s.ended.IsZero() {
		s.w.violate("steps end", "the step did not end\n%s", s.w.describe(webKey.String()))
	}
}
