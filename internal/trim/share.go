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

// share replaces a pod's strings and resource lists by equal ones of other pods, so that they take memory once: pods of
// one workload differ in little except their names. The pod's own name and UID are not shared, because they are unique.
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

// shareWorkload does the same for a workload and its template. Many workloads have equal templates, and the sizes in a
// template equal those of its pods.
func shareWorkload(w workload.Object, template *corev1.PodTemplateSpec) {
	w.SetNamespace(shared(w.GetNamespace()))
	w.SetLabels(sharedMap(w.GetLabels()))
	w.SetAnnotations(sharedMap(w.GetAnnotations()))
	template.Annotations, template.Labels = sharedMap(template.Annotations), sharedMap(template.Labels)
	shareSpec(&template.Spec)
}

// shareSpec shares the strings of scheduling constraints and containers.
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

// shared returns an equal string with shared memory. The memory is freed when no object uses it any more (package
// unique).
func shared[T ~string](text T) T {
	if text == "" {
		return text
	}
	return unique.Make(text).Value()
}

// sharedAll shares the strings of a slice, in place.
func sharedAll(texts []string) {
	for i := range texts {
		texts[i] = shared(texts[i])
	}
}

// lists and texts are the tables of shared maps. A map of two entries takes more memory than a container without it.
var (
	// The keys are the strings that sharedAmounts and sharedMap build.
	lists = table[corev1.ResourceList]{known: map[string]corev1.ResourceList{}}
	texts = table[map[string]string]{known: map[string]map[string]string{}}
)

// mostShared limits a table, in bytes: above it, an empty table replaces it, and sharing starts again. It must be
// small, because a table keeps maps that no object uses any more. longestShared is the longest key of a shared map, in
// bytes; keys of usual replicas are shorter.
const mostShared, longestShared = 8 << 20, 1 << 10

// The memory of a shared map in bytes, without its strings: the map with its place in a table, and each entry.
const ofMap, ofEntry = 512, 96

// table has one value per key. Its mutex guards both fields, because informers of several kinds run concurrently.
type table[T any] struct {
	sync.Mutex
	// known has the first value of each key.
	known map[string]T
	// bytes is the estimated size of the known values and their keys.
	bytes int
}

// equal returns the first value stored with the key, or stores this one. The key must contain everything that
// distinguishes values. entries is the number of entries of the map, for the size. It is safe for concurrent use. Do
// not change the value afterwards, because other objects may use it.
func (t *table[T]) equal(key string, value T, entries int) T {
	if len(key) > longestShared {
		return value
	}
	t.Lock()
	defer t.Unlock()
	// The caller drops the new value, which frees its map.
	if known, ok := t.known[key]; ok {
		return known
	}
	size := 2*len(key) + ofMap + entries*ofEntry
	// Objects with maps of the old table keep them; only new objects share less for a while.
	if t.bytes+size > mostShared {
		// A cleared map keeps its memory, so allocate a new one.
		t.known, t.bytes = map[string]T{}, 0
	}
	t.known[key] = value
	t.bytes += size
	return value
}

// mostEntries is the largest shared map. Larger maps are rare.
const mostEntries = 32

// sharedMap returns an equal map that other objects may use too. It does not share a map with a long value or with many
// entries. It returns nil for an empty map.
func sharedMap(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	// Rebuild the map in any case: its strings may be shared even if the map is not.
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
		// The length prefix prevents different maps from having the same key.
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

// sharedAmounts returns an equal list that other objects may use too. Lists are equal only if their amounts have the
// same spelling: 1000m and 1 differ for a reader of the object.
func sharedAmounts(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 || len(list) > mostEntries {
		return list
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(list)) {
		// String caches its text in the quantity, which is a copy here.
		q := list[name]
		// Resource names contain neither = nor ;, so different lists have different keys.
		text.WriteString(string(name) + "=" + q.String() + string(q.Format) + ";")
	}
	return lists.equal(text.String(), list, len(list))
}
