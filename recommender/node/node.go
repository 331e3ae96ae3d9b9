// Package node shares a node's spike headroom among its pods. It is pure: standard library only, integer
// amounts, time is an argument.
//
// A container's base demand is what it always needs, its peak what it needs at times; the difference is
// its spike. Pods of one group (the replicas of a workload, the containers of a pod) spike together, since
// one load balancer or one request drives them. Groups are taken to spike independently, so the node keeps
// room for the largest group's spike alone, the reserve, and all pods share it. CPU is shared so; memory cannot be
// taken back from a container that has it, so each container has its peak.
//
// For the CPU of pods i with base' (at least their init requests) and spike', in groups G:
//
//	reserve = max over G of Σ spike'(i in G)
//	needed  = Σ base'(i) + reserve ≤ available
//	pod i   = base'(i) + reserve × spike'(i) / Σ spike', divided among its containers by their spikes
//
// Every pod whose demand is known takes part, whether it may be changed now or not: Share says what each container is
// to have (its grant), Settle what each is to hold next, in view of which may be changed and of what is worth a resize.
// CPU is in millicores, memory in bytes.
package node

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Amounts are those of both resources, indexed by recommender.Resource.
type Amounts [2]recommender.Amount

// Ranking says who is evicted first where pods do not fit.
type Ranking uint8

// Low goes first, Never never.
const (
	Low Ranking = iota
	Medium
	High
	Never
)

var rankings = [...]string{"Low", "Medium", "High", "Never"}

// String is the name used in policies.
func (r Ranking) String() string { return rankings[min(int(r), len(rankings)-1)] }

// RankingOf reads the name used in policies; false if there is none such.
func RankingOf(name string) (Ranking, bool) {
	if i := slices.Index(rankings[:], name); i >= 0 {
		return Ranking(i), true
	}
	return Never, false
}

// DefaultRanking is that of a workload whose policy sets none: where a pod that moves is missed, it goes
// later.
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
	// Current requests; zero is not known, or not set.
	Current Amounts
	// Born are the requests that it was born with: a DaemonSet's container takes part with no more. Zero is
	// not known.
	Born Amounts
	// Least is the least that its policy allows. The part of it above the demand is not a demand: the container keeps
	// it where it has it, is given it where no pod needs the room, and no pod is evicted for it.
	Least Amounts
	// Reach is the most that it can have now: what it holds, and what quotas leave it to grow by. No pod is evicted for
	// more than that, and where room is short no more is kept for it. It is a whole amount; zero is no bound.
	Reach Amounts
	// Restarts says of each resource that to change it restarts the container: it is sized at birth alone.
	Restarts [2]bool
	// CurrentLimit is the memory limit that it has; zero is none.
	CurrentLimit recommender.Amount
	// Of holds the demand of each resource as it was measured, indexed by recommender.Resource.
	Of [2]Demand
	// Day is the most that its workload used in 24 h, which a new pod is given; zero is not known.
	Day Amounts
	// Max7d is the most memory that its workload used in 7 days, OOM what kills taught, already decayed;
	// zero is not known.
	Max7d, OOM recommender.Amount
	// LimitMost is what its memory limit is not raised above without an OOM kill, in bytes; 0: no bound.
	LimitMost recommender.Amount
}

// Pod whose containers are sized by its node.
type Pod struct {
	// Name is unique on the node: namespace/name.
	Name string
	// Group is that of the pods that spike together with it; empty: none do.
	Group string
	// DaemonSet pods are never evicted, and no pod is evicted for more than they were born with.
	DaemonSet bool
	// Frozen pods may not be changed now: a gate holds them, or their last resize is watched. They take part
	// like all others, and keep what they hold.
	Frozen bool
	// Ranking; Never where the pod's policy does not switch evictions on.
	Ranking Ranking
	// InitRequest is the largest request of an init container: the scheduler keeps that much for the pod
	// for as long as it lives.
	InitRequest Amounts
	// LastLowered is when a request or limit of the pod was lowered last, LastResized when one was changed; zero: never.
	LastLowered, LastResized time.Time
	Containers               []Container
}

// protected pods are never evicted.
func (p *Pod) protected() bool { return p.DaemonSet || p.Ranking >= Never }

// Grant is what a container is to have.
type Grant struct {
	Request Amounts
	// MemoryLimit is zero where nothing is known that it could be derived from.
	MemoryLimit recommender.Amount
	// Spare is the part of the CPU request that no other pod needs now: a DaemonSet's, which gives way first.
	Spare recommender.Amount
	// Rounded says of each resource that its share is above the request by less than a millicore, or a MiB.
	Rounded [2]bool
}

// Eviction is one pod that is to be evicted so that the others fit. It is a proposal: nothing has been evicted.
type Eviction struct {
	// Pod is its index among the pods, Name its name.
	Pod     int
	Name    string
	Ranking Ranking
	// Resource that does not fit with the pod and those named before it: Needed is more than Available.
	Resource          recommender.Resource
	Needed, Available recommender.Amount
	// Spike of the pod itself.
	Spike recommender.Amount
}

// Result of sharing. Its slices belong to the Sharer and are valid until it shares again.
type Result struct {
	// Grants of every container, in the order of the pods and their containers. Those of a pod that is
	// to be evicted are zero.
	Grants []Grant
	// Evictions in the order in which they were chosen: lower rankings first.
	Evictions []Eviction
	// Overcommitted says of each resource that the pods that stay do not fit, and that no other pod can be
	// evicted now so that they do. Then a container that may be changed keeps what it holds of its grant, and is given of
	// the room that is left first what it lacks of its base, then of its grant.
	Overcommitted [2]bool
	// Needed is what the scheduler has to see in use by the pods that stay: their base demands and the
	// reserve for CPU, their peaks for memory.
	Needed Amounts
}
