package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// sighting is a pod's spec in the last reconcile, and when it changed before.
type sighting struct {
	sizes []podview.Container
	last  changes
}

// changes are the times at which a pod was last lowered, and last resized in any way; zero: never, or before the loop
// first saw it.
type changes struct{ lowered, resized time.Time }

// see compares a pod's present spec with its last one, and records the time if they differ.
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

// remembered is the state of a node from earlier reconciles. It may be lost: after a restart, the times of resizes
// are read from the records and histories of the workloads. It is immutable once Reconcile has stored it; each
// reconcile creates a new one.
type remembered struct {
	// seen has the pods of the strategy on the node, by uid.
	seen    map[types.UID]sighting
	victims victims
	holding holding
	// last is the last reconcile; nil: there was none.
	last *look
}

// see records the present spec of the pods of a node, and the time of any resize. It drops deleted pods, so that
// memory is bounded by the pods of the node.
func (m remembered) see(s *scene) remembered {
	next := remembered{seen: make(map[types.UID]sighting, len(s.pods)), victims: m.victims, holding: m.holding}
	for _, pod := range s.pods {
		rec := s.recommendations[pod.UID]
		if rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
			continue
		}
		now := sighting{sizes: specOf(pod)}
		// For a pod that is new to the loop, such as after a restart of attune, the times come from the stored
		// records.
		if before, known := m.seen[pod.UID]; known {
			now.last = before.last.see(before.sizes, now.sizes, s.now)
		} else {
			now.last = changesBefore(rec, pod)
		}
		next.seen[pod.UID] = now
	}
	return next
}

// specOf returns the resources in the pod's spec. The status may still show the old size while a resize is in flight.
func specOf(pod *corev1.Pod) []podview.Container {
	containers, specs := podview.Read(pod), podview.Specs(pod)
	for i := range containers {
		containers[i].Size = specs[containers[i].Name]
	}
	return containers
}

// compare reports whether any amount is lower than before, and whether any is higher. Containers are compared by
// position and name.
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

// changesBefore reads from the records and the history of a pod's workload when the pod was changed. In case of doubt
// it counts as lowered, so that it is not lowered again too soon. A full history may have lost the pod's rows: the
// pod then counts as lowered at the time of the oldest row.
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
			continue // it is about an earlier pod of the same name
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

// raised reports that a history row is a raise; false for a row that cannot be parsed.
func raised(row v1alpha1.HistoryEntry) bool {
	from, err := workload.ParseQuantity(row.From)
	to, other := workload.ParseQuantity(row.To)
	return err == nil && other == nil && to.Cmp(from) >= 0
}

// changed returns when a pod was last lowered and last resized; zero: not known.
func (m remembered) changed(pod types.UID) changes { return m.seen[pod].last }

// soon returns when to reconcile again without an event: after the interval, or sooner if a pod may then be changed
// again. The three times come from node.Settle: between two lowerings, between two resizes, and the rest after a
// resize.
func (m remembered) soon(now time.Time, interval time.Duration) time.Duration {
	soonest := interval
	for _, s := range m.seen {
		for _, until := range [...]time.Time{s.last.lowered.Add(node.LoweredEvery), s.last.resized.Add(node.Pace), s.last.resized.Add(node.Rest)} {
			if left := until.Sub(now); left > 0 {
				soonest = min(soonest, left)
			}
		}
	}
	return soonest
}
