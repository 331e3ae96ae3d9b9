package plane

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remember keeps a template under its hash, as ControllerRevisions do, which nothing here reads.
func (p *Plane) remember(of client.Object, template corev1.PodTemplateSpec) (hash string) {
	hash = p.hashOf(of, template)
	if p.templates == nil {
		p.templates = map[types.UID]map[string]corev1.PodTemplateSpec{}
	}
	if p.templates[of.GetUID()] == nil {
		p.templates[of.GetUID()] = map[string]corev1.PodTemplateSpec{}
	}
	if _, known := p.templates[of.GetUID()][hash]; !known {
		p.templates[of.GetUID()][hash] = *template.DeepCopy()
	}
	return hash
}

// forgetRevisions of owners that are gone.
func (p *Plane) forgetRevisions(v *view) {
	there := map[types.UID]bool{}
	for _, s := range v.stateful {
		there[s.UID] = true
	}
	for _, d := range v.daemons {
		there[d.UID] = true
	}
	for _, d := range v.deployments {
		there[d.UID] = true
	}
	for uid := range p.templates {
		if !there[uid] {
			delete(p.templates, uid)
		}
	}
	for uid := range p.hashes {
		if !there[uid] {
			delete(p.hashes, uid)
		}
	}
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }
