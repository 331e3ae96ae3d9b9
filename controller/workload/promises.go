package workload

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// promise is growth that is under way and that the cache does not show: no other pod is given the same room.
type promise struct {
	uid             types.UID
	namespace, node string
	// needs is what the pod will take of its node, growth what it will take more of its namespace's quotas.
	needs  [2]recommender.Amount
	growth recommender.Size
}

// promises are those of every workload. They may be lost: each follows from a record, and is made again with the
// next look at it. They are safe for concurrent use.
type promises struct {
	mutex   sync.Mutex
	of      map[types.NamespacedName][]promise
	version int
}

// ledger is the promises at a moment.
type ledger struct {
	version int
	all     []promise
}

func (p *promises) read() ledger {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return ledger{p.version, slices.Concat(slices.Collect(maps.Values(p.of))...)}
}

// make replaces the promises of a workload. It does not where any of them is new and others were made since the
// ledger was read: then the decision rests on room that may be taken.
func (p *promises) make(workload types.NamespacedName, made []promise, read ledger) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	fresh := slices.ContainsFunc(made, func(m promise) bool { return !slices.Contains(p.of[workload], m) })
	if fresh && p.version != read.version {
		return false
	}
	if fresh {
		p.version++
	}
	p.set(workload, made)
	return true
}

// renew replaces the promises of a workload that begins nothing new.
func (p *promises) renew(workload types.NamespacedName, made []promise) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.version++
	p.set(workload, made)
}

func (p *promises) set(workload types.NamespacedName, made []promise) {
	if p.of == nil {
		p.of = map[types.NamespacedName][]promise{}
	}
	if len(made) == 0 {
		delete(p.of, workload)
	} else {
		p.of[workload] = made
	}
}

// onNode is what the pods of a node were promised to take of it.
func (l ledger) onNode(node string) map[types.UID][2]recommender.Amount {
	taken := map[types.UID][2]recommender.Amount{}
	for _, p := range l.all {
		if p.node == node {
			taken[p.uid] = p.needs
		}
	}
	return taken
}

// inNamespace is what the pods of a namespace were promised more.
func (l ledger) inNamespace(namespace string) recommender.Size {
	var sum recommender.Size
	for _, p := range l.all {
		if p.namespace == namespace {
			sum = plus(sum, p.growth)
		}
	}
	return sum
}

// promised are the promises that open records of a workload's pods come to.
func promised(records []v1alpha1.ResizeRecord, pods func(types.UID) *corev1.Pod) []promise {
	var made []promise
	for _, record := range records {
		pod := pods(record.PodUID)
		if pod == nil || !resize.OnItsWay(pod, record) {
			continue
		}
		plan := resize.WholePlan(pod, record)
		made = append(made, promise{
			uid: pod.UID, namespace: pod.Namespace, node: pod.Spec.NodeName,
			needs: plan.Needs(pod), growth: resize.GrowthOf(pod, plan),
		})
	}
	return made
}

func plus(a, b recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		a[r].Request += b[r].Request
		a[r].Limit += b[r].Limit
	}
	return a
}
