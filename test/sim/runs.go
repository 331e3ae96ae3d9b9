package sim

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/plane"
	"attune.io/attune/test/sim/api"
)

// How long a workload may take to run again that would run without attune: 20 seconds for attune, and what the owner or the
// kubelet takes to try again (30 s each here). Times are seen at whole minutes.
const (
	// refusedFor: its pods are refused.
	refusedFor = time.Minute
	// notStartedFor: a minute in which a pod does not start is evidence that the next 20 seconds answer.
	notStartedFor = 2 * time.Minute
	// notPlacedFor: it would fit a node that has other pods now. One that fits no node, were it empty, is as good as refused.
	notPlacedFor = 11 * time.Minute
	// notReadyFor: attune's answer, and a kubelet's longest back-off of 5 minutes, twice.
	notReadyFor = 11 * time.Minute
	// killedFor: an OOM kill is answered within a minute.
	killedFor = time.Minute
	// scaledFor: an HPA looks every 15 seconds, and its recommendations of five minutes count.
	scaledFor = 10 * time.Minute
)

// runs: a workload that would run without attune runs. Each minute, what keeps a workload or a pod from running is judged
// by what would happen to the same pod with the resources of its template; where that would run, it has to run within the
// time of the sentence:
//
//   - refused: the workload has fewer pods than it wants (or a Job has none and is not done), and the API server refuses a
//     new pod of its template with the admission resources that it would get, and would accept it without them;
//   - placed: a pod without a node requests more than its template; no node has room for it, and one has room for its
//     template (allocatable less what the pods of the node count for). With autoRevert: false nothing is written for a pod
//     that is there: then the next one runs, as admission resources are withdrawn within the same time;
//   - started: no container of a pod on a node has started, as a memory limit is below what the node's runtime needs, and
//     the template's is not;
//   - killed: the last end of a container was an OOM kill, it waits to start again with the limit that killed it, and the
//     limit of its template is above what it needs;
//   - ready: a pod on a node that works has not been ready for longer than the restarts of its containers take, although
//     each of them would come up with the resources of the template: the image is whole, the limit of the template is
//     above what it needs, and its CPU request is what the start needs;
//   - scaled: an HPA on memory utilization would add replicas if all pods had the requests of their templates, and the
//     workload has fewer than the HPA's maximum.
//
// The time begins anew while the operator is away, its calls fail or its watches lag. What autoRevert: false keeps, and what
// the API server would refuse, is no violation of killed.
type runs struct {
	deaf
	*scene
	judged func() []stuck
	since  map[string]time.Time
}

// stuck is something that does not run, and would without attune.
type stuck struct {
	rec types.NamespacedName
	// what names it, why says why it does not run and would, and within how long it has to.
	what, why string
	within    time.Duration
}

func newRuns(s *scene, judged func() []stuck) *runs {
	return &runs{scene: s, judged: judged, since: map[string]time.Time{}}
}

func (r *runs) tick() {
	there := map[string]bool{}
	for _, s := range r.judged() {
		there[s.what] = true
		since, known := r.since[s.what]
		switch {
		case !known || r.excused():
			r.since[s.what] = r.now()
		case r.now().Sub(since) > s.within:
			delete(r.since, s.what)
			r.violate("it would run without attune", s.rec.String(), "%s %s, since %s", s.what, s.why, since)
		}
	}
	for what := range r.since {
		if !there[what] {
			delete(r.since, what)
		}
	}
}

// hindrance judges a world.
type hindrance struct {
	w         *world
	templates templates
}

// seen are the changes that it has to know of.
type seen struct {
	deaf
	h *hindrance
}

func (s seen) changed(e api.Event) { s.h.templates.see(e) }

