package sim

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

// holdsFor is how long a limit that killed is not to be given again: then a fifth of its floor is forgotten.
const holdsFor = 7 * 24 * time.Hour

// unkeptWithin is how long a size that killed may stay among the kept ones.
const unkeptWithin = 10 * time.Minute

// harmless: a memory limit at which a container was killed is not kept, seeded or set again by lowering, while what
// was learned from it holds.
type harmless struct {
	deaf
	*scene
	kills map[string]kill // the highest limit of each recommendation and container
	kept  map[string]time.Time
	// undone: pods of a recommendation are put back to what they had before attune, because a person asked for it.
	undone map[types.NamespacedName]bool
	recs   map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	flight inFlight
}

func newHarmless(s *scene) *harmless {
	return &harmless{scene: s, kills: map[string]kill{}, kept: map[string]time.Time{}, undone: map[types.NamespacedName]bool{}, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}, flight: inFlight{}}
}

func (h *harmless) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *corev1.Pod:
		of := h.workloadOf("Pod", key2(o.Namespace, o.Name))
		if rec := h.recs[of]; rec != nil {
			h.flight.see(rec, e)
		}
		for _, k := range h.flight.bounded(killsIn(e, of, h.now())) {
			key := k.of.String() + " " + k.container
			if before, known := h.kills[key]; !known || k.limit >= before.limit || h.now().Sub(before.at) > holdsFor {
				h.kills[key] = k
			}
		}
		old, _ := e.Old.(*corev1.Pod)
		h.lowered(of, o, old, e.Type)
	case *v1alpha1.AttuneRecommendation:
		h.recs[key2(o.Namespace, o.Name)] = o
		h.keeps(o, e.Type)
	}
}

// lowered: what a pod has now, and had before or was created with.
func (h *harmless) lowered(of types.NamespacedName, pod, old *corev1.Pod, how watch.EventType) {
	before := map[string]int64{}
	switch {
	case how == watch.Added:
		before = original(pod)
	case how == watch.Modified && pod.Generation != old.Generation:
		for _, c := range old.Spec.Containers {
			before[c.Name] = limitOf(c)
		}
		for _, s := range old.Status.ContainerStatuses { // growth that the node never gave, and that is withdrawn, was not had
			if s.Resources != nil && !s.Resources.Limits.Memory().IsZero() {
				before[s.Name] = min(before[s.Name], s.Resources.Limits.Memory().Value())
			}
		}
	default:
		return
	}
	for _, c := range pod.Spec.Containers {
		k, killed := h.kills[of.String()+" "+c.Name]
		now, had := limitOf(c), before[c.Name]
		if killed && !h.undone[of] && h.now().Sub(k.at) < holdsFor && now > 0 && now < had && now <= k.limit {
			h.violate("harmless", of.String(), "container %s of pod %s gets a memory limit of %d bytes in place of %d; with %d bytes a container was killed at %s", c.Name, pod.Name, now, had, k.limit, k.at)
		}
	}
}

func limitOf(c corev1.Container) int64 {
	limit := c.Resources.Limits[corev1.ResourceMemory]
	return limit.Value()
}

// original limits of a pod that was seeded.
func original(pod *corev1.Pod) map[string]int64 {
	all := map[string]int64{}
	var seeded v1alpha1.Seeded
	if json.Unmarshal([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), &seeded) != nil {
		return all
	}
	for _, c := range seeded.Original {
		if c.MemoryLimit != nil {
			all[c.Name] = c.MemoryLimit.Value()
		}
	}
	return all
}

// keeps: sizes at which a container was killed.
func (h *harmless) keeps(rec *v1alpha1.AttuneRecommendation, how watch.EventType) {
	h.undone[key2(rec.Namespace, rec.Name)] = slices.ContainsFunc(rec.Status.Records, func(r v1alpha1.ResizeRecord) bool { return r.Wave == resize.WaveUndo })
	of := key2(rec.Namespace, rec.Name).String()
	for _, kept := range rec.Status.Verified {
		key := of + " " + kept.Name
		k, killed := h.kills[key]
		if how == watch.Deleted || !killed || kept.Size.MemoryLimit == nil || kept.Size.MemoryLimit.Value() > k.limit || h.now().Sub(k.at) > holdsFor {
			delete(h.kept, key)
		} else if h.kept[key].IsZero() {
			h.kept[key] = h.now()
		}
	}
	if len(rec.Status.Verified) == 0 {
		for key := range h.kept {
			if key[:len(of)] == of {
				delete(h.kept, key)
			}
		}
	}
}

func (h *harmless) tick() {
	for key, since := range h.kept {
		switch k := h.kills[key]; {
		case h.excused():
			h.kept[key] = h.now()
		case h.now().Sub(since) > unkeptWithin:
			delete(h.kept, key)
			h.violate("harmless", k.of.String(), "container %s was killed with %d bytes at %s; that size is kept since %s", k.container, k.limit, k.at, since)
		}
	}
}
