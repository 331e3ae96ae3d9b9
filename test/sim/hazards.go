package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// hazardous is how many seeds there are to each one whose world has a hazard; 0: none has.
const hazardous = 8

// mostKilled is how many replicas a workload is scaled to in a seed, to be killed at once: more than a status has rows for.
const mostKilled = 34

// hazards are what takes workloads down if attune does not mind it, by name. Those that happen at a time are troubles, drawn
// for the seeds that have a hazard; the others belong to the world from its beginning (drawHazards).
var hazards = map[string]func(w *world, t trouble){
	// The recommendations are lost, as where somebody deletes them or makes the CRDs anew.
	"recommendations are lost": func(w *world, _ trouble) { w.loseRecommendations() },
	// The recommendations are those of an earlier day again, with their status.
	"recommendations are restored": func(w *world, _ trouble) {
		was := w.copyRecommendations()
		w.later(restoredAfter, "recommendations were restored", func() { w.restoreRecommendations(was) })
	},
	// Somebody stops attune, and then the workloads that have less than their templates come to need most of those.
	"attune is stopped in harm": func(w *world, t trouble) {
		stop(w, t)
		w.time.after(time.Minute, func() { w.needTemplate(t.Which) })
	},
	// Each pod of a workload needs more than its limit for a moment, and is killed once.
	"all are killed once": func(w *world, t trouble) { w.killOnce(t.Which) },
}

// restoredAfter is how old what is restored is.
const restoredAfter = 24 * time.Hour

// stops are the ways to stop attune, in the order in which t.Which picks them.
var stops = []string{"kill switch", "paused", "skipped", "mode Recommend", "policy deleted"}

// stop attune for a while, for one workload or for all.
func stop(w *world, t trouble) {
	switch how := stops[t.Which%len(stops)]; how {
	case "mode Recommend":
		for _, p := range w.server.Stored(&v1alpha1.AttunePolicy{}) {
			changed := p.DeepCopyObject().(*v1alpha1.AttunePolicy)
			if changed.DeletionTimestamp == nil && changed.Spec.UpdateStrategy != nil {
				changed.Spec.UpdateStrategy.Type = ptr(v1alpha1.UpdateRecommend)
				w.must(w.people.Update(context.Background(), changed))
			}
		}
	default:
		deeds[how](w, t)
	}
}

// needTemplate: a workload comes to need nine tenths of the memory that its template has, in the pods that have less.
func (w *world) needTemplate(which int) {
	of := w.plan.Workloads[which%len(w.plan.Workloads)]
	limit := of.Containers[0].Resources.Limits.Memory().AsApproximateFloat64()
	key := of.Namespace + "/" + of.Name
	need := w.demands[key]
	if need.memory == 0 || limit == 0 || need.shape == leaking || need.ramp.speed > 0 {
		return
	}
	// The demand moves between 0.7 and 1.15 times its amount.
	if times := 0.75 * limit / need.memory; times > 1 {
		w.grow(key, times)
	}
}

// quickly is less than a process takes to fill its memory again (fillsIn): what it needs for so long kills it once.
const quickly = 5 * time.Second

// killOnce: every pod of a workload needs more than its memory limit for a moment.
func (w *world) killOnce(which int) {
	of := w.plan.Workloads[which%len(w.plan.Workloads)]
	for _, pod := range w.podsOf(recommendationOf(of)) {
		key := pod.Namespace + "/" + pod.Name
		more, known := w.demandOf(pod)
		limit := memoryLimitOf(pod, pod.Spec.Containers[0].Name)
		if !known || limit == 0 {
			continue
		}
		more.shape, more.memory = steady, limit*1.09
		w.demands[key] = more
		w.time.after(quickly, func() { delete(w.demands, key); w.touchNodes() })
	}
	w.touchNodes()
}

// loseRecommendations deletes all of them.
func (w *world) loseRecommendations() {
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), o.DeepCopyObject().(client.Object))))
	}
}

// copyRecommendations is a backup.
func (w *world) copyRecommendations() (all []*v1alpha1.AttuneRecommendation) {
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		all = append(all, o.DeepCopyObject().(*v1alpha1.AttuneRecommendation))
	}
	return all
}

