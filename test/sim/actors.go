package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/test/plane"
)

// acting: one in this many seeds has actors; 1: all have (-sim.actors).
var acting = 4

// actor is a controller, a platform or a person beside attune that changes what pods may be or are.
type actor struct {
	// on: seeds draw it. Off only while the product is known to fail under it; README.md says which finding is open.
	on bool
	// needs: attune must size the workload for the actor to matter, so its policy is one that does (expose).
	needs bool
	// grows: the workload comes to need more before.
	grows bool
	// joins adds what the actor needs from the beginning; nil: nothing.
	joins func(p *plan, of workloadPlan)
	// acts begins what the actor does for t.For; nil: all is done by joins.
	acts func(w *world, t trouble)
}

// actors by name. They act for hours or days, and excuse nothing: each invariant holds while they act.
var actors = map[string]actor{
	// An admission policy or another platform's quota refuses pods that request more than their template.
	"a policy refuses what is above the template": {on: true, needs: true, grows: true, acts: (*world).refuse},
	// Volumes do not mount, or containers are not made, with less memory than their templates have.
	"nodes need more memory to start pods": {on: true, needs: true, acts: (*world).needMemory},
	// Processes that start need more CPU than those that run.
	"starts need more CPU": {on: true, needs: true, joins: func(p *plan, of workloadPlan) {
		for i := range p.Workloads {
			if w := &p.Workloads[i]; w.Name == of.Name {
				w.Demand.startCPU = 0.6 * of.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
			}
		}
	}},
	// Another tenant takes what the nodes have left.
	"other pods fill the nodes": {on: true, acts: (*world).fillNodes},
	// An HPA comes and goes, or the one that is there is deleted and made again.
	"an HPA comes and goes": {on: true, acts: (*world).toggleAutoscaler},
	// An HPA is fixed to the replicas that there are (min = max), and scales again later.
	"an HPA is fixed": {on: true, acts: (*world).fixAutoscaler},
	// A booster takes the CPU of the start back some time after a pod was created, to that of the template.
	"a booster resizes new pods": {on: true, needs: true, acts: (*world).boost},
	// Another resizer gives the pods of a workload the resources of their template again and again.
	"another resizer fights": {on: true, needs: true, acts: (*world).fight},
	// A Deployment adopts a ReplicaSet of another name, which has its template.
	"a ReplicaSet is adopted": {on: true, needs: true, joins: func(p *plan, of workloadPlan) {
		if of.Kind == v1alpha1.KindDeployment {
			p.Objects = append(p.Objects, orphanOf(of))
		}
	}},
}

// acts are the actors that do something at a time, as troubles.
func acts() map[string]func(*world, trouble) {
	all := map[string]func(*world, trouble){}
	for name, a := range actors {
		if a.acts != nil {
			all[name] = a.acts
		}
	}
	return all
}

// drawActors adds actors to the world of one seed in so many. It has random numbers of its own, as further has: the worlds
// of the other seeds stay what they are.
func (p *plan) drawActors(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0xac70))
	if r.IntN(acting) != 0 {
		return
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(actors)) {
		if actors[name].on {
			names = append(names, name)
		}
	}
	for range 1 + r.IntN(2) {
		p.act(pick(r, names...), r)
	}
}

// act has an actor act on one of the workloads, from some time on, for hours to days. A rollout and the deletion of a pod
// meanwhile create pods under it.
func (p *plan) act(name string, r *rand.Rand) {
	a, which, span := actors[name], r.IntN(len(p.Workloads)), p.Length-p.Calm-2*time.Hour
	p.Actors = append(p.Actors, name)
	if a.needs {
		p.expose(&p.Workloads[which])
	}
	if a.joins != nil {
		a.joins(p, p.Workloads[which])
	}
	after := span/3 + time.Duration(r.Int64N(int64(span/3))) // new pods are sized by then
	lasts := time.Hour + time.Duration(r.Int64N(int64(span-after)))
	if a.acts != nil {
		p.Troubles = append(p.Troubles, trouble{After: after, Kind: name, For: lasts, Which: which + len(p.Workloads)*r.IntN(1<<12), Much: r.Float64()})
	}
	if a.grows {
		p.Troubles = append(p.Troubles, trouble{After: time.Hour + time.Duration(r.Int64N(int64(span/3))), Kind: "growth", Which: which, Much: 0.5 + r.Float64()/2})
	}
	for _, kind := range []string{"rollout", "delete pod", "rollout"} {
		p.Troubles = append(p.Troubles, trouble{After: after + time.Duration(r.Int64N(int64(lasts))), Kind: kind, For: time.Minute, Which: which + len(p.Workloads)*r.IntN(1<<12)})
	}
}

