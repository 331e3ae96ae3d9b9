package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/test/sim/api"
)

// retargetWorld has a workload below an HPA with a number of replicas and a target, which follows its requests.
func retargetWorld(length time.Duration, of workloadPlan, least, target int32, script func(*world)) plan {
	p := keptWorld(length, of, least, target, script)
	p.Kept, p.Retarget, p.AsProven = false, true, true
	p.Policies[0].Spec.CPU.HPA = ptr(v1alpha1.HPARetarget)
	return p
}

// retargetWorlds are those of an HPA whose target follows the requests of its workload, by name. A day of history proves a
// range, and the first wave comes after it.
func retargetWorlds() map[string]plan {
	daily := web(4)
	daily.Demand.shape = diurnal
	busy := web(4)
	busy.Demand.cpu = 1.6
	delete(busy.Containers[0].Resources.Limits, corev1.ResourceCPU)
	raised := func(script func(*world)) plan {
		p := retargetWorld(40*time.Hour, busy, 3, 60, script)
		p.Objects[0].(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas = 4
		return p
	}
	return map[string]plan{
		"an HPA with Retarget": retargetWorld(36*time.Hour, daily, 4, 50, func(w *world) {
			w.time.after(32*time.Hour, func() {
				w.judgeTarget(func(live, user int32) bool { return live > user })
				deeds["undone"](w, trouble{})
			})
			w.judgeRestored()
		}),
		"an HPA with Retarget of raised requests": raised(func(w *world) {
			w.time.after(34*time.Hour, func() {
				w.judgeTarget(func(live, user int32) bool { return live < user })
				deeds["undone"](w, trouble{})
			})
			w.judgeRestored()
		}),
		"an HPA with Retarget gets a short window": retargetWorld(40*time.Hour, daily, 4, 50, func(w *world) {
			w.time.after(32*time.Hour, func() {
				w.watching.disturbed("an HPA gets a short window")
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
					h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr(int32(30))}}
				})
			})
			w.time.after(33*time.Hour, func() { leaveByRollout(w) })
			w.judgeRestored()
		}),
		"an HPA with Retarget loses its note": retargetWorld(36*time.Hour, daily, 4, 50, func(w *world) {
			w.time.after(32*time.Hour, func() {
				w.judgeTarget(func(live, user int32) bool { return live > user })
				w.watching.disturbed("a note is lost")
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
					delete(h.Annotations, autoscale.OriginalTargetAnnotation)
				})
			})
		}),
		"an HPA with Retarget and a rollout that is stuck": retargetWorld(40*time.Hour, daily, 4, 50, func(w *world) {
			w.time.after(32*time.Hour, func() {
				w.watching.disturbed("a rollout is stuck")
				w.editOne(0, func(p *corev1.PodTemplateSpec) {
					p.Spec.Containers[0].Image = brokenImage
					multiply(p, 2)
				})
			})
		}),
		"an HPA with Retarget that cannot be changed": retargetWorld(36*time.Hour, daily, 4, 50, func(w *world) {
			w.time.after(12*time.Hour, func() { w.targetsMiss = misses["a webhook rejects"] })
		}),
	}
}

// leaveByRollout: the policy is deleted, and all pods are replaced by ones with the requests of the template.
func leaveByRollout(w *world) {
	for _, o := range w.server.Stored(&v1alpha1.AttunePolicy{}) {
		w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), o.DeepCopyObject().(client.Object))))
	}
	w.later(10*time.Minute, "a rollout", func() { deeds["rollout"](w, trouble{}) })
}

// judgeTarget of HPA web.
func (w *world) judgeTarget(right func(live, user int32) bool) {
	if len(w.plan.Policies) == 0 {
		return
	}
	h := w.autoscalerOf(w.plan.Workloads[0])
	if t := w.follows.of(h); !right(t.live, t.user) {
		w.violate("targets follow", "HPA %s has the target %d %%, its user wrote %d %%, and the pods request %v\n%s", h.Name, t.live, t.user, w.cpuRequests(), w.describe(webKey.String()))
	}
}

// judgeRestored: at the end nothing is left of what attune did.
func (w *world) judgeRestored() {
	w.time.at(beginning.Add(w.plan.Length-time.Minute), func() {
		w.judgeRequests(func(r int64) bool { return r == 1000 })
		w.judgeTarget(func(live, user int32) bool { return live == user })
	})
}

// missed is what becomes of a write of an HPA by the operator; nil: what becomes of any other.
func (w *world) missed(c api.Call, sent bool) error {
	if c.Kind != "HorizontalPodAutoscaler" || !c.Write {
		return nil
	}
	if w.noTargets && !sent {
		return apierrors.NewForbidden(schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, c.Key.Name, errors.New("no right"))
	}
	if w.targetsMiss != nil {
		return w.targetsMiss(c, sent)
	}
	return nil
}