// restoreRecommendations writes a backup over those that are there.
func (w *world) restoreRecommendations(was []*v1alpha1.AttuneRecommendation) {
	ctx := context.Background()
	for _, old := range was {
		rec, found := w.server.Peek(old, client.ObjectKeyFromObject(old)).(*v1alpha1.AttuneRecommendation)
		if !found || rec.DeletionTimestamp != nil {
			continue
		}
		now := rec.DeepCopy()
		now.Spec, now.Status = *old.Spec.DeepCopy(), *old.Status.DeepCopy()
		w.must(w.people.Update(ctx, now))
		now.Status = *old.Status.DeepCopy()
		w.must(w.people.Status().Update(ctx, now))
	}
}

// memoryAutoscaler by memory utilization.
func memoryAutoscaler(of workloadPlan, utilization, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	h := autoscaler(of, utilization)
	h.Spec.MinReplicas, h.Spec.MaxReplicas = &least, most
	h.Spec.Metrics[0].Resource.Name = corev1.ResourceMemory
	return h
}

// refusesAbove is an admission policy that refuses new pods of a workload of which a container requests more of a resource
// than the first one of a template and a tenth more; says is its answer.
func refusesAbove(app string, template *corev1.Container, of corev1.ResourceName, says string) func(*corev1.Pod) error {
	request := template.Resources.Requests[of]
	most := request.AsApproximateFloat64() * 1.1
	return func(pod *corev1.Pod) error {
		for _, c := range pod.Spec.Containers {
			request := c.Resources.Requests[of]
			if pod.Labels[appLabel] == app && request.AsApproximateFloat64() > most {
				return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New(says))
			}
		}
		return nil
	}
}

const (
	deniedByPolicy = "ValidatingAdmissionPolicy 'small-containers' with binding 'small-containers' denied request: containers may request no more"
	deniedByQuota  = "exceeded quota: for-user-deployments, requested: requests.memory=1Gi, used: requests.memory=1Gi, limited: requests.memory=1Gi"
)

// drawHazards adds a hazard to the world of one seed in so many. It has random numbers of its own, as further has: the
// worlds of the other seeds stay what they are.
func (p *plan) drawHazards(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x4a2d))
	if hazardous == 0 || r.IntN(max(hazardous, 1)) != 0 {
		return
	}
	which := r.IntN(len(p.Workloads))
	of, span := &p.Workloads[which], p.Length-p.Calm-2*time.Hour
	p.Hazard = pick(r, "refused", "not started", "page cache", "heap", "memory HPA", "lost", "restored", "stopped", "stopped", "killed")
	p.expose(of)
	at := func(kind string, from, to time.Duration) {
		way := r.IntN(len(stops)) // Which names a workload, and a way to stop attune
		p.Troubles = append(p.Troubles, trouble{After: from + time.Duration(r.Int64N(int64(max(to-from, time.Minute)))), Kind: kind, Which: which + way*len(p.Workloads), For: time.Duration(1+r.IntN(4)) * time.Hour})
	}
	switch p.Hazard {
	case "refused":
		p.Validate = refusesAbove(of.Name, &of.Containers[0], corev1.ResourceMemory, pick(r, deniedByPolicy, deniedByQuota))
		at("growth", 3*time.Hour, span/2)
		at("rollout", span/2, span)
	case "not started":
		p.LeastMemory, p.TooSmall = int64(pick(r, 16, 32, 64))*mib, pick(r, "", "CreateContainerError")
		at("rollout", span/2, span)
	case "page cache":
		of.Demand.elastic = elastic{fills: pick(r, 0.1, 0.3, 1, 10) * mib}
		at("rollout", span/4, span/2)
		at("rollout", span/2, span)
	case "heap":
		of.Demand.elastic = elastic{heap: pick(r, 0.25, 0.5, 0.6)}
		at("rollout", span/4, span/2)
		at("rollout", span/2, span)
	case "memory HPA":
		if of.Kind != v1alpha1.KindDeployment && of.Kind != v1alpha1.KindStatefulSet {
			return
		}
		p.Objects = slices.DeleteFunc(p.Objects, func(o client.Object) bool {
			_, is := o.(*autoscalingv2.HorizontalPodAutoscaler)
			return is
		})
		p.Objects = append(p.Objects, memoryAutoscaler(*of, int32(40+r.IntN(50)), 1, max(2, 2*of.Replicas)))
		at("all are killed once", 3*time.Hour, span)
	case "lost":
		at("all are killed once", 2*time.Hour, span/4)
		for range 8 {
			at("recommendations are lost", span/4, span)
		}
	case "restored":
		at("recommendations are restored", time.Hour, 4*time.Hour)
		at("all are killed once", 4*time.Hour, 8*time.Hour)
	case "stopped":
		at("attune is stopped in harm", span/4, span)
	case "killed":
		if of.Kind == v1alpha1.KindDeployment || of.Kind == v1alpha1.KindStatefulSet {
			of.Replicas = mostKilled
			p.Length, p.Calm = min(p.Length, 24*time.Hour), min(p.Calm, 3*time.Hour)
			p.Troubles = slices.DeleteFunc(p.Troubles, func(t trouble) bool { return t.After > p.Length-p.Calm-2*time.Hour })
			at("all are killed once", 3*time.Hour, 8*time.Hour)
		}
	}
}