// refusal is an admission policy of an actor.
type refusal struct{ of func(*corev1.Pod) error }

// refuse new pods of a workload that request more than its template has now.
func (w *world) refuse(t trouble) {
	o := w.peek(t.Which)
	if o == nil || templateOf(o) == nil {
		return
	}
	says, of := deniedByPolicy, corev1.ResourceMemory
	if t.Much < 0.3 {
		says = deniedByQuota
	}
	if t.Which/len(w.plan.Workloads)%2 == 0 {
		of = corev1.ResourceCPU
	}
	first := templateOf(o).Spec.Containers[0].DeepCopy()
	r := &refusal{refusesAbove(o.GetName(), first, of, says)}
	w.refusals = append(w.refusals, r)
	w.later(t.For, "a policy is gone", func() {
		w.refusals = slices.DeleteFunc(w.refusals, func(other *refusal) bool { return other == r })
	})
}

// needMemory: the nodes start no container with less than most of the memory limit of a workload's template.
func (w *world) needMemory(t trouble) {
	o := w.peek(t.Which)
	if o == nil || templateOf(o) == nil {
		return
	}
	least := int64((0.3 + 0.6*t.Much) * float64(limitOf(templateOf(o).Spec.Containers[0])))
	says := []string{"", "CreateContainerError"}[t.Which/len(w.plan.Workloads)%2]
	set := func(least int64, says string) {
		for _, n := range w.cluster.Nodes() {
			n.Faults.LeastMemory, n.Faults.TooSmall = least, says
		}
	}
	set(least, says)
	w.later(t.For, "nodes start pods as before", func() { set(w.plan.LeastMemory, w.plan.TooSmall) })
	// Attune deletes no pod that does not start: a person does what its status says, with all of them.
	until := w.time.now.Add(t.For)
	w.time.every(30*time.Second, func() bool {
		for _, of := range w.plan.Workloads {
			w.deleteStuck(recommendationOf(of), true)
		}
		return w.time.now.Before(until)
	})
}

// fillNodes with pods of another tenant, but for a little.
func (w *world) fillNodes(t trouble) {
	ctx, namespace := context.Background(), "tenants"
	w.must(client.IgnoreAlreadyExists(w.people.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	for i, n := range w.cluster.Nodes() {
		name := fmt.Sprintf("filler-%d-%d", t.Which, i)
		if pod := w.filler(n, namespace, name, 0.9+t.Much/10); pod != nil {
			w.must(client.IgnoreAlreadyExists(w.people.Create(ctx, pod)))
			w.later(t.For, "a tenant is gone", func() {
				w.must(client.IgnoreNotFound(w.people.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})))
			})
		}
	}
}

// filler is a pod that takes a part of what a node has left; nil: nothing is.
func (w *world) filler(n *kubelet.Node, namespace, name string, part float64) *corev1.Pod {
	node, found := w.server.Peek(&corev1.Node{}, types.NamespacedName{Name: n.Name}).(*corev1.Node)
	if !found {
		return nil
	}
	cpu, memory := node.Status.Allocatable.Cpu().MilliValue(), node.Status.Allocatable.Memory().Value()
	for _, o := range w.server.OnNode(n.Name) {
		if pod := o.(*corev1.Pod); pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			usedCPU, usedMemory := plane.Footprint(pod)
			cpu, memory = cpu-usedCPU, memory-usedMemory
		}
	}
	if cpu <= 0 || memory <= 0 {
		return nil
	}
	c := container(amounts(milli(int64(part*float64(cpu))), bytes(int64(part*float64(memory)))), nil)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{c}}}
}