// misses are what may become of writes of HPAs, by name.
var misses = map[string]func(c api.Call, sent bool) error{
	"a webhook rejects": refused(func(c api.Call) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: c.Kind}, c.Key.Name, errors.New("admission webhook denied the request"))
	}),
	"conflicts": refused(func(c api.Call) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: c.Kind}, c.Key.Name, errors.New("the object has been modified"))
	}),
	"invalid": refused(func(c api.Call) error {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{Resource: c.Kind}, c.Key.Name, "invalid", 0, false)
	}),
	"errors": refused(func(api.Call) error { return apierrors.NewInternalError(errors.New("etcdserver: request timed out")) }),
	"answers are lost": func(c api.Call, sent bool) error {
		if sent {
			return fmt.Errorf("%s %s: %w", c.Verb, c.Kind, api.ErrLost)
		}
		return nil
	},
}

func refused(answer func(api.Call) error) func(api.Call, bool) error {
	return func(c api.Call, sent bool) error {
		if sent {
			return nil
		}
		return answer(c)
	}
}

// attacksOnTargets are troubles of the worlds of TestRetargetUnderAttack.
var attacksOnTargets = slices.Concat(attacksOnKeep, []string{"undone", "policy deleted", "broken rollout", "delete recommendation", "rollout", "delete pod", "leader change"})

// attackedTarget is a world of a workload below an HPA, with Retarget. For three days its operator, its pods and its HPA are
// attacked, at the end attune leaves it.
func attackedTarget(seed uint64, edits bool) plan {
	r := rand.New(rand.NewPCG(seed, 0x7a46e7))
	of := web(pick(r, int32(2), 3, 4, 6))
	of.Demand.shape, of.Demand.seed = pick(r, steady, diurnal, diurnal, idle), r.Uint64()
	of.Demand.cpu *= pick(r, 1.0, 2, 5)
	if r.IntN(2) == 0 {
		delete(of.Containers[0].Resources.Limits, corev1.ResourceCPU)
	}
	target, least := int32(40+r.IntN(45)), pick(r, 1, of.Replicas, of.Replicas)
	busy := r.IntN(4) == 0 // it has all its replicas, and still needs more
	if busy {
		delete(of.Containers[0].Resources.Limits, corev1.ResourceCPU)
		of.Demand.shape, of.Demand.cpu = steady, 1.3+r.Float64()
	}
	p := retargetWorld(72*time.Hour, of, least, target, nil)
	h := p.Objects[0].(*autoscalingv2.HorizontalPodAutoscaler)
	if busy {
		h.Spec.MinReplicas, h.Spec.MaxReplicas = ptr(of.Replicas-1), of.Replicas
	}
	if seconds := pick(r, 0, 0, 60, 120, 600); seconds > 0 {
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr(int32(seconds))}}
	}
	p.Policies[0].Spec.UpdateStrategy.MaxConcurrentResizes = ptr(intstr.FromString(pick(r, "25%", "50%", "100%")))
	p.MostLag, p.Calm = time.Minute, 5*time.Hour
	p.Loses = pick(r, 0, 0, 0.002)
	late := func() time.Duration { return 2*time.Hour + time.Duration(r.Int64N(int64(p.Length-p.Calm-2*time.Hour))) }
	for range 25 {
		p.Troubles = append(p.Troubles, trouble{After: late(), Kind: pick(r, attacksOnTargets...), For: time.Duration(10+r.IntN(3590)) * time.Second, Which: r.IntN(1 << 16), Much: r.Float64()})
	}
	shares, attacks, leaves := p.Script, attacksOnTarget(r, edits), leave(r)
	p.Script = func(w *world) {
		shares(w)
		for _, attack := range attacks {
			w.later(24*time.Hour+late()*40/67, "an HPA is attacked", func() { attack(w) })
		}
		if edits { // without attune there is no wave
			w.inWave(func() { attacks[0](w) })
		}
		w.later(p.Length-4*time.Hour, "attune leaves", func() { leaves(w) })
	}
	return p
}

// drawRetarget is drawKept with the setting Retarget, in other seeds.
func (p *plan) drawRetarget(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x7e7a46))
	of := p.Workloads[r.IntN(len(p.Workloads))]
	kept := slices.ContainsFunc(p.Policies, func(p policyPlan) bool { return p.Spec.CPU != nil && p.Spec.CPU.HPA != nil })
	if r.IntN(keeping) != 0 || kept || p.Length < 36*time.Hour || of.Kind != v1alpha1.KindDeployment && of.Kind != v1alpha1.KindStatefulSet {
		return
	}
	p.Retarget = true
	p.Objects = slices.DeleteFunc(p.Objects, func(o client.Object) bool { return o.GetName() == of.Name && isScaler(o) })
	p.Objects = append(p.Objects, autoscaler(of, int32(40+r.IntN(45))))
	for i := range p.Policies {
		if spec := &p.Policies[i].Spec; spec.TargetRef.Kind == of.Kind {
			spec.CPU.HPA, spec.Strategy = ptr(v1alpha1.HPARetarget), ptr(v1alpha1.StrategyWorkload)
			spec.MetricsSource = &v1alpha1.MetricsSource{HistoryWindow: duration(24 * time.Hour)}
		}
	}
}