// expose a workload to its hazard: its pods are sized, in place and at admission, and have memory limits.
func (p *plan) expose(of *workloadPlan) {
	p.Seeds = true
	for i := range p.Policies {
		if spec := &p.Policies[i].Spec; spec.TargetRef.Kind == of.Kind {
			spec.UpdateStrategy.Type, spec.UpdateStrategy.AutoRevert = ptr(v1alpha1.UpdateAuto), ptr(true)
			spec.Memory.ControlledValues, spec.Memory.AllowDecrease = nil, ptr(true)
			spec.UpdateStrategy.Cooldown = duration(10 * time.Minute)
		}
	}
	for i := range of.Containers {
		if r := &of.Containers[i].Resources; r.Limits.Memory().IsZero() {
			limit := r.Requests.Memory().DeepCopy()
			limit.Add(limit)
			r.Limits = corev1.ResourceList{corev1.ResourceMemory: limit}
		}
	}
}

// endangered are worlds with a hazard each, short and with nothing else in them.
func endangered() map[string]plan {
	all := map[string]plan{
		"created pods are refused by a policy":     refusedCreated(v1alpha1.KindDeployment, deniedByPolicy),
		"created pods are refused by a quota":      refusedCreated(v1alpha1.KindStatefulSet, deniedByQuota),
		"daemons are refused by a policy":          refusedCreated(v1alpha1.KindDaemonSet, deniedByPolicy),
		"volumes of created pods cannot mount":     notStarted(""),
		"created containers cannot be made":        notStarted("CreateContainerError"),
		"created daemons fit no node":              daemonsOfTwoSizes(),
		"page cache fills its limit":               filling(true),
		"page cache fills its limit without raise": filling(false),
		"heaps are a part of their limit":          heaps(),
		"a kill under a memory HPA":                killUnderHPA(),
		"more are killed than rows are kept":       manyKilled(v1alpha1.StrategyWorkload),
		"more are killed, strategy Node":           manyKilled(v1alpha1.StrategyNode),
		"recommendations are lost again and again": lostAfterKill(),
		"recommendations of yesterday":             restoredAfterKill(),
	}
	maps.Copy(all, encountered())
	maps.Copy(all, keptWorlds())
	maps.Copy(all, retargetWorlds())
	for _, how := range stops {
		all["stopped in harm, "+how] = stoppedInHarm(how)
	}
	return all
}

// burstable is a workload that needs most of what it requests.
func burstable(replicas int32) workloadPlan {
	w := web(replicas)
	w.Containers = []corev1.Container{container(amounts("200m", "256Mi"), amounts("400m", "512Mi"))}
	w.Demand.memory = 200 * mib
	return w
}

// refusedCreated: pods come to need more than their request, and are resized. Then they are deleted, and another admission
// policy refuses new ones that request more than the template.
func refusedCreated(kind v1alpha1.WorkloadKind, says string) plan {
	of := burstable(2)
	of.Kind = kind
	of.Demand.memory = 250 * mib
	p := roomy(4*time.Hour, of)
	p.Policies = []policyPlan{hasty(kind)}
	p.Policies[0].Spec.Memory.ControlledValues = ptr(v1alpha1.ControlledRequestsOnly)
	p.Validate = refusesAbove(of.Name, &of.Containers[0], corev1.ResourceMemory, says)
	p.Script = func(w *world) {
		w.time.after(3*time.Hour, func() {
			w.watching.disturbed("all pods are deleted")
			for _, pod := range w.podsOf(recommendationOf(of)) {
				w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), pod.DeepCopy())))
			}
		})
	}
	return p
}

