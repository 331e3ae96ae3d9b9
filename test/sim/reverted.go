package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

// putBackWithin is how long a container that was killed at a size of ours waits until its old one is asked for.
const putBackWithin = time.Minute

// reverted: a container that is killed for want of memory while a lower limit of ours is watched has its old one asked
// for within a minute, whatever else hangs or fails.
type reverted struct {
	deaf
	*scene
	// reverts: the policy of a recommendation puts back what harms.
	reverts func(types.NamespacedName) bool
	recs    map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	open    map[types.NamespacedName]kill // by pod
}

func newReverted(s *scene, reverts func(types.NamespacedName) bool) *reverted {
	return &reverted{scene: s, reverts: reverts, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}, open: map[types.NamespacedName]kill{}}
}

func (r *reverted) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		key := key2(o.Namespace, o.Name)
		if r.recs[key] = o; e.Type == watch.Deleted {
			delete(r.recs, key)
		}
	case *corev1.Pod:
		key := key2(o.Namespace, o.Name)
		if e.Type == watch.Deleted || o.DeletionTimestamp != nil {
			delete(r.open, key)
			return
		}
		of := r.workloadOf("Pod", key)
		for _, k := range killsIn(e, of, r.now()) {
			if lowered(r.recs[of], k) && r.reverts(of) {
				r.open[key] = k
			}
		}
	}
}

// lowered: a lower memory limit of the container that was killed is watched.
func lowered(rec *v1alpha1.AttuneRecommendation, k kill) bool {
	if rec == nil {
		return false
	}
	for _, record := range rec.Status.Records {
		if record.PodUID != k.uid || record.Phase != v1alpha1.RecordWatching || record.Wave == resize.WaveUndo {
			continue
		}
		for i, c := range record.Desired {
			prior := record.Prior[i].MemoryLimit
			if c.Name == k.container && c.MemoryLimit != nil && c.MemoryLimit.Value() == k.limit && (prior == nil || prior.Value() > k.limit) {
				return true
			}
		}
	}
	return false
}

// wrote: the size is asked for, whatever the answer.
func (r *reverted) wrote(w api.Write) {
	if w.Verb == "patch/resize" && strings.HasPrefix(w.Actor, "attune") {
		delete(r.open, keyOf(w.Key))
	}
}

func (r *reverted) tick() {
	for key, k := range r.open {
		rec := r.recs[k.of]
		switch {
		case rec == nil || !records(rec, k.uid):
			delete(r.open, key)
		case r.excused():
			k.at = r.now()
			r.open[key] = k
		case r.now().Sub(k.at) > putBackWithin:
			delete(r.open, key)
			r.violate("put back", k.of.String(), "container %s of pod %s was killed at %s with the %d bytes that it was given; its old size is not asked for by %s", k.container, k.pod, k.at, k.limit, r.now())
		}
	}
}

// records: a record of the pod is open.
func records(rec *v1alpha1.AttuneRecommendation, uid types.UID) bool {
	for _, record := range rec.Status.Records {
		if record.PodUID == uid {
			return true
		}
	}
	return false
}

// autoReverts: the policy of a recommendation does not say otherwise.
func (w *world) autoReverts(of types.NamespacedName) bool {
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, of).(*v1alpha1.AttuneRecommendation)
	if !found {
		return false
	}
	p := w.policyOf(rec)
	return p != nil && (p.Spec.UpdateStrategy == nil || p.Spec.UpdateStrategy.AutoRevert == nil || *p.Spec.UpdateStrategy.AutoRevert)
}