// all that does not run and would without attune.
func (h *hindrance) all() (all []stuck) {
	for _, o := range h.w.server.Stored(&corev1.Pod{}) {
		pod := o.(*corev1.Pod)
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || isReady(pod) {
			continue
		}
		rec, template := h.w.watching.owners[key2(pod.Namespace, pod.Name)], h.templates[pod.UID]
		switch {
		case rec.Name == "":
		case pod.Spec.NodeName == "":
			all = append(all, h.placed(rec, pod, template)...)
		case pod.Status.Phase == corev1.PodPending:
			all = append(all, slices.Concat(h.started(rec, pod, template), h.ready(rec, pod, template))...)
		default:
			all = append(all, slices.Concat(h.killed(rec, pod, template), h.ready(rec, pod, template))...)
		}
	}
	for _, o := range h.w.server.Stored(&batchv1.Job{}) {
		all = append(all, h.refusedJob(o.(*batchv1.Job))...)
	}
	for i := range h.w.plan.Workloads {
		all = append(all, h.refused(i)...)
	}
	for _, o := range h.w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		all = append(all, h.scaled(o.(*autoscalingv2.HorizontalPodAutoscaler))...)
	}
	return all
}

// recommendationOf a planned workload, by its name.
func recommendationOf(of workloadPlan) types.NamespacedName {
	return key2(of.Namespace, workload.RecommendationName(of.Kind, of.Name))
}

// refused pods of a planned workload.
func (h *hindrance) refused(which int) []stuck {
	w, of := h.w, h.w.plan.Workloads[which]
	o := w.peek(which)
	if o == nil {
		return nil
	}
	want, have := wanted(o)
	template := templateOf(o)
	owner, kind := o, string(of.Kind)
	if set := w.newestSet(o); set != nil {
		owner, kind, template = set, "ReplicaSet", &set.Spec.Template
		if have >= want { // the pods of older ReplicaSets count, while a rollout stands still
			want, have = wanted(set)
		}
	}
	if have >= want {
		return nil
	}
	refusal := h.refusal(owner, ownedBy("apps/v1", kind, owner), template)
	if refusal == nil {
		return nil
	}
	return []stuck{{recommendationOf(of), of.Namespace + "/" + of.Name, fmt.Sprintf("has %d of %d pods, as the API server refuses them with the admission resources and would accept those of the template: %v", have, want, refusal), refusedFor}}
}

// refusal of a new pod that the API server would accept with the resources of its template; nil: there is none.
func (h *hindrance) refusal(owner client.Object, reference []metav1.OwnerReference, template *corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.OwnerReferences = owner.GetNamespace(), owner.GetName()+"-would", reference
	if h.w.server.Accepts(pod.DeepCopy(), false) != nil {
		return nil
	}
	return h.w.server.Accepts(pod, true)
}

// refusedJob: a Job that is not done has no pod, as its pods are refused.
func (h *hindrance) refusedJob(job *batchv1.Job) []stuck {
	done := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobSuspended)
	})
	if done || job.DeletionTimestamp != nil || job.Status.Active+job.Status.Succeeded+job.Status.Failed > 0 {
		return nil
	}
	refusal := h.refusal(job, ownedBy("batch/v1", "Job", job), &job.Spec.Template)
	if refusal == nil {
		return nil
	}
	rec := recommendationOf(workloadPlan{Kind: v1alpha1.KindJob, Namespace: job.Namespace, Name: job.Name})
	if of := metav1.GetControllerOf(job); of != nil {
		rec = recommendationOf(workloadPlan{Kind: v1alpha1.WorkloadKind(of.Kind), Namespace: job.Namespace, Name: of.Name})
	}
	return []stuck{{rec, "Job " + job.Namespace + "/" + job.Name, fmt.Sprintf("has no pod, as the API server refuses it with the admission resources and would accept those of the template: %v", refusal), refusedFor}}
}

