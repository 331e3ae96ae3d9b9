package workload

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/withdraw"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// memory is the loop's state between passes, about nodes, pods and workloads. All of it may be lost, for example with
// a change of leader; the comment of each type has the consequence. Each is limited by the objects in the cluster, or
// by time. Every field has its own mutex: two of them are never held together.
type memory struct {
	nodes        nodeMemory
	reservations reservations
	waiting      waiting
	// queue is since when the pods of each workload wait to be resized to their nodes' grants (strategy Node). Only
	// as many pods as the records have room for are resized at a time, the longest wait first. If it is lost, all
	// pods count as just arrived.
	queue board.Table[types.NamespacedName, map[types.UID]time.Time]
	podAnswers
	// lastAsked is when reverts were last sent to pods. The start of a revert and its obstacle are stored in the
	// tries of the status; single times are not worth a write each. If they are lost, a revert is sent once more.
	lastAsked       fresh[types.UID, time.Time]
	seenGenerations seenGenerations
	meters          meters
	retries         retries
	conflicts       retries
	stored          stored
	steps           steps
	pace            pace
	limit           limit
	samples         samples
	guardrails      guardrailAnswers
}

// samples are answers of the usage source about memory.
type samples struct {
	// usedAtKill is the memory of OOM-killed containers before the kill, in bytes, by podview.Evidence. If it is lost, the
	// kill counts as one at the container's limit.
	usedAtKill fresh[string, recommender.Amount]
	// traced are the recent memory samples of a workload's pods, by its recommendation.
	traced fresh[types.NamespacedName, usage.Traces]
}

// podAnswers are answers of other components about pods.
type podAnswers struct {
	// memoryHeld is the recent memory of pods' containers. If it is lost, the source is queried once more.
	memoryHeld fresh[types.UID, heldNow]
	// lately is the recent usage of namespaces. If it is lost, the source is queried once more.
	lately     latelyAnswers
	rejections rejections
	// deletions are young pods that were deleted.
	deletions board.Table[types.NamespacedName, withdraw.Deletions]
	// stalled are the kubelets' messages about pods that do not start. If they are lost, they are read again.
	stalled fresh[types.UID, string]
}

// latelyAnswers is the recent usage of namespaces, and the namespaces whose source took too long to answer about it.
type latelyAnswers struct {
	answered fresh[latelyOf, recentUsage]
	silent   fresh[latelyOf, struct{}]
}

// meters is the state behind the metrics.
type meters struct {
	counted counted
	fleet   fleet
}

// forget drops the state of a deleted recommendation. State that is keyed by pods or nodes expires.
func (m *memory) forget(name types.NamespacedName) {
	m.meters.counted.drop(name)
	m.reservations.make(name, nil, tuning.Reservations{})
	m.rejections.Forget(name)
	m.deletions.Forget(name)
	m.waiting.wait(name, nil, 0)
	m.queue.Forget(name)
	m.retries.Forget(name)
	m.conflicts.Forget(name)
	m.stored.Forget(name)
	m.steps.record(name, nil)
	m.pace.Forget(name)
	m.stored.targets.Forget(name)
	m.meters.fleet.Forget(name)
}

// fresh holds values that expire some time after they were recorded.
type fresh[K comparable, V any] struct {
	board.Table[K, noted[V]]
	// swept is when expired values were last removed, so that recording a value is cheap.
	swept atomic.Pointer[time.Time]
}

// noted is a value and when it was recorded.
type noted[V any] struct {
	value V
	at    time.Time
}

// read returns the last value of a key; false: there is none, or it has expired.
func (x *fresh[K, V]) read(key K, lasts time.Duration, now time.Time) (V, bool) {
	last, known := x.Find(key)
	return last.value, known && now.Sub(last.at).Abs() < lasts
}

// record stores a value and removes expired ones.
func (x *fresh[K, V]) record(key K, value V, lasts time.Duration, now time.Time) {
	x.sweep(lasts, now)
	x.Put(key, noted[V]{value, now})
}

// sweep removes expired values, at most once per lifetime.
func (x *fresh[K, V]) sweep(lasts time.Duration, now time.Time) {
	if swept := x.swept.Load(); swept == nil || now.Sub(*swept).Abs() >= lasts {
		x.ForgetIf(func(_ K, last noted[V]) bool { return now.Sub(last.at).Abs() >= lasts })
		x.swept.Store(&now)
	}
}

// reservations are those of every workload of this process. If they are lost, the next pass over each stored record
// creates them again. mutex guards both fields; version changes whenever room may have been taken.
type reservations struct {
	mutex   sync.Mutex
	of      map[types.NamespacedName][]tuning.Reservation
	version int
}

// read returns a copy of all reservations, with its version.
func (p *reservations) read() tuning.Reservations {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return tuning.Reservations{Version: p.version, All: slices.Concat(slices.Collect(maps.Values(p.of))...)}
}

// make replaces the reservations of a workload, and reports whether it did. It fails if one of them is new and others
// were made since read: otherwise two passes that both saw the last free room would both take it (optimistic
// locking). Reservations that only end, or stay, always succeed.
func (p *reservations) make(workload types.NamespacedName, made []tuning.Reservation, read tuning.Reservations) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	fresh := slices.ContainsFunc(made, func(m tuning.Reservation) bool { return !slices.Contains(p.of[workload], m) })
	if fresh && p.version != read.Version {
		return false
	}
	if fresh {
		p.version++
	}
	p.set(workload, made)
	return true
}

// renew replaces the reservations of a workload that starts nothing new, without a check.
func (p *reservations) renew(workload types.NamespacedName, made []tuning.Reservation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.version++
	p.set(workload, made)
}

// set stores reservations; the caller holds the mutex.
func (p *reservations) set(workload types.NamespacedName, made []tuning.Reservation) {
	if len(made) == 0 {
		delete(p.of, workload)
	} else {
		podview.SetIn(&p.of, workload, made)
	}
}
