package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
	"attune.io/attune/test/plane"
	"attune.io/attune/test/sim/api"
)

// request is a CPU request of a container, in millicores.
type request struct {
	container string
	of        int64
}

// requestsAreKept: with cpu.hpa: Keep, a CPU request on which an HPA scales changes only within the range that is proven for
// it, and without one not at all. Back to a request that the pod or its template has had it always may.
type requestsAreKept struct {
	deaf
	*scene
	w *world
	// had are the requests that the containers of a pod have had, in millicores, and since when.
	had map[types.UID]map[request]time.Time
	// since when an HPA is as it is.
	since map[types.UID]time.Time
}

func (k *requestsAreKept) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		if old, was := e.Old.(*autoscalingv2.HorizontalPodAutoscaler); !was || !equality.Semantic.DeepEqual(old.Spec, o.Spec) {
			k.since[o.UID] = k.now()
		}
	case *corev1.Pod:
		if e.Type == watch.Deleted {
			delete(k.had, o.UID)
			return
		}
		for _, c := range o.Spec.Containers {
			k.add(o.UID, request{c.Name, c.Resources.Requests.Cpu().MilliValue()})
		}
	case *v1alpha1.AttuneRecommendation:
		if e.Type != watch.Deleted {
			k.target(o)
		}
	}
}

func (k *requestsAreKept) add(pod types.UID, has request) {
	if k.had[pod] == nil {
		k.had[pod] = map[request]time.Time{}
	}
	if _, known := k.had[pod][has]; !known {
		k.had[pod][has] = k.now()
	}
}

// before reports whether a pod has had a request before this moment.
func (k *requestsAreKept) before(pod types.UID, has request) bool {
	since, known := k.had[pod][has]
	return known && since.Before(k.now())
}

// target of a recommendation: it is within the range that is stored with it, unless the request is blocked.
func (k *requestsAreKept) target(rec *v1alpha1.AttuneRecommendation) {
	for _, t := range rec.Spec.Containers {
		request := podview.FromPointer(recommender.CPU, t.Target.CPURequest)
		if kept := resize.KeptRange(t, recommender.CPU); request > 0 && !kept.Contains(request) && !resize.HeldFor(t.Holds, recommender.CPU, resize.ReasonHPA) {
			k.violate("requests are kept", key2(rec.Namespace, rec.Name).String(), "the CPU target %d of container %s is not within its range of %d to %d", request, t.Name, kept.Least, kept.Most)
		}
	}
}

// wrote: attune resizes a pod. Its caches may be a moment late.
func (k *requestsAreKept) wrote(w api.Write) {
	if w.Verb != "patch/resize" || !strings.HasPrefix(w.Actor, "attune") || !w.Changed || k.excused() {
		return
	}
	namespace, name, _ := strings.Cut(w.Key, "/")
	rec, found := k.w.server.Peek(&v1alpha1.AttuneRecommendation{}, k.workloadOf("Pod", key2(namespace, name))).(*v1alpha1.AttuneRecommendation)
	if !found {
		return
	}
	if h := k.w.scalerOf(rec); h == nil || k.now().Before(k.since[h.UID].Add(time.Minute)) {
		return
	}
	var patch struct {
		Spec struct {
			Containers []struct {
				Name      string
				Resources corev1.ResourceRequirements
			}
		}
	}
	k.w.must(json.Unmarshal([]byte(w.Body), &patch))
	for _, c := range patch.Spec.Containers {
		cpu := c.Resources.Requests.Cpu().MilliValue()
		template := k.w.watching.templates[types.UID(w.UID)][c.Name]
		if cpu == 0 || cpu == template.Requests.Cpu().MilliValue() || k.before(types.UID(w.UID), request{c.Name, cpu}) {
			continue
		}
		target := podview.First(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == c.Name })
		kept := resize.KeptRange(target, recommender.CPU)
		if kept == nil || !kept.Contains(recommender.Amount(cpu)) {
			k.violate("requests are kept", key2(rec.Namespace, rec.Name).String(), "container %s of pod %s is resized to a CPU request of %dm, which is not within its range %+v", c.Name, w.Key, cpu, kept)
		}
	}
}