// placed: whether a pod without a node would have one.
func (h *hindrance) placed(rec types.NamespacedName, pod *corev1.Pod, template map[string]corev1.ResourceRequirements) []stuck {
	without := withResources(pod, template)
	cpu, memory := plane.Footprint(pod)
	cpuWithout, memoryWithout := plane.Footprint(without)
	if cpu <= cpuWithout && memory <= memoryWithout || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	fits, fitsEmpty := false, false
	for _, o := range h.w.server.Stored(&corev1.Node{}) {
		node := o.(*corev1.Node)
		if !plane.Eligible(pod, node) {
			continue
		}
		hasCPU, hasMemory := node.Status.Allocatable.Cpu().MilliValue(), node.Status.Allocatable.Memory().Value()
		fitsEmpty = fitsEmpty || cpu <= hasCPU && memory <= hasMemory
		for _, other := range h.w.server.OnNode(node.Name) {
			if p := other.(*corev1.Pod); p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				usedCPU, usedMemory := plane.Footprint(p)
				hasCPU, hasMemory = hasCPU-usedCPU, hasMemory-usedMemory
			}
		}
		if cpu <= hasCPU && memory <= hasMemory {
			return nil // it is about to be placed
		}
		fits = fits || cpuWithout <= hasCPU && memoryWithout <= hasMemory
	}
	if !fits || h.w.keepsSizes(rec) && h.withdrawn(rec) {
		return nil
	}
	within := notPlacedFor
	if !fitsEmpty {
		within = notStartedFor
	}
	return []stuck{{rec, "pod " + pod.Namespace + "/" + pod.Name, fmt.Sprintf("has no node: it requests %dm of CPU and %dMi, for which no node has room; there is room for the %dm and %dMi of its template", cpu, memory/mib, cpuWithout, memoryWithout/mib), within}}
}

// withdrawn: new pods of a workload are created without admission resources.
func (h *hindrance) withdrawn(of types.NamespacedName) bool {
	rec, found := h.w.server.Peek(&v1alpha1.AttuneRecommendation{}, of).(*v1alpha1.AttuneRecommendation)
	return found && rec.Status.AdmissionWithdrawn != nil
}

// started: whether a pod that has a node would have started.
func (h *hindrance) started(rec types.NamespacedName, pod *corev1.Pod, template map[string]corev1.ResourceRequirements) []stuck {
	node := h.w.cluster.Node(pod.Spec.NodeName)
	if node == nil || node.Faults.Down || node.Faults.LeastMemory == 0 {
		return nil
	}
	low := false
	for _, c := range pod.Spec.Containers {
		r := template[c.Name]
		without := r.Limits.Memory().Value()
		if without > 0 && without < node.Faults.LeastMemory {
			return nil
		}
		limit := limitOf(c)
		low = low || limit > 0 && limit < node.Faults.LeastMemory
	}
	if !low {
		return nil
	}
	return []stuck{{rec, "pod " + pod.Namespace + "/" + pod.Name, "does not start, as a memory limit is too low for the runtime; that of its template is not", notStartedFor}}
}

// killed: whether a container that waits after an OOM kill would have been killed.
func (h *hindrance) killed(rec types.NamespacedName, pod *corev1.Pod, template map[string]corev1.ResourceRequirements) (all []stuck) {
	for _, s := range pod.Status.ContainerStatuses {
		last := s.LastTerminationState.Terminated
		if s.State.Waiting == nil || last == nil || last.Reason != "OOMKilled" {
			continue
		}
		of, known := h.w.demandOf(pod)
		r := template[s.Name]
		without := r.Limits.Memory().Value()
		limit := int64(memoryLimitOf(pod, s.Name))
		if !known || without <= limit || h.w.keepsSizes(rec) || !h.w.restorable(pod, template) {
			continue
		}
		need := of.memoryAt(h.w.time.now, h.w.time.now, pod.Name) + of.elastic.heap*float64(without)
		if need <= float64(limit) || need > float64(without) {
			continue
		}
		all = append(all, stuck{rec, "container " + s.Name + " of pod " + pod.Namespace + "/" + pod.Name, fmt.Sprintf("was OOM-killed, waits, and needs %.0fMi; its limit is %dMi, that of its template %dMi", need/mib, limit/mib, without/mib), killedFor})
	}
	return all
}