// leave ends what attune does with the workload, and gives the pods their original requests.
func leave(r *rand.Rand) func(*world) {
	rollout := func(w *world) { deeds["rollout"](w, trouble{Which: 0}) }
	policies := func(w *world, change func(*v1alpha1.AttunePolicy)) {
		for _, o := range w.server.Stored(&v1alpha1.AttunePolicy{}) {
			p := o.DeepCopyObject().(*v1alpha1.AttunePolicy)
			change(p)
			w.must(client.IgnoreNotFound(w.people.Update(context.Background(), p)))
		}
	}
	ways := []func(*world){
		func(w *world) { deeds["undone"](w, trouble{}) },
		leaveByRollout,
		func(w *world) {
			policies(w, func(p *v1alpha1.AttunePolicy) { p.Spec.CPU.HPA = ptr(v1alpha1.HPABlock) })
			w.later(10*time.Minute, "a rollout", func() { rollout(w) })
		},
		func(w *world) {
			policies(w, func(p *v1alpha1.AttunePolicy) { p.Spec.UpdateStrategy.Type = ptr(v1alpha1.UpdateRecommend) })
			w.later(10*time.Minute, "a rollout", func() { rollout(w) })
		},
		func(w *world) {
			w.annotate(trouble{}, v1alpha1.SkipAnnotation, "true")
			w.later(10*time.Minute, "a rollout", func() { rollout(w) })
		},
	}
	return ways[r.IntN(len(ways))]
}

// attacksOnTarget change an HPA, or what the API server answers to changes of it. With edits, users and other writers change
// the target too.
func attacksOnTarget(r *rand.Rand, edits bool) (all []func(*world)) {
	for range 12 {
		lasts, percent, more, which := time.Duration(1+r.IntN(300))*time.Minute, int32(20+r.IntN(75)), int32(r.IntN(3)), r.IntN(1<<16)
		own := []func(w *world, h *autoscalingv2.HorizontalPodAutoscaler){
			attackDeleted(lasts),
			attackDeleted(0),
			func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) { // fixed for a while
				most := h.Spec.MaxReplicas
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = *h.Spec.MinReplicas })
				w.later(lasts, "an HPA scales again", func() {
					w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = max(most, *h.Spec.MinReplicas+1) })
				})
			},
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) { // other bounds
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas += more })
			},
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) { // only the note is lost
				w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
					delete(h.Annotations, autoscale.OriginalTargetAnnotation)
				})
			},
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) {
				names := slices.Sorted(maps.Keys(misses))
				w.targetsMiss = misses[names[which%len(names)]]
				w.watching.lasts(trouble{For: lasts})
				w.later(lasts, "HPAs can be written again", func() { w.targetsMiss = nil })
			},
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) { // the right is withdrawn, and given back
				w.noTargets = true
				w.watching.lasts(trouble{For: lasts})
				w.restart()
				w.later(lasts, "HPAs may be written again", func() { w.noTargets = false; w.restart() })
			},
		}
		others := []func(w *world, h *autoscalingv2.HorizontalPodAutoscaler){
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) { w.setTarget(percent) },
			func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) { w.setTarget(w.written(h)) },
			func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) { // another program writes it back each minute
				until, target := w.time.now.Add(lasts), w.written(h)
				w.time.every(time.Minute, func() bool {
					w.setTarget(target)
					return w.time.now.Before(until)
				})
			},
			func(w *world, _ *autoscalingv2.HorizontalPodAutoscaler) { // a user changes it, and says that it stays
				w.setTarget(percent)
				w.later(lasts, "a note is removed", func() {
					w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
						delete(h.Annotations, autoscale.OriginalTargetAnnotation)
					})
				})
			},
		}
		attack := own[r.IntN(len(own))]
		if edits && r.IntN(2) == 0 {
			attack = others[r.IntN(len(others))]
		}
		all = append(all, func(w *world) {
			if h := w.autoscalerOf(w.plan.Workloads[0]); h != nil {
				attack(w, h)
			}
		})
	}
	return all
}

// attackDeleted: an HPA is deleted, and created again as its user wrote it.
func attackDeleted(lasts time.Duration) func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) {
	return func(w *world, h *autoscalingv2.HorizontalPodAutoscaler) {
		target := w.written(h)
		h.Spec.Metrics[0].Resource.Target.AverageUtilization = &target
		w.must(w.people.Delete(context.Background(), h.DeepCopy()))
		create := func() { w.must(client.IgnoreAlreadyExists(w.people.Create(context.Background(), again(h)))) }
		if lasts == 0 {
			create()
			return
		}
		w.later(lasts, "an HPA is there again", create)
	}
}

// written is the target of an HPA as its user wrote it last.
func (w *world) written(h *autoscalingv2.HorizontalPodAutoscaler) int32 {
	if w.follows != nil {
		return w.follows.of(h).user
	}
	return *h.Spec.Metrics[0].Resource.Target.AverageUtilization
}

func (w *world) setTarget(percent int32) {
	w.editAutoscaler(0, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.Metrics[0].Resource.Target.AverageUtilization = &percent
	})
}

// restart the operator.
func (w *world) restart() {
	if w.leader != nil {
		w.bury(w.leader)
	}
}