// scalerOf a recommendation is the HPA that scales its workload by CPU utilization, if the setting is Keep; nil: there is
// none, or the number is fixed.
func (w *world) scalerOf(rec *v1alpha1.AttuneRecommendation) *autoscalingv2.HorizontalPodAutoscaler {
	p := w.policyOf(rec)
	if p == nil || p.Spec.CPU == nil || p.Spec.CPU.HPA == nil || *p.Spec.CPU.HPA != v1alpha1.HPAKeep {
		return nil
	}
	for _, o := range w.server.Stored(&autoscalingv2.HorizontalPodAutoscaler{}) {
		h := o.(*autoscalingv2.HorizontalPodAutoscaler)
		ref := h.Spec.ScaleTargetRef
		if h.Namespace == rec.Namespace && ref.Name == rec.Spec.Workload.Name && ref.Kind == string(rec.Spec.Workload.Kind) && plane.WantedUtilization(h, corev1.ResourceCPU) != nil &&
			*h.Spec.MinReplicas < h.Spec.MaxReplicas {
			return h
		}
	}
	return nil
}

// replicasAreKept: what attune has done to the CPU requests of a Deployment since its HPA was changed the last time changes
// nothing about the number that the HPA asks for. It knows no demand that is higher than ever, so only worlds without any
// have it.
type replicasAreKept struct {
	deaf
	*scene
	w *world
	// before are the CPU requests of the pods of a workload when its HPA was changed, in millicores.
	before map[types.NamespacedName]map[types.UID]int64
	// last is what an HPA said, also of one that was deleted and may come back.
	last map[types.NamespacedName]autoscalingv2.HorizontalPodAutoscalerSpec
}

func (k *replicasAreKept) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		of := key2(o.Namespace, o.Spec.ScaleTargetRef.Name)
		if last, known := k.last[of]; !known || !equality.Semantic.DeepEqual(last, o.Spec) {
			k.last[of], k.before[of] = *o.Spec.DeepCopy(), map[types.UID]int64{}
			for _, pod := range k.running(of) {
				k.before[of][pod.UID] = pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			}
		}
	case *corev1.Pod:
		k.judge(key2(o.Namespace, o.Labels[appLabel]))
	}
}

func (k *replicasAreKept) tick() {
	for of := range k.before {
		k.judge(of)
	}
}

// running are the pods of a Deployment that an HPA counts.
func (k *replicasAreKept) running(of types.NamespacedName) (pods []*corev1.Pod) {
	for _, pod := range k.w.podsOf(key2(of.Namespace, "deployment-"+of.Name)) {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pods = append(pods, pod)
		}
	}
	return pods
}

// means are those of the requests of pods as they are, as they would be if attune had done nothing since the HPA was
// changed, and those of their templates.
func (k *replicasAreKept) means(of types.NamespacedName, pods []*corev1.Pod) (now, before, template float64) {
	for _, pod := range pods {
		made := k.w.watching.templates[pod.UID][pod.Spec.Containers[0].Name]
		now += float64(pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
		template += float64(made.Requests.Cpu().MilliValue())
		if request, known := k.before[of][pod.UID]; known {
			before += float64(request)
		} else {
			before += float64(made.Requests.Cpu().MilliValue())
		}
	}
	n := max(1, float64(len(pods)))
	return now / n, before / n, template / n
}

func (k *replicasAreKept) judge(of types.NamespacedName) {
	rec, found := k.w.server.Peek(&v1alpha1.AttuneRecommendation{}, key2(of.Namespace, "deployment-"+of.Name)).(*v1alpha1.AttuneRecommendation)
	if !found {
		return
	}
	h := k.w.scalerOf(rec)
	d, is := k.w.server.Peek(&appsv1.Deployment{}, of).(*appsv1.Deployment)
	pods := k.running(of)
	now, before, template := k.means(of, pods)
	if h == nil || !is || now == 0 || template == 0 {
		return
	}
	fleet := replicas.Fleet{Current: *d.Spec.Replicas}
	for _, pod := range pods {
		if used, known := k.w.recentCPU(pod, pod.Spec.Containers[0].Name, k.w.time.now); known && isReady(pod) {
			fleet.Ready++
			fleet.Usage += float64(used)
		}
	}
	fleet.Usage /= max(1, float64(fleet.Ready))
	s := replicas.Scaler{Min: *h.Spec.MinReplicas, Max: h.Spec.MaxReplicas, Target: *plane.WantedUtilization(h, corev1.ResourceCPU), Up: replicas.DefaultTolerance, Down: replicas.DefaultTolerance}
	asked, bounds := s.Desired(fleet, now), []int32{s.Desired(fleet, before), s.Desired(fleet, template)}
	if asked < slices.Min(bounds) || asked > slices.Max(bounds) {
		k.violate("replicas are kept", rec.Namespace+"/"+rec.Name, "with requests of %.0fm the HPA asks for %d replicas, and without attune for %v: it had %.0fm when the HPA was changed, its templates have %.0fm, usage is %+v",
			now, asked, bounds, before, template, fleet)
	}
}
