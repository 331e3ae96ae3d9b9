package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/quantity"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// originals know what pods had before attune.
type originals struct{ *pass }

// remember notes what the running pods of each template had before attune. What it notes of unchanged pods
// is the same in every pass: a generation that a live pod is of is never dropped for another one, and where all that
// there is room for are such, no more are noted.
func (d *originals) remember() {
	live := d.view.Live()
	for _, pod := range live {
		if hasRecord(d.out.Status.Records, pod) || d.known(pod) || d.tooLarge(pod) {
			continue
		}
		sizes := d.ofPod(pod)
		if sizes == nil || slices.ContainsFunc(d.out.Status.Originals, func(o v1alpha1.Originals) bool { return sameOriginals(o, pod, sizes) }) {
			continue
		}
		if len(d.out.Status.Originals) < v1alpha1.MaxOriginals || d.drop(live) {
			d.out.Status.Originals = append(d.out.Status.Originals, v1alpha1.Originals{
				TemplateHash: podview.TemplateHash(pod), Since: &metav1.Time{Time: d.view.Now}, Containers: sizes,
			})
		}
	}
}

// known of a generation that its controller names: all its pods were born alike. What pods of other
// generations run may stay the same while a person changes their sizes.
func (d *originals) known(pod *corev1.Pod) bool {
	hash := podview.TemplateHash(pod)
	return podview.GenerationNamed(pod) && slices.ContainsFunc(d.out.Status.Originals, func(o v1alpha1.Originals) bool { return o.TemplateHash == hash })
}

func sameOriginals(o v1alpha1.Originals, pod *corev1.Pod, sizes []v1alpha1.ContainerResources) bool {
	return o.TemplateHash == podview.TemplateHash(pod) && slices.EqualFunc(o.Containers, sizes, func(a, b v1alpha1.ContainerResources) bool {
		return a.Name == b.Name && podview.FromResources(a.Resources) == podview.FromResources(b.Resources)
	})
}

// drop makes room by the oldest generation that no live pod is of; false: there is none.
func (d *originals) drop(live []*corev1.Pod) bool {
	hashes := map[string]bool{}
	for _, pod := range live {
		hashes[podview.TemplateHash(pod)] = true
	}
	i := slices.IndexFunc(d.out.Status.Originals, func(o v1alpha1.Originals) bool { return !hashes[o.TemplateHash] })
	if i < 0 {
		return false
	}
	d.out.Status.Originals = slices.Delete(slices.Clone(d.out.Status.Originals), i, i+1)
	return true
}

// of are the sizes that the pod's containers had before attune. Of several that were noted of what it runs
// the newest count.
func (d *originals) of(pod *corev1.Pod) map[string]recommender.Size {
	out := map[string]recommender.Size{}
	hash := podview.TemplateHash(pod)
	for _, o := range d.out.Status.Originals {
		if o.TemplateHash != hash {
			continue
		}
		for _, c := range o.Containers {
			out[c.Name] = podview.FromResources(c.Resources)
		}
	}
	return out
}

// ofPod are what a pod's containers had before attune: its spec, where nothing changed it since. A container that
// was seeded, or a pod that was resized, had what its template says. Nil: nobody knows now which template that was.
func (d *originals) ofPod(pod *corev1.Pod) []v1alpha1.ContainerResources {
	claims := claimsOf(pod)
	var out []v1alpha1.ContainerResources
	for _, c := range podview.Read(pod) {
		size, known := c.Size, true
		claimed := claims[c.Name]
		if template, ok := d.view.templateSize(c.Name); ok && (claimed != nil || pod.Generation > 1) {
			size, known = d.ofContainer(pod, claimed, template, c.Size)
		}
		if !known {
			return nil
		}
		out = append(out, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(size)})
	}
	return out
}

// claimsOf are the sizes that the annotation of a pod's seed says its containers had.
func claimsOf(pod *corev1.Pod) map[string]*recommender.Size {
	claims := map[string]*recommender.Size{}
	if seeded := seededOf(pod); seeded != nil {
		for _, o := range seeded.Original {
			size := podview.FromResources(o.Resources)
			claims[o.Name] = &size
		}
	}
	return claims
}

// ofContainer of one container that has another size by now. What the annotation of its seed claims (nil: nothing)
// is believed where it agrees with the template, as anybody in the namespace can write it; where it does not, and in
// a rollout, the pod may be another template's.
func (d *originals) ofContainer(pod *corev1.Pod, claimed *recommender.Size, template, has recommender.Size) (recommender.Size, bool) {
	if claimed != nil && agrees(*claimed, template) {
		return *claimed, true
	}
	if !d.newestTemplate(pod) || claimed != nil && d.view.Now.Sub(pod.CreationTimestamp.Time) < cacheLag {
		return recommender.Size{}, false
	}
	return asBorn(template, has), true
}

// cacheLag is longer than the workload is seen after the first pods of its new template.
const cacheLag = time.Minute

// newestTemplate: the pod was made from the template that the workload has now.
func (d *originals) newestTemplate(pod *corev1.Pod) bool {
	if d.view.owner().Rollout.InProgress {
		return false
	}
	return podview.GenerationNamed(pod) || podview.SameProgram(pod, &d.view.Workload.Template.Spec)
}

// asBorn is the size of a container as its template makes it, with what it has where the template says nothing: that
// came from a LimitRange. A request that is left out beside a limit is the limit.
func asBorn(template, has recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		if template[r].Request == 0 {
			template[r].Request = template[r].Limit
		}
		if template[r] == (recommender.Allocation{}) {
			template[r] = has[r]
		}
	}
	return template
}

func seededOf(pod *corev1.Pod) *v1alpha1.Seeded {
	raw, ok := pod.Annotations[v1alpha1.SeededAnnotation]
	if !ok {
		return nil
	}
	seeded := &v1alpha1.Seeded{}
	if err := quantity.Unmarshal([]byte(raw), seeded); err != nil {
		return nil
	}
	return seeded
}

// agrees: what the template sets is what is claimed; what it leaves open may have been set by a LimitRange.
func agrees(claimed, template recommender.Size) bool {
	for _, r := range recommender.Resources {
		if template[r].Request > 0 && template[r].Request != claimed[r].Request ||
			template[r].Limit > 0 && template[r].Limit != claimed[r].Limit {
			return false
		}
	}
	return true
}
