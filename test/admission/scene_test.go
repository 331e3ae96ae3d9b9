package admission

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

const (
	namespace = "shop"
	// runtimeClass of the pods with an overhead, which it fixes.
	runtimeClass = "heavy"
)

var overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("120Mi")}

// scene is a pod as its controller posts it, what is known of its workload, and its namespace.
type scene struct {
	number uint64
	pod    *corev1.Pod
	rec    *v1alpha1.AttuneRecommendation
	ranges []*corev1.LimitRange
	quotas []*corev1.ResourceQuota
	// written is the policy that made the recommendation; nil: the recommendation is drawn.
	written written
}

func newScene(number uint64) *scene {
	d := throw(number)
	s := &scene{number: number, pod: d.pod()}
	s.rec = d.recommendation(s.pod)
	if d.chance(40) {
		s.decide(d)
	}
	d.annotate(s)
	if d.chance(40) {
		s.ranges = d.limitRanges()
	}
	if d.chance(35) {
		s.quotas = d.quotas()
	}
	return s
}

func (d dice) pod() *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	d.own(pod)
	shape := pick(d, shapes...)
	for i := range max(0, d.IntN(6)-3) {
		c := d.container(fmt.Sprintf("init%d", i), shape)
		if d.chance(50) {
			c.Name, c.RestartPolicy = fmt.Sprintf("side%d", i), new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + max(0, d.IntN(5)-2) {
		pod.Spec.Containers = append(pod.Spec.Containers, d.container(fmt.Sprintf("app%d", i), shape))
	}
	d.specials(&pod.Spec)
	return pod
}

// own gives the pod a controller: most often one that attune sizes.
func (d dice) own(pod *corev1.Pod) {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Name: "web", UID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427", Controller: new(true)}
	switch d.IntN(12) {
	default:
		owner.Kind, owner.Name = "ReplicaSet", "web-7c9d8b6f5"
		pod.Labels = map[string]string{"app": "web", "pod-template-hash": "7c9d8b6f5"}
	case 5:
		owner.Kind = "ReplicaSet"
	case 6:
		owner.Kind = "StatefulSet"
	case 7:
		owner.Kind = "DaemonSet"
	case 8:
		owner.APIVersion, owner.Kind = batchv1.SchemeGroupVersion.String(), "Job"
	case 9:
		owner.APIVersion, owner.Kind, owner.Name = batchv1.SchemeGroupVersion.String(), "Job", "web-29000000"
	case 10:
		owner.APIVersion, owner.Kind = "apps.kruise.io/v1", "StatefulSet"
	case 11:
		owner.Controller = nil
	}
	pod.GenerateName = owner.Name + "-"
	if d.chance(98) {
		pod.OwnerReferences = []metav1.OwnerReference{owner}
	}
	if owner.Kind == "Job" {
		pod.Spec.RestartPolicy = pick(d, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	}
}

// specials are what pods have besides containers.
func (d dice) specials(spec *corev1.PodSpec) {
	if d.chance(12) {
		spec.RuntimeClassName, spec.Overhead = new(runtimeClass), overhead
	}
	if d.chance(6) {
		resources := d.requirements(pick(d, shapes...))
		spec.Resources = &resources
	}
	if d.chance(6) {
		spec.OS = &corev1.PodOS{Name: pick(d, corev1.Linux, corev1.Linux, corev1.Windows)}
	}
	if d.chance(10) {
		spec.ActiveDeadlineSeconds = new(int64(600))
	}
}

// identity is the workload as attune names it, or that of nobody's.
func identity(pod *corev1.Pod) workload.Identity {
	if of, ok := workload.OwnerOf(pod, namespace, nil); ok {
		return of
	}
	return workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: namespace, Name: "nobody"}
}

func uid(number uint64) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", number))
}