// autoscalerOf a planned workload; nil: there is none.
func (w *world) autoscalerOf(of workloadPlan) *autoscalingv2.HorizontalPodAutoscaler {
	for _, o := range w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		if h := o.(*autoscalingv2.HorizontalPodAutoscaler); h.Namespace == of.Namespace && h.Spec.ScaleTargetRef.Name == of.Name && h.Spec.ScaleTargetRef.Kind == string(of.Kind) {
			return h.DeepCopy()
		}
	}
	return nil
}

// toggleAutoscaler: a workload that has an HPA loses it for a while, another one gets one for a while.
func (w *world) toggleAutoscaler(t trouble) {
	ctx, of := context.Background(), w.plan.Workloads[t.Which%len(w.plan.Workloads)]
	if of.Kind != v1alpha1.KindDeployment && of.Kind != v1alpha1.KindStatefulSet {
		return
	}
	create := func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.ObjectMeta = metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}
		h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
		w.must(client.IgnoreAlreadyExists(w.people.Create(ctx, h)))
	}
	if h := w.autoscalerOf(of); h != nil {
		w.must(client.IgnoreNotFound(w.people.Delete(ctx, h.DeepCopy())))
		w.later(t.For, "an HPA is there again", func() { create(h) })
		return
	}
	create(autoscaler(of, int32(40+t.Much*50)))
	w.later(t.For, "an HPA is gone", func() {
		if h := w.autoscalerOf(of); h != nil {
			w.must(client.IgnoreNotFound(w.people.Delete(ctx, h)))
		}
	})
}

// fixAutoscaler: the HPA of a workload, or a new one, has min = max for a while.
func (w *world) fixAutoscaler(t trouble) {
	of, o := w.plan.Workloads[t.Which%len(w.plan.Workloads)], w.peek(t.Which)
	if o == nil || of.Kind != v1alpha1.KindDeployment && of.Kind != v1alpha1.KindStatefulSet {
		return
	}
	if w.autoscalerOf(of) == nil {
		w.must(w.people.Create(context.Background(), autoscaler(of, int32(40+t.Much*50))))
	}
	h := w.autoscalerOf(of)
	least, most := h.Spec.MinReplicas, h.Spec.MaxReplicas
	set := func(least *int32, most int32) {
		if h := w.autoscalerOf(of); h != nil {
			h.Spec.MinReplicas, h.Spec.MaxReplicas = least, most
			w.must(w.people.Update(context.Background(), h))
		}
	}
	replicas, _ := wanted(o)
	set(ptr(int32(max(1, replicas))), int32(max(1, replicas)))
	w.later(t.For, "an HPA scales again", func() { set(least, most) })
}

// boost: each pod of a workload that is created in a while has the CPU of its template again 30 seconds later, as
// kube-startup-cpu-boost does.
func (w *world) boost(t trouble) {
	done, until := map[types.UID]bool{}, w.time.now.Add(t.For)
	of := recommendationOf(w.plan.Workloads[t.Which%len(w.plan.Workloads)])
	for _, pod := range w.podsOf(of) {
		done[pod.UID] = true
	}
	w.time.every(30*time.Second, func() bool {
		for _, pod := range w.podsOf(of) {
			if !done[pod.UID] && pod.Status.Phase == corev1.PodRunning {
				done[pod.UID] = true
				w.resizeToTemplate("booster", pod, corev1.ResourceCPU)
			}
		}
		return w.time.now.Before(until)
	})
}

// fight: another resizer gives the pods of a workload the CPU, or all resources, of their template, every 10 to 60 minutes.
func (w *world) fight(t trouble) {
	of, until := recommendationOf(w.plan.Workloads[t.Which%len(w.plan.Workloads)]), w.time.now.Add(t.For)
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}[:1+t.Which/len(w.plan.Workloads)%2]
	w.time.every(time.Duration(10+50*t.Much)*time.Minute, func() bool {
		for _, pod := range w.podsOf(of) {
			if pod.Status.Phase == corev1.PodRunning {
				w.resizeToTemplate("resizer", pod, names...)
			}
		}
		return w.time.now.Before(until)
	})
}

