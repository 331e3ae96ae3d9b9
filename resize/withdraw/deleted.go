package withdraw

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

const (
	// youngFor is how soon after its creation a deleted pod counts, deletedIn how long its deletion is remembered.
	youngFor, deletedIn = 2 * time.Minute, 15 * time.Minute
	// deletedTimes is how many such pods, one after the other, cost the workload its admission resources.
	deletedTimes = 3
	// mostDeleted limits the remembered deletions of a workload.
	mostDeleted = 16
)

// Deletions are the young pods of a workload that something deleted although admission had just sized them. The loop
// keeps them in memory; a restart forgets them.
type Deletions struct {
	// Replicas of the workload, and the hash of the template's containers. A change of either forgets the list, because
	// scaling and rollouts delete young pods too.
	Replicas int32
	Template string
	List     []Deletion
}

// Deletion is one deleted pod.
type Deletion struct {
	UID                  types.UID
	Name, Hash, Revision string
	Created, At          time.Time
}

// deletions returns the remembered deletions together with those of the pods that are being deleted now. Pods that have
// finished do not count, nor those that were evicted, preempted or lost with their node (DisruptionTarget).
func (d *judge) deletions() Deletions {
	known := d.in.Deletions
	if len(known.List) == 0 && len(d.in.Leaving) == 0 {
		return Deletions{}
	}
	now := Deletions{Replicas: d.in.Replicas, Template: d.templateHash()}
	if known.Replicas == now.Replicas && known.Template == now.Template {
		now.List = slices.DeleteFunc(slices.Clone(known.List), func(one Deletion) bool { return d.in.Now.Sub(one.At) > deletedIn })
	}
	for _, pod := range d.in.Leaving {
		seeded := d.in.Seeded(pod)
		disrupted := podview.Condition(pod, corev1.DisruptionTarget)
		if seeded == nil || pod.DeletionTimestamp == nil || disrupted != nil && disrupted.Status == corev1.ConditionTrue ||
			slices.ContainsFunc(now.List, func(one Deletion) bool { return one.UID == pod.UID }) {
			continue
		}
		at := pod.DeletionTimestamp.Time
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			at = at.Add(-time.Duration(*grace) * time.Second)
		}
		if at.Sub(pod.CreationTimestamp.Time) <= youngFor && d.in.Now.Sub(at) <= deletedIn && len(now.List) < mostDeleted {
			now.List = append(now.List, Deletion{pod.UID, pod.Name, podview.TemplateHash(pod), seeded.Revision, pod.CreationTimestamp.Time, at})
		}
	}
	return now
}

// deletedAgain returns the trouble of a workload whose young pods are deleted again and again; nil: they are not. Each
// pod of the series was created after the one before was deleted, so that one command that deletes many pods counts once.
func (d *judge) deletedAgain(since time.Time) *trouble {
	list := slices.SortedFunc(slices.Values(d.out.Deletions.List), func(a, b Deletion) int { return a.At.Compare(b.At) })
	var series []Deletion
	for _, one := range list {
		if one.Created.Before(since) {
			continue
		}
		if len(series) == 0 || one.Hash == series[0].Hash && !one.Created.Before(series[len(series)-1].At.Truncate(time.Second)) {
			series = append(series, one)
		}
	}
	if len(series) < deletedTimes {
		return nil
	}
	last := series[len(series)-1]
	return &trouble{v1alpha1.ReasonPodsDoNotStart, fmt.Sprintf("%d pods that admission had sized were deleted within 2m of their creation, one after the other, the last one was %s. Their owner may not accept pods that differ from their template",
		len(series), last.Name), last.Revision}
}
