package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// kill is one OOM kill, as the kubelet reported it.
type kill struct {
	of             types.NamespacedName
	pod, container string
	uid            types.UID
	// limit that was in force, in bytes.
	limit int64
	at    time.Time
}

// killsIn are the OOM kills that a change of a pod tells of.
func killsIn(e api.Event, of types.NamespacedName, now time.Time) (kills []kill) {
	after, ok := e.Object.(*corev1.Pod)
	before, had := e.Old.(*corev1.Pod)
	if !ok || !had || e.Type != watch.Modified || of.Name == "" {
		return nil
	}
	for _, s := range after.Status.ContainerStatuses {
		last := s.LastTerminationState.Terminated
		if last == nil || last.Reason != "OOMKilled" {
			continue
		}
		for _, b := range before.Status.ContainerStatuses {
			if b.Name != s.Name || b.RestartCount >= s.RestartCount || b.Resources == nil {
				continue
			}
			limit := b.Resources.Limits[corev1.ResourceMemory]
			kills = append(kills, kill{of, after.Name, s.Name, after.UID, limit.Value(), now})
		}
	}
	return kills
}

// inFlight is the least limit that may have been in force when a container ended during a resize, in bytes, by pod and container:
// which of two limits it was, nothing shows.
type inFlight map[string]int64

// see a change of a pod, with what its recommendation says then.
func (f inFlight) see(rec *v1alpha1.AttuneRecommendation, e api.Event) {
	pod := e.Object.(*corev1.Pod)
	for _, s := range pod.Status.ContainerStatuses {
		key := string(pod.UID) + " " + s.Name
		switch {
		case e.Type == watch.Deleted:
			delete(f, key)
		case s.State.Terminated != nil:
			delete(f, key)
			if least := leastInFlight(rec, pod.UID, s); least > 0 {
				f[key] = least
			}
		}
	}
}

// leastInFlight is the limit before a resize that was not verified yet, where the run that it found has ended, and the limit from
// which a pod is being put back; 0: the limit in force was the one that the pod shows.
func leastInFlight(rec *v1alpha1.AttuneRecommendation, uid types.UID, s corev1.ContainerStatus) int64 {
	for _, record := range rec.Status.Records {
		sizes := record.Prior
		if record.Phase == v1alpha1.RecordReverting {
			sizes = record.Desired
		}
		found := slices.ContainsFunc(record.Baseline, func(b v1alpha1.ContainerBaseline) bool {
			return b.Name == s.Name && b.ContainerID == s.ContainerID
		})
		if record.PodUID != uid || record.Phase != v1alpha1.RecordReverting && (!found || record.VerifiedOnce != nil || record.WatchUntil != nil) {
			continue
		}
		for _, c := range sizes {
			if c.Name == s.Name && c.MemoryLimit != nil {
				return c.MemoryLimit.Value()
			}
		}
	}
	return 0
}

// bounded are kills with the lower limit where two are possible.
func (f inFlight) bounded(kills []kill) []kill {
	for i := range kills {
		if before, known := f[string(kills[i].uid)+" "+kills[i].container]; known {
			kills[i].limit = min(kills[i].limit, before)
		}
	}
	return kills
}

// learnsWithin is how long one pass takes at most, with the lag of a watch.
const learnsWithin = time.Minute

// floors: what an OOM kill taught is stored within one pass.
type floors struct {
	deaf
	*scene
	open   []kill
	recs   map[types.NamespacedName]*v1alpha1.AttuneRecommendation
	flight inFlight
}

func newFloors(s *scene) *floors {
	return &floors{scene: s, recs: map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}, flight: inFlight{}}
}

func (f *floors) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		if e.Type == watch.Deleted {
			delete(f.recs, key2(o.Namespace, o.Name))
		} else {
			f.recs[key2(o.Namespace, o.Name)] = o
		}
	case *corev1.Pod:
		of := f.workloadOf("Pod", key2(o.Namespace, o.Name))
		if rec := f.recs[of]; rec != nil {
			f.flight.see(rec, e)
			f.open = append(f.open, f.flight.bounded(killsIn(e, of, f.now()))...)
		}
		if e.Type == watch.Deleted {
			f.forget(o.UID)
		}
	}
}

// forget the kills of a pod that is gone: there is nothing to learn from any more.
func (f *floors) forget(uid types.UID) {
	open := f.open[:0]
	for _, k := range f.open {
		if k.uid != uid {
			open = append(open, k)
		}
	}
	f.open = open
}

func (f *floors) tick() {
	open := f.open[:0]
	for _, k := range f.open {
		switch {
		case f.recs[k.of] == nil || learned(f.recs[k.of], k):
		case f.excused():
			k.at = f.now()
			open = append(open, k)
		case f.now().Sub(k.at) > learnsWithin:
			f.violate("floors are stored", k.of.String(), "container %s of pod %s was killed at %s with a limit of %d bytes; no floor says so by %s", k.container, k.pod, k.at, k.limit, f.now())
		default:
			open = append(open, k)
		}
	}
	f.open = open
}

// learned: some floor is above the limit that killed.
func learned(rec *v1alpha1.AttuneRecommendation, k kill) bool {
	for _, floor := range rec.Status.Floors {
		if floor.Container == k.container && floor.Resource == "memory" && floor.Amount.Value() > k.limit {
			return true
		}
	}
	return false
}
