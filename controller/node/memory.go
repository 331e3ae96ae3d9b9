package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// sighting is what was last seen of a pod.
type sighting struct {
	sizes   []resize.Container
	lowered time.Time
}

// remembered is what is known of a node from earlier looks. After a restart it is made anew: of lowerings the
// records and the histories tell.
type remembered struct {
	seen    map[types.UID]sighting
	victims victims
}

// see notes what the pods of a node ask for now, and when one of them was lowered.
func (m remembered) see(s *scene) remembered {
	next := remembered{seen: make(map[types.UID]sighting, len(s.pods)), victims: m.victims}
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
			continue
		}
		now := sighting{sizes: specOf(pod)}
		before, known := m.seen[pod.UID]
		switch {
		case !known:
			now.lowered = loweredBefore(rec, pod)
		case anyLower(before.sizes, now.sizes):
			now.lowered = s.now
		default:
			now.lowered = before.lowered
		}
		next.seen[pod.UID] = now
	}
	return next
}

// specOf is what the pod's containers ask for.
func specOf(pod *corev1.Pod) []resize.Container {
	containers := resize.Read(pod)
	for i := range containers {
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for j := range list {
				if list[j].Name == containers[i].Name {
					containers[i].Size = resize.ReadSpec(list[j].Resources)
				}
			}
		}
	}
	return containers
}

func anyLower(before, now []resize.Container) bool {
	for i := range now {
		if i >= len(before) || before[i].Name != now[i].Name {
			continue
		}
		for _, r := range recommender.Resources {
			was, is := before[i].Size[r], now[i].Size[r]
			if is.Request < was.Request || is.Limit < was.Limit {
				return true
			}
		}
	}
	return false
}

// loweredBefore is when a pod was lowered according to its workload's records and history. A history that is full may
// have lost the pod's rows: it is taken as lowered just before the oldest one that is left.
func loweredBefore(rec *v1alpha1.AttuneRecommendation, pod *corev1.Pod) time.Time {
	var at time.Time
	for _, record := range rec.Status.Records {
		if record.PodUID == pod.UID {
			at = record.WrittenAt.Time
		}
	}
	full := len(rec.Status.History) >= v1alpha1.MaxHistory
	for i, row := range rec.Status.History {
		if full && i == len(rec.Status.History)-1 && row.Timestamp.After(at) {
			at = row.Timestamp.Time
		}
		if row.Pod == pod.Name && row.Timestamp.After(at) && !raised(row) {
			at = row.Timestamp.Time
		}
	}
	return at
}

// raised: what the row tells of is a raise; in doubt it is none.
func raised(row v1alpha1.HistoryEntry) bool {
	from, err := resource.ParseQuantity(row.From)
	to, other := resource.ParseQuantity(row.To)
	return err == nil && other == nil && to.Cmp(from) >= 0
}

// lowered is when a pod was lowered last.
func (m remembered) lowered(pod types.UID) time.Time { return m.seen[pod].lowered }

// untilLowered is when the first pod may be lowered again that was lowered a while ago; 0: none was.
func (m remembered) untilLowered(now time.Time) time.Duration {
	var soonest time.Duration
	for _, s := range m.seen {
		left := s.lowered.Add(node.LoweredEvery).Sub(now)
		if !s.lowered.IsZero() && left > 0 && (soonest == 0 || left < soonest) {
			soonest = left
		}
	}
	return soonest
}