// resizeToTemplate gives a pod some resources of its template, as an actor. It lowers no memory limit, and what the API server
// refuses it leaves.
func (w *world) resizeToTemplate(actor string, pod *corev1.Pod, names ...corev1.ResourceName) {
	changed, template := pod.DeepCopy(), templateResources(pod)
	if made, known := w.watching.templates[pod.UID]; known {
		template = made
	}
	for i := range changed.Spec.Containers {
		c := &changed.Spec.Containers[i]
		for _, name := range names {
			limit, limited := template[c.Name].Limits[name]
			if had := c.Resources.Limits[name]; name == corev1.ResourceMemory && limited && limit.Cmp(had) < 0 {
				continue
			}
			for _, list := range []struct{ to, of corev1.ResourceList }{{c.Resources.Requests, template[c.Name].Requests}, {c.Resources.Limits, template[c.Name].Limits}} {
				if amount, has := list.of[name]; has && list.to != nil {
					list.to[name] = amount
				}
			}
		}
	}
	err := w.server.As(actor, nil).SubResource("resize").Patch(context.Background(), changed, client.MergeFrom(pod), client.FieldOwner(actor))
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.must(err)
	}
}

// orphanOf a Deployment is a ReplicaSet with its template and labels, which it adopts.
func orphanOf(of workloadPlan) *appsv1.ReplicaSet {
	d := of.object().(*appsv1.Deployment)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: "legacy-" + of.Name, Labels: d.Labels}}
	rs.Spec = appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}
	return rs
}

// adopterOf the pod's ReplicaSet is its Deployment, whatever their names; empty: its controller is another one.
func (w *world) adopterOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return ""
	}
	rs, found := w.server.Peek(&appsv1.ReplicaSet{}, key2(pod.Namespace, owner.Name)).(*appsv1.ReplicaSet)
	if !found {
		return ""
	}
	if of := metav1.GetControllerOf(rs); of != nil && of.Kind == "Deployment" && !strings.HasPrefix(rs.Name, of.Name+"-") {
		return of.Name
	}
	return ""
}

// encountered are short worlds with one actor each.
func encountered() map[string]plan {
	meets := func(of workloadPlan, name string, t trouble) plan {
		p := roomy(9*time.Hour, of)
		p.Policies = []policyPlan{hasty(of.Kind)}
		t.Kind, t.After = name, max(t.After, 3*time.Hour)
		if a := actors[name]; a.joins != nil {
			a.joins(&p, of)
		}
		if actors[name].acts != nil {
			p.Troubles = append(p.Troubles, t)
		}
		for _, after := range []time.Duration{210 * time.Minute, 5 * time.Hour} {
			p.Troubles = append(p.Troubles, trouble{After: after, Kind: "rollout", Which: int(after.Minutes())})
		}
		return p
	}
	grows := burstable(2)
	grows.Demand.memory = 250 * mib
	policies := meets(grows, "a policy refuses what is above the template", trouble{For: 3 * time.Hour, Which: 1, Much: 1})
	policies.Policies[0].Spec.Memory.ControlledValues = ptr(v1alpha1.ControlledRequestsOnly)
	starts := web(2)
	starts.Containers = []corev1.Container{container(amounts("1500m", "1Gi"), amounts("1500m", "1Gi"))} // a whole number of cores is never lowered
	boosted := meets(web(3), "a booster resizes new pods", trouble{For: 4 * time.Hour})
	full := meets(grows, "other pods fill the nodes", trouble{For: 3 * time.Hour, Much: 1})
	return map[string]plan{
		"a policy comes and goes":             policies,
		"nodes come to need more to start":    meets(web(2), "nodes need more memory to start pods", trouble{For: 3 * time.Hour, Much: 0.3}),
		"starts need more CPU":                meets(starts, "starts need more CPU", trouble{}),
		"nodes fill up":                       full,
		"an HPA comes to a sized workload":    meets(web(3), "an HPA comes and goes", trouble{For: 2 * time.Hour}),
		"an HPA is fixed":                     meets(web(3), "an HPA is fixed", trouble{For: 2 * time.Hour}),
		"a booster takes its CPU back":        boosted,
		"another resizer fights":              meets(web(3), "another resizer fights", trouble{For: 4 * time.Hour, Which: 1}),
		"a ReplicaSet of another name is run": meets(web(3), "a ReplicaSet is adopted", trouble{}),
	}
}
