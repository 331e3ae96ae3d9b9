package tuning

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// rememberOriginals notes what the running pods of each template had before attune (status.originals), in at most
// v1alpha1.MaxOriginals entries. Undo and the judgement of seeds depend on it. Its result for unchanged pods
// is the same in every pass: a generation that a live pod belongs to is never dropped for another one, and
// where the list is full of such generations, no more are noted. Otherwise two generations would replace
// each other in turns, with one write for each pass.
func (d *pass) rememberOriginals() {
	live := d.view.Live()
	for _, pod := range live {
		if hasRecord(d.out.Status.Records, pod) || d.originalsKnown(pod) || d.tooLarge(pod) {
			continue
		}
		sizes := d.view.deriveOriginals(pod)
		if sizes == nil || slices.ContainsFunc(d.out.Status.Originals, func(o v1alpha1.Originals) bool { return sameOriginals(o, pod, sizes) }) {
			continue
		}
		if len(d.out.Status.Originals) < v1alpha1.MaxOriginals || d.dropOriginals(live) {
			d.out.Status.Originals = append(d.out.Status.Originals, v1alpha1.Originals{
				TemplateHash: podview.TemplateHash(pod), Since: &metav1.Time{Time: d.view.Now}, Containers: sizes,
			})
		}
	}
}

// originalsKnown reports whether the generation of a pod is noted already and its controller names generations (a
// hash label): all pods of such a generation were born alike. For other controllers the hash covers what
// the pod runs, which may stay the same while a person changes sizes.
func (d *pass) originalsKnown(pod *corev1.Pod) bool {
	hash := podview.TemplateHash(pod)
	return podview.GenerationNamed(pod) && slices.ContainsFunc(d.out.Status.Originals, func(o v1alpha1.Originals) bool { return o.TemplateHash == hash })
}

// sameOriginals reports whether a stored entry has the pod's generation and exactly these sizes.
func sameOriginals(o v1alpha1.Originals, pod *corev1.Pod, sizes []v1alpha1.ContainerResources) bool {
	return o.TemplateHash == podview.TemplateHash(pod) && slices.EqualFunc(o.Containers, sizes, func(a, b v1alpha1.ContainerResources) bool {
		return a.Name == b.Name && podview.FromResources(a.Resources) == podview.FromResources(b.Resources)
	})
}

// dropOriginals makes room in the full list: it removes the oldest generation that no live pod belongs to; false:
// there is none, and nothing is removed.
func (d *pass) dropOriginals(live []*corev1.Pod) bool {
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

// originalsOf returns the sizes that the pod's containers had before attune, by container name; empty: they are not
// known. If several entries have the pod's generation, the newest counts.
func (d *pass) originalsOf(pod *corev1.Pod) map[string]recommender.Size {
	out := map[string]recommender.Size{}
	hash := podview.TemplateHash(pod)
	for _, o := range d.out.Status.Originals {
		if o.TemplateHash == hash {
			maps.Copy(out, podview.SizesOf(o.Containers))
		}
	}
	return out
}

// deriveOriginals derives what a pod's containers had before attune: the pod's own spec where nothing has changed
// it, and the template where the pod was seeded or resized (a generation above 1). nil: it is not certain
// which template the pod was made from, and a wrong original would be restored by an undo.
func (v *View) deriveOriginals(pod *corev1.Pod) []v1alpha1.ContainerResources {
	// Users of the namespace can write the annotation, so that a claim is only believed where agrees accepts it.
	claims := podview.SizesOf(ptr.Deref(seededOf(pod), v1alpha1.Seeded{}).Original)
	var out []v1alpha1.ContainerResources
	for _, c := range podview.Read(pod) {
		size, known := c.Size, true
		claim, claimed := claims[c.Name]
		changed := claimed || pod.Generation > 1
		if changed && v.owner().Template == nil {
			return nil
		}
		if template, ok := podview.TemplateSize(v.owner().Template, c.Name); ok && changed {
			size, known = v.deriveOriginal(pod, claim, claimed, template, c.Size)
		}
		if !known {
			return nil
		}
		out = append(out, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(size)})
	}
	return out
}

// deriveOriginal returns the original size of one container that has another size now; false: it is not
// known. A claim of the annotation (claimed: it has one) is believed where it agrees with the template. Where it
// does not agree, and during a rollout, the pod may belong to another template. A seeded pod younger than
// cacheLag may too: the cache may not show its new template yet.
func (v *View) deriveOriginal(pod *corev1.Pod, claim recommender.Size, claimed bool, template, has recommender.Size) (recommender.Size, bool) {
	if claimed && agrees(claim, template) {
		return claim, true
	}
	if !v.newestTemplate(pod) || claimed && v.Now.Sub(pod.CreationTimestamp.Time) < cacheLag {
		return recommender.Size{}, false
	}
	return asBorn(template, has), true
}

// cacheLag is longer than the cache shows a workload later than the first pods of its new template.
const cacheLag = time.Minute

// newestTemplate reports whether the pod was made from the template that the workload has now. During a
// rollout this is never certain.
func (v *View) newestTemplate(pod *corev1.Pod) bool {
	if v.owner().Rollout.InProgress {
		return false
	}
	return podview.GenerationNamed(pod) || podview.SameProgram(pod, &v.Workload.Template.Spec)
}

// asBorn returns the size of a container as its template creates it. A request that is missing beside a
// limit equals the limit, as the API server defaults it. A resource that the template does not mention has
// what the pod has: a LimitRange has set it.
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

// seededOf decodes the seed annotation of a pod; nil: it has none, or it cannot be read.
// workload.UnmarshalBounded refuses quantities that would take minutes to parse, because users can write the
// annotation.
func seededOf(pod *corev1.Pod) *v1alpha1.Seeded {
	raw, ok := pod.Annotations[v1alpha1.SeededAnnotation]
	if !ok {
		return nil
	}
	seeded := &v1alpha1.Seeded{}
	if err := workload.UnmarshalBounded([]byte(raw), seeded); err != nil {
		return nil
	}
	return seeded
}

// seededBy is seededOf for a pod that admission sized by the recommendation of this view; nil for any other.
func (v *View) seededBy(pod *corev1.Pod) *v1alpha1.Seeded {
	if seeded := seededOf(pod); seeded != nil && seeded.Recommendation == v.Rec.Name {
		return seeded
	}
	return nil
}

// agrees reports whether a claimed size has everything that the template sets. What the template leaves
// open may come from a LimitRange and is not compared.
func agrees(claimed, template recommender.Size) bool {
	return podview.Fill(template, claimed) == claimed
}
