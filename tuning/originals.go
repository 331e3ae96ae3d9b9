package tuning

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// rememberOriginals stores the original resources of the running pods of each template (status.originals), in at most
// v1alpha1.MaxOriginals entries. Undo and the assessment of seeds depend on it. For unchanged pods the result is the
// same in every reconcile: a generation with live pods is never dropped, and a list full of such generations takes no
// more. Otherwise two generations would replace each other in turns, with one write per reconcile.
func (d *learned) rememberOriginals() {
	live := d.view.Live()
	for _, pod := range live {
		if d.records.has(pod) || d.originalsKnown(pod) && !resizedAtStart(pod) || d.records.tooLarge(pod) {
			continue
		}
		sizes := d.view.deriveOriginals(pod)
		if sizes == nil || slices.ContainsFunc(d.originals, func(o v1alpha1.Originals) bool { return sameOriginals(o, pod, sizes) }) {
			continue
		}
		if len(d.originals) < v1alpha1.MaxOriginals || d.dropOriginals(live) {
			d.originals = append(d.originals, v1alpha1.Originals{
				TemplateHash: podview.TemplateHash(pod), Since: &metav1.Time{Time: d.view.Now}, Containers: sizes,
			})
		}
	}
	if template := d.view.owner().Template; template != nil {
		if i := slices.IndexFunc(live, d.view.newestTemplate); i >= 0 {
			d.rememberTemplate(podview.TemplateHash(live[i]), template)
		}
	}
}

// resizedAtStart reports whether a booster resized the pod when it started, and attune did not: the pod then has the size
// with which its owner wants it to run.
func resizedAtStart(pod *corev1.Pod) bool {
	return podview.ResizedAtStart(pod) && podview.ResizedByAttune(pod).IsZero() && seededOf(pod) == nil
}

// rememberTemplate stores what the template sets for the pods of the newest generation, where another webhook or the
// platform created them with other requests. Otherwise a template that never changed would look changed.
func (d *learned) rememberTemplate(hash string, template *corev1.PodTemplateSpec) {
	for i, o := range d.originals {
		if o.TemplateHash != hash {
			continue
		}
		var other []v1alpha1.ContainerResources
		for _, c := range o.Containers {
			has := podview.FromResources(c.Resources)
			size, ok := podview.TemplateSize(template, c.Name)
			if size = asBorn(size, has); ok && requestsOf(size) != requestsOf(has) {
				other = append(other, v1alpha1.ContainerResources{Name: c.Name, Resources: podview.ToResources(size)})
			}
		}
		if !equality.Semantic.DeepEqual(other, o.Template) {
			d.originals = slices.Clone(d.originals)
			d.originals[i].Template = other
		}
	}
}

// requestsOf returns the requests of a size in millicores and bytes.
func requestsOf(s recommender.Size) [2]recommender.Amount {
	return [2]recommender.Amount{s[recommender.CPU].Request, s[recommender.Memory].Request}
}

// originalsKnown reports whether the generation of a pod is already stored and its controller names generations (a
// hash label), so that all its pods were created alike. For other controllers the hash covers the program, which may
// stay the same while a user changes resources.
func (d *learned) originalsKnown(pod *corev1.Pod) bool {
	hash := podview.TemplateHash(pod)
	return podview.GenerationNamed(pod) && slices.ContainsFunc(d.originals, func(o v1alpha1.Originals) bool { return o.TemplateHash == hash })
}

// sameOriginals reports whether a stored entry has the pod's generation and exactly these sizes.
func sameOriginals(o v1alpha1.Originals, pod *corev1.Pod, sizes []v1alpha1.ContainerResources) bool {
	return o.TemplateHash == podview.TemplateHash(pod) && slices.EqualFunc(o.Containers, sizes, func(a, b v1alpha1.ContainerResources) bool {
		return a.Name == b.Name && podview.FromResources(a.Resources) == podview.FromResources(b.Resources)
	})
}

// dropOriginals makes room in the full list: it removes the oldest generation without live pods. false: every
// generation has live pods, and nothing is removed.
func (d *learned) dropOriginals(live []*corev1.Pod) bool {
	hashes := map[string]bool{}
	for _, pod := range live {
		hashes[podview.TemplateHash(pod)] = true
	}
	i := slices.IndexFunc(d.originals, func(o v1alpha1.Originals) bool { return !hashes[o.TemplateHash] })
	if i < 0 {
		return false
	}
	d.originals = slices.Delete(slices.Clone(d.originals), i, i+1)
	return true
}

