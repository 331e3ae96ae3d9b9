package sim

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// originals: what a status says that a Deployment's containers had before attune is what their template says.
type originals struct {
	deaf
	*scene
	// template of a generation of a Deployment's pods; nil: it is not there any more.
	template func(deployment types.NamespacedName, hash string) *corev1.PodSpec
}

func (o *originals) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok || e.Type == watch.Deleted || rec.Spec.Workload.Kind != v1alpha1.KindDeployment {
		return
	}
	for _, of := range rec.Status.Originals {
		spec := o.template(key2(rec.Namespace, rec.Spec.Workload.Name), of.TemplateHash)
		for _, noted := range of.Containers {
			if wrong := notAsIn(spec, noted); wrong != "" {
				o.violate("originals", key2(rec.Namespace, rec.Name).String(), "container %s of generation %s had %s before attune", noted.Name, of.TemplateHash, wrong)
			}
		}
	}
}

// notAsIn is the first request that a template has otherwise than it was noted; empty: there is none.
func notAsIn(template *corev1.PodSpec, noted v1alpha1.ContainerResources) string {
	if template == nil {
		return ""
	}
	for _, c := range template.Containers {
		if c.Name != noted.Name {
			continue
		}
		for name, had := range map[corev1.ResourceName]*resource.Quantity{corev1.ResourceCPU: noted.CPURequest, corev1.ResourceMemory: noted.MemoryRequest} {
			if says, ok := c.Resources.Requests[name]; ok && had != nil && says.Cmp(*had) != 0 {
				return name.String() + " " + says.String() + " and not " + had.String()
			}
		}
	}
	return ""
}

// template of the pods of a Deployment with a hash.
func (w *world) template(deployment types.NamespacedName, hash string) *corev1.PodSpec {
	for _, stored := range w.server.Stored(&appsv1.ReplicaSet{}) {
		set := stored.(*appsv1.ReplicaSet)
		if set.Namespace == deployment.Namespace && len(set.OwnerReferences) > 0 && set.OwnerReferences[0].Name == deployment.Name &&
			set.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == hash {
			return &set.Spec.Template.Spec
		}
	}
	return nil
}