// ready: whether a pod that is not ready would be with the resources of its template.
func (h *hindrance) ready(rec types.NamespacedName, pod *corev1.Pod, template map[string]corev1.ResourceRequirements) []stuck {
	node, of := h.w.cluster.Node(pod.Spec.NodeName), demand{}
	if node == nil || node.Faults.Down || node.Faults.Error != "" || h.w.troubled[node.Name] || h.w.keepsSizes(rec) {
		return nil
	}
	of, known := h.w.demandOf(pod)
	if !known || !h.w.restorable(pod, template) {
		return nil
	}
	differs := false
	for _, c := range pod.Spec.Containers {
		r := template[c.Name]
		without := r.Limits.Memory().AsApproximateFloat64()
		need := of.memoryAt(h.w.time.now, h.w.time.now, pod.Name) + of.elastic.heap*without
		if c.Image == brokenImage || without > 0 && (need > without || without < float64(node.Faults.LeastMemory)) ||
			of.startCPU > r.Requests.Cpu().AsApproximateFloat64() {
			return nil
		}
		differs = differs || !equality.Semantic.DeepEqual(c.Resources.Requests, r.Requests) || !equality.Semantic.DeepEqual(c.Resources.Limits, r.Limits)
	}
	if !differs {
		return nil
	}
	return []stuck{{rec, "pod " + pod.Namespace + "/" + pod.Name + " on " + node.Name, "is not ready; with the resources of its template it would be", notReadyFor}}
}

// scaled: whether an HPA on memory utilization would add replicas without attune.
func (h *hindrance) scaled(hpa *autoscalingv2.HorizontalPodAutoscaler) []stuck {
	target := plane.WantedUtilization(hpa, corev1.ResourceMemory)
	if target == nil {
		return nil
	}
	var of workloadPlan
	var replicas int32
	for i, p := range h.w.plan.Workloads {
		if o := h.w.peek(i); o != nil && p.Namespace == hpa.Namespace && p.Name == hpa.Spec.ScaleTargetRef.Name && string(p.Kind) == hpa.Spec.ScaleTargetRef.Kind {
			want, _ := wanted(o)
			of, replicas = p, int32(want)
		}
	}
	if replicas == 0 || replicas >= hpa.Spec.MaxReplicas {
		return nil
	}
	var used, asked int64
	rec := recommendationOf(of)
	for _, pod := range h.w.podsOf(rec) {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		for name, r := range h.templates[pod.UID] {
			usage, known := h.w.recentMemory(pod, name, h.w.time.now)
			if known {
				used, asked = used+usage, asked+r.Requests.Memory().Value()
			}
		}
	}
	if asked == 0 {
		return nil
	}
	if utilization := used * 100 / asked; float64(utilization) > 1.1*float64(*target) {
		return []stuck{{rec, of.Namespace + "/" + of.Name, fmt.Sprintf("has %d replicas, which use %d %% of the memory requests of their template; the HPA scales up above %d %%", replicas, utilization, *target), scaledFor}}
	}
	return nil
}

// wanted is how many pods a workload is to have, and how many its status says that it has; 0: its kind says neither.
func wanted(o client.Object) (want, have int) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas), int(o.Status.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas), int(o.Status.Replicas)
	case *appsv1.ReplicaSet:
		return int(*o.Spec.Replicas), int(o.Status.Replicas)
	case *appsv1.DaemonSet:
		return int(o.Status.DesiredNumberScheduled), int(o.Status.CurrentNumberScheduled)
	}
	return 0, 0
}

// newestSet is the ReplicaSet of a Deployment that was made last; nil: there is none, or it is no Deployment.
func (w *world) newestSet(o client.Object) (newest *appsv1.ReplicaSet) {
	if _, is := o.(*appsv1.Deployment); !is {
		return nil
	}
	for _, stored := range w.server.Stored(&appsv1.ReplicaSet{}) {
		set := stored.(*appsv1.ReplicaSet)
		if metav1.IsControlledBy(set, o) && (newest == nil || newest.CreationTimestamp.Before(&set.CreationTimestamp)) {
			newest = set
		}
	}
	return newest
}