// originalsOf returns the original resources of the pod's containers by name; empty: not known. If several entries
// have the pod's generation, the newest counts.
func (d *learned) originalsOf(pod *corev1.Pod) map[string]recommender.Size {
	out := map[string]recommender.Size{}
	hash := podview.TemplateHash(pod)
	for _, o := range d.originals {
		if o.TemplateHash == hash {
			maps.Copy(out, podview.SizesOf(o.Containers))
		}
	}
	return out
}

// before returns the original resources of a pod's containers by name: from the stored generation, or from the
// template.
func (d *learned) before(pod *corev1.Pod) map[string]recommender.Size {
	sizes := d.originalsOf(pod)
	for _, c := range podview.Resizable(pod) {
		if size, ok := podview.TemplateSize(d.view.owner().Template, c.Name); ok && sizes[c.Name] == (recommender.Size{}) {
			sizes[c.Name] = size
		}
	}
	return sizes
}

// originalSizes returns the original resources for undos and restores, sorted by container name: originals are a map,
// and plans must not depend on its order.
func (d *learned) originalSizes(pod *corev1.Pod) []podview.Container {
	var out []podview.Container
	for name, size := range d.originalsOf(pod) {
		out = append(out, podview.Container{Name: name, Size: size, MemoryUsage: d.view.Usage.Memory[pod.UID][name]})
	}
	slices.SortFunc(out, func(a, b podview.Container) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// deriveOriginals derives the original resources of a pod's containers: from the pod's own spec if nothing has
// changed it since its start, and from the template if the pod was seeded or resized (a generation above 1). nil: it is not certain
// which template created the pod, and an undo would restore wrong resources.
func (v *View) deriveOriginals(pod *corev1.Pod) []v1alpha1.ContainerResources {
	// Users of the namespace can write the annotation, so a claim counts only if agrees accepts it.
	claims := podview.SizesOf(ptr.Deref(seededOf(pod), v1alpha1.Seeded{}).Original)
	var out []v1alpha1.ContainerResources
	for _, c := range podview.Read(pod) {
		size, known := c.Size, true
		claim, claimed := claims[c.Name]
		changed := claimed || pod.Generation > 1 && !resizedAtStart(pod)
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

// deriveOriginal returns the original size of one container that has another size now; false: not known. A claim of
// the annotation (claimed: it has one) counts if it has everything that the template sets; other values may come from a
// LimitRange and are not compared. If it does not agree, or during a rollout, another template may have created the pod.
// That also holds for a seeded pod younger than cacheLag: the cache may not show its new template yet.
func (v *View) deriveOriginal(pod *corev1.Pod, claim recommender.Size, claimed bool, template, has recommender.Size) (recommender.Size, bool) {
	if claimed && podview.Fill(template, claim) == claim {
		return claim, true
	}
	if !v.newestTemplate(pod) || claimed && v.Now.Sub(pod.CreationTimestamp.Time) < cacheLag {
		return recommender.Size{}, false
	}
	return asBorn(template, has), true
}

// cacheLag is longer than the delay after which the cache shows the template of a workload's new pods.
const cacheLag = time.Minute

// newestTemplate reports whether the workload's current template created the pod. During a rollout this is certain only
// if the workload names the label of its newest pods.
func (v *View) newestTemplate(pod *corev1.Pod) bool {
	if rollout := v.owner().Rollout; rollout.InProgress {
		return rollout.Label != "" && pod.Labels[rollout.Label] == rollout.Newest
	}
	return podview.GenerationNamed(pod) || podview.SameProgram(pod, &v.Workload.Template.Spec)
}

// asBorn returns the size with which the template creates a container. A missing request equals the limit, as the API
// server defaults it. A resource that the template does not set has the pod's value, which a LimitRange has set.
func asBorn(template, has recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		template[r].Request = cmp.Or(template[r].Request, template[r].Limit)
		if template[r] == (recommender.Allocation{}) {
			template[r] = has[r]
		}
	}
	return template
}

// seededOf decodes the seed annotation of a pod; nil: the annotation is not set or cannot be read. Users can write
// the annotation, so workload.UnmarshalBounded refuses quantities that would take minutes to parse.
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

// seededBy is seededOf for a pod that admission sized by the recommendation of this view; nil for other pods.
func (v *View) seededBy(pod *corev1.Pod) *v1alpha1.Seeded {
	if seeded := seededOf(pod); seeded != nil && seeded.Recommendation == v.Rec.Name {
		return seeded
	}
	return nil
}
