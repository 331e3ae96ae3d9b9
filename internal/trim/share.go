package trim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/workload"
)

// share replaces a pod's texts and lists of amounts by equal ones of other pods, so that they take memory once:
// pods of one workload differ in little but their names.
// The pod's own name and UID are not shared: no other object has them.
func share(pod *corev1.Pod) {
	pod.Labels, pod.Annotations = sharedMap(pod.Labels), sharedMap(pod.Annotations)
	pod.Namespace, pod.GenerateName = shared(pod.Namespace), shared(pod.GenerateName)
	for i := range pod.OwnerReferences {
		owner := &pod.OwnerReferences[i]
		owner.Name, owner.Kind, owner.APIVersion, owner.UID = shared(owner.Name), shared(owner.Kind), shared(owner.APIVersion), shared(owner.UID)
	}
	shareSpec(&pod.Spec)
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			s.Name = shared(s.Name)
			s.AllocatedResources = sharedAmounts(s.AllocatedResources)
			if s.Resources != nil {
				shareAmounts(s.Resources)
			}
		}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		c.Type, c.Status, c.Reason = shared(c.Type), shared(c.Status), shared(c.Reason)
	}
}

// shareWorkload does the same for a workload and its template. Many workloads are made of few templates, and a
// template's sizes are those of its pods.
func shareWorkload(w workload.Object, template *corev1.PodTemplateSpec) {
	w.SetNamespace(shared(w.GetNamespace()))
	w.SetLabels(sharedMap(w.GetLabels()))
	w.SetAnnotations(sharedMap(w.GetAnnotations()))
	template.Annotations = sharedMap(template.Annotations)
	shareSpec(&template.Spec)
}

// shareSpec shares the texts of placement and containers.
func shareSpec(spec *corev1.PodSpec) {
	// All pods of a node have its name.
	spec.NodeName, spec.PriorityClassName = shared(spec.NodeName), shared(spec.PriorityClassName)
	spec.NodeSelector = sharedMap(spec.NodeSelector)
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		t.Key, t.Operator, t.Value, t.Effect = shared(t.Key), shared(t.Operator), shared(t.Value), shared(t.Effect)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Name, c.Image = shared(c.Name), shared(c.Image)
			sharedAll(c.Command)
			sharedAll(c.Args)
			shareAmounts(&c.Resources)
		}
	}
}

// shared returns an equal text whose memory is the same for all callers. The text is freed when no object has it
// any more (package unique).
func shared[T ~string](text T) T {
	if text == "" {
		return text
	}
	return unique.Make(text).Value()
}

// sharedAll shares the texts of a slice, in place.
func sharedAll(texts []string) {
	for i := range texts {
		texts[i] = shared(texts[i])
	}
}

// lists and texts are the tables of shared maps. A map of two entries takes more memory than a container without
// it.
var (
	// The keys are the texts that sharedAmounts and sharedMap make.
	lists = table[corev1.ResourceList]{known: map[string]corev1.ResourceList{}}
	texts = table[map[string]string]{known: map[string]map[string]string{}}
)

// mostShared bounds a table, in bytes: beyond it the table is replaced by an empty one, and sharing begins anew.
// The bound must be small, because a table keeps maps that no object has any more. longestShared is the longest
// text of a map that is shared, in bytes; those of usual replicas are shorter.
const mostShared, longestShared = 8 << 20, 1 << 10

// The memory of a shared map beside its texts: of itself with its place in a table, and of each entry.
const ofMap, ofEntry = 512, 96

// table holds one value for each key. Its mutex guards both fields, since informers of several kinds run at the
// same time.
type table[T any] struct {
	sync.Mutex
	// known holds the first value that came with each key.
	known map[string]T
	// bytes of the known values and their keys, about.
	bytes int
}

// equal returns the first value that came with the key, or stores this one. The key must contain everything by
// which values differ. entries is the number of the map's entries, for the size.
// It is safe for concurrent use. The value must not be changed afterwards by anyone, since others may hold it.
func (t *table[T]) equal(key string, value T, entries int) T {
	if len(key) > longestShared {
		return value
	}
	t.Lock()
	defer t.Unlock()
	// The new value is dropped, and with it the memory of its map.
	if known, ok := t.known[key]; ok {
		return known
	}
	size := 2*len(key) + ofMap + entries*ofEntry
	// Objects that hold maps of the old table keep them; only new objects share less for a while.
	if t.bytes+size > mostShared {
		// A map that was cleared has its room still.
		t.known, t.bytes = map[string]T{}, 0
	}
	t.known[key] = value
	t.bytes += size
	return value
}

// mostEntries is the most entries of a map that is shared. Larger maps are rare.
const mostEntries = 32

// sharedMap returns an equal map that others may have too. A map with a long text or with many entries is not
// shared. nil stands for an empty map.
func sharedMap(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	// The map is rebuilt in any case, since its single texts may be shared even where the map is not.
	own := len(values) > mostEntries
	out := make(map[string]string, len(values))
	for key, value := range values {
		if len(value) > longestFlag {
			own = true
		} else {
			value = shared(value)
		}
		out[shared(key)] = value
	}
	if own {
		return out
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(out)) {
		// With its length before it, no text can pass for two.
		for _, part := range []string{key, out[key]} {
			text.WriteString(strconv.Itoa(len(part)) + ":" + part)
		}
	}
	return texts.equal(text.String(), out, len(out))
}

// shareAmounts shares requests and limits.
func shareAmounts(resources *corev1.ResourceRequirements) {
	resources.Requests, resources.Limits = sharedAmounts(resources.Requests), sharedAmounts(resources.Limits)
}

// sharedAmounts returns an equal list that others may have too. Lists are equal only if their amounts are written
// the same way: 1000m and 1 are different texts for a reader of the object.
func sharedAmounts(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 || len(list) > mostEntries {
		return list
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		// String caches its text in the quantity, which is a copy here.
		q := list[name]
		// Names of resources hold neither = nor ;, so different lists have different texts.
		text.WriteString(string(name) + "=" + q.String() + string(q.Format) + ";")
	}
	return lists.equal(text.String(), list, len(list))
}
