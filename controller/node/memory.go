package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// sighting is what was last seen of a pod.
type sighting struct {
	sizes []podview.Container
	last  changes
}

// changes are when a pod was lowered last, and when it was resized at all; zero: never.
type changes struct{ lowered, resized time.Time }

// see notes what a pod asks for now, beside what it asked for.
func (c changes) see(before, now []podview.Container, at time.Time) changes {
	lower, other := compare(before, now)
	if lower {
		c.lowered = at
	}
	if lower || other {
		c.resized = at
	}
	return c
}

// remembered is what is known of a node from earlier looks. After a restart it is made anew: of resizes the records and
// the histories tell.
type remembered struct {
	seen    map[types.UID]sighting
	victims victims
	holding holding
	// last is the last look; nil: there was none.
	last *look
}

// see notes what the pods of a node ask for now, and when one of them was resized.
func (m remembered) see(s *scene) remembered {
	next := remembered{seen: make(map[types.UID]sighting, len(s.pods)), victims: m.victims, holding: m.holding}
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
			continue
		}
		now := sighting{sizes: specOf(pod)}
		if before, known := m.seen[pod.UID]; known {
			now.last = before.last.see(before.sizes, now.sizes, s.now)
		} else {
			now.last = changesBefore(rec, pod)
		}
		next.seen[pod.UID] = now
	}
	return next
}

// specOf is what the pod's containers ask for.
func specOf(pod *corev1.Pod) []podview.Container {
	containers := podview.Read(pod)
	for i := range containers {
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for j := range list {
				if list[j].Name == containers[i].Name {
					containers[i].Size = podview.ReadSpec(list[j].Resources)
				}
			}
		}
	}
	return containers
}

// compare says whether any amount is lower than it was, and whether any is higher.
func compare(before, now []podview.Container) (lower, higher bool) {
	for i := range now {
		if i >= len(before) || before[i].Name != now[i].Name {
			continue
		}
		for _, r := range recommender.Resources {
			was, is := before[i].Size[r], now[i].Size[r]
			lower = lower || is.Request < was.Request || is.Limit < was.Limit
			higher = higher || is.Request > was.Request || is.Limit > was.Limit
		}
	}
	return lower, higher
}

// changesBefore are those that the records and the history of a pod's workload tell of. In doubt the pod was lowered. A
// history that is full may have lost the pod's rows: it is taken as lowered just before the oldest one that is left.
func changesBefore(rec *v1alpha1.AttuneRecommendation, pod *corev1.Pod) changes {
	var c changes
	note := func(at metav1.Time, raise bool) {
		if at.After(c.resized) {
			c.resized = at.Time
		}
		if !raise && at.After(c.lowered) {
			c.lowered = at.Time
		}
	}
	for _, record := range rec.Status.Records {
		if record.PodUID == pod.UID {
			note(record.WrittenAt, false)
		}
	}
	full := len(rec.Status.History) >= v1alpha1.MaxHistory
	for i, row := range rec.Status.History {
		if row.Timestamp.Before(&pod.CreationTimestamp) {
			continue // it is about a namesake
		}
		if full && i == len(rec.Status.History)-1 {
			note(row.Timestamp, false)
		}
		if row.Pod == pod.Name {
			note(row.Timestamp, raised(row))
		}
	}
	return c
}

// raised: what the row tells of is a raise; in doubt it is none.
func raised(row v1alpha1.HistoryEntry) bool {
	from, err := resource.ParseQuantity(row.From)
	to, other := resource.ParseQuantity(row.To)
	return err == nil && other == nil && to.Cmp(from) >= 0
}

// changed says when a pod was lowered and resized last.
func (m remembered) changed(pod types.UID) changes { return m.seen[pod].last }

// soon is when time alone lets the first pod be changed again that was changed a while ago; 0: none was.
func (m remembered) soon(now time.Time) time.Duration {
	var soonest time.Duration
	for _, s := range m.seen {
		for _, until := range [...]time.Time{s.last.lowered.Add(node.LoweredEvery), s.last.resized.Add(node.Pace), s.last.resized.Add(node.Rest)} {
			if left := until.Sub(now); left > 0 && (soonest == 0 || left < soonest) {
				soonest = left
			}
		}
	}
	return soonest
}
