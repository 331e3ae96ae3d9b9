// Package node shares a node's spike headroom among its pods. It is pure: standard library only, integer amounts, time
// is an argument.
//
// A container's base demand is its permanent need. Its peak is its need at times, and the difference is its spike. Pods
// of one group (the replicas of a workload) spike together, because one load balancer drives them. The containers of a
// pod spike together too, because one request drives them. Groups are assumed to spike independently. So the node
// reserves room for the spike of the largest group only, and all pods share this reserve. Only CPU is shared in this
// way. Memory cannot be reclaimed from a container, so each container gets its peak.
//
// For the CPU of pods i with base' (at least their init requests) and spike', in groups G:
//
//	reserve = max over G of Σ spike'(i in G)
//	needed  = Σ base'(i) + reserve ≤ available
//	pod i   = base'(i) + reserve × spike'(i) / Σ spike', divided among its containers by their spikes
//
// Every pod with a known demand takes part, whether it may be changed now or not. Share computes the grant of each
// container. Settle computes the amount that each container is to hold next. Settle respects pods that must not be
// changed, and skips changes that are too small for a resize. CPU is in millicores, memory in bytes.
package node

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Amounts has one amount per resource, indexed by recommender.Resource.
type Amounts [2]recommender.Amount

// Ranking is the order of eviction when pods do not fit.
type Ranking uint8

// Low is evicted first, Never is not evicted.
const (
	Low Ranking = iota
	Medium
	High
	Never
)

var rankings = [...]string{"Low", "Medium", "High", "Never"}

// String is the name used in policies.
func (r Ranking) String() string { return rankings[min(int(r), len(rankings)-1)] }

// RankingOf parses the name used in policies. For an unknown name it returns Never and false.
func RankingOf(name string) (Ranking, bool) {
	if i := slices.Index(rankings[:], name); i >= 0 {
		return Ranking(i), true
	}
	return Never, false
}

// DefaultRanking is the ranking of a workload whose policy sets none. StatefulSets and workloads with one replica are
// evicted later, because they lose more while a pod moves.
func DefaultRanking(statefulSet bool, replicas int32) Ranking {
	if statefulSet || replicas <= 1 {
		return Medium
	}
	return Low
}

// Demand of a container for one resource. A peak below the base counts as the base.
type Demand struct{ Base, Peak recommender.Amount }

// Container of a pod: a regular one or a native sidecar.
type Container struct {
	Name string
	// Current requests; zero means unknown or not set.
	Current Amounts
	// AtCreation are the requests that the container was created with. They bound the demand of a DaemonSet's container. Zero
	// means unknown.
	AtCreation Amounts
	// Least is the policy's minimum. The part above the demand is not a demand. The container keeps it if it has it,
	// and gets it if no pod needs the room. No pod is evicted for it.
	Least Amounts
	// Reach is the most that the container can have now: its current request plus the room that quotas leave. No pod is
	// evicted for more, and no scarce room is reserved for more. It is a whole amount; zero is no bound.
	Reach Amounts
	// Restarts says for each resource that a change restarts the container. Such a resource is sized only at admission.
	Restarts [2]bool
	// CurrentLimit is the current memory limit; zero means no limit.
	CurrentLimit recommender.Amount
	// Of has the measured demand of each resource, indexed by recommender.Resource.
	Of [2]Demand
	// Day is the workload's highest usage in 24h, used for created pods; zero means unknown.
	Day Amounts
	// Max7d is the workload's highest memory usage in 7 days. OOM is the minimum learned from OOM kills, already
	// decayed. Zero means unknown.
	Max7d, OOM recommender.Amount
	// LimitMost bounds raises of the memory limit without an OOM kill, in bytes; 0 means no bound.
	LimitMost recommender.Amount
}

// Pod is a pod whose containers are sized by its node.
type Pod struct {
	// Name is unique on the node: namespace/name.
	Name string
	// Group names the pods that spike together with this one. If empty, no other pod does.
	Group string
	// DaemonSet pods are never evicted, and no pod is evicted for more than their requests at creation.
	DaemonSet bool
	// Frozen pods must not be changed now: a gate blocks them, or their last resize is observed. They take part like
	// all others and keep their current requests.
	Frozen bool
	// Ranking is Never if the pod's policy does not enable evictions.
	Ranking Ranking
	// InitRequest is the largest request of an init container. The scheduler counts at least this much for the pod
	// during its whole lifetime.
	InitRequest Amounts
	// LastLowered is when a request or limit of the pod was last lowered, LastResized when one was last changed. Zero
	// means never.
	LastLowered, LastResized time.Time
	Containers               []Container
}

// protected pods are never evicted.
func (p *Pod) protected() bool { return p.DaemonSet || p.Ranking >= Never }

// Grant is the size that a container should have.
type Grant struct {
	Request Amounts
	// MemoryLimit is zero if nothing is known to derive it from.
	MemoryLimit recommender.Amount
	// Spare is the part of a DaemonSet's CPU request that no other pod needs now. It gives way first.
	Spare recommender.Amount
	// Rounded says for each resource that the exact share is above the request, by less than a millicore or a MiB.
	Rounded [2]bool
}

// Eviction proposes to evict one pod so that the others fit. Nothing has been evicted yet.
type Eviction struct {
	// Pod is its index among the pods.
	Pod     int
	Name    string
	Ranking Ranking
	// Resource that does not fit with this pod and the ones listed before it: Needed is more than Available.
	Resource          recommender.Resource
	Needed, Available recommender.Amount
	// Spike of the pod itself.
	Spike recommender.Amount
}

// Result of sharing. Its slices belong to the Sharer and are valid until its next Share.
type Result struct {
	// Grants of every container, in the order of the pods and their containers. The grants of a pod that is to be
	// evicted are zero.
	Grants []Grant
	// Evictions in the order in which they were chosen: lower rankings first.
	Evictions []Eviction
	// Overcommitted says for each resource that the remaining pods do not fit and no eviction can help now. A container
	// then keeps the part of its grant that it already holds. Free room goes to bases first, then to the rest of the
	// grants.
	Overcommitted [2]bool
	// Needed is the sum that the scheduler must count for the pods that stay: CPU base demands plus the reserve, and
	// memory peaks.
	Needed Amounts
}
