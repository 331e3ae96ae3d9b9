package sim

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// admissions: with Auto and Canary no container is born below its template before a size of it is kept.
type admissions struct {
	deaf
	*scene
	recs map[types.NamespacedName]*v1alpha1.AttuneRecommendation
}

func newAdmissions(s *scene) *admissions {
	return &admissions{scene: s, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}}
}

func (b *admissions) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		b.recs[key2(o.Namespace, o.Name)] = o
	case *corev1.Pod:
		var seeded v1alpha1.Seeded
		if e.Type == watch.Added && json.Unmarshal([]byte(o.Annotations[v1alpha1.SeededAnnotation]), &seeded) == nil {
			b.created(o, seeded)
		}
	}
}

func (b *admissions) created(pod *corev1.Pod, seeded v1alpha1.Seeded) {
	of := b.workloadOf("Pod", key2(pod.Namespace, pod.Name))
	rec := b.recs[of]
	if rec == nil || rec.Spec.Mode != v1alpha1.UpdateAuto && rec.Spec.Mode != v1alpha1.UpdateCanary || rec.Spec.Strategy == v1alpha1.StrategyNode {
		return // strategy Node tries no size: each pod has its own
	}
	kept := map[string]bool{}
	for _, k := range rec.Status.Verified {
		kept[k.Name] = true
	}
	for _, was := range seeded.Original {
		for _, c := range pod.Spec.Containers {
			lowered := less(c.Resources.Requests[corev1.ResourceCPU], was.CPURequest) || less(c.Resources.Requests[corev1.ResourceMemory], was.MemoryRequest)
			if c.Name == was.Name && lowered && !kept[c.Name] {
				b.violate("admissions", of.String(), "container %s of pod %s is born with %v in place of %v, and no size of it was kept", c.Name, pod.Name, c.Resources.Requests, was)
			}
		}
	}
}

func less(now resource.Quantity, was *resource.Quantity) bool { return was != nil && now.Cmp(*was) < 0 }
