// Package decision is how the pods of a node share it, as the node loop decided it last and as kubectl attune node and the web
// page show it. It decides nothing, and is pure.
//
//   - decision.go: the answer about a node, whose JSON is a contract.
//   - stored.go: the answer that objects alone give, without the leader.
//   - words.go: the sentences and tables with which plugin and page write an answer.
package decision

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
)

// Port and Path are where the leader answers who forwards a port to its pod: a Node in JSON at Path and a name.
const (
	Port = 8082
	Path = "/nodes/"
)

// Node is the answer about one; its JSON is a contract. Pods are in alphabetical order.
type Node struct {
	Node string `json:"node"`
	// Allocatable is what the node has for pods, Others what the scheduler counts for pods that count as they are and for
	// the overhead of those that share, Available what is left for those.
	Allocatable Pair  `json:"allocatable"`
	Others      Pair  `json:"others"`
	Available   Pair  `json:"available"`
	Pods        []Pod `json:"pods"`
	// Evictions are those of the node's last decision; where that is not known, those that are under way.
	Evictions []Eviction `json:"evictions"`
	// Decided is what is known to the leader alone; nil: it was not asked.
	Decided *Decided `json:"decided,omitempty"`
}

// Decided is what a look at a node came to.
type Decided struct {
	At time.Time `json:"at"`
	// Needed is what the pods that stay need: their base demands and the reserve of CPU, their peaks of memory.
	Needed Pair `json:"needed"`
	// Overcommitted: they do not fit, and no pod may be evicted to make them fit.
	Overcommitted bool `json:"overcommitted"`
	// Holders keep others below their base demands.
	Holders []Holder `json:"holders"`
}

// Pair is an amount of each resource.
type Pair struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

// Pod is one of the node. Those that do not share count as they are, and those that are frozen share and keep what
// they hold for now; Reason and Message say why.
type Pod struct {
	Name    string `json:"name"`
	Shares  bool   `json:"shares"`
	Frozen  bool   `json:"frozen,omitempty"`
	Group   string `json:"group,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Ranking is that by which the pod is evicted, Stays why it may not be whatever happens.
	Ranking    string      `json:"ranking,omitempty"`
	Stays      string      `json:"stays,omitempty"`
	Containers []Container `json:"containers"`
}

// Container of a pod.
type Container struct {
	Name string `json:"name"`
	// Holds is what it has; Wants what a new one of its workload is born with; Gets what it is to hold.
	Holds display.Amounts `json:"holds"`
	Wants display.Amounts `json:"wants"`
	Gets  display.Amounts `json:"gets"`
	// Base and Peak are its demand, Share what is its own of the node; absent where the leader was not asked.
	Base  *display.Pair    `json:"base,omitempty"`
	Peak  *display.Pair    `json:"peak,omitempty"`
	Share *display.Amounts `json:"share,omitempty"`
	// Why says why it gets something else than its share, Steps how its share came about.
	Why   []Why          `json:"why,omitempty"`
	Steps []display.Step `json:"steps,omitempty"`
}

// Why a container gets something else of a resource than its share.
type Why struct {
	Resource string `json:"resource"`
	// Reason is a word, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Eviction of a pod that does not fit.
type Eviction struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Ranking string `json:"ranking,omitempty"`
	// Waits: it is not asked to go now, as others are.
	Waits bool `json:"waits,omitempty"`
}

// Holder keeps others below their base demands by what it holds above its share.
type Holder struct {
	Name     string `json:"name"`
	Resource string `json:"resource"`
	Above    string `json:"above"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// PairOf writes an amount of each resource.
func PairOf(a [2]recommender.Amount) Pair {
	return Pair{CPU: recommender.Format(recommender.CPU, a[recommender.CPU]), Memory: recommender.Format(recommender.Memory, a[recommender.Memory])}
}

// LeaseName is that of the lease by which the operator's replicas choose their leader.
const LeaseName = "attune.attune.io"

// LeaderOf is the pod that holds the lease, which its holder's identity begins with; empty: no pod does.
func LeaderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return pod
}