// notStarted: a workload that needs 20 MiB of 1 GiB is lowered, and its size is kept. New pods do not start with it, since
// the runtime needs more before the process runs. Attune deletes no pod: a person does, once attune says which does not start.
func notStarted(reason string) plan {
	of := web(2)
	of.Demand.memory = 20 * mib
	p := roomy(5*time.Hour, of)
	p.LeastMemory, p.TooSmall = 300*mib, reason
	p.Script = func(w *world) {
		w.once("less is kept", func() bool { return w.lowered(0, 0.25) }, func() {
			w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "example.org/app:2" })
			w.watching.disturbed("a rollout")
		})
		w.time.every(time.Minute, func() bool { w.deleteStuck(recommendationOf(of), false); return true })
	}
	return p
}

// deleteStuck: a person does what status.admissionWithdrawn says, and deletes the pod that does not start, or all such pods
// that are older than the withdrawal. What is created after it has to start.
func (w *world) deleteStuck(name types.NamespacedName, all bool) {
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, name).(*v1alpha1.AttuneRecommendation)
	if !found || rec.Status.AdmissionWithdrawn == nil || rec.Status.AdmissionWithdrawn.Reason != v1alpha1.ReasonPodsDoNotStart {
		return
	}
	for _, pod := range w.podsOf(name) {
		stuck := strings.Contains(rec.Status.AdmissionWithdrawn.Message, pod.Name)
		if all {
			stuck = pod.CreationTimestamp.Before(&rec.Status.AdmissionWithdrawn.Since)
		}
		if stuck && pod.Status.Phase == corev1.PodPending {
			w.must(client.IgnoreNotFound(w.people.Delete(context.Background(), pod.DeepCopy())))
		}
	}
}

// lowered: every pod of a workload has less than a part of its template's memory limit, no resize is in flight, and a size is
// kept.
func (w *world) lowered(which int, part float64) bool {
	of := w.plan.Workloads[which]
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, recommendationOf(of)).(*v1alpha1.AttuneRecommendation)
	if !found || len(rec.Status.Records) > 0 || len(rec.Status.Verified) == 0 {
		return false
	}
	pods := w.podsOf(recommendationOf(of))
	return len(pods) > 0 && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return float64(limitOf(pod.Spec.Containers[0])) >= part*of.Containers[0].Resources.Limits.Memory().AsApproximateFloat64()
	})
}

// daemonsOfTwoSizes: the pods of a DaemonSet on a node of 2 cores and one of 64 need 1.8 cores; then the pod of the small
// node is deleted.
func daemonsOfTwoSizes() plan {
	agent := web(1)
	agent.Kind, agent.Name = v1alpha1.KindDaemonSet, "agent"
	agent.Containers = []corev1.Container{container(amounts("100m", "200Mi"), nil)}
	agent.Demand.cpu, agent.Demand.memory = 1.8, 150*mib
	p := roomy(6*time.Hour, agent)
	p.Nodes, p.NodeCPU, p.NodeMemory = 1, "2", "4Gi"
	p.Policies = []policyPlan{hasty(v1alpha1.KindDaemonSet)}
	p.Script = func(w *world) {
		w.plan.NodeCPU, w.plan.NodeMemory = "64", "256Gi"
		w.cluster.join("node-large")
		w.cluster.wake(0)
		w.time.after(5*time.Hour, func() {
			w.watching.disturbed("a pod is deleted")
			for _, pod := range w.podsOf(recommendationOf(agent)) {
				if pod.Spec.NodeName == "node-0" {
					w.must(w.people.Delete(context.Background(), pod.DeepCopy()))
				}
			}
		})
	}
	return p
}

// rollsOut a new image every so often.
func (w *world) rollsOut(every time.Duration) {
	n := 1
	w.time.every(every, func() bool {
		n++
		w.edit(0, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = fmt.Sprintf("example.org/app:%d", n) })
		w.watching.disturbed("a rollout")
		return true
	})
}

// filling: page cache that counts in the working set fills what the limit leaves, after each rollout anew. Nothing is killed.
func filling(climbs bool) plan {
	of := burstable(2)
	of.Demand.memory, of.Demand.elastic = 100*mib, elastic{fills: 0.3 * mib}
	p := roomy(16*time.Hour, of)
	p.Climbs, p.NothingHarms = climbs, true
	p.Script = func(w *world) { w.rollsOut(4 * time.Hour) }
	return p
}

// heaps: a process reserves three quarters of its limit when it starts.
func heaps() plan {
	of := web(2)
	of.Containers = []corev1.Container{container(amounts("200m", "512Mi"), amounts("400m", "1Gi"))}
	of.Demand.memory, of.Demand.elastic = 30*mib, elastic{heap: 0.75}
	p := roomy(16*time.Hour, of)
	p.NothingHarms = true
	p.Script = func(w *world) { w.rollsOut(3 * time.Hour) }
	return p
}

// killUnderHPA: ten replicas share 2000 MiB, an HPA holds 80 % of the memory requests, and one replica is killed once by one
// large request.
func killUnderHPA() plan {
	of := web(10)
	of.Containers = []corev1.Container{container(amounts("200m", "256Mi"), amounts("400m", "1Gi"))}
	of.Demand.memory = 200 * mib
	p := roomy(9*time.Hour, of)
	p.Objects = []client.Object{memoryAutoscaler(of, 80, 2, 20)}
	p.Script = func(w *world) {
		w.time.every(time.Minute, func() bool {
			w.share("shop/web", 2000*mib)
			return true
		})
		w.time.after(3*time.Hour, func() {
			pod := w.podsOf(recommendationOf(of))[0]
			more := w.demands["shop/web"]
			more.memory = 1300 * mib
			w.demands["shop/"+pod.Name] = more
			w.touchNodes()
			w.watching.disturbed("one large request")
			w.time.after(quickly, func() { delete(w.demands, "shop/"+pod.Name); w.touchNodes() })
		})
	}
	return p
}

// share memory that a workload needs in all among its pods.
func (w *world) share(key string, all float64) {
	d := w.demands[key]
	n := 0
	for _, uid := range w.lives.order {
		if l := w.lives.all[uid][0]; l.key == key && l.ended.IsZero() {
			n++
		}
	}
	d.memory = all / float64(max(1, n))
	w.demands[key] = d
	for _, uid := range w.lives.order {
		for _, l := range w.lives.all[uid] {
			if l.key == key && l.ended.IsZero() {
				l.of.memory = d.memory
			}
		}
	}
}

// manyKilled: each of more replicas than a status has rows for is killed once.
func manyKilled(s v1alpha1.Strategy) plan {
	of := burstable(mostKilled)
	p := roomy(9*time.Hour, of)
	p.Policies = []policyPlan{unknowing()}
	p.Policies[0].Spec.Strategy = &s
	p.Script = func(w *world) {
		w.time.after(3*time.Hour, func() {
			w.watching.disturbed("all are killed")
			w.killOnce(0)
		})
	}
	return p
}

// lostAfterKill: two replicas were killed once, and then their recommendation is lost again and again.
func lostAfterKill() plan {
	p := roomy(9*time.Hour, burstable(2))
	p.Policies = []policyPlan{unknowing()}
	p.Script = func(w *world) {
		w.time.after(2*time.Hour, func() {
			w.watching.disturbed("all are killed")
			w.killOnce(0)
		})
		w.time.after(3*time.Hour, func() {
			w.time.every(30*time.Minute, func() bool {
				w.watching.disturbed("a recommendation was lost")
				w.loseRecommendations()
				return w.time.now.Before(beginning.Add(8 * time.Hour))
			})
		})
	}
	return p
}

// restoredAfterKill: the same, and the recommendation is that of the time before the kill again and again.
func restoredAfterKill() plan {
	p := lostAfterKill()
	p.Script = func(w *world) {
		var was []*v1alpha1.AttuneRecommendation
		w.time.after(time.Hour, func() { was = w.copyRecommendations() })
		w.time.after(2*time.Hour, func() {
			w.watching.disturbed("all are killed")
			w.killOnce(0)
		})
		w.time.after(3*time.Hour, func() {
			w.time.every(30*time.Minute, func() bool {
				w.watching.disturbed("a recommendation was restored")
				w.restoreRecommendations(was)
				return w.time.now.Before(beginning.Add(8 * time.Hour))
			})
		})
	}
	return p
}

// stoppedInHarm: three replicas have little of what their template has, and that is kept. Somebody stops attune, and ten minutes
// later they need 600 MiB of the 1 GiB of their template.
func stoppedInHarm(how string) plan {
	p := roomy(6*time.Hour, web(3))
	p.Script = func(w *world) {
		w.once("they are lowered", func() bool { return w.lowered(0, 0.4) }, func() {
			w.watching.disturbed(how)
			stop(w, trouble{Which: slices.Index(stops, how), For: 24 * time.Hour})
			w.time.after(10*time.Minute, func() { w.grow("shop/web", 6) })
		})
	}
	return p
}
